"""Memory scopes: where a buffer lives, who sees it, how much there is.

Core registers the scopes that every backend has; a backend adds its own through its spec. A scope that nobody
registered is an error
when the buffer is declared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import CompileError, declare_codes

__all__ = ["LEVELS", "MemoryScope", "find_scope", "register_scope", "scopes"]

declare_codes({"E-SCOPE": "a memory scope that no backend declares"})

LEVELS = ("device", "cluster", "block", "core", "thread")


@dataclass(frozen=True, slots=True)
class MemoryScope:
    """A kind of memory.

    Args:
        name: what `Buffer.scope` says.
        level: who shares it: one of LEVELS.
        capacity: bytes available on a target, or None for no fixed limit.
        alignment: bytes that a buffer's start is aligned to.
        engines: names of the engines that can access it.
        addressable: whether a pointer into it can be taken.
    """

    name: str
    level: str
    capacity: Callable[[Any], int | None] = lambda target: None
    alignment: int = 16
    engines: tuple[str, ...] = ("generic",)
    addressable: bool = True

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ValueError(f"scope {self.name}: level {self.level!r} is not one of {', '.join(LEVELS)}")

    def __reduce__(self) -> tuple[Callable[[str], MemoryScope], tuple[str]]:
        # By name: a process that compiles for another one has it registered too.
        return find_scope, (self.name,)


_scopes: dict[str, MemoryScope] = {}


def register_scope(scope: MemoryScope) -> MemoryScope:
    """Adds a scope; registering an equal name again replaces nothing and must agree on the level."""
    known = _scopes.setdefault(scope.name, scope)
    if known.level != scope.level:
        raise ValueError(f"scope {scope.name} is registered with level {known.level}, not {scope.level}")
    return known


def find_scope(name: str) -> MemoryScope:
    """The scope called `name`.

    Raises:
        CompileError: no backend declares it.
    """
    if name in _scopes:
        return _scopes[name]
    raise CompileError(
        "E-SCOPE",
        f"unknown memory scope {name!r}",
        facts=[f"known scopes: {', '.join(sorted(_scopes))}"],
        help="use T.alloc_shared, T.alloc_fragment, T.alloc_local or T.alloc_var, or install the backend that "
        "declares this scope",
    )


def scopes() -> dict[str, MemoryScope]:
    """All registered scopes by name."""
    return dict(_scopes)


for _scope in (
    MemoryScope("global", "device"),
    MemoryScope("shared", "block"),
    MemoryScope("fragment", "block", addressable=False),
    MemoryScope("local", "thread", addressable=False),
    MemoryScope("var", "thread", addressable=False),
    MemoryScope("param", "device", addressable=False),
    MemoryScope("reducer", "block", addressable=False),
    MemoryScope("barrier", "block", alignment=8, engines=("generic", "async")),
):
    register_scope(_scope)
