"""TileOp: the open class of operations on tiles.

A tile op is a node whose `operand` fields are regions and whose other fields are attributes. It says what it means
(semantic effects, checks, a
numpy reference), never how it is done: that is a candidate's business (`tileop.candidate`). A third party adds an op
by subclassing TileOp,
registering the class, and giving at least one candidate that is always legal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, TypeVar

from ..ir import Access, BufferRegion, Expr, Node
from ..ir.node import Field
from ..ir.text import register_op_lookup

__all__ = ["TileOp", "register_tile_op", "tile_op_class", "tile_ops"]

_C = TypeVar("_C", bound="type[TileOp]")


class TileOp(Node):
    """Base of tile ops. Subclasses are `@node` classes with `operand(role)` fields and `attr` fields; `name` is the
    public name (``T.copy`` → copy)."""

    __slots__ = ()
    name: ClassVar[str] = ""

    @classmethod
    def operand_fields(cls) -> tuple[Field, ...]:
        """The operand fields in order."""
        return tuple(f for f in cls.FIELDS if f.role is not None)

    def operands(self) -> list[tuple[str, str, BufferRegion]]:
        """(field name, role, region) of each operand that is present."""
        return [
            (f.name, f.role, getattr(self, f.name)) for f in self.operand_fields() if getattr(self, f.name) is not None
        ]  # type: ignore[misc]

    def attributes(self) -> dict[str, Any]:
        """Fields that are not operands."""
        return {
            f.name: getattr(self, f.name) for f in self.FIELDS if f.role is None and f.kind not in ("span", "derived")
        }

    def effects(self) -> Iterable[Access]:
        """Semantic effects; the default follows the operands' roles. An op whose inout operand only accumulates says
        so by overriding."""
        for _, role, region in self.operands():
            if role in ("in", "inout"):
                yield Access("read", region)
            if role in ("out", "inout"):
                yield Access("write", region)

    def check(self) -> None:
        """Raises CompileError where the operands do not fit each other; called when the op is made by the frontend or
        the parser."""

    def reference(self, arrays: dict[str, Any], scalars: Any) -> dict[str, Any]:
        """What the op computes, in numpy.

        Args:
            arrays: field name → the operand's tile as an array (squeezed axes removed); floats of 16 bits and fewer
                come as float32 values.
            scalars: a function that evaluates an Expr to a Python number.

        Returns:
            field name → new contents of each out and inout operand, of its tile's shape.
        """
        raise TypeError(f"tile op {type(self).__name__} defines no reference")

    def expressions(self) -> Iterable[Expr]:
        """Scalar expressions among the attributes (walked as children when declared with child())."""
        return ()


_classes: dict[str, type[TileOp]] = {}


def register_tile_op(cls: _C) -> _C:
    """Class decorator (outside `@node`): makes the op known to the parser, the interpreter and the pass that selects
    candidates."""
    if not cls.name:
        raise ValueError(f"{cls.__name__} needs a class variable `name`")
    if _classes.setdefault(cls.name, cls) is not cls:
        raise ValueError(f"tile op {cls.name} is registered already")
    return cls


def tile_op_class(name: str) -> type[TileOp] | None:
    """The class registered under `name`."""
    return _classes.get(name)


def tile_ops() -> dict[str, type[TileOp]]:
    """All tile op classes by name."""
    return dict(_classes)


register_op_lookup(tile_op_class)
