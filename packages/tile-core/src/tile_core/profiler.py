"""Timing and comparing kernels, by TileLang's module name: what the runtime offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Profiler: Any
    TensorSupplyType: Any
    do_bench: Any

__all__ = ["Profiler", "TensorSupplyType", "do_bench"]


def __getattr__(name: str) -> Any:
    from .offers import named_part

    return named_part(__name__, name, __all__)
