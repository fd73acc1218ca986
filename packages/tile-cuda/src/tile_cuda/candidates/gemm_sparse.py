"""Gemm of a sparse A with the sparse matrix instructions of a warp (mma.sp)."""

from __future__ import annotations

from tile_core.dtypes import DType
from tile_core.ir import AccessPtr, Buffer, BufferLoad, BufferStore, Expr, Stmt, Var, binary, cast, const, seq
from tile_core.tileop import Declined, Facts, LowerContext, MatrixProduct, Ok, SparseGemm

from ..device import intrinsics
from .gemm import Emitter, MatrixInstructions, loop, pointer

__all__ = ["SparseMatrixInstructions"]

INT32, UINT32 = DType("int32"), DType("uint32")


class SparseMatrixInstructions(MatrixInstructions):
    """As with a whole A; the places of what A keeps come from shared memory element by element."""

    op = SparseGemm
    name = "mma_sp"
    instruction = "mma.sp"

    def legal(self, op: MatrixProduct, facts: Facts) -> Ok | Declined:
        assert isinstance(op, SparseGemm)
        if op.e.buffer.scope != "shared":
            return Declined(f"{op.e.buffer.name} is in {op.e.buffer.scope} memory; all lanes read their places in it")
        return super().legal(op, facts)

    def lower(self, op: MatrixProduct, context: LowerContext) -> Stmt:
        assert isinstance(op, SparseGemm)
        return _SparseEmitter(op, context).emit()


class _SparseEmitter(Emitter):
    """Loads a register of places for each atom of A too."""

    def __init__(self, op: SparseGemm, context: LowerContext) -> None:
        super().__init__(op, context)
        self.e = op.e
        self.turned = op.transpose_e
        self.places = context.allocate(f"{op.e.buffer.name}_registers", (self.rows,), UINT32)

    def every_step(self, c: Buffer) -> Stmt:
        """All steps of K; two share a register of places where an instruction takes those of two lanes in four."""
        if self.atom.k == 64:
            step = Var("k_step")
            return self.over_steps(step, self.steps, seq(self._load_places(step), self._whole_step(c, step, 0)))
        pair = Var("k_pair")
        first = binary("mul", pair, 2)
        both = seq(
            self._load_places(first, second=1),
            self._whole_step(c, first, 0),
            self._whole_step(c, binary("add", first, 1), 1),
        )
        parts = [self.over_steps(pair, self.steps // 2, both)] if self.steps > 1 else []
        if self.steps % 2:
            last = const(self.steps - 1, INT32)
            parts += [self._load_places(last), self._whole_step(c, last, 0)]
        return seq(*parts)

    def _whole_step(self, c: Buffer, step: Expr, turn: int) -> Stmt:
        return seq(*self.loads(step), self.multiply(c, step, turn))

    def _load_places(self, step: Expr, second: int = 0) -> Stmt:
        """The places for a step, in the lanes that PTX says (ISA, "Matrix fragments for mma.sp").

        A row of an atom has 32 bits of them. In a group of four lanes the first has the lower half for its row and for
        that 8 further down, the second the upper halves; the other two have the same of the step `second` further on,
        for selector 1. Where k is 64 a row has 64 bits: lanes 0 and 1 have the lower half for the two rows, lanes 2 and
        3 the upper.
        """
        i = Var("load_m")
        place = binary("floormod", self.lane, 4)
        low, high = binary("floormod", place, 2), binary("floordiv", place, 2)
        row = binary("add", self.row, binary("mul", i, self.atom.m))
        row = binary("add", row, binary("floordiv", self.lane, 4))
        if self.atom.k == 64:
            word = self._bits(binary("add", row, binary("mul", low, 8)), step, high, 32)
        else:
            step = binary("add", step, binary("mul", high, second)) if second else step
            upper = self._bits(binary("add", row, 8), step, low, 16)
            word = binary("bitor", self._bits(row, step, low, 16), binary("shl", upper, 16))
        here = BufferLoad(self.places, (i,))
        store = BufferStore(self.places, word, (i,), span=self.op.span)
        whole = BufferStore(self.places, _defined(here), (i,), span=self.op.span)
        return loop(i, self.rows, seq(store, whole), "unroll")

    def instruction(self, c: AccessPtr, a: AccessPtr, b: AccessPtr, row: Expr, turn: int) -> Stmt:
        """One instruction on its registers, with the places of the lanes that hold those of the step."""
        op, e = self.op, pointer(self.places, row, 1, "r")
        types = (op.a.dtype, op.b.dtype, c.buffer.dtype)
        return intrinsics.mma_sp(c, a, b, e, self.atom.shape, *types, turn, span=op.span)

    def _bits(self, row: Expr, step: Expr, part: Expr, count: int) -> Expr:
        """Part number `part`, of `count` bits, of those that E has for a step of a row."""
        bits = self.e.dtype.bits
        first = binary("mul", step, 2 * count // bits)
        if bits > count:
            half = binary("shr", self._word(row, first), cast(binary("mul", part, count), UINT32))
            return binary("bitand", half, const((1 << count) - 1, UINT32))
        first = binary("add", first, binary("mul", part, count // bits))
        found = self._word(row, first)
        for turn in range(1, count // bits):
            more = self._word(row, binary("add", first, turn))
            found = binary("bitor", found, binary("shl", more, const(turn * bits, UINT32)))
        return found

    def _word(self, row: Expr, column: Expr) -> Expr:
        """An element of E without its sign."""
        front = [const(0, INT32)] * (len(self.e.tile_extents()) - 2)
        index = (column, row) if self.turned else (row, column)
        return cast(cast(self.e.load((*front, *index)), DType(f"uint{self.e.dtype.bits}")), UINT32)


def _defined(word: Expr) -> Expr:
    """Places with 0b0100 for 0b0000.

    That is what a copy leaves behind the end of a tensor, where A is 0 and the place makes no difference; but mma.sp
    with it is undefined.
    """
    ones = const(0x11111111, UINT32)
    pairs = binary("bitor", word, binary("shr", word, const(1, UINT32)))
    some = binary("bitand", binary("bitor", pairs, binary("shr", pairs, const(2, UINT32))), ones)
    return binary("bitor", word, binary("shl", binary("bitxor", some, ones), const(2, UINT32)))
