"""Gemm: the product of two tiles added to a third, and what it has in common with other products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import declare_codes
from ..ir import BufferRegion, IntImm, attr, node, operand
from .base import TileOp, register_tile_op
from .checks import describe, fail, require_choice, require_static
from .numerics import accumulator_type

__all__ = ["GEMM_DTYPES", "GEMM_POLICIES", "Gemm", "MatrixProduct"]

declare_codes(
    {
        "E-GEMM-SHAPE": "gemm operands whose dimensions do not fit each other",
        "E-GEMM-DTYPE": "gemm operands whose element types do not go together",
        "E-GEMM-SCOPE": "a gemm operand that is not a tile on chip",
    }
)

GEMM_POLICIES = ("Square", "FullRow", "FullCol")

_FP8 = ("float8_e4m3", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")

# (types of A, types of B, types of C). The accumulator's type is C's: a product is exact, sums are kept in it (float16
# ones in float32, rounded once).
DtypeRows = tuple[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...]
GEMM_DTYPES: DtypeRows = (
    (("float16",), ("float16",), ("float32", "float16")),
    (("bfloat16",), ("bfloat16",), ("float32",)),
    (("float32",), ("float32",), ("float32",)),
    (("tfloat32",), ("tfloat32",), ("float32",)),
    (("float64",), ("float64",), ("float64",)),
    (_FP8, _FP8, ("float32", "float16")),
    (("int8", "uint8"), ("int8", "uint8"), ("int32",)),
    (("int4", "uint4"), ("int4", "uint4"), ("int32",)),
    (("int16",), ("int16",), ("int32",)),
    (("int32",), ("int32",), ("int32",)),
)


class MatrixProduct(TileOp):
    """What products of two tiles share: their sizes and their checks.

    `dtypes` are the element types that go together; A holds one of `share` elements of K.
    """

    __slots__ = ()
    dtypes: ClassVar[DtypeRows] = GEMM_DTYPES
    share: ClassVar[int] = 1
    if TYPE_CHECKING:
        a: BufferRegion
        b: BufferRegion
        c: BufferRegion
        transpose_a: bool
        transpose_b: bool
        policy: str
        clear_accum: bool

    @property
    def m(self) -> int:
        """Rows of the product."""
        return matrix_shape(self.a)[1 if self.transpose_a else 0]

    @property
    def n(self) -> int:
        """Columns of the product."""
        return matrix_shape(self.b)[0 if self.transpose_b else 1]

    @property
    def k(self) -> int:
        """Length of the sums, as if A held all its elements."""
        return self.share * matrix_shape(self.a)[0 if self.transpose_a else 1]

    def matrices(self) -> Sequence[tuple[str, BufferRegion]]:
        """The operands by the names that messages give them."""
        return ("A", self.a), ("B", self.b), ("C", self.c)

    def check(self) -> None:
        """Raises CompileError: E-GEMM-SHAPE, E-GEMM-DTYPE, E-GEMM-SCOPE, symbolic extents, an unknown policy."""
        require_choice(self, "policy", self.policy, GEMM_POLICIES)
        self._check_scopes()
        require_static(self, self.matrices())
        self._check_rank()
        self._check_inner()
        self._check_outer()
        self._check_dtypes()

    def _check_scopes(self) -> None:
        for label, region in self.matrices():
            if not region.buffer.is_on_chip:
                allocate = "T.alloc_fragment" if label == "C" else "T.alloc_shared"
                move = "from it when done" if label == "C" else "into it first"
                raise fail(
                    self,
                    "E-GEMM-SCOPE",
                    f"{region.buffer.name} is in {region.buffer.scope} memory; {self.name} works on tiles on chip",
                    facts=[f"{label} = {describe(region)}"],
                    help=f"allocate a tile with {allocate} and T.copy {move}",
                )

    def _check_rank(self) -> None:
        for label, region in self.matrices():
            extents = region.tile_extents()
            if len(extents) < 2 or any(e.value != 1 for e in extents[:-2]):  # type: ignore[attr-defined]
                raise fail(
                    self,
                    "E-GEMM-SHAPE",
                    f"{region.buffer.name} is not a matrix",
                    facts=[f"{label} = {describe(region)}"],
                    help=f"pass a two-dimensional slice of {region.buffer.name}",
                )

    def _check_inner(self) -> None:
        (a_rows, a_columns), (b_rows, b_columns) = matrix_shape(self.a), matrix_shape(self.b)
        a_axis, b_axis = (0 if self.transpose_a else 1), (1 if self.transpose_b else 0)
        share, held = self.share, (a_rows, a_columns)[a_axis]
        k_a, k_b = share * held, (b_rows, b_columns)[b_axis]
        if k_a == k_b:
            return
        if k_a == (b_rows, b_columns)[1 - b_axis]:
            help_text = _transpose_help("B", self.b.buffer.name, self.transpose_b, "[N, K]", "[K, N]")
        elif k_b == share * (a_rows, a_columns)[1 - a_axis]:
            stored = ("[K, M]", "[M, K]") if share == 1 else (f"[K/{share}, M]", f"[M, K/{share}]")
            help_text = _transpose_help("A", self.a.buffer.name, self.transpose_a, *stored)
        else:
            help_text = "give A and B tiles of one K"
        raise fail(
            self,
            "E-GEMM-SHAPE",
            "the inner dimensions differ",
            facts=_aligned(
                (f"A = {describe(self.a)}", f"K is {f'{share} times ' * (share > 1)}its dimension {a_axis}: {k_a}"),
                (f"B = {describe(self.b)}", f"K is its dimension {b_axis}: {k_b}"),
            ),
            help=help_text,
        )

    def _check_outer(self) -> None:
        rows, columns = matrix_shape(self.c)
        if (rows, columns) == (self.m, self.n):
            return
        name = self.c.buffer.name
        raise fail(
            self,
            "E-GEMM-SHAPE",
            f"the product is [{self.m}, {self.n}], but C is [{rows}, {columns}]",
            facts=_aligned(
                (f"A = {describe(self.a)}", f"M is its dimension {1 if self.transpose_a else 0}: {self.m}"),
                (f"B = {describe(self.b)}", f"N is its dimension {0 if self.transpose_b else 1}: {self.n}"),
                (f"C = {describe(self.c)}", "[M, N]"),
            ),
            help=f"swap A and B and transpose both, or allocate {name} with shape ({self.m}, {self.n})"
            if (columns, rows) == (self.m, self.n)
            else f"allocate {name} with shape ({self.m}, {self.n})",
        )

    def _check_dtypes(self) -> None:
        a, b, c = self.a.dtype.name, self.b.dtype.name, self.c.dtype.name
        facts = [f"A = {describe(self.a)}", f"B = {describe(self.b)}", f"C = {describe(self.c)}"]
        rows = [row for row in self.dtypes if a in row[0] and b in row[1]]
        if not rows:
            partners = sorted({name for row in self.dtypes if a in row[0] for name in row[1]})
            raise fail(
                self,
                "E-GEMM-DTYPE",
                f"A of {a} and B of {b} are not multiplied",
                facts=[*facts, f"with A of {a}, B may be {' or '.join(partners)}" if partners else f"A is never {a}"],
                help="give both operands one type; T.copy into a tile of another type converts",
            )
        allowed = [name for row in rows for name in row[2]]
        if c not in allowed:
            raise fail(
                self,
                "E-GEMM-DTYPE",
                f"products of {a} and {b} do not accumulate in {c}",
                facts=[*facts, f"C may be {' or '.join(allowed)}"],
                help=f"allocate {self.c.buffer.name} as {allowed[0]} and convert the result with T.copy",
            )

    def product(self, a: Any, b: Any, c: Any) -> Any:
        """The product (and sum) of arrays as if exact, rounded once to the accumulator's type; a is [M, K]."""
        import numpy

        accumulator = accumulator_type(self.c.dtype)
        wide = numpy.float64 if self.c.dtype.is_float else accumulator
        b = b.reshape(matrix_shape(self.b)).astype(wide)
        product = a.astype(wide) @ (b.T if self.transpose_b else b)
        if not self.clear_accum:
            product = product + c.reshape(product.shape).astype(wide)
        return product.astype(accumulator).reshape(c.shape)


@register_tile_op
@node
class Gemm(MatrixProduct):
    """``c += op(a) · op(b)``, with ``op`` a transposition where asked; with `clear_accum`, ``c = op(a) · op(b)``.

    a is [M, K] ([K, M] when `transpose_a`), b is [K, N] ([N, K] when `transpose_b`), c is [M, N]; axes before the last
    two have extent 1. All extents are constants and all three tiles live on chip. `policy` says how warps share the
    tile: Square, FullRow (along M) or FullCol (along N).
    """

    name: ClassVar[str] = "gemm"
    a: BufferRegion = operand("in")
    b: BufferRegion = operand("in")
    c: BufferRegion = operand("inout")
    transpose_a: bool = attr(default=False)
    transpose_b: bool = attr(default=False)
    policy: str = attr(default="Square")
    clear_accum: bool = attr(default=False)
    annotations: tuple[tuple[str, Any], ...] = attr(default=())

    def operands(self) -> list[tuple[str, str, BufferRegion]]:
        """The operands; `c` is read only when it is not cleared first."""
        return [("a", "in", self.a), ("b", "in", self.b), ("c", "out" if self.clear_accum else "inout", self.c)]

    def reference(self, arrays: dict[str, Any], scalars: Any) -> dict[str, Any]:
        """See `MatrixProduct.product`."""
        a = arrays["a"].reshape(matrix_shape(self.a))
        return {"c": self.product(a.T if self.transpose_a else a, arrays["b"], arrays["c"])}


def matrix_shape(region: BufferRegion) -> tuple[int, int]:
    """Rows and columns of an operand whose extents are constants."""
    rows, columns = region.tile_extents()[-2:]
    if not isinstance(rows, IntImm) or not isinstance(columns, IntImm):
        raise TypeError(f"{region.buffer.name} has symbolic extents; call check() first")
    return rows.value, columns.value


def _transpose_help(label: str, name: str, transposed: bool, stored: str, plain: str) -> str:
    if transposed:
        return f"{name} is stored as {plain}; leave out transpose_{label}"
    return f"{name} is stored as {stored}; pass transpose_{label}=True"


def _aligned(*pairs: tuple[str, str]) -> list[str]:
    width = max(len(left) for left, _ in pairs)
    return [f"{left:<{width}}   {right}" for left, right in pairs]
