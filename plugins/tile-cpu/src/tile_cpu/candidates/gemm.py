"""Gemm as a register-blocked micro-kernel over tiles in cache (`device/tile/gemm.h`)."""

from __future__ import annotations

from collections.abc import Iterable

from tile_core.dtypes import SCALAR_NAMES, DType
from tile_core.ir import AccessPtr, Buffer, BufferRegion, Stmt, const
from tile_core.tileop import Candidate, Constraint, Declined, Facts, Gemm, LowerContext, MatrixProduct, Ok

from .. import intrinsics
from ..layouts import pitch_of, rows, stored_rows, transposed

__all__ = ["MicroKernel", "PackingMicroKernel", "by_rows", "call_gemm", "clocks", "supported"]

# Types that the header multiplies; the product is kept in float32, float64 or int32.
_INPUTS = (
    *("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "int32"),
    # Widened when they are packed.
    *(name for name in SCALAR_NAMES if DType(name).is_float and DType(name).bits == 8),
)
_RESULTS = ("float32", "float64", "int32", "float16")


class MicroKernel(Candidate):
    """A is read by broadcast in either orientation, B by rows of N; a transposed B is stored that way in the first
    place."""

    op = Gemm
    name = "micro_kernel"

    def legal(self, op: Gemm, facts: Facts) -> Ok | Declined:
        return supported(op) or Ok(clocks(op, facts))

    def constraints(self, op: Gemm, facts: Facts) -> Iterable[Constraint]:
        yield by_rows(op.a.buffer, facts)
        yield by_rows(op.c.buffer, facts)
        if op.transpose_b:
            yield Constraint(op.b.buffer, transposed(op.b.buffer))
        else:
            yield by_rows(op.b.buffer, facts)

    def lower(self, op: Gemm, context: LowerContext) -> Stmt:
        return call_gemm(op, context, op.a, op.transpose_a, transpose_b=False)


class PackingMicroKernel(Candidate):
    """The same with a B that stays [N, K]: the call transposes it into scratch first."""

    op = Gemm
    name = "packing_micro_kernel"

    def legal(self, op: Gemm, facts: Facts) -> Ok | Declined:
        if not op.transpose_b:
            return Declined("B is [K, N], which needs no packing")
        return supported(op) or Ok(clocks(op, facts) + op.n * op.k)

    def constraints(self, op: Gemm, facts: Facts) -> Iterable[Constraint]:
        return [by_rows(region.buffer, facts) for region in (op.a, op.b, op.c)]

    def lower(self, op: Gemm, context: LowerContext) -> Stmt:
        return call_gemm(op, context, op.a, op.transpose_a, transpose_b=True)


def call_gemm(op: MatrixProduct, context: LowerContext, a: BufferRegion, transpose_a: bool, transpose_b: bool) -> Stmt:
    """The call, with `a` for the op's A; `transpose_b` says how B is stored."""
    return intrinsics.gemm(
        dict(op.annotations).get("prefetch", ()),
        _corner(a, "r"),
        _corner(op.b, "r"),
        _corner(op.c, "w" if op.clear_accum else "rw"),
        op.span,
        trans_a=int(transpose_a),
        trans_b=int(transpose_b),
        m=op.m,
        n=op.n,
        k=op.k,
        lda=pitch_of(context.layouts[a.buffer]),
        ldb=pitch_of(context.layouts[op.b.buffer]),
        ldc=pitch_of(context.layouts[op.c.buffer]),
        clear=int(op.clear_accum),
    )


def _corner(region: BufferRegion, mode: str) -> AccessPtr:
    count = 1
    for extent in region.static_extents() or ():
        count *= extent
    return AccessPtr(region.buffer, region.mins, const(count, "int32"), mode, span=region.span)


def supported(op: MatrixProduct) -> Declined | None:
    """Why the header cannot do it, or None."""
    for region, allowed in ((op.a, _INPUTS), (op.b, _INPUTS), (op.c, _RESULTS)):
        buffer = region.buffer
        if region.dtype.name not in allowed:
            return Declined(f"{buffer.name} is {region.dtype}; the micro-kernel takes {', '.join(allowed)}")
        if buffer.data is not None:
            return Declined(f"{buffer.name} is a view, whose rows the micro-kernel cannot lay out")
        if buffer.memory.level != "block" or buffer.static_shape() is None:
            return Declined(f"{buffer.name} is not a tile of the block with constant extents")
        if region.tile_axes()[-2:] != (buffer.ndim - 2, buffer.ndim - 1):
            return Declined(f"the matrix in {buffer.name} is not made of its last two axes")
    return None


def by_rows(buffer: Buffer, facts: Facts) -> Constraint:
    """Any layout by rows will do; one that is there already is kept."""
    held = facts.layouts.get(buffer)
    return Constraint(buffer, held if held is not None and stored_rows(held, buffer) else rows(buffer))


def clocks(op: MatrixProduct, facts: Facts) -> float:
    """Clocks of the micro-kernel."""
    lanes = int(facts.target.get("vector_bits", 128)) // max(op.c.dtype.bits, 32)
    return op.m * op.n * op.k / (2 * lanes)
