"""FlattenBuffer: every buffer becomes one-dimensional, every index a number of elements.

Needs THREAD, leaves FLAT. A parameter keeps its shape for the host's checks; its accesses go to a one-dimensional
view of it (`data` is the parameter). On-chip buffers are replaced. The index dtype follows from what can be
addressed: int32 where the largest index is proven to fit, else int64, with loop variables widened inside the index
only.
"""

from __future__ import annotations

from typing import Any

from ..arith import Prover
from ..dtypes import DType
from ..errors import CompileError, InternalError, declare_codes
from ..ir import (
    AccessPtr,
    Binary,
    Block,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    Cast,
    Expr,
    IntImm,
    PrimFunc,
    Ramp,
    Select,
    Stmt,
    Unary,
    binary,
    cast,
    const,
    is_zero,
    unary,
)
from .base import Pass, PassContext, register_pass
from .options import declare_option
from .scoped import ScopedRewriter

__all__ = ["FlattenBuffer", "flat_index"]

declare_codes({"E-VECTOR-INDEX": "elements of a vector type that are gathered by an index of several lanes"})

INT32, INT64 = DType("int32"), DType("int64")


def _check_bits(value: int) -> str | None:
    return None if value in (32, 64) else "allowed: 32, 64"


declare_option("tl.config_index_bitwidth", 32, int, "least width of indices in bits", _check_bits)


@register_pass("FlattenBuffer", needs="THREAD", leaves="FLAT", options=("tl.config_index_bitwidth",))
class FlattenBuffer(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        flatten = _Flatten(Prover(solver=False), context.options["tl.config_index_bitwidth"])
        body = flatten.rewrite(function.body)
        return function if body is function.body else function.with_(body=body)


class _Flatten(ScopedRewriter):
    def __init__(self, prover: Prover, least_bits: int) -> None:
        super().__init__(prover)
        self.least_bits = least_bits
        self.flat: dict[Buffer, Buffer] = {}
        self.index_types: dict[Buffer, DType] = {}

    def rewrite_Block(self, node: Block) -> Stmt:
        # Device memory stays as the host allocates it; accesses go to its flat view.
        allocations = tuple(b if b.memory.level == "device" else self.flatten(b) for b in node.allocations)
        annotations = tuple(pair for pair in node.annotations if pair[0] not in ("layouts", "safe_value"))
        return node.with_(allocations=allocations, annotations=annotations, body=self.body(node.body))

    def rewrite_BufferLoad(self, node: BufferLoad) -> Expr:
        predicate = None if node.predicate is None else self.rewrite(node.predicate)
        return BufferLoad(self.flatten(node.buffer), (self.index(node),), predicate, span=node.span)

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:
        predicate = None if node.predicate is None else self.rewrite(node.predicate)
        value = self.rewrite(node.value)
        return BufferStore(self.flatten(node.buffer), value, (self.index(node),), predicate, span=node.span)

    def rewrite_AccessPtr(self, node: AccessPtr) -> Expr:
        extent = self.rewrite(node.extent)
        lanes = node.buffer.dtype.lanes
        if lanes > 1:
            extent = binary("mul", extent, lanes)
        return node.with_(buffer=self.flatten(node.buffer), indices=(self.first(node),), extent=extent)

    def index(self, node: Any) -> Expr:
        """The flat index of an access: of an element of a vector type, those of its lanes."""
        first, lanes = self.first(node), node.buffer.dtype.lanes
        if lanes == 1:
            return first
        if isinstance(first, Ramp):
            return Ramp(first.base, first.stride, first.lanes * lanes, span=first.span)
        return Ramp(first, const(1, first.dtype), lanes, span=node.span)

    def first(self, node: Any) -> Expr:
        """The flat index of an access's first lane, simplified."""
        buffer: Buffer = node.buffer
        self.flatten(buffer)
        dtype = self.index_types[buffer]
        indices = tuple(self.rewrite(i) for i in node.indices)
        lanes = buffer.dtype.lanes
        if len(indices) == 1 and not buffer.strides and lanes == 1:
            return self.prover.simplify(widened(indices[0], dtype))
        strides = buffer.element_strides()
        if lanes > 1:
            strides = tuple([binary("mul", s, lanes) for s in strides])
            last = indices[-1]
            if isinstance(last, Ramp) and isinstance(last.stride, IntImm) and last.stride.value == 1:
                # Neighbouring vectors lie side by side: one vector of all their lanes.
                first = flat_index((*indices[:-1], last.base), strides, dtype)
                return Ramp(self.prover.simplify(first), const(1, dtype), last.lanes)
            if any(i.dtype.lanes > 1 for i in indices):
                raise CompileError(
                    "E-VECTOR-INDEX",
                    f"elements of {buffer.name}, which are {buffer.dtype}, are gathered",
                    span=node.span,
                    help="load them one by one, or view the buffer as its scalar type",
                )
        return self.prover.simplify(flat_index(indices, strides, dtype))

    def flatten(self, buffer: Buffer) -> Buffer:
        """The one-dimensional buffer that stands for `buffer`."""
        found = self.flat.get(buffer)
        if found is not None:
            return found
        # A vector type's lanes become elements.
        size = _elements(buffer)
        if buffer.dtype.lanes > 1:
            size = binary("mul", size, buffer.dtype.lanes)
        self.index_types[buffer] = dtype = self._index_type(size)
        if buffer.memory.level == "device":
            # The parameter itself stays as the host sees it.
            new = Buffer(
                buffer.name,
                (size if dtype is INT64 else cast(size, dtype),),
                buffer.dtype.scalar,
                buffer.scope,
                data=buffer,
                align=buffer.align,
                span=buffer.span,
            )
        elif not isinstance(size, IntImm):
            raise InternalError(
                "E-INTERNAL", f"on-chip buffer {buffer.name} has a symbolic size", facts=[f"{buffer!r}"]
            )
        else:
            data = None if buffer.data is None else self.flatten(buffer.data)
            new = Buffer(
                buffer.name,
                (cast(size, dtype),),
                buffer.dtype.scalar,
                buffer.scope,
                (),
                data,
                buffer.offset,
                buffer.align,
                span=buffer.span,
            )
        self.flat[buffer] = self.flat[new] = new
        self.index_types[new] = dtype
        return new

    def _index_type(self, size: Expr) -> DType:
        if self.least_bits > INT32.bits:
            return INT64
        bounds = self.prover.bounds(size)
        return INT32 if bounds.bounded and bounds.hi <= INT32.max_value else INT64


def flat_index(indices: tuple[Expr, ...], strides: tuple[Expr, ...], dtype: DType) -> Expr:
    """The sum of index · stride, computed in `dtype`; vector indices give vectors."""
    total: Expr | None = None
    for index, stride in zip(indices, strides):
        if is_zero(index) or is_zero(stride):
            continue
        term = vector_binary("mul", widened(index, dtype), widened(stride, dtype))
        total = term if total is None else vector_binary("add", total, term)
    return const(0, dtype) if total is None else total


def widened(expr: Expr, dtype: DType) -> Expr:
    """Index arithmetic carried out in `dtype`: its variables and constants are converted, not its result.

    Converting the result would come too late for a product that passes 32 bits.
    """
    if expr.dtype.scalar is dtype or dtype is INT32:
        return expr if expr.dtype.scalar is dtype else _narrowed(expr, dtype)
    if isinstance(expr, IntImm):
        return IntImm(expr.value, dtype, span=expr.span)
    if isinstance(expr, Binary) and expr.op in _ARITHMETIC:
        return Binary(expr.op, widened(expr.a, dtype), widened(expr.b, dtype), span=expr.span)
    if isinstance(expr, Unary) and expr.op == "neg":
        return unary("neg", widened(expr.a, dtype))
    if isinstance(expr, Select):
        return expr.with_(true_value=widened(expr.true_value, dtype), false_value=widened(expr.false_value, dtype))
    if isinstance(expr, Ramp):
        return Ramp(widened(expr.base, dtype), widened(expr.stride, dtype), expr.lanes, span=expr.span)
    if isinstance(expr, Broadcast):
        return Broadcast(widened(expr.value, dtype), expr.lanes, span=expr.span)
    return Cast(dtype.with_lanes(expr.dtype.lanes), expr, span=expr.span)


def _narrowed(expr: Expr, dtype: DType) -> Expr:
    """A 64-bit index of a buffer that is small: its value fits, whatever its parts do."""
    if isinstance(expr, Cast) and expr.value.dtype.scalar is dtype:
        return expr.value
    return cast(expr, dtype.with_lanes(expr.dtype.lanes))


def vector_binary(op: str, a: Expr, b: Expr) -> Expr:
    """add or mul of indices of which one may be a vector: Ramps stay Ramps."""
    if isinstance(b, Ramp) and not isinstance(a, Ramp):
        a, b = b, a
    if isinstance(a, Ramp) and b.dtype.lanes == 1:
        if op == "mul":
            return Ramp(binary("mul", a.base, b), binary("mul", a.stride, b), a.lanes)
        return Ramp(binary("add", a.base, b), a.stride, a.lanes)
    if isinstance(a, Ramp) and isinstance(b, Ramp) and op == "add":
        return Ramp(binary("add", a.base, b.base), binary("add", a.stride, b.stride), a.lanes)
    return binary(op, a, b)


_ARITHMETIC = ("add", "sub", "mul", "min", "max", "floordiv", "floormod", "truncdiv", "truncmod")


def _elements(buffer: Buffer) -> Expr:
    """How many elements a buffer spans, one more than its largest index, as a 64-bit number."""
    shape = [widened(extent, INT64) for extent in buffer.shape]
    if not buffer.strides:
        size: Expr = const(1, INT64)
        for extent in shape:
            size = extent if isinstance(size, IntImm) and size.value == 1 else binary("mul", size, extent)
        return size
    last: Expr = const(1, INT64)
    for extent, stride in zip(shape, buffer.strides):
        last = binary("add", last, binary("mul", binary("sub", extent, 1), widened(stride, INT64)))
    return last
