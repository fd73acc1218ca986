"""What acme declares. Reading it loads no compiler."""

from tile_core.plugin import Backend, ExecutionBackend

__all__ = ["BACKEND", "EXECUTION"]

BACKEND = Backend(
    name="acme",
    api=(1, 0),
    kinds=("acme",),
    resolve_target="acme_tile.target:resolve_target",
    detect="acme_tile.target:detect",
    pipeline="acme_tile.pipeline:pipeline",
    candidates="acme_tile.pipeline:candidates",
    codegen="acme_tile.codegen:generate",
    toolchain="acme_tile.native:TOOLCHAIN",
    execution_backends=("tvm_ffi", "acme_native"),
    priority=-1,  # a simulator: "auto" takes any real device first
)

EXECUTION = ExecutionBackend(
    name="acme_native",
    api=(1, 0),
    targets=("acme",),
    available="acme_tile.native:available",
    build="acme_tile.native:build",
    files=("kernel.so",),
    callee_allocates=True,
)
