"""Gemm with the matrix instructions of a warp (mma.sync): 16 rows by 8 columns an instruction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tile_core.dtypes import DType
from tile_core.ir import (
    AccessPtr,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Expr,
    For,
    IntImm,
    Stmt,
    Var,
    as_expr,
    binary,
    cast,
    const,
    seq,
)
from tile_core.layout import Fragment, Layout
from tile_core.layout.swizzle import swizzled
from tile_core.tileop import Candidate, Constraint, Declined, Facts, Gemm, LowerContext, Ok
from tile_core.tileop.default_candidates import accumulator_dtype

from ..device import intrinsics
from ..device.table import MMA_SHAPES
from ..layouts import WARP, elements_a_register, operand_a, operand_b, product, warp_partition
from ..target import architecture
from ..transform.bind_threads import thread_index

__all__ = ["MatrixInstructions"]

INT32 = DType("int32")


class MatrixInstructions(Candidate):
    """The product stays in registers; operands come from shared memory (16-bit ones by ldmatrix) or from registers."""

    op = Gemm
    name = "mma"

    def legal(self, op: Gemm, facts: Facts) -> Ok | Declined:
        k = _atom_k(op, facts)
        if k is None:
            return Declined(
                f"{architecture(facts.target).name} has no mma.sync of {op.a.dtype} by {op.b.dtype} into {op.c.dtype}"
            )
        if not facts.threads or facts.threads % WARP:
            return Declined(f"mma.sync works on whole warps, and the block has {facts.threads} threads")
        if op.c.buffer.scope != "fragment":
            return Declined(f"{op.c.buffer.name} is in {op.c.buffer.scope} memory; mma.sync accumulates in a fragment")
        if op.k % k:
            return Declined(f"K is {op.k}, no multiple of the instruction's {k}")
        split = _split(op, facts)
        if split is None:
            return Declined(
                f"M={op.m}, N={op.n} cannot be covered by {facts.threads // WARP} warps (policy {op.policy}): "
                "each owns a multiple of 16 rows and 8 columns; adjust threads or the tile"
            )
        for region in (op.a, op.b, op.c):
            if region.buffer.scope == "fragment" and not _whole(region):
                return Declined(f"a part of the fragment {region.buffer.name} is no operand of its own")
            if region.buffer.data is not None or region.buffer.scope not in ("fragment", "shared"):
                return Declined(f"{region.buffer.name} is neither a fragment nor a shared tile of its own")
            if region.tile_axes()[-2:] != (region.buffer.ndim - 2, region.buffer.ndim - 1):
                return Declined(f"the matrix in {region.buffer.name} is not made of its last two axes")
        return Ok(op.m * op.n * op.k / (2048 * 4))

    def constraints(self, op: Gemm, facts: Facts) -> Iterable[Constraint]:
        split = _split(op, facts)
        assert split is not None
        yield Constraint(op.c.buffer, _ranked(op.c, product(op.m, op.n, split)))
        for region, fragment in ((op.a, _fragment_a(op, split)), (op.b, _fragment_b(op, split))):
            if region.buffer.scope == "fragment":
                yield Constraint(region.buffer, _ranked(region, fragment))
            elif region.buffer.static_shape() is not None:
                yield Constraint(region.buffer, swizzled(region.buffer.static_shape() or (), region.dtype), "common")

    def lower(self, op: Gemm, context: LowerContext) -> Stmt:
        return _Emitter(op, context).emit()


class _Emitter:
    """One gemm: a loop over steps of K, in each the operands' atoms to registers, then all products."""

    def __init__(self, op: Gemm, context: LowerContext) -> None:
        facts = context.facts
        split, k = _split(op, facts), _atom_k(op, facts)
        assert split is not None and k is not None and facts.launch is not None
        self.op, self.context, self.atom_k = op, context, k
        self.packed = elements_a_register(op.a.dtype.bits)
        self.rows, self.columns = op.m // split[0] // 16, op.n // split[1] // 8
        self.steps = op.k // k
        thread = thread_index(facts.launch)
        self.lane = binary("floormod", thread, WARP)
        warp = binary("floordiv", thread, WARP)
        self.row = binary("mul", binary("floormod", warp, split[0]), op.m // split[0])
        self.column = binary("mul", binary("floordiv", warp, split[0]), op.n // split[1])
        self.a = self._registers(op.a, self.rows * 4 * self.packed)
        self.b = self._registers(op.b, self.columns * 2 * self.packed)

    def emit(self) -> Stmt:
        """The statements."""
        op = self.op
        c_layout = self.context.layouts[op.c.buffer]
        own = _register_view(op.c.buffer, c_layout)
        # A sum in float16 is rounded once, when the gemm is done.
        wide = accumulator_dtype(op.c.dtype)
        c = own if wide is op.c.dtype else self.context.allocate(f"{op.c.buffer.name}_sums", (c_layout.regs,), wide)
        parts: list[Stmt] = []
        if op.clear_accum or c is not own:
            slot = Var("slot")
            start = const(0, wide) if op.clear_accum else cast(BufferLoad(own, (slot,)), wide)
            parts.append(_loop(slot, c_layout.regs, BufferStore(c, start, (slot,), span=op.span), "unroll"))
        step = Var("k_step")
        body = seq(self._load_a(step), self._load_b(step), self._multiply(c, step))
        kind = "unroll" if "fragment" in (op.a.buffer.scope, op.b.buffer.scope) else "serial"
        parts.append(_loop(step, self.steps, body, kind))
        if c is not own:
            slot = Var("slot")
            done = BufferStore(own, cast(BufferLoad(c, (slot,)), op.c.dtype), (slot,), span=op.span)
            parts.append(_loop(slot, c_layout.regs, done, "unroll"))
        return seq(*parts, span=op.span)

    def _registers(self, region: BufferRegion, count: int) -> Buffer:
        if region.buffer.scope == "fragment":
            return _register_view(region.buffer, self.context.layouts[region.buffer])
        return self.context.allocate(f"{region.buffer.name}_registers", (count,), region.dtype)

    def _multiply(self, c: Buffer, step: Var) -> Stmt:
        op, packed = self.op, self.packed
        i, j = Var("atom_m"), Var("atom_n")
        # Atoms of a fragment operand lie step after step within a row or column of atoms.
        a_atom: Expr = i if op.a.buffer.scope != "fragment" else binary("add", binary("mul", i, self.steps), step)
        b_atom: Expr = j if op.b.buffer.scope != "fragment" else binary("add", binary("mul", j, self.steps), step)
        c_atom = binary("add", binary("mul", i, self.columns), j)
        product_of = intrinsics.mma(
            _pointer(c, binary("mul", c_atom, 4), 4, "rw"),
            _pointer(self.a, binary("mul", a_atom, 4 * packed), 4 * packed, "r"),
            _pointer(self.b, binary("mul", b_atom, 2 * packed), 2 * packed, "r"),
            (16, 8, self.atom_k),
            op.a.dtype,
            op.b.dtype,
            c.dtype,
            span=op.span,
        )
        return _loop(i, self.rows, _loop(j, self.columns, product_of, "unroll"), "unroll")

    def _load_a(self, step: Var) -> Stmt | None:
        op = self.op
        if op.a.buffer.scope == "fragment":
            return None
        i = Var("load_m")
        start = binary("mul", i, 4 * self.packed)
        row = binary("add", self.row, binary("mul", i, 16))
        depth = binary("mul", step, self.atom_k)
        if self._by_ldmatrix(op.a):
            # Matrices of 8 x 8: rows 0 and 8 of columns 0, then of columns 8; a lane names one row of one of them.
            low, high = _mod(self.lane, 16), binary("mul", _div(self.lane, 16), 8)
            if op.transpose_a:
                low = binary("add", _mod(self.lane, 8), binary("mul", _div(self.lane, 16), 8))
                high = binary("mul", _mod(_div(self.lane, 8), 2), 8)
                at = (binary("add", depth, low), binary("add", row, high))
            else:
                at = (binary("add", row, low), binary("add", depth, high))
            source = AccessPtr(op.a.buffer, _matrix(op.a, *at), const(8, INT32), "r", span=op.span)
            load = intrinsics.ldmatrix(_pointer(self.a, start, 8, "w"), source, 4, op.transpose_a, span=op.span)
            return _loop(i, self.rows, load, "unroll")
        q, e = Var("register"), Var("element")
        row = binary("add", row, binary("add", _div(self.lane, 4), binary("mul", _mod(q, 2), 8)))
        k = self._k_of(depth, binary("floordiv", q, 2), e)
        value = op.a.load(_tile(op.a, k, row) if op.transpose_a else _tile(op.a, row, k))
        slot = binary("add", start, binary("add", binary("mul", q, self.packed), e))
        store = BufferStore(self.a, value, (slot,), span=op.span)
        inner = _loop(q, 4, _loop(e, self.packed, store, "unroll"), "unroll")
        return _loop(i, self.rows, inner, "unroll")

    def _load_b(self, step: Var) -> Stmt | None:
        op = self.op
        if op.b.buffer.scope == "fragment":
            return None
        j = Var("load_n")
        depth = binary("mul", step, self.atom_k)
        if self._by_ldmatrix(op.b):
            # Two atoms an instruction where there are two: lanes 16 to 31 name the rows of the second.
            pair = 2 if self.columns % 2 == 0 else 1
            start = binary("mul", j, 4 * pair)
            column = binary("add", self.column, binary("mul", j, 8 * pair))
            second = binary("mul", _div(self.lane, 16), 8) if pair == 2 else const(0, INT32)
            half = binary("mul", _mod(_div(self.lane, 8), 2), 8)
            if op.transpose_b:
                at = (
                    binary("add", binary("add", column, second), _mod(self.lane, 8)),
                    binary("add", depth, half),
                )
            else:
                at = (
                    binary("add", depth, binary("add", half, _mod(self.lane, 8))),
                    binary("add", column, second),
                )
            source = AccessPtr(op.b.buffer, _matrix(op.b, *at), const(8, INT32), "r", span=op.span)
            target = _pointer(self.b, start, 4 * pair, "w")
            load = intrinsics.ldmatrix(target, source, 2 * pair, not op.transpose_b, span=op.span)
            return _loop(j, self.columns // pair, load, "unroll")
        start = binary("mul", j, 2 * self.packed)
        q, e = Var("register"), Var("element")
        column = binary("add", binary("add", self.column, binary("mul", j, 8)), _div(self.lane, 4))
        k = self._k_of(depth, q, e)
        value = op.b.load(_tile(op.b, column, k) if op.transpose_b else _tile(op.b, k, column))
        slot = binary("add", start, binary("add", binary("mul", q, self.packed), e))
        store = BufferStore(self.b, value, (slot,), span=op.span)
        inner = _loop(q, 2, _loop(e, self.packed, store, "unroll"), "unroll")
        return _loop(j, self.columns, inner, "unroll")

    def _k_of(self, depth: Expr, half: Expr, element: Expr) -> Expr:
        """K of an element: four lanes hold neighbours, a register later half the atom further on."""
        place = binary("mul", _mod(self.lane, 4), self.packed)
        inside = binary("add", binary("add", place, binary("mul", half, 4 * self.packed)), element)
        return binary("add", depth, inside)

    def _by_ldmatrix(self, region: BufferRegion) -> bool:
        """Whether rows of eight 16-bit elements lie together, on 16 bytes."""
        layout = self.context.layouts.get(region.buffer)
        if region.dtype.bits != 16 or not isinstance(layout, Layout) or layout.vector_width(-1) % 8:
            return False
        if layout.image[-1] % 8:
            return False
        return all(self.context.facts.divides(8, low) for low in region.mins[-1:])


def _atom_k(op: Gemm, facts: Facts) -> int | None:
    """K of the largest instruction for the op's element types on the target, or None where there is none."""
    number, wide = architecture(facts.target).number, accumulator_dtype(op.c.dtype)
    found = [
        shape[2]
        for shape, a, b, c, minimum in MMA_SHAPES
        if shape[:2] == (16, 8)
        and (a, b, c) == (op.a.dtype.name, op.b.dtype.name, wide.name)
        and number >= minimum
        and shape[2] * op.a.dtype.bits == 256
    ]
    return max(found, default=None)


def _split(op: Gemm, facts: Facts) -> tuple[int, int] | None:
    return warp_partition(op.m, op.n, (facts.threads or 0) // WARP, op.policy) if facts.threads else None


def _fragment_a(op: Gemm, split: tuple[int, int]) -> Fragment:
    return operand_a(op.m, op.k, split, elements_a_register(op.a.dtype.bits), op.transpose_a)


def _fragment_b(op: Gemm, split: tuple[int, int]) -> Fragment:
    return operand_b(op.k, op.n, split, elements_a_register(op.b.dtype.bits), op.transpose_b)


def _ranked(region: BufferRegion, fragment: Fragment) -> Fragment:
    """A matrix's fragment for a tile with further axes of extent 1 in front."""
    extra = region.buffer.ndim - 2
    if extra == 0:
        return fragment
    domain = (*(1,) * extra, *fragment.domain)
    return Fragment(
        domain,
        fragment.threads,
        fragment.regs,
        fragment.replicas,
        lambda *i: fragment.place(i[extra:-1], i[-1]),
    )


def _whole(region: BufferRegion) -> bool:
    return all(isinstance(low, IntImm) and low.value == 0 for low in region.mins) and (
        region.static_extents() == region.buffer.static_shape()
    )


def _register_view(buffer: Buffer, fragment: Any) -> Buffer:
    """A tile as the registers that a thread holds of it."""
    return Buffer(f"{buffer.name}_registers", (as_expr(fragment.regs),), buffer.dtype, "local", data=buffer)


def _tile(region: BufferRegion, row: Expr, column: Expr) -> tuple[Expr, ...]:
    return (*[const(0, INT32)] * (len(region.tile_extents()) - 2), row, column)


def _matrix(region: BufferRegion, row: Expr, column: Expr) -> tuple[Expr, ...]:
    return region.indices(_tile(region, row, column))


def _pointer(buffer: Buffer, start: Expr, count: int, mode: str) -> AccessPtr:
    return AccessPtr(buffer, (start,), const(count, INT32), mode)


def _loop(var: Var, count: int, body: Stmt, kind: str) -> Stmt:
    return For(var, const(0, INT32), const(count, INT32), kind, body, span=body.span)


def _mod(value: Expr, count: int) -> Expr:
    return binary("floormod", value, count)


def _div(value: Expr, count: int) -> Expr:
    return binary("floordiv", value, count)
