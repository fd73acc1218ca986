"""Ops as nests of parallel loops, one element an iteration: always legal, whatever the tiles' places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tile_core.dtypes import DType
from tile_core.ir import (
    Bind,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Expr,
    For,
    If,
    IntImm,
    Stmt,
    Var,
    as_expr,
    binary,
    cast,
    const,
    full_region,
    is_one,
    seq,
)
from tile_core.layout import Fragment
from tile_core.tileop import (
    AtomicUpdate,
    Candidate,
    Constraint,
    Copy,
    Facts,
    Fill,
    Gemm,
    LowerContext,
    MatrixProduct,
    Ok,
    Reduce,
    Scan,
    SparseGemm,
    identity_value,
)
from tile_core.tileop.default_candidates import (
    AtomicLoops,
    CopyLoops,
    FillLoops,
    accumulator_dtype,
    combined,
    parallel_nest,
    product_term,
    store_to,
)

from ..transform.thread_placement import nest_constraints

__all__ = ["ThreadAtomic", "ThreadFill", "ThreadGemm", "ThreadReduce", "ThreadScan", "ThreadSparseGemm", "outer_nests"]

INT32 = DType("int32")

_SHORT = 64  # elements of a line that one thread takes alone
# Steps of K that are written out together, so that the device compiler joins the loads of neighbours in a row into one
# of 16 bytes (measured on an H200, fp32 4096³ of 128x128x32 tiles: 3.62 → 3.11 ms; eight steps gain no more).
_STEPS = (("unroll_factor", 4),)


class ThreadFill(Candidate):
    """One element an iteration."""

    op = Fill
    name = "threads"

    def legal(self, op: Fill, facts: Facts) -> Ok:
        return Ok(_count(op.dst.static_extents()) / 128)

    def constraints(self, op: Fill, facts: Facts) -> Iterable[Constraint]:
        for loop in outer_nests(self, op, facts):
            yield from nest_constraints(loop, facts)

    def lower(self, op: Fill, context: LowerContext) -> Stmt:
        return as_nest(FillLoops().lower(op, context))


class ThreadAtomic(Candidate):
    """One indivisible update an iteration."""

    op = AtomicUpdate
    name = "threads"

    def legal(self, op: AtomicUpdate, facts: Facts) -> Ok:
        return Ok(_count(op.dst.static_extents()) / 128)

    def constraints(self, op: AtomicUpdate, facts: Facts) -> Iterable[Constraint]:
        for loop in outer_nests(self, op, facts):
            yield from nest_constraints(loop, facts)

    def lower(self, op: AtomicUpdate, context: LowerContext) -> Stmt:
        return as_nest(AtomicLoops().lower(op, context))


class ThreadGemm(Candidate):
    """Each thread sums its own elements of the product; all shapes, element types and transpositions."""

    op: type[MatrixProduct] = Gemm
    name = "threads"

    def legal(self, op: MatrixProduct, facts: Facts) -> Ok:
        return Ok(op.m * op.n * op.k / 128)

    def lower(self, op: MatrixProduct, context: LowerContext) -> Stmt:
        wide = accumulator_dtype(op.c.dtype)
        # Operands in registers are read along rows and columns by other threads.
        before: list[Stmt] = []
        staged: dict[BufferRegion, BufferRegion] = {}
        for _, role, region in op.operands():
            if role == "in" and region.buffer.scope == "fragment":
                held = context.allocate(
                    f"{region.buffer.name}_staged", region.static_extents() or (), region.dtype, "shared"
                )
                staged[region] = full_region(held, op.span)
                before.append(as_nest(CopyLoops().lower(Copy(region, staged[region], span=op.span), context)))
        step, zero = Var("step"), const(0, INT32)

        def index(at: Sequence[Expr]) -> tuple[Expr, ...]:
            return (*[zero] * (len(op.c.tile_extents()) - 2), *at)

        def with_term(held: Expr, at: Sequence[Expr]) -> Expr:
            return binary("add", held, product_term(op, step, *at, wide, staged))

        def terms(body: Stmt) -> Stmt:
            return For(step, zero, const(op.k // op.share, INT32), "serial", body, annotations=_STEPS)

        extents = (const(op.m, INT32), const(op.n, INT32))
        if op.c.dtype is wide:

            def clear(at: Sequence[Expr]) -> Stmt:
                return store_to(op.c, index(at), const(0, wide), op)

            def add(at: Sequence[Expr]) -> Stmt:
                return store_to(op.c, index(at), with_term(op.c.load(index(at)), at), op)

            sums = terms(as_nest(parallel_nest(extents, add)))
            return seq(*before, as_nest(parallel_nest(extents, clear)) if op.clear_accum else None, sums)
        # A narrow product is rounded once: the whole sum is one iteration's.
        total = context.allocate(f"{op.c.buffer.name}_sum", (1,), wide)

        def whole(at: Sequence[Expr]) -> Stmt:
            start = const(0, wide) if op.clear_accum else cast(op.c.load(index(at)), wide)
            add = terms(BufferStore(total, with_term(BufferLoad(total, (zero,)), at), (zero,)))
            done = cast(BufferLoad(total, (zero,)), op.c.dtype)
            return seq(BufferStore(total, start, (zero,)), add, store_to(op.c, index(at), done, op))

        return seq(*before, as_nest(parallel_nest(extents, whole)))


class ThreadSparseGemm(ThreadGemm):
    """The same over what A keeps."""

    op = SparseGemm


class ThreadReduce(Candidate):
    """One thread combines the elements that fall together; where there are fewer results than threads, several threads
    each combine every so-manieth element first, and one of them what they found."""

    op = Reduce
    name = "threads"

    def legal(self, op: Reduce, facts: Facts) -> Ok:
        return Ok(float(_count(op.src.static_extents())))

    def constraints(self, op: Reduce, facts: Facts) -> Iterable[Constraint]:
        for loop in outer_nests(self, op, facts):
            yield from nest_constraints(loop, facts)

    def lower(self, op: Reduce, context: LowerContext) -> Stmt:
        wide = accumulator_dtype(op.dst.dtype)
        source = op.src.tile_extents()
        rest = source[: op.axis] + source[op.axis + 1 :]
        held = context.allocate(f"{op.dst.buffer.name}_running", (1,), wide)
        zero, step = const(0, INT32), Var("step")
        kind = {"abssum": "sum", "absmax": "max"}.get(op.kind, op.kind)

        def run(kind: str, count: Any, element: Callable[[Expr], Expr], limit: Expr | None = None) -> Stmt:
            """The running value over `count` elements, of which those at `limit` and beyond are left out."""
            start = BufferStore(held, const(identity_value(kind, wide), wide), (zero,))
            value = combined(kind, BufferLoad(held, (zero,)), cast(element(step), wide), op.nan_propagate)
            body: Stmt = BufferStore(held, value, (zero,))
            if limit is not None:
                body = If(limit, body)
            return seq(start, For(step, zero, as_expr(count), "serial", body))

        parts = _parts(op, context)
        if parts == 1:

            def whole(at: Sequence[Expr]) -> Stmt:
                loop = run(op.kind, source[op.axis], lambda s: op.src.load((*at[: op.axis], s, *at[op.axis :])))
                return seq(loop, finished(op, at, BufferLoad(held, (zero,)), wide))

            return as_nest(parallel_nest(rest, whole))
        length = source[op.axis].value  # type: ignore[attr-defined]
        shape = (*(e.value for e in rest), parts)  # type: ignore[attr-defined]
        found = context.allocate(f"{op.dst.buffer.name}_parts", shape, wide, "shared")

        def some(at: Sequence[Expr]) -> Stmt:
            *own, part = at
            # Neighbouring threads take neighbours.
            index = binary("add", binary("mul", step, parts), part)
            inside = None if length % parts == 0 else binary("lt", index, length)
            loop = run(
                op.kind, -(-length // parts), lambda s: op.src.load((*own[: op.axis], index, *own[op.axis :])), inside
            )
            return seq(loop, BufferStore(found, BufferLoad(held, (zero,)), tuple(at)))

        def together(at: Sequence[Expr]) -> Stmt:
            loop = run(kind, parts, lambda s: BufferLoad(found, (*at, s)))
            return seq(loop, finished(op, at, BufferLoad(held, (zero,)), wide))

        first = as_nest(parallel_nest((*rest, const(parts, INT32)), some))
        return seq(first, as_nest(parallel_nest(rest, together)))


class ThreadScan(Candidate):
    """One thread runs along the axis with the value so far; where there are fewer lines than threads, several threads
    each run along a stretch, one over what the stretches came to, and all once more with what lies before theirs."""

    op = Scan
    name = "threads"

    def legal(self, op: Scan, facts: Facts) -> Ok:
        return Ok(_count(op.src.static_extents()) / 2)

    def lower(self, op: Scan, context: LowerContext) -> Stmt:
        wide = accumulator_dtype(op.dst.dtype)
        source = op.src.tile_extents()
        rest = source[: op.axis] + source[op.axis + 1 :]
        held = context.allocate(f"{op.dst.buffer.name}_running", (1,), wide)
        zero, step = const(0, INT32), Var("step")
        along: Expr = binary("sub", binary("sub", source[op.axis], 1), step) if op.reverse else step
        parts = _parts(op, context)
        if parts > 1:
            return _scan_in_parts(op, context, parts, held)

        def body(at: Sequence[Expr]) -> Stmt:
            where = (*at[: op.axis], along, *at[op.axis :])
            value = combined(op.kind, BufferLoad(held, (zero,)), cast(op.src.load(where), wide), False)
            target = spread(op.dst, [i for i, e in zip(where, source) if not is_one(e)])
            result = cast(BufferLoad(held, (zero,)), op.dst.dtype)
            advance = seq(BufferStore(held, value, (zero,)), store_to(op.dst, target, result, op))
            start = BufferStore(held, const(identity_value(op.kind, wide), wide), (zero,))
            return seq(start, For(step, zero, source[op.axis], "serial", advance))

        return as_nest(parallel_nest(rest, body))


def _parts(op: Any, context: LowerContext) -> int:
    """Among how many threads a line is divided."""
    threads = context.facts.threads or 1
    extents = [e.value if isinstance(e, IntImm) else 0 for e in op.src.tile_extents()]
    length = extents[op.axis]
    lines = 1
    for axis, extent in enumerate(extents):
        lines *= extent if axis != op.axis else 1
    if length < _SHORT or not lines or lines * 2 > threads:
        return 1
    # About as many as each then has elements: what the parts come to is one thread's work again.
    return max(1, min(threads // lines, round(length**0.5)))


def _scan_in_parts(op: Scan, context: LowerContext, parts: int, held: Any) -> Stmt:
    wide = accumulator_dtype(op.dst.dtype)
    source = [e.value for e in op.src.tile_extents()]  # type: ignore[attr-defined]
    length, zero, step = source[op.axis], const(0, INT32), Var("step")
    rest = source[: op.axis] + source[op.axis + 1 :]
    # Odd, so that the threads of a line read from different banks.
    each = -(-length // parts) | 1
    parts = -(-length // each)
    sums = context.allocate(f"{op.dst.buffer.name}_parts", (*rest, parts), wide, "shared")
    held_value, start = BufferLoad(held, (zero,)), const(identity_value(op.kind, wide), wide)

    def place(at: Sequence[Expr]) -> tuple[tuple[Expr, ...], Expr]:
        """(indices of the element that a part is at, whether there is one)."""
        *own, part = at
        number = binary("add", binary("mul", part, each), step)
        along = binary("sub", length - 1, number) if op.reverse else number
        return (*own[: op.axis], along, *own[op.axis :]), binary("lt", number, length)

    def target(where: Sequence[Expr]) -> tuple[Expr, ...]:
        return spread(op.dst, [i for i, e in zip(where, op.src.tile_extents()) if not is_one(e)])

    def add_up(at: Sequence[Expr]) -> Stmt:
        where, inside = place(at)
        value = combined(op.kind, held_value, cast(op.src.load(where), wide), False)
        loop = For(step, zero, const(each, INT32), "serial", If(inside, BufferStore(held, value, (zero,))))
        return seq(BufferStore(held, start, (zero,)), loop, BufferStore(sums, held_value, tuple(at)))

    def before(at: Sequence[Expr]) -> Stmt:
        own = BufferLoad(sums, (*at, step))
        kept = Var("own", wide)
        advance = BufferStore(held, combined(op.kind, held_value, kept, False), (zero,))
        body = seq(Bind(kept, own), BufferStore(sums, held_value, (*at, step)), advance)
        return seq(BufferStore(held, start, (zero,)), For(step, zero, const(parts, INT32), "serial", body))

    def run(at: Sequence[Expr]) -> Stmt:
        where, inside = place(at)
        value = combined(op.kind, held_value, cast(op.src.load(where), wide), False)
        put = store_to(op.dst, target(where), cast(held_value, op.dst.dtype), op)
        body = If(inside, seq(BufferStore(held, value, (zero,)), put))
        loop = For(step, zero, const(each, INT32), "serial", body)
        return seq(BufferStore(held, BufferLoad(sums, tuple(at)), (zero,)), loop)

    divided, lines = [const(e, INT32) for e in (*rest, parts)], [const(e, INT32) for e in rest]
    return seq(
        as_nest(parallel_nest(divided, add_up)),
        as_nest(parallel_nest(lines, before)),
        as_nest(parallel_nest(divided, run)),
    )


def finished(op: Reduce, at: Sequence[Expr], value: Expr, wide: DType) -> Stmt:
    """The store of a reduction's result at indices `at` of the axes that stay, combined with what is there if asked."""
    source = op.src.tile_extents()
    rest = source[: op.axis] + source[op.axis + 1 :]
    target = spread(op.dst, [i for i, e in zip(at, rest) if not is_one(e)])
    if not op.clear:
        kind = {"abssum": "sum", "absmax": "max"}.get(op.kind, op.kind)
        value = combined(kind, value, cast(op.dst.load(target), wide), op.nan_propagate)
    return store_to(op.dst, target, cast(value, op.dst.dtype), op)


def spread(region: Any, indices: Sequence[Expr]) -> tuple[Expr, ...]:
    """Tile indices of a region from those of its axes that are not 1."""
    given = iter(indices)
    return tuple(const(0, INT32) if is_one(e) else next(given) for e in region.tile_extents())


def as_nest(stmt: Stmt) -> Stmt:
    """A statement as a nest of parallel loops, of one iteration where it has none: so it has a place."""
    if isinstance(stmt, For) and stmt.kind == "parallel":
        return stmt
    return For(Var("once"), const(0, INT32), const(1, INT32), "parallel", stmt, span=stmt.span)


def outer_nests(candidate: Candidate, op: Any, facts: Facts) -> list[For]:
    """The outermost parallel loops that a candidate lowers an op to."""
    found: list[For] = []
    stack: list[Any] = [candidate.lower(op, LowerContext(facts.target, facts.layouts, facts))]
    while stack:
        item = stack.pop()
        if isinstance(item, For) and item.kind == "parallel":
            found.append(item)
        else:
            stack.extend(reversed(item.child_nodes()))
    return found


def fragment_of(facts: Facts, buffer: Any) -> Fragment | None:
    """The fragment of a register tile as far as it is known."""
    found = facts.layouts.get(buffer)
    return found if isinstance(found, Fragment) else None


def _count(extents: tuple[int, ...] | None) -> float:
    count = 1.0
    for extent in extents or ():
        count *= extent
    return count
