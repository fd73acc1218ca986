"""Tile: kernels written over tiles, for GPUs, NPUs and the CPU.

    import tile_core as tile
    import tile_core.language as T

Everything here is loaded on first use: importing this package imports no array library, no solver and no driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .__about__ import __version__

if TYPE_CHECKING:
    from . import errors, language
    from .api import CompiledKernel, JitFunction, compile, jit, lower
    from .dtypes import DType
    from .errors import (
        ArgumentError,
        CacheWarning,
        CompileError,
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
    from .target import Target

__all__ = [
    "ArgumentError",
    "CacheWarning",
    "CompileError",
    "CompiledKernel",
    "DType",
    "IRModule",
    "InternalError",
    "JitFunction",
    "OptionError",
    "PluginError",
    "PrimFunc",
    "SettingError",
    "Target",
    "TargetError",
    "TileError",
    "TileWarning",
    "ToolchainError",
    "UserError",
    "__version__",
    "cdiv",
    "compile",
    "errors",
    "from_source",
    "jit",
    "language",
    "lower",
    "next_power_of_2",
]

# name: module that holds it
_HOMES = {
    **dict.fromkeys(["CompiledKernel", "JitFunction", "compile", "jit", "lower"], "api"),
    **dict.fromkeys(
        [
            "ArgumentError",
            "CacheWarning",
            "CompileError",
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
    "DType": "dtypes",
    "Target": "target",
    "from_source": "frontend",
}


def cdiv(a: int, b: int) -> int:
    """The quotient of two integers, rounded up; `b` > 0."""
    return -(-a // b)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least `n`; 1 for n ≤ 1."""
    return 1 << max(0, n - 1).bit_length()


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in ("errors", "language"):
        return import_module(f".{name}", __name__)
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Kept in the module, so that this function is asked once for each name.
    value = globals()[name] = getattr(import_module(f".{home}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
