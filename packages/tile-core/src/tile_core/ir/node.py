"""The one decorator that makes IR classes.

`@node` turns an annotated class into a slotted one: plain slot stores, identity equality and hash, weak references.
From the fields' kinds it
generates what every walker needs (`FIELDS`, `map_children`, `with_`) so that a new node class is a few annotated lines.

Field kinds
    child     one node or None                     walked, compared
    children  a tuple of nodes                     walked, compared in order
    attr      a value, never walked                compared with ==, or through the binder map when it is a Var or
              Buffer
    binder    a Var or Buffer (or tuple of them)   introduced here; two trees may name it differently
    derived   computed in `__post_init__`          not an argument, not compared
    span      a source place                       never compared

In debug mode (``TILE_DEBUG_IR=1``, on in tests) nodes refuse mutation.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from typing_extensions import dataclass_transform

from ..source import Span

__all__ = ["Field", "Node", "attr", "binder", "child", "children", "derived", "node", "operand"]

_MISSING: Any = object()
_T = TypeVar("_T")
DEBUG = os.environ.get("TILE_DEBUG_IR", "") not in ("", "0")


class Field:
    """How one field of a node class behaves; see the module's list of kinds."""

    __slots__ = ("default", "kind", "name", "role")

    def __init__(self, kind: str, default: Any = _MISSING, name: str = "", role: str | None = None) -> None:
        self.kind = kind
        self.default = default
        self.name = name
        self.role = role

    def __repr__(self) -> str:
        return f"Field({self.name}: {self.kind})"

    @property
    def has_default(self) -> bool:
        """Whether the argument may be left out."""
        return self.default is not _MISSING


def child(*, default: Any = _MISSING) -> Any:
    """A field that holds one node, or None."""
    return Field("child", default)


def children(*, default: Any = _MISSING) -> Any:
    """A field that holds a tuple of nodes."""
    return Field("children", default)


def attr(*, default: Any = _MISSING) -> Any:
    """A field that is not walked."""
    return Field("attr", default)


def operand(role: str, *, default: Any = _MISSING) -> Any:
    """A child field that holds a BufferRegion which a tile op reads (``in``), writes (``out``) or both (``inout``)."""
    if role not in ("in", "out", "inout"):
        raise ValueError(f"operand role {role!r} is not one of in, out, inout")
    return Field("child", default, role=role)


def binder(*, default: Any = _MISSING) -> Any:
    """A field that introduces a Var or Buffer (or a tuple of them)."""
    return Field("binder", default)


def derived() -> Any:
    """A slot that `__post_init__` computes."""
    return Field("derived")


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=False, field_specifiers=(attr,))
def _root(cls: type[_T]) -> type[_T]:
    """Tells type checkers that what is annotated in `cls` is a keyword of every node class."""
    return cls


@_root
class Node:
    """Base of everything in the IR."""

    __slots__ = ("__weakref__",)

    FIELDS: ClassVar[tuple[Field, ...]] = ()
    if TYPE_CHECKING:
        span: Span | None = attr(default=None)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError(f"{type(self).__name__} is abstract")

    def map_children(self, function: Callable[[Any], Any]) -> Any:
        """The node with `function` applied to each child; the same object when nothing changed."""
        changes = None
        for field in self.FIELDS:
            kind = field.kind
            if kind == "child":
                old = getattr(self, field.name)
                if old is None:
                    continue
                new = function(old)
                if new is not old:
                    changes = changes or {}
                    changes[field.name] = new
            elif kind == "children":
                items = getattr(self, field.name)
                if not items:
                    continue
                mapped = tuple([function(item) for item in items])
                if any(new is not old for new, old in zip(mapped, items)):
                    changes = changes or {}
                    changes[field.name] = mapped
        return self if changes is None else self.with_(**changes)

    def child_nodes(self) -> list[Any]:
        """The children in field order."""
        found: list[Any] = []
        for field in self.FIELDS:
            if field.kind == "child":
                value = getattr(self, field.name)
                if value is not None:
                    found.append(value)
            elif field.kind == "children":
                found.extend(getattr(self, field.name))
        return found

    def with_(self: _T, **changes: Any) -> _T:
        """A copy with some fields changed; the span is kept unless given."""
        values = {f.name: getattr(self, f.name) for f in self.FIELDS if f.kind != "derived"}  # type: ignore[attr-defined]
        unknown = changes.keys() - values.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}")
        values.update(changes)
        return type(self)(**values)

    def __setstate__(self, state: tuple[None, dict[str, Any]]) -> None:
        # From another process. Not by assignment, which the debug form refuses.
        for name, value in state[1].items():
            object.__setattr__(self, name, value)

    def __copy__(self: _T) -> _T:
        return self

    def __deepcopy__(self: _T, memo: dict) -> _T:
        return self


@dataclass_transform(
    field_specifiers=(child, children, attr, binder, operand),
    kw_only_default=False,
    frozen_default=True,
    eq_default=False,
)
def node(cls: type[_T]) -> type[_T]:
    """Makes `cls` an IR node class; its annotations name the fields in order, inherited ones first, `span` last."""
    base_fields = {f.name: f for f in getattr(cls, "FIELDS", ())}
    own: dict[str, Field] = {}
    for name, annotation in cls.__dict__.get("__annotations__", {}).items():
        if "ClassVar" in str(annotation):
            continue
        spec = cls.__dict__.get(name, None)
        if not isinstance(spec, Field):
            raise TypeError(
                f"{cls.__name__}.{name}: give its kind with child(), children(), attr(), binder() or derived()"
            )
        own[name] = Field(spec.kind, spec.default, name, spec.role)
    merged = {**{n: f for n, f in base_fields.items() if n != "span"}, **own}
    fields = tuple(merged.values()) + (Field("span", None, "span"),)

    namespace = {k: v for k, v in cls.__dict__.items() if k not in own and k not in ("__dict__", "__weakref__")}
    namespace["__slots__"] = tuple(n for n in (*own, "span") if n not in base_fields)
    namespace["FIELDS"] = fields
    namespace["__init__"] = _make_init(cls.__name__, fields, "__post_init__" in dir(cls))
    if DEBUG:
        namespace["__setattr__"] = _refuse_mutation
    new = type(cls)(cls.__name__, cls.__bases__, namespace)
    new.__qualname__ = cls.__qualname__
    return new


def _make_init(name: str, fields: tuple[Field, ...], has_post_init: bool) -> Callable[..., None]:
    required = [f for f in fields if f.kind != "derived" and f.default is _MISSING]
    optional = [f for f in fields if f.kind != "derived" and f.default is not _MISSING]
    scope: dict[str, Any] = {f"_default_{f.name}": f.default for f in optional}
    scope["_set"] = object.__setattr__
    arguments = ", ".join(["self", *(f.name for f in required), *(f"{f.name}=_default_{f.name}" for f in optional)])
    lines = [f"def __init__({arguments}):"]
    for field in (*required, *optional):
        # Plain stores cost 15 ns each; the debug form goes round the refusing __setattr__.
        lines.append(
            f"    _set(self, {field.name!r}, {field.name})" if DEBUG else f"    self.{field.name} = {field.name}"
        )
    if has_post_init:
        lines.append("    self.__post_init__()")
    exec(compile("\n".join(lines), f"<node {name}>", "exec"), scope)
    return scope["__init__"]


def _refuse_mutation(self: Node, name: str, value: Any) -> None:
    # Derived fields are stored once, by __post_init__.
    for field in self.FIELDS:
        if field.name == name and field.kind == "derived" and not hasattr(self, name):
            object.__setattr__(self, name, value)
            return
    raise AttributeError(f"IR nodes are immutable: {type(self).__name__}.{name}; make a new one with with_({name}=…)")
