"""How a kernel becomes scalar C++: the passes of core, and one of our own."""

from __future__ import annotations

from tile_core.ir import For, Stmt
from tile_core.target import Target
from tile_core.transform import (
    ApplyLayouts,
    BindTarget,
    FlattenBuffer,
    LayoutInference,
    LegalizeSafeMemoryAccess,
    LowerThreadCode,
    LowerTileOp,
    MakePackedAPI,
    Options,
    Pass,
    Pipeline,
    PipelinePlanning,
    SelectInstructions,
    SerializePipelines,
    SplitHostDevice,
    register_pass,
)

__all__ = ["candidates", "pipeline"]


def candidates() -> tuple[()]:
    """None of our own: each tile op has a default in core that lowers to loops."""
    return ()


@register_pass("acme.SerializeLoops", needs="PIPED", leaves="THREAD")
class SerializeLoops(Pass):
    """The simulator has one lane and one thread a block, so every loop runs in order."""

    def statement(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, For) and stmt.kind in ("parallel", "vectorized", "unroll"):
            return stmt.with_(kind="serial", annotations=())
        return stmt


def pipeline(target: Target, options: Options) -> Pipeline:
    """From TILE to PACKED."""
    return Pipeline(
        "acme",
        [
            BindTarget,
            SelectInstructions,
            LayoutInference,
            PipelinePlanning,
            SerializePipelines,
            LowerTileOp,
            ApplyLayouts,
            LowerThreadCode,
            LegalizeSafeMemoryAccess,
            SerializeLoops,
            FlattenBuffer,
            SplitHostDevice,
            MakePackedAPI(device="cpu"),
        ],
    )
