"""The CUDA backend's declarations: everything is named by dotted strings, so that reading it loads no driver."""

from tile_core.plugin import Backend, ExecutionBackend

__all__ = ["BACKEND", "NVRTC"]

# What this was built for, not what the installed core has.
_API = (1, 1)

BACKEND = Backend(
    name="cuda",
    api=_API,
    kinds=("cuda",),
    resolve_target="tile_cuda.target:resolve_target",
    detect="tile_cuda.driver:detect",
    pipeline="tile_cuda.pipeline:pipeline",
    candidates="tile_cuda.candidates:candidates",
    codegen="tile_cuda.codegen:generate",
    toolchain="tile_cuda.toolchain:TOOLCHAIN",
    execution_backends=("tvm_ffi", "nvrtc"),
    # Above the CPU's 0: "auto" takes the GPU where there is one.
    priority=10,
    emulation="tile_cuda.device:emulation_include_dir",
)

NVRTC = ExecutionBackend(
    name="nvrtc",
    api=_API,
    targets=("cuda",),
    available="tile_cuda.driver.execution:available",
    build="tile_cuda.driver.execution:build",
    files=("kernel.cubin", "kernel.ptx"),
    callee_allocates=True,
    stream="ask",
)
