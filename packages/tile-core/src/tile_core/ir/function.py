"""Functions and modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .buffer import Buffer
from .expr import SizeVar, Var
from .node import Node, attr, binder, child, derived, node
from .stmt import Stmt

__all__ = ["IRModule", "PrimFunc"]


@node
class PrimFunc(Node):
    """A function over buffers and scalars.

    Args:
        name: symbol name.
        params: in order; a tensor is a Buffer, a scalar a Var, a raw pointer a Var of dtype handle.
        body: what it does. In form TILE there is at least one KernelLaunch in it.
        attrs: tuple of (key, value) pairs; known keys: target, out_idx, pass_configs, compile_flags,
            calling_convention, form.
    """

    name: str = attr()
    params: tuple[Buffer | Var, ...] = binder()
    body: Stmt = child()
    attrs: tuple[tuple[str, Any], ...] = attr(default=())

    def __repr__(self) -> str:
        return self.script()

    def attr(self, key: str, default: Any = None) -> Any:
        """The value of an attribute."""
        for name, value in self.attrs:
            if name == key:
                return value
        return default

    def with_attr(self, key: str, value: Any) -> PrimFunc:
        """A copy with the attribute set (None removes it)."""
        kept = tuple(pair for pair in self.attrs if pair[0] != key)
        return self.with_(attrs=kept if value is None else (*kept, (key, value)))

    def script(self, spans: bool = False) -> str:
        """The function as text that parses back to an equal one; with `spans`, source lines as comments."""
        from .printer import script

        return script(self, spans=spans)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The tensor parameters."""
        return tuple(p for p in self.params if isinstance(p, Buffer))

    def size_vars(self) -> tuple[SizeVar, ...]:
        """Shape variables in the order in which the parameters' shapes and strides mention them, inputs before
        outputs."""
        from .visit import walk

        outputs = {len(self.params) + i if i < 0 else i for i in self.attr("out_idx", ())}
        order = [p for i, p in enumerate(self.params) if i not in outputs]
        order += [p for i, p in enumerate(self.params) if i in outputs]
        found: dict[SizeVar, None] = {}
        for param in order:
            if isinstance(param, Buffer):
                for expr in (*param.shape, *param.strides):
                    for item in walk(expr):
                        if isinstance(item, SizeVar):
                            found.setdefault(item)
        return tuple(found)


@node
class IRModule(Node):
    """Functions by name, in order."""

    functions: tuple[PrimFunc, ...] = binder()
    names: dict[str, PrimFunc] = derived()

    def __post_init__(self) -> None:
        self.names = {f.name: f for f in self.functions}  # pyright: ignore[reportAttributeAccessIssue]

    def __getitem__(self, name: str) -> PrimFunc:
        return self.names[name]

    def __repr__(self) -> str:
        return self.script()

    def map_functions(self, function: Callable[[PrimFunc], PrimFunc]) -> IRModule:
        """The module with `function` applied to each function; the same object when nothing changed."""
        new = tuple(function(f) for f in self.functions)
        return self if all(a is b for a, b in zip(new, self.functions)) else IRModule(new, span=self.span)

    def script(self, spans: bool = False) -> str:
        """The module as text that parses back to an equal one."""
        from .printer import script

        return script(self, spans=spans)
