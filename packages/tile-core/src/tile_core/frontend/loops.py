"""The frames of the language's loops: a nest of `For` statements with one body."""

from __future__ import annotations

from typing import Any

from ..errors import CompileError, declare_codes
from ..ir import Expr, For, IntImm, Var, as_expr, binary, const
from ..source import Span
from .builder import Builder, Frame, LoopFrame, ScalarRef, reads_memory
from .placeholder import refuse_placeholder
from .regions import static_value

__all__ = ["Nest", "PersistentTiles", "loop_bound", "serial_range"]

declare_codes(
    {
        "E-LOOP-BOUND": "a loop bound or step that is no usable integer",
        "E-PIPELINED-NESTED": "a pipelined loop inside a pipelined loop",
    }
)

_JUMPS = {
    "parallel": "its iterations are independent and run in any order",
    "vectorized": "its iterations are lanes of one operation",
    "pipelined": "its iterations overlap",
}


class Nest(LoopFrame):
    """Nested loops of one kind, outermost first, whose indices a `for` statement names.

    Args:
        what: how messages call it, such as ``T.Parallel``.
        kind: of LOOP_KINDS.
        axes: (min, extent, step or None) of each loop.
        annotations: go to the outermost loop.
    """

    def __init__(
        self,
        what: str,
        kind: str,
        axes: tuple[tuple[Expr, Expr, Expr | None], ...],
        annotations: tuple[tuple[str, Any], ...] = (),
    ) -> None:
        self.what = what
        self.kind = kind
        self.axes = axes
        self.annotations = annotations
        self._open: list[tuple[Frame, Var]] = []

    @property
    def arity(self) -> int:
        return len(self.axes)

    @property
    def no_break(self) -> str | None:
        """Why `break` has no meaning in this loop, or None."""
        if len(self.axes) > 1 and self.kind not in _JUMPS:
            return "break would leave only the innermost of its loops"
        return self.no_continue

    @property
    def no_continue(self) -> str | None:
        """Why `continue` has no meaning in this loop, or None."""
        given = dict(self.annotations)
        if given.get("explicit"):
            return "it is written out, iteration after iteration"
        if self.kind == "pipelined" and not (given.get("num_stages") or given.get("order")):
            return None
        return _JUMPS.get(self.kind)

    def open(self, builder: Builder, names: tuple[str, ...]) -> Any:
        builder.require_kernel(self.what)
        if self.kind == "pipelined":
            self._refuse_nested(builder)
        stages = dict(self.annotations).get("num_stages", 0)
        defaults = ("i", "j", "k", "l")
        found = []
        # Python evaluates the bounds once, whatever the body stores.
        self.axes = tuple(
            [
                (_fixed(builder, low), _fixed(builder, extent), None if step is None else _fixed(builder, step))
                for low, extent, step in self.axes
            ]
        )
        for axis, (low, _, _) in enumerate(self.axes):
            name = names[axis] if axis < len(names) else defaults[axis] if axis < 4 else f"i{axis}"
            var = Var(name, low.dtype, span=builder.span)
            frame = builder.push(Frame("loop", builder.span, f"the {self.what} loop", self.kind, stages))
            builder.home[var] = frame
            self._open.append((frame, var))
            found.append(var)
        return found[0] if len(found) == 1 else tuple(found)

    def close(self, builder: Builder) -> None:
        for axis in reversed(range(len(self.axes))):
            frame, var = self._open.pop()
            builder.pop()
            low, extent, step = self.axes[axis]
            # A pipelined loop whose iterations do not overlap is a serial one, and as such may be left.
            kind = "serial" if self.kind == "pipelined" and self.no_continue is None and frame.jumps else self.kind
            builder.emit_built(
                For(
                    var,
                    low,
                    extent,
                    kind,
                    frame.body(),
                    step,
                    self._annotations(kind) if axis == 0 else (),
                    span=frame.span,
                )
            )

    def _annotations(self, kind: str) -> tuple[tuple[str, Any], ...]:
        if kind == self.kind:
            return self.annotations
        return tuple([pair for pair in self.annotations if pair[0] != "num_stages"])

    def _refuse_nested(self, builder: Builder) -> None:
        stages = dict(self.annotations).get("num_stages", 0)
        for frame in builder.frames:
            if frame.loop_kind == "pipelined" and stages and frame.stages:
                raise CompileError(
                    "E-PIPELINED-NESTED",
                    "a pipelined loop inside another pipelined loop",
                    span=builder.span,
                    spans=[("the outer loop is here", frame.span)],
                    help="pipeline only one of them; use T.serial or num_stages=0 for the other",
                )


class PersistentTiles(LoopFrame):
    """The tiles of a domain that one of `wave_size` workers takes: every `wave_size`-th, from its own number on.

    Tiles are numbered in groups of `group_size` rows of the first axis, first along the rows of a group, so that
    workers at one time share rows and columns.
    """

    what = "T.Persistent"

    def __init__(
        self, domain: tuple[Expr, ...], wave_size: Expr, index: Expr, group_size: int, annotations: Any
    ) -> None:
        self.domain = domain
        self.wave_size = wave_size
        self.index = index
        self.group_size = group_size
        self.annotations = annotations
        self.loop: Nest | None = None

    @property
    def arity(self) -> int:
        return len(self.domain)

    @property
    def no_continue(self) -> str | None:
        """Why `continue` has no meaning in this loop, or None."""
        return _JUMPS["pipelined"] if self.annotations else None

    no_break = no_continue

    def open(self, builder: Builder, names: tuple[str, ...]) -> Any:
        builder.require_kernel(self.what)
        total: Expr = self.domain[0]
        for extent in self.domain[1:]:
            total = binary("mul", total, extent)
        left = binary("sub", total, self.index)
        trips = binary("floordiv", binary("sub", binary("add", left, self.wave_size), 1), self.wave_size)
        if not isinstance(trips, IntImm):
            trips = binary("max", trips, 0)
        kind = "pipelined" if self.annotations else "serial"
        zero = const(0, trips.dtype)
        self.loop = Nest(self.what, kind, ((zero, trips, None),), self.annotations)
        wave = self.loop.open(builder, ("wave",))
        tile = builder.bind("tile", binary("add", binary("mul", wave, self.wave_size), self.index))
        found = []
        for axis, value in enumerate(self._coordinates(tile)):
            name = names[axis] if axis < len(names) else f"tile_{axis}"
            found.append(builder.bind(name, value))
        return found[0] if len(found) == 1 else tuple(found)

    def close(self, builder: Builder) -> None:
        if self.loop is not None:
            self.loop.close(builder)

    def _coordinates(self, tile: Expr) -> list[Expr]:
        if len(self.domain) == 1:
            return [tile]
        rows, rest = self.domain[0], self.domain[1]
        for extent in self.domain[2:]:
            rest = binary("mul", rest, extent)
        if isinstance(rows, IntImm) and rows.value <= self.group_size:
            first, column = binary("floormod", tile, rows), binary("floordiv", tile, rows)
        else:
            size = binary("mul", rest, self.group_size)
            start = binary("mul", binary("floordiv", tile, size), self.group_size)
            place = binary("floormod", tile, size)
            height = binary("min", binary("sub", rows, start), self.group_size)
            if isinstance(rows, IntImm) and rows.value % self.group_size == 0:
                height = const(self.group_size, rows.dtype)
            first = binary("add", start, binary("floormod", place, height))
            column = binary("floordiv", place, height)
        found = [first]
        for axis, extent in enumerate(self.domain[1:], 1):
            inner: Expr = const(1, extent.dtype)
            for later in self.domain[axis + 1 :]:
                inner = binary("mul", inner, later)
            value = column if axis + 1 == len(self.domain) else binary("floordiv", column, inner)
            found.append(value if axis == 1 else binary("floormod", value, extent))
        return found


def _fixed(builder: Builder, expr: Expr) -> Expr:
    if reads_memory(expr):
        return builder.bind("bound", expr)
    builder.adopt(expr)
    return expr


def serial_range(
    what: str, args: tuple[Any, ...], span: Span | None, kind: str = "serial", annotations: Any = ()
) -> Nest:
    """The loop for Python's range arguments: (stop), (start, stop) or (start, stop, step).

    Raises:
        CompileError: a bound that is no integer, a step that is 0 or not constant (E-LOOP-BOUND).
    """
    if not 1 <= len(args) <= 3:
        raise CompileError(
            "E-LOOP-BOUND",
            f"{what} takes one to three bounds",
            span=span,
            facts=[f"found {len(args)}"],
            help=f"write {what}(start, stop, step)",
        )
    step_value = loop_bound(what, "step", args[2], span) if len(args) == 3 else None
    low = const(0, "int32", span) if len(args) == 1 else loop_bound(what, "start", args[0], span)
    high = loop_bound(what, "stop", args[0] if len(args) == 1 else args[1], span)
    from_zero = isinstance(low, IntImm) and low.value == 0
    distance = high if from_zero else static_value(binary("sub", high, low, span))
    if isinstance(distance, IntImm) and distance.value < 0 and step_value is None:
        distance = const(0, distance.dtype, span)
    if low.dtype is not distance.dtype:
        low = low.astype(distance.dtype)
    if step_value is None or (isinstance(step_value, IntImm) and step_value.value == 1):
        return Nest(what, kind, ((low, distance, None),), annotations)
    if not isinstance(step_value, IntImm) or step_value.value == 0:
        if not isinstance(step_value, IntImm):
            # A thread-strided loop, such as range(tx, n, threads): the step must then be positive.
            trips = binary("floordiv", binary("sub", binary("add", distance, step_value), 1), step_value, span)
            return Nest(what, kind, ((low, trips, step_value),), annotations)
        raise CompileError("E-LOOP-BOUND", f"the step of {what} is 0", span=span, help="give a step that is not 0")
    step = step_value.value
    if step < 0:
        distance, size = binary("sub", low, high, span), -step
    else:
        size = step
    trips = binary("floordiv", binary("add", distance, size - 1, span), size, span)
    return Nest(what, kind, ((low, trips, const(step, low.dtype, span)),), annotations)


def loop_bound(what: str, label: str, value: Any, span: Span | None) -> Expr:
    """A loop bound as an integer expression."""
    refuse_placeholder(value, span)
    if isinstance(value, (int, Expr, ScalarRef)) and not isinstance(value, bool):
        expr = as_expr(value, span=span)
        if expr.dtype.is_int and expr.dtype.lanes == 1:
            return expr
        found = f"{expr!r}, which is {expr.dtype}"
    else:
        found = f"{value!r}, a {type(value).__name__}"
    raise CompileError(
        "E-LOOP-BOUND",
        f"the {label} of {what} is no integer",
        span=span,
        facts=[f"found {found}"],
        help="use an integer or an integer expression; // divides to one, T.ceildiv rounds up",
    )
