"""What copies, pickles and torch.compile see in the objects that users call.

A jit function, tuned function or operator is what its name in its module says: a copy (of a torch module that holds it)
is the same object, and another process finds it by that name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["Named", "outside_graphs"]

_Method = TypeVar("_Method", bound=Callable[..., Any])


class Named:
    """An object that a module has under its ``__qualname__``."""

    __slots__ = ()

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        return self.__qualname__  # type: ignore[attr-defined]


def outside_graphs(method: _Method) -> _Method:
    """Keeps torch.compile from tracing into a call: it breaks its graph there, and says why where it must not. What
    `torch.compiler.disable` does, without importing torch."""
    method._torchdynamo_disable = True  # type: ignore[attr-defined]
    method._torchdynamo_disable_msg = "to be part of a graph a kernel must be an operator: tile.op"  # type: ignore[attr-defined]
    return method
