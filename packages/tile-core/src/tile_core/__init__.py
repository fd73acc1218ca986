"""Tile: kernels written over tiles, for GPUs, NPUs and the CPU.

    import tile_core as tile
    import tile_core.language as T

Everything here is loaded on first use: importing this package imports no array library, no solver and no driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .__about__ import __version__
from .math import cdiv, next_power_of_2

if TYPE_CHECKING:
    from . import autotuner, carver, errors, language, layout, profiler, testing, transform, utils
    from .api import (
        CompiledKernel,
        JitFunction,
        clear_cache,
        compile,
        disable_cache,
        enable_cache,
        is_cache_enabled,
        jit,
        lower,
        par_compile,
    )
    from .codegen import register_c_postproc, register_cuda_postproc, register_postproc, unregister_postproc
    from .dtypes import DType
    from .errors import (
        ArgumentError,
        CacheWarning,
        CompileError,
        DeviceAssertError,
        InternalError,
        OptionError,
        PluginError,
        SettingError,
        TargetError,
        TileError,
        TileWarning,
        ToolchainError,
        UserError,
    )
    from .frontend import from_source
    from .ir import IRModule, PrimFunc
    from .offers import autotune, op
    from .target import Target
    from .transform.peer_options import PassConfigKey

    DataType = DType
    JITKernel = CompiledKernel

    # What the runtime offers; core does not know its types.
    AutoTuner: Any
    AutotuneResult: Any
    Profiler: Any
    TensorSupplyType: Any
    do_bench: Any
    get_autotune_inputs: Any
    set_autotune_inputs: Any

__all__ = [
    "ArgumentError",
    "AutoTuner",
    "AutotuneResult",
    "CacheWarning",
    "CompileError",
    "DeviceAssertError",
    "CompiledKernel",
    "DType",
    "DataType",
    "IRModule",
    "InternalError",
    "JITKernel",
    "JitFunction",
    "OptionError",
    "PassConfigKey",
    "PluginError",
    "PrimFunc",
    "Profiler",
    "SettingError",
    "Target",
    "TargetError",
    "TensorSupplyType",
    "TileError",
    "TileWarning",
    "ToolchainError",
    "UserError",
    "__version__",
    "autotune",
    "autotuner",
    "carver",
    "cdiv",
    "clear_cache",
    "compile",
    "disable_cache",
    "do_bench",
    "enable_cache",
    "errors",
    "from_source",
    "get_autotune_inputs",
    "is_cache_enabled",
    "jit",
    "language",
    "layout",
    "lower",
    "next_power_of_2",
    "op",
    "par_compile",
    "profiler",
    "register_c_postproc",
    "register_cuda_postproc",
    "register_postproc",
    "set_autotune_inputs",
    "testing",
    "transform",
    "unregister_postproc",
    "utils",
]

# name: module that holds it
_HOMES = {
    **dict.fromkeys(
        [
            "CompiledKernel",
            "JitFunction",
            "clear_cache",
            "compile",
            "disable_cache",
            "enable_cache",
            "is_cache_enabled",
            "jit",
            "lower",
            "par_compile",
        ],
        "api",
    ),
    **dict.fromkeys(
        ["register_c_postproc", "register_cuda_postproc", "register_postproc", "unregister_postproc"], "codegen"
    ),
    **dict.fromkeys(
        [
            "ArgumentError",
            "CacheWarning",
            "CompileError",
            "DeviceAssertError",
            "InternalError",
            "OptionError",
            "PluginError",
            "SettingError",
            "TargetError",
            "TileError",
            "TileWarning",
            "ToolchainError",
            "UserError",
        ],
        "errors",
    ),
    **dict.fromkeys(["IRModule", "PrimFunc"], "ir"),
    **dict.fromkeys(
        [
            "AutoTuner",
            "AutotuneResult",
            "Profiler",
            "TensorSupplyType",
            "autotune",
            "do_bench",
            "get_autotune_inputs",
            "op",
            "set_autotune_inputs",
        ],
        "offers",
    ),
    "DType": "dtypes",
    "PassConfigKey": "transform.peer_options",
    "Target": "target",
    "from_source": "frontend",
}


_MODULES = ("autotuner", "carver", "errors", "language", "layout", "profiler", "testing", "transform", "utils")
# TileLang's names of what has another name here
_OTHER_NAMES = {"DataType": "DType", "JITKernel": "CompiledKernel"}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name in _OTHER_NAMES:
        return __getattr__(_OTHER_NAMES[name])
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Kept in the module, so that this function is asked once for each name.
    value = globals()[name] = getattr(import_module(f".{home}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
