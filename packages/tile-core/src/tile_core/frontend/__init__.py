"""The front end: a Python function becomes a PrimFunc in form TILE, every node with its place in the source.

`staging` finds the function's source, `rewrite` turns its statements into calls of the `tracer`, which collects IR in a
`Builder`. `prim_func` is the lazy style, `EagerFunction` the eager one.
"""

from .builder import Builder, Frame, LoopFrame, ScalarRef, current_builder, require_builder
from .eager import EagerFunction, EagerParameter, Specialisation, TensorSpec, const, empty
from .function import prim_func
from .loops import Nest
from .macro import Macro, Ref, macro
from .signature import PointerType, TensorType, dynamic
from .staging import from_source
from .style import LazyFunction, jit_function

__all__ = [
    "Builder",
    "EagerFunction",
    "EagerParameter",
    "Frame",
    "LazyFunction",
    "LoopFrame",
    "Macro",
    "Nest",
    "PointerType",
    "Ref",
    "ScalarRef",
    "Specialisation",
    "TensorSpec",
    "TensorType",
    "const",
    "current_builder",
    "dynamic",
    "empty",
    "from_source",
    "jit_function",
    "macro",
    "prim_func",
    "require_builder",
]
