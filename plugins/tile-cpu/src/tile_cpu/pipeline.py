"""The CPU's pipeline: the table of contents of how a kernel becomes C++."""

from __future__ import annotations

from tile_core.target import Target
from tile_core.transform import (
    ApplyLayouts,
    BindTarget,
    FlattenBuffer,
    InjectAssumes,
    LayoutInference,
    LegalizeNegativeIndex,
    LegalizeSafeMemoryAccess,
    LoopUnswitching,
    LowerThreadCode,
    LowerTileOp,
    MakePackedAPI,
    NarrowExecutors,
    Options,
    Pipeline,
    PipelinePlanning,
    PlaceCountedFragments,
    PlanReducers,
    SelectInstructions,
    SerializePipelines,
    Simplify,
    SplitHostDevice,
    SynchronousCopies,
    TightenLoopBounds,
    UnrollLoops,
    VectorizeLoop,
    VerifyBufferInit,
    VerifyFragmentIndex,
    VerifyLoopNesting,
    VerifyParallelLoop,
    VerifyRegions,
)

from .transform import (
    FuseParallelLoops,
    GroupBlocks,
    InlineIndices,
    LowerParallelLoops,
    PrefetchNextRows,
    PrefetchNextTiles,
    WidenKSteps,
)

__all__ = ["pipeline"]


def pipeline(target: Target, options: Options) -> Pipeline:
    """From TILE to PACKED for the CPU."""
    return Pipeline(
        "cpu",
        [
            # What the kernel means, checked: TILE
            BindTarget,
            PlanReducers,
            SynchronousCopies,
            NarrowExecutors,
            LegalizeNegativeIndex,
            InjectAssumes,
            Simplify,
            VerifyLoopNesting,
            PlaceCountedFragments,
            VerifyFragmentIndex,
            VerifyRegions,
            VerifyBufferInit,
            VerifyParallelLoop,
            # How each op is carried out, where its tiles lie, what overlaps: CHOSEN, LAID_OUT, PIPED
            UnrollLoops,
            WidenKSteps,
            GroupBlocks,
            SelectInstructions,
            LayoutInference,
            PipelinePlanning,
            PrefetchNextTiles,
            SerializePipelines,
            # Loops and physical indices; one thread a block
            LowerTileOp,
            ApplyLayouts,
            LowerThreadCode,
            InlineIndices,
            FuseParallelLoops,
            LegalizeSafeMemoryAccess,
            LoopUnswitching,
            TightenLoopBounds,
            # Order and vectors: THREAD
            LowerParallelLoops,
            Simplify,
            # Addresses: FLAT
            FlattenBuffer,
            VectorizeLoop,
            PrefetchNextRows,
            Simplify,
            # Host and device: SPLIT, PACKED
            SplitHostDevice,
            MakePackedAPI,
        ],
    )
