"""Default candidates: every core op as parallel loops, always legal, on any backend.

They are the last resort of `SelectInstructions` and what the interpreter's results are compared with. A third party
gives its own op one with `register_default_candidate`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..dtypes import DType
from ..ir import (
    AccessPtr,
    Binary,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    Evaluate,
    Expr,
    For,
    IntImm,
    Select,
    Stmt,
    StringImm,
    Var,
    binary,
    cast,
    const,
    is_one,
    seq,
)
from .atomic import AtomicUpdate
from .candidate import Candidate, Declined, Facts, LowerContext, Ok
from .copy import Copy
from .fill import Fill
from .gemm import Gemm, MatrixProduct
from .gemm_sparse import SparseGemm
from .numerics import identity_value
from .reduce import Reduce
from .scan import Scan

__all__ = [
    "AtomicLoops",
    "CopyLoops",
    "FillLoops",
    "GemmLoops",
    "ReduceLoops",
    "ScanLoops",
    "SparseGemmLoops",
    "accumulator_dtype",
    "combined",
    "default_candidates",
    "parallel_nest",
    "product_term",
    "register_default_candidate",
    "store_to",
]

INT32, FLOAT32, VOID, BOOL = DType("int32"), DType("float32"), DType("void"), DType("bool")


class CopyLoops(Candidate):
    """One element an iteration, converted on the way."""

    op = Copy
    name = "loops"

    def legal(self, op: Copy, facts: Facts) -> Ok | Declined:
        return Ok(max(_count(op.src), _count(op.dst)))

    def lower(self, op: Copy, context: LowerContext) -> Stmt:
        extents = _loop_extents(op.dst, op.src)

        def body(indices: Sequence[Expr]) -> Stmt:
            value = cast(op.src.load(_spread(op.src, indices)), op.dst.dtype)
            return store_to(op.dst, _spread(op.dst, indices), value, op)

        return parallel_nest(extents, body, op.annotations)


class FillLoops(Candidate):
    """One element an iteration."""

    op = Fill
    name = "loops"

    def legal(self, op: Fill, facts: Facts) -> Ok | Declined:
        return Ok(_count(op.dst))

    def lower(self, op: Fill, context: LowerContext) -> Stmt:
        value = cast(op.value, op.dst.dtype)
        return parallel_nest(
            _loop_extents(op.dst), lambda indices: store_to(op.dst, _spread(op.dst, indices), value, op)
        )


class GemmLoops(Candidate):
    """Three loops; sums are kept in the accumulator's type, a row of C at a time."""

    op = Gemm
    name = "loops"

    def legal(self, op: MatrixProduct, facts: Facts) -> Ok | Declined:
        return Ok(op.m * op.n * op.k)

    def lower(self, op: MatrixProduct, context: LowerContext) -> Stmt:
        wide = accumulator_dtype(op.c.dtype)
        row, step = Var("row"), Var("step")
        own = op.c.dtype is not wide
        sums = context.allocate(f"{op.c.buffer.name}_row", (op.n,), wide) if own else None

        def sum_at(column: Expr) -> tuple[Callable[[], Expr], Callable[[Expr], Stmt]]:
            if sums is not None:
                row_sums = sums
                return lambda: BufferLoad(row_sums, (column,)), lambda value: BufferStore(row_sums, value, (column,))
            index = _matrix_index(op.c, row, column)
            return lambda: op.c.load(index), lambda value: store_to(op.c, index, value, op)

        def start(indices: Sequence[Expr]) -> Stmt:
            held = const(0, wide) if op.clear_accum else cast(op.c.load(_matrix_index(op.c, row, indices[0])), wide)
            return sum_at(indices[0])[1](held)

        def add(indices: Sequence[Expr]) -> Stmt:
            load, store = sum_at(indices[0])
            return store(binary("add", load(), product_term(op, step, row, indices[0], wide)))

        def finish(indices: Sequence[Expr]) -> Stmt:
            value = cast(sum_at(indices[0])[0](), op.c.dtype)
            return store_to(op.c, _matrix_index(op.c, row, indices[0]), value, op)

        columns = (const(op.n, INT32),)
        body = seq(
            parallel_nest(columns, start) if own or op.clear_accum else None,
            _serial(step, op.k // op.share, parallel_nest(columns, add)),
            parallel_nest(columns, finish) if own else None,
        )
        return _serial(row, op.m, body)


class SparseGemmLoops(GemmLoops):
    """The same over what A keeps."""

    op = SparseGemm


class ReduceLoops(Candidate):
    """A serial loop over the axis, parallel ones over the rest."""

    op = Reduce
    name = "loops"

    def legal(self, op: Reduce, facts: Facts) -> Ok | Declined:
        return Ok(_count(op.src))

    def lower(self, op: Reduce, context: LowerContext) -> Stmt:
        wide = accumulator_dtype(op.dst.dtype)
        source = op.src.tile_extents()
        rest = source[: op.axis] + source[op.axis + 1 :]
        own = op.dst.dtype is not wide or not op.clear
        held = context.allocate(f"{op.dst.buffer.name}_wide", _sizes(rest) or (1,), wide) if own else None

        def target(indices: Sequence[Expr]) -> tuple[Expr, Callable[[Expr], Stmt]]:
            if held is not None:
                kept, at = held, tuple(indices) or (const(0, INT32),)
                return BufferLoad(kept, at), lambda value: BufferStore(kept, value, at)
            at = _spread(op.dst, _without_units(indices, rest))
            return op.dst.load(at), lambda value: store_to(op.dst, at, value, op)

        def start(indices: Sequence[Expr]) -> Stmt:
            return target(indices)[1](const(identity_value(op.kind, wide), wide))

        step = Var("step")

        def add(indices: Sequence[Expr]) -> Stmt:
            load, store = target(indices)
            at = (*indices[: op.axis], step, *indices[op.axis :])
            return store(combined(op.kind, load, cast(op.src.load(at), wide), op.nan_propagate))

        def finish(indices: Sequence[Expr]) -> Stmt:
            at = _spread(op.dst, _without_units(indices, rest))
            value = target(indices)[0]
            if not op.clear:
                kind = {"abssum": "sum", "absmax": "max"}.get(op.kind, op.kind)
                value = combined(kind, value, cast(op.dst.load(at), wide), op.nan_propagate)
            return store_to(op.dst, at, cast(value, op.dst.dtype), op)

        count = source[op.axis]
        if op.axis == len(source) - 1:
            sums = parallel_nest(rest, lambda indices: _serial(step, count, add(indices)))
        else:
            sums = _serial(step, count, parallel_nest(rest, add))
        return seq(parallel_nest(rest, start), sums, parallel_nest(rest, finish) if own else None)


class ScanLoops(Candidate):
    """A serial loop along the axis with a running value for each of the rest."""

    op = Scan
    name = "loops"

    def legal(self, op: Scan, facts: Facts) -> Ok | Declined:
        return Ok(_count(op.src))

    def lower(self, op: Scan, context: LowerContext) -> Stmt:
        wide = accumulator_dtype(op.dst.dtype)
        source = op.src.tile_extents()
        rest = source[: op.axis] + source[op.axis + 1 :]
        running = context.allocate(f"{op.dst.buffer.name}_running", _sizes(rest) or (1,), wide)
        step = Var("step")
        count = source[op.axis]
        along: Expr = binary("sub", binary("sub", count, 1), step) if op.reverse else step

        def start(indices: Sequence[Expr]) -> Stmt:
            at = tuple(indices) or (const(0, INT32),)
            return BufferStore(running, const(identity_value(op.kind, wide), wide), at)

        def advance(indices: Sequence[Expr]) -> Stmt:
            at = tuple(indices) or (const(0, INT32),)
            where = (*indices[: op.axis], along, *indices[op.axis :])
            value = combined(op.kind, BufferLoad(running, at), cast(op.src.load(where), wide), False)
            target = _spread(op.dst, _without_units(where, source))
            result = cast(BufferLoad(running, at), op.dst.dtype)
            return seq(BufferStore(running, value, at), store_to(op.dst, target, result, op))

        return seq(parallel_nest(rest, start), _serial(step, count, parallel_nest(rest, advance)))


class AtomicLoops(Candidate):
    """One indivisible update an iteration."""

    op = AtomicUpdate
    name = "loops"

    def legal(self, op: AtomicUpdate, facts: Facts) -> Ok | Declined:
        return Ok(_count(op.dst))

    def lower(self, op: AtomicUpdate, context: LowerContext) -> Stmt:
        region = op.value if isinstance(op.value, BufferRegion) else None
        extents = _loop_extents(op.dst, region) if region is not None else _loop_extents(op.dst)

        def body(indices: Sequence[Expr]) -> Stmt:
            given = op.value if region is None else region.load(_spread(region, indices))
            where = AccessPtr(
                op.dst.buffer, op.dst.indices(_spread(op.dst, indices)), const(1, INT32), "rw", span=op.span
            )
            arguments = (where, cast(given, op.dst.dtype), StringImm(op.memory_order))
            return Evaluate(Call(f"atomic_{op.kind}", arguments, VOID, span=op.span), span=op.span)

        return parallel_nest(extents, body)


_defaults: list[Candidate] = [CopyLoops(), FillLoops(), GemmLoops(), SparseGemmLoops(), ReduceLoops()]
_defaults += [ScanLoops(), AtomicLoops()]


def register_default_candidate(candidate: Candidate) -> Candidate:
    """Adds the last resort for an op class; it must always be legal. One an op class."""
    for known in _defaults:
        if known.op is candidate.op:
            raise ValueError(f"tile op {candidate.op.name} has the default candidate {type(known).__name__} already")
    _defaults.append(candidate)
    return candidate


def default_candidates() -> tuple[Candidate, ...]:
    """The default candidates of all op classes."""
    return tuple(_defaults)


def accumulator_dtype(dtype: DType) -> DType:
    """The element type in which values are accumulated into a buffer of type `dtype` (see `tileop.numerics`)."""
    return FLOAT32 if dtype.is_float and dtype.bits < 32 else dtype


def product_term(
    op: MatrixProduct,
    step: Expr,
    row: Expr,
    column: Expr,
    dtype: DType,
    staged: Mapping[BufferRegion, BufferRegion] | None = None,
) -> Expr:
    """Term number `step` of an element's sum, in `dtype`: there are K of them, or as many as a sparse A keeps.

    `staged` are copies of operands to read in their place.
    """
    a, b = ((staged or {}).get(region, region) for region in (op.a, op.b))
    depth = op.depth((staged or {}).get(op.e, op.e), row, step) if isinstance(op, SparseGemm) else step
    left = a.load(_matrix_index(a, *((step, row) if op.transpose_a else (row, step))))
    right = b.load(_matrix_index(b, *((column, depth) if op.transpose_b else (depth, column))))
    return binary("mul", cast(left, dtype), cast(right, dtype))


def combined(kind: str, held: Expr, value: Expr, nan_propagate: bool) -> Expr:
    """`held` combined with one more `value` by a kind of reduction. max and min skip NaN unless told to keep it."""
    if kind in ("abssum", "absmax") and value.dtype.is_signed:
        value = Call("abs", (value,), value.dtype)
    kind = {"abssum": "sum", "absmax": "max"}.get(kind, kind)
    if value.dtype.is_bool:
        return Binary({"max": "or", "bitor": "or", "min": "and", "bitand": "and", "bitxor": "ne"}[kind], held, value)
    if kind == "sum":
        return binary("add", held, value)
    if kind in ("bitand", "bitor", "bitxor"):
        return binary(kind, held, value)
    if not value.dtype.is_float:
        return binary(kind, held, value)
    better: Expr = Binary("gt" if kind == "max" else "lt", value, held)
    if nan_propagate:
        better = binary("or", better, Call("isnan", (value,), BOOL))
    return Select(better, value, held)


def parallel_nest(
    extents: Sequence[Expr], body: Callable[[Sequence[Expr]], Stmt], annotations: tuple[tuple[str, Any], ...] = ()
) -> Stmt:
    """Nested parallel loops over `extents` (axes of extent 1 are indexed with 0); `annotations` go to the outermost."""
    names = "ijklmn" if len(extents) <= 6 else [f"i{n}" for n in range(len(extents))]
    indices: list[Expr] = []
    loops: list[tuple[Var, Expr]] = []
    for name, extent in zip(names, extents):
        if isinstance(extent, IntImm) and extent.value == 1:
            indices.append(const(0, INT32))
            continue
        var = Var(name, INT32)
        indices.append(var)
        loops.append((var, extent))
    stmt = body(indices)
    for position, (var, extent) in reversed(list(enumerate(loops))):
        kept = tuple(a for a in annotations if a[0] in _LOOP_ANNOTATIONS) if position == 0 else ()
        stmt = For(var, const(0, INT32), extent, "parallel", stmt, None, kept)
    return stmt


_LOOP_ANNOTATIONS = ("coalesced_width", "loop_layout", "prefer_async", "eviction_policy")


def store_to(region: BufferRegion, tile_indices: Sequence[Expr], value: Expr, op: Any) -> Stmt:
    """A store of one element of a region, at the op's line."""
    return BufferStore(region.buffer, value, region.indices(tuple(tile_indices)), span=op.span)


def _loop_extents(first: BufferRegion, second: BufferRegion | None = None) -> tuple[Expr, ...]:
    """The extents that loops run over: those of the tile that are not 1, constants where either region has one."""
    extents = _without_unit_extents(first)
    if second is None:
        return extents
    other = _without_unit_extents(second)
    return tuple(b if isinstance(b, IntImm) else a for a, b in zip(extents, other))


def _count(region: BufferRegion) -> float:
    """Elements of a region: the clocks of a loop that takes one for each; symbolic extents count as 1."""
    count = 1.0
    for extent in region.extents:
        count *= extent.value if isinstance(extent, IntImm) else 1
    return count


def _without_unit_extents(region: BufferRegion) -> tuple[Expr, ...]:
    return tuple(e for e in region.tile_extents() if not is_one(e))


def _spread(region: BufferRegion, indices: Sequence[Expr]) -> tuple[Expr, ...]:
    """Tile indices of a region from the indices of its axes that are not 1."""
    given = iter(indices)
    return tuple(const(0, INT32) if is_one(e) else next(given) for e in region.tile_extents())


def _without_units(indices: Sequence[Expr], extents: Sequence[Expr]) -> list[Expr]:
    return [i for i, e in zip(indices, extents) if not is_one(e)]


def _matrix_index(region: BufferRegion, row: Expr, column: Expr) -> tuple[Expr, ...]:
    return (*[const(0, INT32)] * (len(region.tile_extents()) - 2), row, column)


def _serial(var: Var, extent: Expr | int, body: Stmt) -> For:
    count = const(extent, INT32) if isinstance(extent, int) else extent
    return For(var, const(0, INT32), count, "serial", body)


def _sizes(extents: Sequence[Expr]) -> tuple[int, ...]:
    return tuple(e.value for e in extents)  # type: ignore[attr-defined]
