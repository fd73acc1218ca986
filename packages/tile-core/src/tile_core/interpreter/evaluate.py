"""Expressions: from a node to a numpy value.

A value is a numpy scalar, or an array over the batch of lanes that is being run: one axis for each loop whose
iterations run side by side, the newest first, and last the threads of the block where the kernel has thread code.
Arrays have extent 1 (or no axis) where they do not vary, so that what is the same for all lanes is computed once.
Values of vector types have the vector's lanes as a further, last axis.

`mask` says which lanes are active; None means all. Inactive lanes are evaluated too, but touch no memory and raise
nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ..casts import round_constant
from ..errors import InternalError
from ..ir import (
    AccessPtr,
    Binary,
    Broadcast,
    Buffer,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Let,
    Ramp,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Unary,
    Var,
)
from .faults import ExecutionFault
from .memory import LaneConflict, Storage, Tracker
from .operators import INTRINSICS, apply_binary, apply_intrinsic, apply_unary, divides
from .values import convert, numpy_type

__all__ = ["Evaluator", "Placement"]


class Placement:
    """Where a buffer's elements are: its storage, and shape and strides as integers."""

    __slots__ = ("offset", "shape", "storage", "strides")

    def __init__(self, storage: Storage, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> None:
        self.storage = storage
        self.shape = shape
        self.strides = strides
        self.offset = offset


class Evaluator:
    """Values of expressions and the memory they read; `Machine` adds statements.

    Args:
        strict: whether an access outside a global buffer is a fault; else reads give 0 and writes are dropped.
        check_written: whether reading on-chip memory that nobody wrote is a fault.
    """

    def __init__(self, strict: bool, check_written: bool) -> None:
        self.strict = strict
        self.check_written = check_written
        self.env: dict[Var, Any] = {}
        self.sizes: dict[str, int] = {}
        self.storages: dict[Buffer, Storage] = {}
        self.placements: dict[Buffer, Placement] = {}
        self.safe_values: dict[Buffer, Expr] = {}
        self.mask: Any = None
        self.tracker: Tracker | None = None

    def evaluate(self, expr: Any) -> Any:
        """The value of an expression."""
        method = self._table.get(type(expr))
        if method is None:
            raise InternalError("E-INTERNAL", f"the interpreter has no rule for {type(expr).__name__}", span=expr.span)
        return method(self, expr)

    def integer(self, expr: Expr, what: str = "value") -> int:
        """An integer that is the same for all active lanes.

        Raises:
            ExecutionFault: it differs between threads.
        """
        if type(expr) is IntImm:
            return expr.value
        value = self.evaluate(expr)
        if np.ndim(value) == 0:
            return int(value)
        values = value.ravel() if self.mask is None else np.broadcast_arrays(value, self.mask)[0][self.active(value)]
        if values.size and (values == values[0]).all():
            return int(values[0])
        raise ExecutionFault(
            "E-RUN-DIVERGENCE",
            f"a {what} that the whole block shares differs between its threads",
            span=expr.span,
            facts=[f"values: {', '.join(map(str, np.unique(values)[:8]))}"],
            help="compute it from block indices and loop variables only",
        )

    def number(self, expr: Expr) -> Any:
        """A Python number that is the same for all active lanes."""
        value = np.asarray(self.evaluate(expr))
        if value.ndim:
            value = value.reshape(-1)[:1] if (value == value.reshape(-1)[0]).all() else value
            if value.size != 1:
                raise ExecutionFault(
                    "E-RUN-DIVERGENCE", "a value that the whole block shares differs between threads", span=expr.span
                )
        if expr.dtype.is_float:
            return float(value.reshape(()))
        return int(value.reshape(()))

    def active(self, like: Any) -> np.ndarray:
        """The mask in the shape that it has together with `like`."""
        return np.broadcast_arrays(self.mask, like)[0]

    # Leaves and operators

    def _var(self, expr: Var) -> Any:
        try:
            return self.env[expr]
        except KeyError:
            if isinstance(expr, SizeVar) and expr.name in self.sizes:
                return numpy_type(expr.dtype).type(self.sizes[expr.name])
            raise InternalError(
                "E-INTERNAL", f"variable {expr.name} has no value where it is used", span=expr.span
            ) from None

    def _constant(self, expr: IntImm | FloatImm) -> Any:
        held = numpy_type(expr.dtype)
        if type(expr) is FloatImm:
            return np.asarray(round_constant(expr.value, expr.dtype)).astype(held)[()]
        return held.type(expr.value)

    def _string(self, expr: StringImm) -> str:
        return expr.value

    def _binary(self, expr: Binary) -> Any:
        spine = [expr]
        while type(spine[-1].a) is Binary:
            spine.append(spine[-1].a)
        value = self.evaluate(spine[-1].a)
        for item in reversed(spine):
            if item.op in ("and", "or"):
                value = self._short_circuit(item, value)
                continue
            right = self.evaluate(item.b)
            operand = item.a.dtype
            if divides(item.op) and not operand.is_float and not np.all(right):
                right = self._divisor(item, right)
            value = apply_binary(item.op, value, right, operand)
        return value

    def _short_circuit(self, expr: Binary, left: Any) -> Any:
        undecided = left if expr.op == "and" else np.logical_not(left)
        if expr.dtype.lanes > 1:
            return apply_binary(expr.op, left, self.evaluate(expr.b), expr.dtype)
        if np.ndim(undecided) == 0 and not undecided:
            return left
        right = self._under(undecided, expr.b)
        return apply_binary(expr.op, left, right, expr.dtype)

    def _under(self, condition: Any, expr: Expr) -> Any:
        """The value of `expr`, evaluated only for lanes where `condition` holds."""
        if np.ndim(condition) == 0:
            return self.evaluate(expr)
        outer = self.mask
        self.mask = condition if outer is None else outer & condition
        try:
            return self.evaluate(expr)
        finally:
            self.mask = outer

    def _divisor(self, expr: Binary, right: Any) -> Any:
        zero = np.asarray(right == 0)
        mask = self.mask
        if mask is not None:
            zero = zero & (mask[..., None] if expr.dtype.lanes > 1 else mask)
        if zero.any():
            raise ExecutionFault(
                "E-RUN-DIVISION",
                "integer division by zero",
                span=expr.span,
                facts=[f"the divisor is {expr.b!r}"],
                help="guard the division, or choose another divisor",
            )
        # Only lanes that do not count divide by zero here; any other divisor keeps numpy quiet.
        return np.where(right == 0, np.asarray(right).dtype.type(1), right)

    def _unary(self, expr: Unary) -> Any:
        return apply_unary(expr.op, self.evaluate(expr.a), expr.dtype)

    def _cast(self, expr: Cast) -> Any:
        return convert(self.evaluate(expr.value), expr.value.dtype, expr.dtype)

    def _select(self, expr: Select) -> Any:
        condition = self.evaluate(expr.condition)
        if np.ndim(condition) == 0 and expr.lazy:
            return self.evaluate(expr.true_value if condition else expr.false_value)
        if expr.lazy and expr.condition.dtype.lanes == 1:
            chosen = self._under(condition, expr.true_value)
            other = self._under(~condition, expr.false_value)
        else:
            chosen, other = self.evaluate(expr.true_value), self.evaluate(expr.false_value)
        if expr.dtype.lanes > 1 and expr.condition.dtype.lanes == 1:
            condition = condition[..., None]
        return np.where(condition, chosen, other)

    def _let(self, expr: Let) -> Any:
        self.env[expr.var] = self.evaluate(expr.value)
        return self.evaluate(expr.body)

    # Vectors

    def _ramp(self, expr: Ramp) -> Any:
        base, stride = np.asarray(self.evaluate(expr.base)), np.asarray(self.evaluate(expr.stride))
        steps = np.arange(expr.lanes).astype(base.dtype)
        return base[..., None] + stride[..., None] * steps

    def _broadcast(self, expr: Broadcast) -> Any:
        value = np.asarray(self.evaluate(expr.value))
        if expr.value.dtype.lanes > 1:
            return np.tile(value, expr.lanes)
        return np.repeat(value[..., None], expr.lanes, axis=-1)

    def _shuffle(self, expr: Shuffle) -> Any:
        parts = []
        for vector in expr.vectors:
            value = np.asarray(self.evaluate(vector))
            parts.append(value if vector.dtype.lanes > 1 else value[..., None])
        ndim = max(part.ndim for part in parts)
        shape = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
        parts = [np.broadcast_to(part, shape + part.shape[-1:]) for part in parts]
        joined = np.concatenate(parts, axis=-1) if ndim else parts[0]
        chosen = joined[..., list(expr.indices)]
        return chosen if expr.dtype.lanes > 1 else chosen[..., 0]

    # Calls

    def _call(self, expr: Call) -> Any:
        if expr.op not in INTRINSICS:
            return self.effect(expr)
        args = [self.evaluate(arg) for arg in expr.args]
        return apply_intrinsic(expr.op, args, [arg.dtype for arg in expr.args], expr.dtype)

    def effect(self, expr: Call) -> Any:
        """The value of a call that does more than compute one; `Machine` knows those."""
        raise InternalError("E-INTERNAL", f"the interpreter has no rule for intrinsic {expr.op}", span=expr.span)

    def _pointer(self, expr: AccessPtr) -> Any:
        raise InternalError(
            "E-INTERNAL", f"the address of {expr.buffer.name} is used where a value is needed", span=expr.span
        )

    # Memory

    def placement(self, buffer: Buffer) -> Placement:
        """Where `buffer` is now."""
        found = self.placements.get(buffer)
        if found is not None:
            return found
        root, offset = buffer, 0
        while root.data is not None and root not in self.storages:
            offset += self.integer(root.offset) if root.offset is not None else 0
            root = root.data
        storage = self.storages.get(root)
        if storage is None:
            raise InternalError(
                "E-INTERNAL", f"buffer {buffer.name} is used where it is not allocated", span=buffer.span
            )
        if root is buffer and buffer.offset is not None:
            offset = self.integer(buffer.offset)
        if root is not buffer and root.dtype.bits != buffer.dtype.bits:
            offset = offset * root.dtype.bits // buffer.dtype.bits
        shape = tuple(self.integer(e) for e in buffer.shape)
        strides = tuple(self.integer(e) for e in buffer.element_strides())
        found = Placement(storage, shape, strides, offset)
        # An offset that depends on a loop variable moves; everything else stays for as long as the storage does.
        if buffer.offset is None or isinstance(buffer.offset, IntImm):
            self.placements[buffer] = found
        return found

    def forget(self, storage: Storage) -> None:
        """Drops the placements of a storage whose block has ended."""
        self.placements = {b: p for b, p in self.placements.items() if p.storage is not storage}

    def tolerates(self, buffer: Buffer) -> bool:
        """Whether accesses outside `buffer` read 0 and drop writes."""
        return not self.strict and not buffer.is_on_chip

    def _indices(self, exprs: tuple[Expr, ...]) -> tuple[tuple[Any, ...], bool]:
        """Values of indices, with a last axis of vector lanes on all when one has it."""
        values = tuple(self.evaluate(e) for e in exprs)
        if all(e.dtype.lanes == 1 for e in exprs):
            return values, False
        return tuple(
            value if e.dtype.lanes > 1 else np.asarray(value)[..., None] for value, e in zip(values, exprs)
        ), True

    def _load(self, expr: BufferLoad) -> Any:
        indices, vector = self._indices(expr.indices)
        predicate = None if expr.predicate is None else self.evaluate(expr.predicate)
        if vector and expr.predicate is not None and expr.predicate.dtype.lanes == 1:
            predicate = np.asarray(predicate)[..., None]
        return self.load(expr.buffer, indices, vector, predicate, expr.span)

    def load(self, buffer: Buffer, indices: tuple[Any, ...], vector: bool, predicate: Any, span: Any) -> Any:
        """The elements at `indices` for the active lanes; lanes without `predicate` read 0."""
        place, address, inside = self._place(buffer, indices, vector, span)
        storage = place.storage
        many = vector or buffer.dtype.lanes > 1
        counts = self._counting(many, predicate)
        outside = self._outside(buffer, indices, inside, counts, span, "read")
        data = storage.view(buffer.dtype)
        if outside is not None:
            address = np.where(inside, address, 0)
        if storage.written is not None and data is storage.data:
            self._require_written(buffer, storage, address, inside, counts, span)
        if self.tracker is not None and self.tracker.watches(storage):
            self._track(storage, data, address, inside, counts, many, write=False)
        values = data[address]
        if outside is not None:
            values = np.where(inside, values, self._safe_value(buffer))
        if predicate is not None:
            values = np.where(predicate, values, data.dtype.type(0))
        return values

    def store(
        self, buffer: Buffer, indices: tuple[Any, ...], vector: bool, predicate: Any, value: Any, span: Any
    ) -> None:
        """Writes `value` (of the buffer's type) for the active lanes with `predicate`."""
        place, address, inside = self._place(buffer, indices, vector, span)
        storage = place.storage
        many = vector or buffer.dtype.lanes > 1
        counts = self._counting(many, predicate)
        outside = self._outside(buffer, indices, inside, counts, span, "write")
        keep = counts if outside is None else inside if counts is None else inside & counts
        data = storage.view(buffer.dtype)
        if self.tracker is not None and self.tracker.watches(storage):
            self._track(storage, data, address, inside, counts, many, write=True)
        if keep is None:
            if np.ndim(value) and np.shape(value) != np.shape(address):
                address, value = np.broadcast_arrays(address, value)
            data[address] = value
            storage.mark_written(address, data)
            return
        keep, address, value = np.broadcast_arrays(keep, address, value)
        chosen = address[keep]
        data[chosen] = value[keep]
        storage.mark_written(chosen, data)

    def _place(self, buffer: Buffer, indices: tuple[Any, ...], vector: bool, span: Any) -> tuple[Placement, Any, Any]:
        place = self.placement(buffer)
        address: Any = place.offset
        inside: Any = True
        for index, extent, stride in zip(indices, place.shape, place.strides):
            wide_index = index.astype(np.int64) if isinstance(index, np.ndarray) else int(index)
            address = address + wide_index * stride
            inside = inside & ((wide_index >= 0) & (wide_index < extent))
        lanes = buffer.dtype.lanes
        if lanes > 1:
            address = np.asarray(address)[..., None] * lanes + np.arange(lanes)
            inside = np.asarray(inside)[..., None]
        starts = place.storage.lanes
        if starts is not None:
            address = address + (starts[..., None] if vector or lanes > 1 else starts)
        return place, address, inside

    def _inside(self, buffer: Buffer, indices: tuple[Any, ...]) -> Any:
        inside: Any = True
        for index, extent in zip(indices, self.placement(buffer).shape):
            inside = inside & ((index >= 0) & (index < extent))
        return inside

    def _counting(self, many: bool, predicate: Any) -> Any:
        """Which lanes access memory: the active ones with the predicate; None for all."""
        mask = self.mask
        if mask is not None and many:
            mask = mask[..., None]
        if predicate is None:
            return mask
        return np.asarray(predicate) if mask is None else mask & predicate

    def _outside(self, buffer: Buffer, indices: tuple[Any, ...], inside: Any, counts: Any, span: Any, verb: str) -> Any:
        """None where all elements lie inside; else which do not. Raises where an active lane's may not."""
        if inside is True or np.all(inside):
            return None
        outside = np.logical_not(inside)
        if not self.tolerates(buffer):
            wrong = outside if counts is None else outside & counts
            if np.any(wrong):
                self._fault_bounds(buffer, indices, wrong, span, verb)
        return outside

    def _fault_bounds(self, buffer: Buffer, indices: tuple[Any, ...], wrong: Any, span: Any, verb: str) -> None:
        arrays = np.broadcast_arrays(wrong, *(np.asarray(i) for i in indices))
        at = tuple(int(a[arrays[0]].ravel()[0]) for a in arrays[1:])
        shape = self.placement(buffer).shape
        raise ExecutionFault(
            "E-RUN-BOUNDS",
            f"{verb} of {buffer.name}[{', '.join(map(str, at))}], outside its shape [{', '.join(map(str, shape))}]",
            span=span,
            facts=[f"{buffer.name}: {buffer.dtype} in {buffer.scope}"],
            help="guard the access by the bounds",
        )

    def _require_written(
        self, buffer: Buffer, storage: Storage, address: Any, inside: Any, counts: Any, span: Any
    ) -> None:
        unwritten = np.logical_not(storage.written[address])  # type: ignore[index]
        unwritten = unwritten & inside if counts is None else unwritten & inside & counts
        if np.any(unwritten):
            raise ExecutionFault(
                "E-RUN-UNWRITTEN",
                f"read of {buffer.name}, which nobody wrote there",
                span=span,
                facts=[f"{buffer.name}: {buffer.dtype} in {buffer.scope}"],
                help=f"write it first: T.clear({buffer.name}) or T.fill({buffer.name}, …)",
            )

    def _track(
        self, storage: Storage, data: Any, address: Any, inside: Any, counts: Any, many: bool, *, write: bool
    ) -> None:
        if data is not storage.data:
            raise LaneConflict  # two element types over one memory: run in order
        tracker: Any = self.tracker
        lanes = tracker.lanes[..., None] if many else tracker.lanes
        keep = inside if counts is None else inside & counts
        addresses, lanes, keep = np.broadcast_arrays(address, lanes, keep)
        if keep.all():
            addresses, lanes = addresses.ravel(), lanes.ravel()
        else:
            addresses, lanes = addresses[keep], lanes[keep]
        (tracker.write if write else tracker.read)(storage, addresses, lanes)

    def _safe_value(self, buffer: Buffer) -> Any:
        held = numpy_type(buffer.dtype)
        safe = self.safe_values.get(buffer)
        return held.type(0) if safe is None else convert(self.evaluate(safe), safe.dtype, buffer.dtype)

    _table: ClassVar[dict[type, Callable[[Any, Any], Any]]] = {
        Var: _var,
        SizeVar: _var,
        IntImm: _constant,
        FloatImm: _constant,
        StringImm: _string,
        Binary: _binary,
        Unary: _unary,
        Cast: _cast,
        Select: _select,
        Let: _let,
        Ramp: _ramp,
        Broadcast: _broadcast,
        Shuffle: _shuffle,
        Call: _call,
        BufferLoad: _load,
        AccessPtr: _pointer,
    }
