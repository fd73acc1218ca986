"""Gemm of a sparse A on the CPU: A expanded beside its tile, then the micro-kernel for whole tiles."""

from __future__ import annotations

from collections.abc import Iterable

from tile_core.dtypes import DType
from tile_core.ir import Buffer, BufferStore, Expr, For, Stmt, Var, binary, const, full_region, seq
from tile_core.tileop import Candidate, Constraint, Declined, Facts, LowerContext, Ok, SparseGemm
from tile_core.tileop.gemm_sparse import BITS_A_GROUP

from ..layouts import padded_pitch, rows
from .gemm import by_rows, call_gemm, clocks, supported

__all__ = ["ExpandingMicroKernel"]

INT32 = DType("int32")


class ExpandingMicroKernel(Candidate):
    """A is written out with its zeros, a store an element and one more for each that is kept; a transposed B stays as
    it is, and the call packs it."""

    op = SparseGemm
    name = "expanding_micro_kernel"

    def legal(self, op: SparseGemm, facts: Facts) -> Ok | Declined:
        return supported(op) or Ok(clocks(op, facts) + 2 * op.m * op.k)

    def constraints(self, op: SparseGemm, facts: Facts) -> Iterable[Constraint]:
        return [by_rows(region.buffer, facts) for region in (op.b, op.c)]

    def lower(self, op: SparseGemm, context: LowerContext) -> Stmt:
        # Scratch keeps its plain layout, so that its rows are as long as those of a padded tile.
        pitch = padded_pitch(op.k, op.m, op.a.dtype.bytes)
        whole = context.allocate(f"{op.a.buffer.name}_whole", (op.m, pitch), op.a.dtype)
        context.layouts[whole] = rows(whole)
        a = full_region(whole, op.span)
        return seq(_expanded(op, whole), call_gemm(op, context, a, transpose_a=False, transpose_b=op.transpose_b))


def _expanded(op: SparseGemm, whole: Buffer) -> Stmt:
    """Stores of A, with zeros between what it keeps."""
    row, column = Var("row"), Var("column")
    clear = BufferStore(whole, const(0, whole.dtype), (row, column), span=op.span)
    # What one element of E places is written out, so that it is loaded once and shifts are constants.
    word, turn = Var("word"), Var("turn")
    held = op.e.dtype.bits // BITS_A_GROUP * op.group // 2
    step = binary("add", binary("mul", word, held), turn)
    front = [const(0, INT32)] * (len(op.a.tile_extents()) - 2)
    value = op.a.load((*front, *((step, row) if op.transpose_a else (row, step))))
    keep = BufferStore(whole, value, (row, op.depth(op.e, row, step)), span=op.span)
    return _loop(
        row,
        op.m,
        seq(
            _loop(column, op.k, clear, "serial"),
            _loop(word, op.k // op.covered, _loop(turn, held, keep, "unroll"), "serial"),
        ),
        "serial",
    )


def _loop(var: Var, count: int, body: Stmt, kind: str) -> Stmt:
    zero: Expr = const(0, INT32)
    return For(var, zero, const(count, INT32), kind, body, span=body.span)
