"""The ``default`` entry of ``tile.runtime``: what `tile_core.api` hands `jit` and `compile` to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    api: tuple[int, int] = (1, 1)  # what this was built for, not what the installed core has
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

    def par_compile(
        self, functions: Sequence[Any], options: Mapping[str, Any], num_workers: int | None, ignore_error: bool
    ) -> list[Kernel | None]:
        """A kernel for each traced function, several compiled at once."""
        from .options import CompileOptions
        from .parallel import compile_all

        return compile_all(functions, CompileOptions.read(options), num_workers, ignore_error)

    def clear_cache(self) -> None:
        """Forgets the kernels of this process and removes those on disk."""
        from .compiler import clear_memory, disk_cache

        clear_memory()
        disk_cache().clear()

    def part(self, name: str) -> Any:
        """What else this runtime offers under that name: torch operators, timing, tuning; None for another name."""
        from tile_core.plugin.api import resolve

        place = _PARTS.get(name)
        return None if place is None else resolve(f"tile_runtime.{place}:{name}")


_PARTS = {
    **dict.fromkeys(["Profiler", "TensorSupplyType", "do_bench"], "profile"),
    **dict.fromkeys(["AutoTuner", "AutotuneResult", "autotune", "get_autotune_inputs", "set_autotune_inputs"], "tune"),
    "op": "torch",
    "get_num_sms": "profile.devices",
    "torch_assert_close": "profile.compare",
    "get_tensor_supply": "profile.supply",
}

RUNTIME = TileRuntime()
