"""The ``default`` entry of ``tile.runtime``: what `tile_core.api` hands `jit` and `compile` to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .jit import JitFunction
    from .kernel import Kernel

__all__ = ["RUNTIME", "TileRuntime"]


@dataclass(frozen=True)
class TileRuntime:
    """Compiles, caches and calls kernels. Nothing is imported before it is used."""

    name: str = "tile_runtime"
    api: tuple[int, int] = (1, 0)  # what this was built for, not what the installed core has
    replaces: tuple[str, ...] = ()

    def jit(self, function: Any, options: Mapping[str, Any]) -> JitFunction:
        """`function` as a callable that compiles on call; `options` are those of `CompileOptions`."""
        from .jit import JitFunction
        from .options import CompileOptions

        return JitFunction(function, CompileOptions.read(options))

    def compile(self, function: Any, options: Mapping[str, Any]) -> Kernel:
        """The kernel for a traced function (a `T.prim_func`)."""
        from .compiler import compile_kernel
        from .options import CompileOptions

        return compile_kernel(function, CompileOptions.read(options))


RUNTIME = TileRuntime()
