"""What rewritten kernel code calls while it runs: the tracer and the scopes of functions.

`rewrite` turns the statements of a kernel into calls of `tracer` (one object for all kernels; the builder of the
running trace is looked up) and of the `Scope` that each call of a rewritten function makes. Constructs over Python
values stay Python; over expressions they become frames of the builder.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from typing import Any

from ..dtypes import DType
from ..errors import CompileError, declare_codes
from ..ir import (
    Bind,
    Break,
    Buffer,
    BufferRegion,
    Call,
    Continue,
    Evaluate,
    Expr,
    FloatImm,
    If,
    IntImm,
    StringImm,
    Var,
    While,
    as_expr,
    cast,
    const,
    find_intrinsic,
    unary,
)
from ..source import Span
from . import regions
from .builder import (
    Builder,
    Frame,
    LoopFrame,
    ScalarRef,
    current_builder,
    known,
    reads_memory,
    require_builder,
)
from .loops import serial_range
from .operators import Operators, as_condition, is_expression
from .placeholder import Placeholder, Unset

__all__ = ["Scope", "Tracer", "tracer"]

declare_codes(
    {
        "E-LOOP-CARRIED": "a name that should change from one iteration to the next but is bound once",
        "E-LOOP-TARGET": "a loop or kernel gives another number of indices than the names it is unpacked to",
        "E-LOOP-ITERABLE": "a for loop over something that cannot be iterated",
        "E-BREAK": "break or continue where it has no meaning",
        "E-RETURN-STAGED": "return inside a loop or branch that is decided when the kernel runs",
        "E-UNPACK": "a value that cannot be unpacked to the names on the left",
        "E-ATTRIBUTE-VALUE": "an expression assigned to an attribute of a Python object",
        "E-ASSERT": "assert on an expression",
    }
)

_FIXED = (Var, IntImm, FloatImm, StringImm)
_PLAIN_TYPES = (int, float, str, bool, type(None))


class Tracer(Operators):
    """The operations of rewritten code that need no scope. Stateless: all state is the current builder's."""

    @property
    def builder(self) -> Builder:
        """The builder of the running trace."""
        return require_builder("a function made for kernels")

    def place(self, span: Span | None) -> Span | None:
        """`span` as reached through macro calls."""
        builder = current_builder()
        return span if builder is None else builder.place(span)

    def enter(self) -> Scope:
        """The scope of a call of a rewritten function."""
        return Scope(self.builder)

    def at(self, span: Span, hints: tuple[str, ...] = ()) -> None:
        """A statement begins; `hints` are the names that what it allocates is assigned to."""
        builder = self.builder
        builder.span = span if builder.caller is None else builder.place(span)
        builder.hints = list(hints)

    def if_(self, condition: Any, span: Span) -> Branch:
        """An `if` statement begins."""
        return Branch(self.builder, condition, self.place(span))

    def loop(self, iterable: Any, names: tuple[str, ...] | None, span: Span) -> Loop:
        """A `for` statement begins; `names` are the targets, None when they are no plain names."""
        return Loop(self.builder, iterable, names, self.place(span))

    def while_(self, always: bool, span: Span) -> WhileLoop:
        """A `while` statement begins; `always` when its condition is the literal True."""
        return WhileLoop(self.builder, always, self.place(span))

    def range(self, function: Any, args: tuple[Any, ...], span: Span) -> Any:
        """``for … in range(…)``: a serial loop in a kernel; what Python does outside it or when `range` is somebody
        else's."""
        if function is not builtins.range:
            return function(*args)
        if self.builder.kernel is None and not any(map(is_expression, args)):
            return builtins.range(*args)
        return serial_range("range", args, self.place(span))

    def entering(self, context: Any, names: tuple[str, ...] | None, span: Span) -> Any:
        """A `with` statement begins; frames of the language take the names of their indices from it."""
        take_names = getattr(context, "take_names", None)
        if take_names is not None:
            take_names(names, self.place(span))
        return context

    def depth(self) -> int:
        """Number of open frames, for `unwind`."""
        return len(self.builder.frames)

    def unwind(self, depth: int) -> None:
        """An exception was caught: drops the frames that it left open."""
        self.builder.unwind(depth)

    def evaluate(self, value: Any) -> None:
        """An expression statement: calls with an effect become statements."""
        if isinstance(value, Call) and not find_intrinsic(value.op).pure:
            self.builder.emit(Evaluate(value))

    def asserted(self, condition: Any, span: Span) -> Any:
        """The condition of an `assert` statement."""
        if is_expression(condition) and not isinstance(condition, IntImm):
            raise CompileError(
                "E-ASSERT",
                "assert needs a value that is known while the kernel is traced",
                span=self.place(span),
                facts=[f"the condition is {as_expr(condition)!r}"],
                help="state it as a fact with T.assume(condition), or check it before the kernel is called",
            )
        return known(condition)

    def store(self, container: Any, index: Any, value: Any, span: Span | None) -> None:
        """``container[index] = value``."""
        place = self.place(span)
        if isinstance(container, Buffer):
            parts = index if isinstance(index, tuple) else (index,)
            if any(isinstance(part, slice) or part is Ellipsis for part in parts):
                raise CompileError(
                    "E-STORE-SLICE",
                    f"a slice of {container.name} is assigned to",
                    span=place,
                    help="use T.copy to move a tile, T.fill to set one, or a T.Parallel loop over its elements",
                )
            if len(parts) != len(container.shape):
                raise regions.rank_error(container, len(parts), place)
            indices = regions.element_indices(container, parts, place)
            self.builder.store(container, indices, _element(value, place), place)
        elif isinstance(container, ScalarRef):
            _ = container[index]
            self.builder.store(container.buffer, container.indices, _element(value, place), place)
        elif isinstance(container, Placeholder):
            raise container.error(place)
        elif is_expression(index) and isinstance(container, list):
            self.item(container, index, span)
        else:
            container[index] = self.kept(value)

    def augment_item(self, container: Any, index: Any, op: str, value: Any, span: Span) -> None:
        """``container[index] op= value``."""
        self.store(container, index, self.augment(op, self.item(container, index, span), value, span), span)

    def set_attribute(self, owner: Any, name: str, value: Any, span: Span) -> None:
        """``owner.name = value``; objects of a meta class hold expressions, others only what is known while tracing."""
        if not getattr(type(owner), "__tile_meta__", False):
            value = self.attribute(value, name, span)
        setattr(owner, name, value)

    def attribute(self, value: Any, name: str, span: Span) -> Any:
        """The value of ``object.name = value``."""
        if is_expression(value) and not isinstance(value, (IntImm, FloatImm)):
            raise CompileError(
                "E-ATTRIBUTE-VALUE",
                f"an expression is assigned to the attribute {name}",
                span=self.place(span),
                facts=[f"the value is {as_expr(value)!r}"],
                help="assign it to a local name, or make the object's class a T.meta_class; attributes of other "
                "objects hold values that are known while the kernel is traced",
            )
        return value

    def kept(self, value: Any, name: str = "value") -> Any:
        """What a Python container or parameter holds: the value as it is now, not as a later store leaves the memory
        that the expression reads. Variables in memory stay variables."""
        if isinstance(value, Expr) and not isinstance(value, _FIXED) and reads_memory(value):
            builder = self.builder
            return value if builder.kernel is None else builder.hold(name, value)
        if type(value) is tuple:
            return tuple([self.kept(item, name) for item in value])
        return value


class Scope:
    """One call of a rewritten function: what its names mean."""

    __slots__ = ("builder", "depth")

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.depth = len(builder.frames)

    def unset(self, name: str) -> Unset:
        """What a name holds before it is assigned."""
        return Unset(name, f"{name} is used before it has a value", f"assign to {name} first")

    def assign(self, name: str, value: Any, old: Any, span: Span) -> Any:
        """What `name` holds after ``name = value``; `old` is what it held."""
        builder = self.builder
        if type(old) is ScalarRef and not (type(value) is ScalarRef and not value.named):
            place = builder.place(span)
            builder.store(old.buffer, old.indices, _element(value, place), place)
            return old
        if type(value) is ScalarRef:
            if not value.named:
                value.named = True
                return value
            value = value.__tile_expr__()
        elif isinstance(value, Placeholder):
            raise value.error(builder.place(span))
        elif not isinstance(value, Expr) and hasattr(type(value), "__tile_expr__"):
            # An index by name, such as T.thread_binding gives.
            value = value.__tile_expr__()
        if not isinstance(value, Expr) or isinstance(value, _FIXED):
            return tracer.kept(value, name) if type(value) is tuple else value
        if builder.kernel is None:
            if reads_memory(value):
                builder.require_kernel(f"the value of {name}")
            return value
        return builder.hold(name, value)

    def annotated(self, name: str, value: Any, annotation: Callable[[], Any], old: Any, span: Span) -> Any:
        """``name: annotation = value``: an element type converts, other annotations are comments."""
        try:
            dtype = annotation()
        except NameError:
            dtype = None
        if isinstance(dtype, DType) and (is_expression(value) or isinstance(value, (bool, int, float))):
            value = cast(as_expr(value, dtype), dtype)
        return self.assign(name, value, old, span)

    def declare(self, name: str, annotation: Callable[[], Any], value: Any, span: Span) -> Any:
        """``parameter: annotation`` in the body: declares a tensor in the eager style."""
        eager = self.builder.eager
        if eager is None:
            return value
        return eager.declare(name, annotation(), value)

    def unpack(self, value: Any, names: tuple[str | None, ...], olds: tuple[Any, ...], span: Span) -> list[Any]:
        """The values for ``a, b = value``. Where a target is memory, all values are read before any is stored.

        Args:
            names: plain names among the targets, None for others.
            olds: what the names hold.
        """
        place = self.builder.place(span)
        if isinstance(value, Placeholder):
            raise value.error(place)
        if is_expression(value) or isinstance(value, (Buffer, BufferRegion, int, float)):
            raise CompileError(
                "E-UNPACK",
                f"one value is unpacked to {len(names)} names",
                span=place,
                facts=[f"the value is {value!r}"],
                help="assign it to one name",
            )
        values = list(value)
        if len(values) != len(names):
            raise CompileError(
                "E-UNPACK",
                f"{len(values)} values are unpacked to {len(names)} names",
                span=place,
                help="give as many names as values",
            )
        if all(names) and not any(type(old) is ScalarRef for old in olds):
            return values
        return [
            self.builder.bind(name or "value", as_expr(item))
            if is_expression(item) and not (type(item) is ScalarRef and not item.named) and reads_memory(item)
            else item
            for item, name in zip(values, names)
        ]

    def returned(self, value: Any, span: Span) -> Any:
        """The value of a `return` statement."""
        for frame in self.builder.frames[self.depth :]:
            if frame.is_conditional:
                raise CompileError(
                    "E-RETURN-STAGED",
                    f"return inside {frame.what}",
                    span=self.builder.place(span),
                    spans=[(f"{frame.what} begins here", frame.span)],
                    help="put the rest into `else`, or keep the value in a T.alloc_var and return it at the end",
                )
        if isinstance(value, tuple):
            return tuple([self._settled(item) for item in value])
        return self._settled(value)

    def _settled(self, value: Any) -> Any:
        # What the function read must be what it returns, whatever the caller stores before using it.
        if is_expression(value) and self.builder.kernel is not None and reads_memory(value):
            return self.builder.bind("result", as_expr(value))
        return value

    def carried(
        self, names: tuple[str, ...], before: tuple[Any, ...], after: tuple[Any, ...], spans: tuple[Span, ...]
    ) -> None:
        """Refuses names that a staged loop reads before it assigns them: the body was traced once, with the value
        from before."""
        for name, old, new, span in zip(names, before, after, spans):
            if old is new or type(old) is Unset:
                continue
            if isinstance(old, _PLAIN_TYPES) and isinstance(new, _PLAIN_TYPES) and old == new:
                continue
            raise CompileError(
                "E-LOOP-CARRIED",
                f"{name} changes from one iteration to the next, but a plain name is bound once",
                span=self.builder.place(span),
                facts=[f"before the loop {name} is {_text(old)}"],
                help=f"make it memory: write {name} = T.alloc_var(dtype, init=…) before the loop",
            )

    def ended(self, name: str, value: Any, before: Any, other: Any, span: Span, what: str) -> Any:
        """What a name assigned in a staged construct holds after it: what it held before, where no branch changed it,
        else nothing.

        Args:
            value: what it holds at the end.
            before: what it held before the construct.
            other: what it held at the end of the other branch.
        """
        if (value is before and other is before) or type(value) is Unset:
            return value
        if type(value) is ScalarRef:
            home = self.builder.home.get(value.buffer)
            if home is None or not home.ended:
                return value
        return Unset(
            name,
            f"{name} got its value inside {what}, which need not run exactly once; after it {name} has no value",
            "make it memory before (T.alloc_var or a buffer), or choose the value with `a if condition else b`",
            ((f"{name} is assigned inside this", self.builder.place(span)),),
        )


class Branch:
    """An `if` statement."""

    __slots__ = ("builder", "condition", "span", "staged", "then_body", "value")

    def __init__(self, builder: Builder, condition: Any, span: Span | None) -> None:
        value = known(condition)
        self.builder = builder
        self.span = span
        self.staged = is_expression(value)
        self.value = value
        self.then_body: Any = None
        if self.staged:
            self.condition = as_condition(value, span)
            builder.adopt(self.condition)

    def then(self) -> bool:
        """Whether to run the first branch now."""
        if not self.staged:
            self.value = bool(self.value)
            return self.value
        self.builder.push(Frame("then", self.span, "the `if`"))
        return True

    def otherwise(self) -> bool:
        """Whether to run the second branch now."""
        if not self.staged:
            return not self.value
        self.then_body = self.builder.pop().body()
        self.builder.push(Frame("else", self.span, "the `else`"))
        return True

    def done(self) -> bool:
        """Ends the statement; true when it became IR."""
        if not self.staged:
            return False
        body = self.builder.pop().body()
        if self.then_body is None:
            self.builder.emit_built(If(self.condition, body, None, span=self.span))
        else:
            self.builder.emit_built(If(self.condition, self.then_body, body, span=self.span))
        return True


class Loop:
    """A `for` statement."""

    __slots__ = ("builder", "depth", "frame", "iterable", "names", "span")

    def __init__(self, builder: Builder, iterable: Any, names: tuple[str, ...] | None, span: Span | None) -> None:
        self.builder = builder
        self.iterable = iterable
        self.names = names
        self.span = span
        self.depth = len(builder.frames)
        self.frame = iterable if isinstance(iterable, LoopFrame) else None
        if self.frame is None:
            self._check_iterable()
        elif names is not None and len(names) != self.frame.arity:
            raise CompileError(
                "E-LOOP-TARGET",
                f"{self.frame.what} has {_count(self.frame.arity, 'index', 'indices')}, the loop names {len(names)}",
                span=span,
                help="give one name for each index",
            )

    def __iter__(self) -> Iterator[Any]:
        if self.frame is None:
            yield from self.iterable
            return
        self.builder.span = self.span
        yield self.frame.open(self.builder, self.names or ())
        self.frame.close(self.builder)

    def leave(self, span: Span) -> bool:
        """`break`: true when Python should leave the loop now."""
        return self._jump("break", Break, self.frame.no_break if self.frame is not None else None, span)

    def skip(self, span: Span) -> bool:
        """`continue`: true when Python should go on with the next element now."""
        return self._jump("continue", Continue, self.frame.no_continue if self.frame is not None else None, span)

    def done(self) -> bool:
        """Ends the statement; true when it became IR."""
        return self.frame is not None

    def _jump(self, word: str, node: Any, reason: str | None, span: Span) -> bool:
        place = self.builder.place(span)
        if self.frame is None:
            _require_unstaged(self.builder, self.depth, word, place)
            return True
        if reason is not None:
            raise CompileError(
                "E-BREAK",
                f"{word} in {self.frame.what}",
                span=place,
                facts=[reason],
                help="guard the statements with `if`",
            )
        self.builder.jump(node(span=place))
        return False

    def _check_iterable(self) -> None:
        value = self.iterable
        if isinstance(value, Placeholder):
            raise value.error(self.span)
        if is_expression(value) or isinstance(value, (Buffer, BufferRegion, int)):
            raise CompileError(
                "E-LOOP-ITERABLE",
                "a for loop cannot iterate over this",
                span=self.span,
                facts=[f"found {value!r}"],
                help="loop over indices: `for i in T.serial(n)`, T.Parallel(n), T.Pipelined(n, …) or range(n)",
            )


class WhileLoop:
    """A `while` statement."""

    __slots__ = ("always", "builder", "condition", "depth", "span", "staged")

    def __init__(self, builder: Builder, always: bool, span: Span | None) -> None:
        self.builder = builder
        self.always = always
        self.span = span
        self.depth = len(builder.frames)
        self.staged = False
        self.condition: Any = None

    def next(self, test: Callable[[], Any]) -> bool:
        """Whether Python runs the body (once more)."""
        if self.staged:
            frame = self.builder.pop()
            self.builder.emit_built(While(self.condition, frame.body(), span=self.span))
            return False
        begun = self.builder.frame, len(self.builder.frame.stmts)
        value = test()
        if not is_expression(value) and not (self.always and self.builder.kernel is not None):
            return bool(value)
        self.staged = True
        self.condition = as_condition(bool(value) if self.always else value, self.span)
        self.builder.require_kernel("a `while` over an expression")
        self.builder.adopt(self.condition)
        frame = self.builder.push(Frame("while", self.span, "the `while` loop", "serial"))
        self._repeat(*begun, frame)
        return True

    def _repeat(self, outer: Frame, count: int, inner: Frame) -> None:
        """Calls with an effect in the condition are made before every iteration: the loop begins with them and with a
        break where the condition no longer holds."""
        made = outer.stmts[count:]
        if not made:
            return
        del outer.stmts[count:]
        inner.stmts += made
        for stmt in made:
            if isinstance(stmt, Bind):
                self.builder.home[stmt.var] = inner
        stop = If(unary("not", self.condition), Break(span=self.span), None, span=self.span)
        inner.stmts.append(stop)
        self.condition = const(True, "bool", self.span)

    def leave(self, span: Span) -> bool:
        """`break`: true when Python should leave the loop now."""
        return self._jump("break", Break, span)

    def skip(self, span: Span) -> bool:
        """`continue`: true when Python should test the condition again now."""
        return self._jump("continue", Continue, span)

    def done(self) -> bool:
        """Ends the statement; true when it became IR."""
        return self.staged

    def _jump(self, word: str, node: Any, span: Span) -> bool:
        place = self.builder.place(span)
        if not self.staged:
            _require_unstaged(self.builder, self.depth, word, place)
            return True
        self.builder.jump(node(span=place))
        return False


def store(container: Any, index: Any, value: Any) -> None:
    """``container[index] = value`` in a plain function that a kernel calls; the place is the call's."""
    span = require_builder("an assignment to an element").span
    tracer.store(container, index, value, span)


def _require_unstaged(builder: Builder, depth: int, word: str, span: Span | None) -> None:
    for frame in builder.frames[depth:]:
        if frame.is_conditional:
            raise CompileError(
                "E-BREAK",
                f"{word} of a loop that unrolls while tracing, inside {frame.what}",
                span=span,
                spans=[(f"{frame.what} begins here", frame.span)],
                help="loop with T.serial(n) to leave it when the kernel runs",
            )


def _element(value: Any, span: Span | None) -> Any:
    if isinstance(value, (Buffer, BufferRegion)):
        name = value.name if isinstance(value, Buffer) else value.buffer.name
        raise CompileError(
            "E-EXPR-VALUE",
            f"{name} is a tile, not a value that an element can hold",
            span=span,
            facts=[repr(value)],
            help=f"copy tiles with T.copy, or use an element such as {name}[i, j]",
        )
    if isinstance(value, Placeholder):
        raise value.error(span)
    return value


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, (Expr, int, float, str)) else f"a {type(value).__name__}"


tracer = Tracer()
