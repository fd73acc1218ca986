"""Values that stand in attribute fields: how they are taken apart and put together again.

Printing, parsing, structural equality and structural keys share one description of a value: a name and its fields.
Plain Python values, element types, expressions, buffers and nodes need none; anything else (a layout, a target, an
executor set) is registered here by the room that owns it.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

from ..errors import InternalError, declare_codes
from ..target import Target
from .effects import Access, Completion, Execution, Executors
from .expr import Expr, Var
from .node import Node, binder, children, node

__all__ = ["IndexMap", "ValueForm", "find_value_form", "find_value_name", "node_class", "register_value"]

declare_codes({"E-TEXT-VALUE": "a value in the IR that has no text form and no key"})


@node
class IndexMap(Node):
    """A function from indices to expressions, printed as ``lambda i, j: (i // 8, j)``."""

    vars: tuple[Var, ...] = binder()
    results: tuple[Expr, ...] = children()


class ValueForm:
    """How values of a class are taken apart (`fields`: value → (name, field) pairs) and made (`build`: by keyword)."""

    __slots__ = ("build", "cls", "fields", "name")

    def __init__(
        self,
        name: str,
        cls: type,
        fields: Callable[[Any], tuple[tuple[str, Any], ...]],
        build: Callable[..., Any],
    ) -> None:
        self.name = name
        self.cls = cls
        self.fields = fields
        self.build = build


_by_class: dict[type, ValueForm] = {}
_by_name: dict[str, ValueForm] = {}


def register_value(
    cls: type,
    name: str | None = None,
    fields: Callable[[Any], tuple[tuple[str, Any], ...]] | None = None,
    build: Callable[..., Any] | None = None,
) -> type:
    """Makes values of `cls` printable, parsable and comparable; usable as a class decorator.

    Args:
        cls: a dataclass or an enum, for which the rest is derived, or any class.
        name: what stands after ``T.`` in the text; the class's name if not given.
        fields: value → (field name, field value) pairs in order; field values are themselves values.
        build: makes the value from those fields given by keyword; `cls` if not given.
    """
    name = name or cls.__name__
    if fields is None:
        if issubclass(cls, enum.Enum):
            fields, build = _enum_fields, lambda name: cls[name]
        elif dataclasses.is_dataclass(cls):
            fields = _dataclass_fields
        else:
            raise ValueError(f"{cls.__name__} is neither a dataclass nor an enum: give fields=")
    form = ValueForm(name, cls, fields, build or cls)
    if _by_name.setdefault(name, form).cls is not cls:
        raise ValueError(f"value name {name} belongs to {_by_name[name].cls.__qualname__}")
    _by_name[name] = _by_class[cls] = form
    return cls


def find_value_form(value: Any) -> ValueForm | None:
    """The form of a value, by its class or the nearest registered base."""
    for base in type(value).__mro__:
        form = _by_class.get(base)
        if form is not None:
            return form
    return None


def find_value_name(name: str) -> ValueForm | None:
    """The form registered under a name."""
    return _by_name.get(name)


def node_class(name: str) -> type[Node] | None:
    """The node class called `name`, wherever it was defined (the last definition counts)."""
    found: type[Node] | None = None
    stack: list[type[Node]] = [Node]
    while stack:
        for sub in stack.pop().__subclasses__():
            stack.append(sub)
            if sub.__name__ == name and sub.FIELDS:
                found = sub
    return found


def refuse_value(value: Any) -> InternalError:
    """The error for a value that nobody registered."""
    return InternalError(
        "E-TEXT-VALUE",
        f"a {type(value).__qualname__} in the IR has no text form and no key",
        facts=[f"found {value!r}"],
        help="register its class with tile_core.ir.register_value",
    )


def _dataclass_fields(value: Any) -> tuple[tuple[str, Any], ...]:
    return tuple((f.name, getattr(value, f.name)) for f in dataclasses.fields(value) if f.init)


def _enum_fields(value: Any) -> tuple[tuple[str, Any], ...]:
    return (("name", value.name),)


def _target_fields(value: Target) -> tuple[tuple[str, Any], ...]:
    return (("kind", value.kind), ("attrs", value.attrs))


register_value(Target, fields=_target_fields)
for _cls in (Executors, Completion, Access, Execution):
    register_value(_cls)
