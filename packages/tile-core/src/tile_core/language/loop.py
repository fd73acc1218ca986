"""Loops: what a `for` statement of a kernel iterates over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import CompileError, declare_codes
from ..frontend.builder import Frame, known, require_builder
from ..frontend.loops import Nest, PersistentTiles, loop_bound, serial_range
from ..frontend.operators import as_condition, is_expression
from ..ir import Break, Continue, IntImm, const
from ..ir import While as _While
from .operands import require_flag, require_loop_layout

__all__ = [
    "Parallel",
    "Persistent",
    "Pipelined",
    "Serial",
    "Unroll",
    "Vectorized",
    "While",
    "break_loop",
    "continue_loop",
    "grid",
    "loop_break",
    "parallel",
    "serial",
    "unroll",
    "vectorized",
]

declare_codes(
    {
        "E-PARALLEL-EXTENT": "a parallel loop over nothing",
        "E-PIPELINED-STAGES": "a number of pipeline stages that is no integer ≥ 0",
        "E-PIPELINED-ORDER": "an order or stage list that does not fit the statements of a pipelined loop",
        "E-LOOP-OPTION": "an option of a loop with a value that it does not take",
    }
)


def Parallel(
    *extents: Any,
    coalesced_width: int | None = None,
    loop_layout: Any = None,
    prefer_async: bool | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> Nest:
    """Independent iterations over a box: ``for i, j in T.Parallel(M, N):``; the compiler maps them to threads and
    vector lanes.

    Args:
        extents: one or more extents, outermost first.
        coalesced_width: elements a thread should access at once.
        loop_layout: a T.Fragment that maps iterations to threads.
        prefer_async: whether a nest that only moves a tile from global to shared memory should be an asynchronous copy,
            where the target has such copies.
        annotations: further hints, by name.
    """
    if not extents:
        raise CompileError(
            "E-PARALLEL-EXTENT", "T.Parallel has no extent", help="write T.Parallel(n) or T.Parallel(m, n)"
        )
    axes = []
    for axis, value in enumerate(extents):
        extent = loop_bound("T.Parallel", f"extent {axis}", value, None)
        if isinstance(extent, IntImm) and extent.value <= 0:
            raise CompileError(
                "E-PARALLEL-EXTENT",
                f"extent {axis} of T.Parallel is {extent.value}",
                help="give positive extents",
            )
        axes.append((const(0, extent.dtype), extent, None))
    _require_positive("T.Parallel", "coalesced_width", coalesced_width)
    require_loop_layout("T.Parallel", loop_layout, [extent for _, extent, _ in axes])
    if prefer_async is not None:
        prefer_async = require_flag("T.Parallel", "prefer_async", prefer_async)
    given = {"coalesced_width": coalesced_width, "loop_layout": loop_layout, "prefer_async": prefer_async}
    return Nest("T.Parallel", "parallel", tuple(axes), _annotations(given, annotations))


def Pipelined(
    start: Any,
    stop: Any = None,
    num_stages: int = 0,
    order: Any = None,
    stage: Any = None,
    annotations: Mapping[str, Any] | None = None,
) -> Nest:
    """A serial loop whose iterations overlap: loads of later ones run during the work of earlier ones.

    Args:
        start, stop: bounds; with one of them the loop starts at 0.
        num_stages: how many copies of a tile are in flight; 0 does not overlap.
        order, stage: place in the order and pipeline stage of each statement of the body, in place of what the
            compiler plans.
        annotations: further hints, by name.
    """
    stages = known(num_stages)
    if not isinstance(stages, int) or isinstance(stages, bool) or not 0 <= stages <= _MOST_STAGES:
        raise CompileError(
            "E-PIPELINED-STAGES",
            f"T.Pipelined does not take num_stages={num_stages!r}",
            facts=[f"allowed: an integer from 0 to {_MOST_STAGES}"],
            help="use 2 or 3 to overlap loads, 0 for a plain loop",
        )
    lists = {"order": _integers("order", order), "stage": _integers("stage", stage)}
    _check_lists(lists["order"], lists["stage"])
    args = (start,) if stop is None else (start, stop)
    given = {"num_stages": stages, **lists}
    return serial_range("T.Pipelined", args, None, "pipelined", _annotations(given, annotations))


# Loops get a beginning and an end for each stage; no chip's memory holds as many copies of a tile.
_MOST_STAGES = 256


def serial(start: Any, stop: Any = None, step: Any = None, *, annotations: Mapping[str, Any] | None = None) -> Nest:
    """Iterations one after another, as Python's range counts them.

    Args:
        start: the first value; the end where it stands alone, and the loop begins at 0.
        stop: where the loop ends, itself not a value of it.
        step: between two values; 1 when left out, may be negative.
        annotations: hints, by name.

    Raises:
        CompileError: a bound is no integer, or the step is 0 (E-LOOP-BOUND).
    """
    return serial_range("T.serial", _bounds(start, stop, step), None, "serial", _annotations({}, annotations))


def unroll(
    start: Any,
    stop: Any = None,
    step: Any = None,
    *,
    explicit: bool = False,
    unroll_factor: int | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> Nest:
    """A serial loop that is written out.

    Args:
        start, stop, step: as for `serial`.
        explicit: by Tile, before pipelines are planned; else by the device's compiler.
        unroll_factor: iterations written out at a time; None for all.
    """
    _require_positive("T.unroll", "unroll_factor", unroll_factor)
    explicit = require_flag("T.unroll", "explicit", explicit)
    if explicit and unroll_factor is not None:
        raise CompileError(
            "E-LOOP-OPTION",
            "T.unroll takes explicit=True or unroll_factor, not both",
            help="explicit=True writes all iterations out",
        )
    given = {"explicit": True if explicit else None, "unroll_factor": unroll_factor}
    nest = serial_range("T.unroll", _bounds(start, stop, step), None, "unroll", _annotations(given, annotations))
    extent = nest.axes[0][1]
    if explicit and not (isinstance(extent, IntImm) and isinstance(nest.axes[0][0], IntImm)):
        raise CompileError(
            "E-LOOP-OPTION",
            "T.unroll with explicit=True needs constant bounds",
            facts=[f"found {extent!r} iterations"],
            help="leave explicit out to let the device's compiler unroll",
        )
    return nest


def vectorized(start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None) -> Nest:
    """Iterations that are the lanes of one operation, in no order.

    Args:
        start, stop: bounds; with one of them the loop starts at 0. Their difference is a constant.
        annotations: hints, by name.

    Raises:
        CompileError: the extent is no positive constant (E-LOOP-OPTION).
    """
    nest = serial_range("T.vectorized", _bounds(start, stop, None), None, "vectorized", _annotations({}, annotations))
    extent = nest.axes[0][1]
    if not isinstance(extent, IntImm) or extent.value <= 0:
        raise CompileError(
            "E-LOOP-OPTION",
            "the extent of T.vectorized is no positive constant",
            facts=[f"found {extent!r}"],
            help="give the number of lanes as an integer, such as 4",
        )
    return nest


def parallel(start: Any, stop: Any = None, *, annotations: Mapping[str, Any] | None = None) -> Nest:
    """Independent iterations over a range: `Parallel` of one index that may start elsewhere than at 0.

    Args:
        start, stop: bounds; with one of them the loop starts at 0.
        annotations: hints, by name.
    """
    return serial_range("T.parallel", _bounds(start, stop, None), None, "parallel", _annotations({}, annotations))


def Persistent(
    domain: Any,
    wave_size: Any,
    index: Any,
    group_size: int = 8,
    num_stages: int = 0,
    *,
    annotations: Mapping[str, Any] | None = None,
) -> PersistentTiles:
    """The tiles of `domain` that worker `index` of `wave_size` takes: ``for by, bx in T.Persistent((rows, columns),
    workers, block):``. Every tile is taken once, by one worker.

    Args:
        domain: extents of the grid of tiles, such as ``(T.ceildiv(M, 128), T.ceildiv(N, 128))``.
        wave_size: workers, as many as run at the same time: usually the blocks of the grid.
        index: which worker this is, from 0: usually the block's index.
        group_size: tiles along the first axis whose neighbours along the others follow each other, so that what they
            read stays in cache.
        num_stages: how many tiles' loads are in flight at once; 0 does one tile after another.
        annotations: further hints, by name.

    Raises:
        CompileError: no integers (E-LOOP-BOUND), a group size or number of stages that is none (E-LOOP-OPTION).
    """
    items = tuple(domain) if isinstance(domain, (tuple, list)) else (domain,)
    if not items:
        raise CompileError(
            "E-PARALLEL-EXTENT", "T.Persistent has no domain", help="write T.Persistent((m, n), workers, bx)"
        )
    extents = tuple([loop_bound("T.Persistent", f"extent {axis}", value, None) for axis, value in enumerate(items)])
    workers = loop_bound("T.Persistent", "wave_size", wave_size, None)
    if isinstance(workers, IntImm) and workers.value <= 0:
        raise CompileError(
            "E-LOOP-OPTION", f"T.Persistent does not take wave_size={workers.value}", help="pass the number of blocks"
        )
    number = loop_bound("T.Persistent", "index", index, None)
    size, stages = known(group_size), known(num_stages)
    _require_positive("T.Persistent", "group_size", size)
    if not isinstance(stages, int) or isinstance(stages, bool) or stages < 0:
        raise CompileError(
            "E-LOOP-OPTION",
            f"T.Persistent does not take num_stages={num_stages!r}",
            facts=["allowed: an integer ≥ 0"],
            help="leave num_stages out",
        )
    pairs = _annotations({"num_stages": stages} if stages else {}, annotations)
    return PersistentTiles(extents, workers, number, size, pairs)


class While:
    """A loop as a statement of its own: ``with T.While(condition):``, the same as ``while condition:``."""

    def __init__(self, condition: Any) -> None:
        value = known(condition)
        if not is_expression(value):
            raise CompileError(
                "E-LOOP-BOUND",
                "T.While needs a condition that is decided when the kernel runs",
                facts=[f"found {condition!r}"],
                help="compare a T.alloc_var or an element: with T.While(i < n)",
            )
        self.condition = value
        self._builder: Any = None

    def __enter__(self) -> None:
        self._builder = builder = require_builder("T.While")
        builder.require_kernel("T.While")
        self.condition = as_condition(self.condition, builder.span)
        builder.adopt(self.condition)
        builder.push(Frame("while", builder.span, "the T.While loop", "serial"))

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        frame = self._builder.pop()
        if kind is None:
            self._builder.emit_built(_While(self.condition, frame.body(), span=frame.span))


def loop_break() -> None:
    """Leaves the innermost loop, as `break` does."""
    _jump("T.loop_break", Break)


def continue_loop() -> None:
    """Goes on with the next iteration of the innermost loop, as `continue` does."""
    _jump("T.continue_loop", Continue)


break_loop = loop_break


def _jump(what: str, node: Any) -> None:
    builder = require_builder(what)
    loop = builder.enclosing("loop", "while")
    if loop is None or loop.loop_kind in ("parallel", "vectorized") or (loop.loop_kind == "pipelined" and loop.stages):
        raise CompileError(
            "E-BREAK",
            f"{what} outside a loop that can be left",
            span=builder.span,
            spans=[] if loop is None else [(f"{loop.what} begins here", loop.span)],
            help="use it in T.serial, T.unroll, `while` and T.Persistent",
        )
    builder.jump(node(span=builder.span))


def grid(*extents: Any) -> Nest:
    """Nested serial loops over all extents, outermost first: ``for i, j in T.grid(M, N):``."""
    if not extents:
        raise CompileError("E-PARALLEL-EXTENT", "T.grid has no extent", help="write T.grid(m, n)")
    bounds = [loop_bound("T.grid", f"extent {axis}", value, None) for axis, value in enumerate(extents)]
    return Nest("T.grid", "serial", tuple([(const(0, e.dtype), e, None) for e in bounds]))


Serial = serial
Unroll = unroll
Vectorized = vectorized


def _bounds(start: Any, stop: Any, step: Any) -> tuple[Any, ...]:
    if stop is None:
        return (start,) if step is None else (0, start, step)
    return (start, stop) if step is None else (start, stop, step)


def _annotations(given: Mapping[str, Any], more: Mapping[str, Any] | None) -> tuple[tuple[str, Any], ...]:
    pairs = {key: value for key, value in given.items() if value is not None}
    if more is not None and not (isinstance(more, Mapping) and all(isinstance(key, str) for key in more)):
        raise CompileError(
            "E-LOOP-OPTION", f"annotations={more!r} is no dict of names", help="pass a dict such as {'name': value}"
        )
    for key, value in (more or {}).items():
        pairs[key] = _plain(value)
    return tuple(pairs.items())


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, (list, tuple)) else value


def _require_positive(what: str, label: str, value: Any) -> None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
        return
    raise CompileError(
        "E-LOOP-OPTION",
        f"{what} does not take {label}={value!r}",
        facts=["allowed: a positive integer"],
        help=f"leave {label} out",
    )


def _integers(label: str, values: Any) -> tuple[int, ...] | None:
    if values is None:
        return None
    found = tuple([known(v) for v in values]) if isinstance(values, (list, tuple)) else ()
    if found and all(isinstance(v, int) and not isinstance(v, bool) for v in found):
        # -1 marks a statement that belongs to no stage of its own, as in TileLang.
        if all(v >= -1 for v in found):
            return found
    raise CompileError(
        "E-PIPELINED-ORDER",
        f"T.Pipelined does not take {label}={values!r}",
        facts=["allowed: a list with an integer ≥ 0 for each statement of the body"],
        help=f"leave {label} out to let the compiler plan",
    )


def _check_lists(order: tuple[int, ...] | None, stage: tuple[int, ...] | None) -> None:
    if order is None and stage is None:
        return
    facts = [
        f"order = {list(order) if order is not None else None}",
        f"stage = {list(stage) if stage is not None else None}",
    ]
    if order is None or stage is None:
        raise CompileError(
            "E-PIPELINED-ORDER",
            "T.Pipelined takes order and stage together",
            facts=facts,
            help="give both lists, or neither",
        )
    if len(order) != len(stage):
        raise CompileError(
            "E-PIPELINED-ORDER",
            "order and stage of T.Pipelined differ in length",
            facts=facts,
            help="give one entry in each for every statement of the body",
        )
    places = [place for place in order if place >= 0]
    if len(set(places)) != len(places):
        raise CompileError(
            "E-PIPELINED-ORDER",
            "two statements have the same place in order",
            facts=facts,
            help="give each its own place",
        )
