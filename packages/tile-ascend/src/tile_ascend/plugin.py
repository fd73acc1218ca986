"""The Ascend backend's declarations: everything is named by dotted strings, so that reading it loads no driver."""

from tile_core.ir import MemoryScope
from tile_core.plugin import Backend, ExecutionBackend

from .target import capacity

__all__ = ["ASCENDC", "BACKEND"]

# What this was built for, not what the installed core has.
_API = (1, 0)

BACKEND = Backend(
    name="ascend",
    api=_API,
    kinds=("ascend",),
    resolve_target="tile_ascend.target:resolve_target",
    detect="tile_ascend.driver:detect",
    pipeline="tile_ascend.pipeline:pipeline",
    candidates="tile_ascend.candidates:candidates",
    codegen="tile_ascend.codegen:generate",
    toolchain=None,
    execution_backends=("ascendc",),
    # Below the CPU's 0 as long as this version generates no code: "auto" must not choose what cannot run.
    priority=-10,
    scopes=(
        MemoryScope("shared.l1", "core", capacity("l1"), 32, ("mte1", "mte2")),
        MemoryScope("shared.l0a", "core", capacity("l0a"), 512, ("mte1", "cube")),
        MemoryScope("shared.l0b", "core", capacity("l0b"), 512, ("mte1", "cube")),
        MemoryScope("shared.l0c", "core", capacity("l0c"), 64, ("cube", "fixpipe")),
    ),
)

ASCENDC = ExecutionBackend(
    name="ascendc",
    api=_API,
    targets=("ascend",),
    available="tile_ascend.driver.execution:available",
    build="tile_ascend.driver.execution:build",
    files=(),
    stream="pass",
)
