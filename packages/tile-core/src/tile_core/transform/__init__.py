"""Passes and what runs them. One pass, one file; a pipeline is a list of these names."""

from .apply_layouts import ApplyLayouts
from .base import Pass, PassContext, Rewriter, find_pass, passes, register_pass
from .bind_target import BindTarget
from .flatten_buffer import FlattenBuffer
from .inject_assumes import InjectAssumes
from .layout_inference import LayoutInference
from .legalize_negative_index import LegalizeNegativeIndex
from .legalize_safe_memory_access import LegalizeSafeMemoryAccess
from .loop_unswitching import LoopUnswitching
from .lower_thread_code import LowerThreadCode
from .lower_tile_op import LowerTileOp
from .make_packed_api import MakePackedAPI
from .manager import Pipeline
from .narrow_executors import NarrowExecutors
from .options import Option, Options, declare_option, declared_options
from .peer_options import PassConfigKey
from .pipeline_planning import PipelinePlanning
from .place_counted_fragments import PlaceCountedFragments
from .plan_reducers import PlanReducers
from .select_instructions import SelectInstructions
from .serialize_pipelines import SerializePipelines
from .simplify import Simplify
from .split_host_device import SplitHostDevice
from .synchronous_copies import SynchronousCopies
from .tighten_loop_bounds import TightenLoopBounds
from .unroll_loops import UnrollLoops
from .vectorize_loop import VectorizeLoop
from .verify_buffer_init import VerifyBufferInit
from .verify_fragment_index import VerifyFragmentIndex
from .verify_loop_nesting import VerifyLoopNesting
from .verify_parallel_loop import VerifyParallelLoop
from .verify_regions import VerifyRegions

__all__ = [
    "NarrowExecutors",
    "ApplyLayouts",
    "BindTarget",
    "FlattenBuffer",
    "InjectAssumes",
    "LayoutInference",
    "LegalizeNegativeIndex",
    "LegalizeSafeMemoryAccess",
    "LoopUnswitching",
    "LowerThreadCode",
    "LowerTileOp",
    "MakePackedAPI",
    "Option",
    "Options",
    "Pass",
    "PassConfigKey",
    "PassContext",
    "Pipeline",
    "PipelinePlanning",
    "PlaceCountedFragments",
    "PlanReducers",
    "Rewriter",
    "SelectInstructions",
    "SerializePipelines",
    "Simplify",
    "SplitHostDevice",
    "SynchronousCopies",
    "TightenLoopBounds",
    "UnrollLoops",
    "VectorizeLoop",
    "VerifyBufferInit",
    "VerifyFragmentIndex",
    "VerifyLoopNesting",
    "VerifyParallelLoop",
    "VerifyRegions",
    "declare_option",
    "declared_options",
    "find_pass",
    "passes",
    "register_pass",
]
