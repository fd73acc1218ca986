"""The table of intrinsics: every name that a Call may carry, with its arity, result type and effect.

A backend or third party adds rows with `register_intrinsic`; a Call whose name has no row does not compile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..dtypes import DType
from ..errors import InternalError
from .effects import CommitGroup, Completion, OperandEffect, Rendezvous, WaitGroup

__all__ = ["Intrinsic", "find_intrinsic", "intrinsics", "register_intrinsic"]


ASYNC_QUEUE = "cp.async"
"""The queue of copies that the language starts and waits for."""


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """A row of the table.

    Args:
        name: what `Call.op` says.
        arity: number of arguments, or None for any.
        result: `same` (type of the first argument), a type name, `bool` (with the first argument's lanes), or `given`
            (the Call says).
        pure: whether calls without use may be dropped and equal calls merged.
        effect: what it does to memory beyond its AccessPtr arguments (whose modes declare theirs): `none`, `sync`,
            `opaque`.
        doc: one line.
        effects: execution effects (`ir.effects`): OperandEffect, CommitGroup, WaitGroup, Rendezvous, Collective.
    """

    name: str
    arity: int | None
    result: str = "same"
    pure: bool = True
    effect: str = "none"
    doc: str = ""
    effects: tuple[Any, ...] = ()

    def result_dtype(self, first: DType) -> DType:
        """The result type for a first argument of type `first`."""
        if self.result == "same":
            return first
        return DType(self.result, first.lanes)


_table: dict[str, Intrinsic] = {}


def register_intrinsic(row: Intrinsic) -> Intrinsic:
    """Adds a row; a name may be registered once."""
    if row.name in _table:
        raise ValueError(f"intrinsic {row.name} is registered already")
    _table[row.name] = row
    return row


def find_intrinsic(name: str) -> Intrinsic:
    """The row for `name`."""
    row = _table.get(name)
    if row is None:
        raise InternalError(
            "E-INTERNAL",
            f"intrinsic {name!r} declares no effects",
            help="register it with register_intrinsic before use",
        )
    return row


def intrinsics() -> dict[str, Intrinsic]:
    """All rows by name."""
    return dict(_table)


FAST_FUNCTIONS = ("exp", "exp10", "log", "log2", "log10", "sin", "cos", "tan", "rcp")
_UNARY = [
    "exp",
    "exp2",
    "exp10",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "sigmoid",
    "floor",
    "ceil",
    "trunc",
    "round",
    "nearbyint",
    "abs",
]
_BINARY = ["pow", "fmod", "atan2", "hypot", "copysign", "nextafter"]

for _name in _UNARY:
    register_intrinsic(Intrinsic(_name, 1, doc=f"{_name} of each lane"))
for _name in _BINARY:
    register_intrinsic(Intrinsic(_name, 2, doc=f"{_name} of each pair of lanes"))
for _row in (
    Intrinsic("ldexp", 2, doc="x · 2^n"),
    Intrinsic("fma", 3, doc="a · b + c, rounded once"),
    Intrinsic("isnan", 1, "bool", doc="whether a float is NaN"),
    Intrinsic("isinf", 1, "bool", doc="whether a float is infinite"),
    Intrinsic("isfinite", 1, "bool", doc="whether a float is neither NaN nor infinite"),
    *(Intrinsic(f"fast_{name}", 1, doc=f"{name} of float32, approximate") for name in FAST_FUNCTIONS),
    *(
        Intrinsic(f"ieee_{name}", arity + 1, doc=f"{name} of float32 with the rounding mode of the last argument")
        for name, arity in (("add", 2), ("sub", 2), ("mul", 2), ("div", 2), ("fma", 3), ("sqrt", 1), ("rsqrt", 1))
    ),
    Intrinsic("dp4a", 3, "given", doc="(four bytes, four bytes, c): c plus their scalar product"),
    Intrinsic("fns", 3, "given", doc="(mask, base, offset): the place of the offset-th set bit from base"),
    Intrinsic("popcount", 1, doc="number of set bits"),
    Intrinsic("clz", 1, doc="number of leading zero bits"),
    Intrinsic("reinterpret", 1, "given", doc="the same bits as another type of equal width"),
    Intrinsic(
        "convert",
        None,
        "given",
        doc="a conversion that says how it rounds: (StringImm mode, value[, random bits]); mode is rn, rz, rp, rm or "
        "rs, with -unsaturated where it does not saturate",
    ),
    Intrinsic("likely", 1, doc="its argument, expected to be true"),
    Intrinsic("vector_reduce", 2, "given", doc="horizontal reduction of a vector: (StringImm kind, vector)"),
    Intrinsic(
        "sync_threads",
        None,
        "void",
        pure=False,
        effect="sync",
        doc="all threads of the block meet",
        effects=(Rendezvous("block"),),
    ),
    Intrinsic(
        "async_copy",
        None,
        "void",
        pure=False,
        doc="starts to copy neighbouring elements: (pointer to shared memory, pointer to global memory[, predicate])",
        effects=(
            OperandEffect(0, "write", "async", Completion("group", ASYNC_QUEUE)),
            OperandEffect(1, "read", "async", Completion("group", ASYNC_QUEUE)),
        ),
    ),
    Intrinsic(
        "async_commit",
        0,
        "void",
        pure=False,
        doc="makes a group of the thread's asynchronous copies so far",
        effects=(CommitGroup(ASYNC_QUEUE),),
    ),
    Intrinsic(
        "async_wait",
        1,
        "void",
        pure=False,
        doc="waits until at most so many of the thread's groups are under way",
        effects=(WaitGroup(ASYNC_QUEUE, 0),),
    ),
    Intrinsic(
        "source_kernel",
        None,
        "void",
        pure=False,
        effect="opaque",
        doc="a kernel in the target's own language: (StringImm name, parameters of the function, shape variables)",
    ),
    Intrinsic("infinity", 0, "given", doc="positive infinity"),
    Intrinsic(
        "call_extern", None, "given", pure=False, effect="opaque", doc="a C function by name: (StringImm name, args…)"
    ),
):
    register_intrinsic(_row)
