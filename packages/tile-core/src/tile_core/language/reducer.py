"""Reducers: sums, maxima and minima that the iterations of T.Parallel loops contribute to.

A reducer is no buffer: it begins with `reducer_init`, takes contributions of any number of iterations in any order,
and gives its values with `finalize_reducer`. How the partial results are kept is the compiler's choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..dtypes import DType, as_dtype
from ..errors import CompileError, declare_codes
from ..frontend.builder import Builder, Frame, index_of, require_builder
from ..frontend.operators import is_expression
from ..frontend.placeholder import refuse_placeholder
from ..ir import AccessPtr, Buffer, Call, Evaluate, Expr, StringImm, as_expr, cast, const, full_region
from ..tileop import Copy, Fill
from ..tileop.numerics import identity_value
from .allocate import constant_extents
from .operands import annotation_pairs, operand_error, require_option, tile_region

__all__ = ["alloc_reducer", "finalize_reducer", "reducer_init", "reducer_update"]

declare_codes(
    {
        "E-REDUCER-ACCESS": "a reducer used as a buffer or a value",
        "E-REDUCER-EPOCH": "a reducer that is not initialised once, updated in T.Parallel and finalised, in this order",
        "E-REDUCER-TYPE": "a reducer of elements that it cannot combine",
    }
)

_KINDS = ("sum", "max", "min")


class Reducer:
    """What `alloc_reducer` gives; ``reducer[i]`` names an element for `reducer_update` and is no value."""

    def __init__(self, buffer: Buffer, kind: str) -> None:
        self.buffer = buffer
        self.kind = kind
        self.open: Frame | None = None
        self.begun: Any = None

    def __getitem__(self, index: Any) -> _Element:
        return _Element(self, index if isinstance(index, tuple) else (index,))

    def __setitem__(self, index: Any, value: Any) -> None:
        raise _access(self, "an element is assigned", f"T.reducer_update({self.buffer.name}[…], value)")

    def __repr__(self) -> str:
        return f"reducer {self.buffer.name}"


class _Element:
    """An element of a reducer."""

    def __init__(self, reducer: Reducer, indices: tuple[Any, ...]) -> None:
        self.reducer = reducer
        self.indices = indices

    def __tile_expr__(self) -> Any:
        raise _access(self.reducer, "an element is read", "T.finalize_reducer first and read its result")

    def __repr__(self) -> str:
        return f"{self.reducer.buffer.name}[…], an element of a reducer"


def _refused(name: str) -> Any:
    def operator(self: _Element, *others: Any) -> Any:
        return self.__tile_expr__()

    operator.__name__ = name
    return operator


for _name in "add radd sub rsub mul rmul truediv rtruediv lt le gt ge iadd neg abs bool".split():  # noqa: SIM905
    setattr(_Element, f"__{_name}__", _refused(f"__{_name}__"))


def alloc_reducer(shape: Any, dtype: Any, op: str = "sum", replication: str | None = None) -> Reducer:
    """A tile of values that iterations of T.Parallel loops contribute to.

    Args:
        shape: extents, constants.
        dtype: element type, a number.
        op: sum, max or min; max and min let numbers win over NaN.
        replication: all or none; a hint of other versions, the compiler chooses.
    """
    what = "T.alloc_reducer"
    builder = require_builder(what)
    builder.require_kernel(what)
    require_option(what, "op", op, _KINDS)
    require_option(what, "replication", replication, (None, "all", "none"))
    element = as_dtype(dtype)
    if element.kind not in "iuf" or element.lanes != 1:
        raise CompileError(
            "E-REDUCER-TYPE", f"{what} has no {element} elements", help="use numbers, such as float32 or int32"
        )
    name = builder.take_hint("reducer")
    buffer = Buffer(name, constant_extents(what, shape), element, "reducer", span=builder.span)
    return Reducer(builder.allocate(buffer), op)


def reducer_init(reducer: Reducer, init: Any = None) -> None:
    """Begins a reducer.

    Args:
        reducer: what `alloc_reducer` gave.
        init: a scalar that takes part in every element; by default what changes nothing (0, -inf, inf).

    Raises:
        CompileError: it has begun already (E-REDUCER-EPOCH).
    """
    what = "T.reducer_init"
    builder = _builder(what, reducer)
    if reducer.open is not None:
        raise _epoch(what, reducer, "it has begun already", "finalise it first", reducer.begun)
    _outside_parallel(what, builder)
    dtype = reducer.buffer.dtype
    refuse_placeholder(init)
    if init is None:
        value: Expr = const(identity_value(reducer.kind, dtype), dtype)
    elif is_expression(init) or isinstance(init, (bool, int, float)):
        value = cast(as_expr(init, dtype), dtype)
    else:
        raise operand_error(what, "init", init)
    reducer.open, reducer.begun = builder.frame, builder.span
    builder.emit_op(Fill(full_region(reducer.buffer), value, span=builder.span))


def reducer_update(target: Any, value: Any) -> None:
    """Lets a value take part in an element of a reducer; inside T.Parallel, by any number of iterations.

    Args:
        target: an element, ``reducer[i, j]``.
        value: a scalar.
    """
    what = "T.reducer_update"
    if isinstance(target, Reducer):
        target = _Element(target, (0,) * target.buffer.ndim)
    if not isinstance(target, _Element):
        raise operand_error(what, "target", target)
    reducer, buffer = target.reducer, target.reducer.buffer
    builder = _builder(what, reducer)
    if reducer.open is None:
        raise _epoch(what, reducer, "it has not begun", f"write T.reducer_init({buffer.name}) before the loop", None)
    if not any(frame.loop_kind == "parallel" for frame in builder.frames):
        raise _epoch(
            what, reducer, "this is outside T.Parallel", "update it from the iterations of a T.Parallel loop", None
        )
    if len(target.indices) != buffer.ndim:
        raise CompileError(
            "E-INDEX-RANK",
            f"{buffer.name} has {buffer.ndim} dimensions, found {len(target.indices)} indices",
            help="give an index for each dimension",
        )
    refuse_placeholder(value)
    if not (is_expression(value) or isinstance(value, (bool, int, float))):
        raise operand_error(what, "value", value)
    indices = tuple(index_of(buffer, i, builder.span) for i in target.indices)
    pointer = AccessPtr(buffer, indices, const(1, "int32"), "rw")
    arguments = (pointer, cast(as_expr(value, buffer.dtype), buffer.dtype), StringImm(reducer.kind))
    builder.emit(Evaluate(Call("reducer_update", arguments, DType("void"))))


def finalize_reducer(
    reducer: Reducer, dst: Any = None, batch: int = 1, annotations: Mapping[str, Any] | None = None
) -> Buffer | None:
    """Ends a reducer and gives its values.

    Args:
        reducer: what `alloc_reducer` gave.
        dst: a tile of the reducer's shape; without one, a fragment is made for it.
        batch: elements that are combined at once; a hint.
        annotations: hints, by name.

    Returns:
        The new fragment where `dst` is left out.
    """
    what = "T.finalize_reducer"
    builder = _builder(what, reducer)
    buffer = reducer.buffer
    if reducer.open is None:
        raise _epoch(what, reducer, "it has not begun", f"write T.reducer_init({buffer.name}) first", None)
    _outside_parallel(what, builder)
    if reducer.open is not builder.frame:
        raise _epoch(
            what,
            reducer,
            f"it began outside {builder.frame.what}",
            "initialise and finalise it in one body, so that each follows the other",
            reducer.begun,
        )
    pairs = annotation_pairs(what, {"batch": None if batch == 1 else batch}, annotations)
    made = None
    if dst is None:
        made = builder.allocate(
            Buffer(
                builder.take_hint(f"{buffer.name}_result"), buffer.shape, buffer.dtype, "fragment", span=builder.span
            )
        )
    target = full_region(made) if made is not None else tile_region(what, "dst", dst)
    builder.emit_op(Copy(full_region(buffer), target, pairs, span=builder.span))
    reducer.open = None
    return made


def _builder(what: str, reducer: Any) -> Builder:
    builder = require_builder(what)
    builder.require_kernel(what)
    if not isinstance(reducer, Reducer):
        raise operand_error(what, "reducer", reducer)
    return builder


def _outside_parallel(what: str, builder: Builder) -> None:
    for frame in builder.frames:
        if frame.loop_kind == "parallel":
            raise CompileError(
                "E-REDUCER-EPOCH",
                f"{what} inside T.Parallel",
                spans=[("the loop begins here", frame.span)],
                help="write it before or after the loop: it is the whole block's",
            )


def _epoch(what: str, reducer: Reducer, found: str, fix: str, begun: Any) -> CompileError:
    return CompileError(
        "E-REDUCER-EPOCH",
        f"{what}({reducer.buffer.name}): {found}",
        spans=[] if begun is None else [("it began here", begun)],
        facts=["order: T.reducer_init once, T.reducer_update in T.Parallel loops, T.finalize_reducer"],
        help=fix,
    )


def _access(reducer: Reducer, found: str, fix: str) -> CompileError:
    return CompileError(
        "E-REDUCER-ACCESS",
        f"{reducer.buffer.name} is a reducer: {found}",
        facts=["a reducer is written by T.reducer_update and read by T.finalize_reducer"],
        help=f"use {fix}",
    )
