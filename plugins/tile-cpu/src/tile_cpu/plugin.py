"""The CPU backend's declaration: everything is named by dotted strings, so that reading it loads no compiler."""

from tile_core.plugin.api import Backend

__all__ = ["BACKEND"]

BACKEND = Backend(
    name="cpu",
    api=(1, 0),  # what this was built for, not what the installed core has
    kinds=("cpu",),
    resolve_target="tile_cpu.target:resolve_target",
    detect="tile_cpu.target:detect",
    pipeline="tile_cpu.pipeline:pipeline",
    candidates="tile_cpu.candidates:candidates",
    codegen="tile_cpu.codegen:generate",
    toolchain="tile_cpu.toolchain:TOOLCHAIN",
    execution_backends=("tvm_ffi",),
    # A device of any other backend comes first: a CPU is always there.
    priority=0,
)
