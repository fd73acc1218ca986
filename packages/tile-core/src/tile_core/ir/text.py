"""The rules that the printer and the parser of the IR share: which names mean what, and what type a bare number has."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterator
from typing import Any

from ..dtypes import DType, as_dtype
from ..errors import TileError
from .expr import BOOL, FLOAT32, INT32, INT64, Expr, FloatImm, IntImm
from .intrinsics import intrinsics
from .node import Node
from .stmt import Seq, Stmt
from .values import find_value_name, node_class

__all__ = [
    "LOOP_NAMES",
    "RESERVED",
    "call_dtype",
    "flatten",
    "is_number",
    "literal_dtype",
    "load_vocabulary",
    "only",
    "op_class",
    "pair_types",
    "plain_call",
    "quote",
    "register_op_lookup",
    "text_dtype",
]

LOOP_NAMES = {
    "serial": "serial",
    "parallel": "Parallel",
    "pipelined": "Pipelined",
    "unroll": "unroll",
    "vectorized": "vectorized",
    "persistent": "Persistent",
    "threads": "threads",
}
# What `T.name` means something else than an intrinsic of that name.
RESERVED = frozenset(
    {
        *("Buffer", "Kernel", "Select", "access_ptr", "alloc_buffer", "annotate", "assume", "attr", "block", "box"),
        *(
            "broadcast",
            "buffer",
            "call",
            "cast",
            "chain",
            "evaluate",
            "func_attr",
            "if_then_else",
            "let",
            "load",
            "max",
        ),
        *("min", "module", "neg", "opaque", "prim_func", "ramp", "region", "shuffle", "size_var", "store", "string"),
        *("truncdiv", "truncmod", "value", "var"),
        *LOOP_NAMES.values(),
    }
)


def literal_dtype(value: bool | int | float, expected: DType | None) -> DType:
    """The type of a bare number where `expected` is the type that the place suggests."""
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, float):
        return expected if expected is not None and expected.lanes == 1 and expected.is_float else FLOAT32
    if expected is not None and expected.lanes == 1 and expected.is_int:
        return expected
    return INT32 if INT32.min_value <= value <= INT32.max_value else INT64


def is_number(node: Any) -> bool:
    """Whether a node is a numeric constant, which takes its type from its surroundings rather than giving one."""
    return type(node) is IntImm or type(node) is FloatImm


def flatten(stmt: Stmt) -> Iterator[Stmt]:
    """The statements of a sequence with nested sequences opened."""
    stack = [stmt]
    while stack:
        item = stack.pop()
        if type(item) is Seq:
            stack.extend(reversed(item.stmts))
        else:
            yield item


def only(stmt: Stmt) -> Stmt:
    """The one statement of a sequence that holds one; any other statement itself."""
    if type(stmt) is Seq:
        items = list(flatten(stmt))
        return items[0] if len(items) == 1 else stmt
    return stmt


def pair_types(a: Expr, b: Expr) -> tuple[DType | None, DType | None]:
    """What each of two operands suggests for the other, should that one be a bare number."""
    return (None if is_number(b) else b.dtype), (None if is_number(a) else a.dtype)


def plain_call(op: str) -> bool:
    """Whether an intrinsic can be written ``T.op(…)`` without being taken for something else."""
    first = op.split(".")[0]
    return (
        all(part.isidentifier() and not keyword.iskeyword(part) for part in op.split("."))
        and first not in RESERVED
        and find_value_name(op) is None
        and text_dtype(op) is None
        and node_class(op) is None
    )


def call_dtype(op: str, args: tuple[Expr, ...]) -> DType | None:
    """The type that a call has when its text gives none: what the table of intrinsics says, or None."""
    row = intrinsics().get(op)
    if row is None or row.result == "given" or (not args and row.result == "same"):
        return None
    return row.result_dtype(args[0].dtype) if args else DType(row.result)


_op_lookup: list[Callable[[str], type[Node] | None]] = []


def register_op_lookup(lookup: Callable[[str], type[Node] | None]) -> None:
    """Tells text and keys where tile op classes are found by name; the room of tile ops calls this."""
    _op_lookup.append(lookup)


def op_class(name: str) -> type[Node] | None:
    """The tile op class called `name`."""
    for lookup in _op_lookup:
        found = lookup(name)
        if found is not None:
            return found
    return None


def load_vocabulary() -> None:
    """Imports the rooms whose words a text may use before anybody else has imported them: layouts and tile ops."""
    from importlib import import_module

    # By name: this room comes before those in the order of imports, and only a reader of text needs them.
    for room in ("layout", "tileop"):
        import_module(f"tile_core.{room}")


def text_dtype(name: str) -> DType | None:
    """The element type that ``T.name`` is, or None."""
    try:
        return as_dtype(name)
    except TileError:
        return None


def quote(text: str) -> str:
    """A string literal, in double quotes where that needs no escapes."""
    return repr(text) if '"' in text or "\\" in text or not text.isprintable() else f'"{text}"'
