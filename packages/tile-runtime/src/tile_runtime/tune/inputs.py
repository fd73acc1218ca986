"""The tensors that kernels are tuned on, where the caller has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = ["get_autotune_inputs", "set_autotune_inputs"]

_inputs: ContextVar[tuple[Any, ...] | None] = ContextVar("tile_autotune_inputs", default=None)


def set_autotune_inputs(*tensors: Any) -> AbstractContextManager[None]:
    """``with set_autotune_inputs(a, b):`` kernels tuned inside are measured on these arguments (or on one list)."""
    given = tuple(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors

    @contextmanager
    def held() -> Iterator[None]:
        token = _inputs.set(given)
        try:
            yield
        finally:
            _inputs.reset(token)

    return held()


def get_autotune_inputs() -> tuple[Any, ...] | None:
    """The arguments of the innermost `set_autotune_inputs`, or None."""
    return _inputs.get()
