"""SparseGemm: the product of a tile of which two in four elements are kept, and a whole one.

Which elements of A are kept is in E, four bits for each group of neighbours along K, the first group in the lowest bits
of E's first element:

    16 and 8 bits an element    groups of 4, of which 2 are kept: bits 0 and 1 are the place (0 to 3) of the first kept
                                element, bits 2 and 3 that of the second, which is greater
    32 bits an element          groups of 2, of which 1 is kept: 0b0100 for the first, 0b1110 for the second

These are the bits that mma.sp takes (PTX ISA, "Sparse matrix storage"). Other bits have no defined result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..dtypes import DType
from ..ir import BufferRegion, Expr, attr, binary, cast, const, node, operand
from .base import register_tile_op
from .checks import describe, fail
from .gemm import GEMM_DTYPES, DtypeRows, MatrixProduct, matrix_shape

__all__ = ["PLACE_DTYPES", "SparseGemm", "elements_a_group"]

PLACE_DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
"""Element types of E."""

BITS_A_GROUP = 4
INT32 = DType("int32")

_SPARSE = frozenset(("float16", "bfloat16", "float32", "tfloat32", "int8", "uint8"))


def elements_a_group(dtype: DType) -> int:
    """Neighbours along K that share four bits of E, half of them kept."""
    return 2 if dtype.bits == 32 else 4


@register_tile_op
@node
class SparseGemm(MatrixProduct):
    """``c += op(a) · op(b)`` for a sparse a, of which `a` holds what is kept and `e` where it lies; see the module.

    a is [M, K/2] ([K/2, M] when `transpose_a`), e is [M, K/F] ([K/F, M] when `transpose_e`) with F elements of K an
    element of e, b is [K, N] ([N, K] when `transpose_b`), c is [M, N]. The rest is as for `Gemm`.
    """

    name: ClassVar[str] = "gemm_sp"
    dtypes: ClassVar[DtypeRows] = tuple(
        row for row in GEMM_DTYPES if any(name in _SPARSE or name.startswith("float8") for name in row[0])
    )
    share: ClassVar[int] = 2
    a: BufferRegion = operand("in")
    e: BufferRegion = operand("in")
    b: BufferRegion = operand("in")
    c: BufferRegion = operand("inout")
    transpose_a: bool = attr(default=False)
    transpose_e: bool = attr(default=False)
    transpose_b: bool = attr(default=False)
    policy: str = attr(default="Square")
    clear_accum: bool = attr(default=False)
    annotations: tuple[tuple[str, Any], ...] = attr(default=())

    @property
    def group(self) -> int:
        """Neighbours along K that share four bits of E."""
        return elements_a_group(self.a.dtype)

    @property
    def covered(self) -> int:
        """Elements of K whose places one element of E holds."""
        return self.e.dtype.bits // BITS_A_GROUP * self.group

    def matrices(self) -> Sequence[tuple[str, BufferRegion]]:
        """The operands by the names that messages give them."""
        return ("A", self.a), ("E", self.e), ("B", self.b), ("C", self.c)

    def operands(self) -> list[tuple[str, str, BufferRegion]]:
        """The operands; `c` is read only when it is not cleared first."""
        c = ("c", "out" if self.clear_accum else "inout", self.c)
        return [("a", "in", self.a), ("e", "in", self.e), ("b", "in", self.b), c]

    def check(self) -> None:
        """Raises CompileError: what `Gemm` raises, and E-GEMM-DTYPE and E-GEMM-SHAPE for E."""
        MatrixProduct.check(self)
        facts = [f"A = {describe(self.a)}", f"E = {describe(self.e)}"]
        name = self.e.buffer.name
        if self.e.dtype.name not in PLACE_DTYPES:
            raise fail(
                self,
                "E-GEMM-DTYPE",
                f"{name}, which says where A's elements lie, is {self.e.dtype}",
                facts=[*facts, f"E may be {' or '.join(PLACE_DTYPES)}"],
                help="make E with tile_runtime.sparse.compress, as int16 where nothing else is asked",
            )
        if self.k % self.covered:
            raise fail(
                self,
                "E-GEMM-SHAPE",
                f"an element of {name} covers {self.covered} elements of K, which {self.k} is no multiple of",
                facts=facts,
                help=f"take a K that is a multiple of {self.covered}, or an E of a narrower type",
            )
        wanted, found = (self.m, self.k // self.covered), matrix_shape(self.e)
        wanted = wanted[::-1] if self.transpose_e else wanted
        if found == wanted:
            return
        if found == wanted[::-1]:
            help_text = "leave out transpose_E" if self.transpose_e else "pass transpose_E=True"
        else:
            help_text = f"allocate {name} with shape {wanted}"
        raise fail(
            self,
            "E-GEMM-SHAPE",
            f"E is {list(found)}, but the places of A's elements are {list(wanted)}",
            facts=[*facts, f"K is {self.k}, and {self.e.dtype} holds the places of {self.covered} elements of it"],
            help=help_text,
        )

    def depth(self, e: BufferRegion, row: Expr, step: Expr) -> Expr:
        """K of the kept element number `step` of a row; `e` holds what this op's E holds, wherever it lies."""
        kept = self.group // 2
        group, turn = _div(step, kept), _mod(step, kept)
        per = self.e.dtype.bits // BITS_A_GROUP
        index = (_div(group, per), row) if self.transpose_e else (row, _div(group, per))
        front = [const(0, INT32)] * (len(e.tile_extents()) - 2)
        word = cast(e.load((*front, *index)), INT32)
        # Of a pair, bit 1 says which is kept.
        first: Expr = const(1, INT32) if kept == 1 else binary("mul", turn, 2)
        shift = binary("add", binary("mul", _mod(group, per), BITS_A_GROUP), first)
        place = binary("bitand", binary("shr", word, shift), self.group - 1)
        return binary("add", binary("mul", group, self.group), place)

    def reference(self, arrays: dict[str, Any], scalars: Any) -> dict[str, Any]:
        """The product with A expanded."""
        import numpy

        a, e = arrays["a"].reshape(matrix_shape(self.a)), arrays["e"].reshape(matrix_shape(self.e))
        a, e = (a.T if self.transpose_a else a), (e.T if self.transpose_e else e)
        words = e.astype(numpy.int64)[..., None] >> numpy.arange(0, self.e.dtype.bits, BITS_A_GROUP)
        places = words.reshape(self.m, -1)
        whole = numpy.zeros((self.m, self.k // self.group, self.group), a.dtype)
        kept = self.group // 2
        for turn in range(kept):
            place = places >> 1 & 1 if kept == 1 else places >> 2 * turn & 3
            numpy.put_along_axis(whole, place[..., None], a[:, turn::kept, None], axis=2)
        return {"c": self.product(whole.reshape(self.m, self.k), arrays["b"], arrays["c"])}


def _div(value: Expr, count: int) -> Expr:
    return value if count == 1 else binary("floordiv", value, count)


def _mod(value: Expr, count: int) -> Expr:
    return const(0, INT32) if count == 1 else binary("floormod", value, count)
