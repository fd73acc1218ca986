"""The builder: where the statements of a kernel are collected while its function runs.

One `Builder` lives for one trace. It keeps a stack of frames, one for each construct whose body is being traced
(kernel, loop, branch); statements
go to the innermost. It gives every node its place in the source, and refuses names whose scope has ended.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from ..dtypes import DType
from ..errors import CompileError, declare_codes
from ..ir import (
    AccessPtr,
    Attr,
    Bind,
    Block,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    Evaluate,
    Expr,
    FloatImm,
    IntImm,
    SizeVar,
    Stmt,
    StringImm,
    TileOpStmt,
    Var,
    as_expr,
    cast,
    const,
    seq,
)
from ..source import Span
from ..tileop.base import TileOp
from .placeholder import refuse_placeholder

__all__ = [
    "Builder",
    "Frame",
    "LoopFrame",
    "ScalarRef",
    "current_builder",
    "index_of",
    "known",
    "reads_memory",
    "require_builder",
]

declare_codes(
    {
        "E-TRACE-OUTSIDE": "a statement of the language outside a kernel that is being traced",
        "E-KERNEL-OUTSIDE": "a statement that needs `with T.Kernel` around it",
        "E-NAME-ENDED": "a name used after the loop or branch that gave it its value",
        "E-INDEX-RANK": "an access with another number of indices than the buffer has dimensions",
        "E-INDEX-TYPE": "an index that is no integer",
        "E-STORE-SLICE": "an assignment to a slice of a buffer",
    }
)

_set = object.__setattr__
_current: ContextVar[Builder | None] = ContextVar("tile_builder", default=None)


def current_builder() -> Builder | None:
    """The builder of the trace that is going on, or None."""
    return _current.get()


def require_builder(what: str) -> Builder:
    """The builder of the trace that is going on.

    Raises:
        CompileError: nothing is being traced; `what` names the caller, such as ``T.copy``.
    """
    builder = _current.get()
    if builder is None:
        raise CompileError(
            "E-TRACE-OUTSIDE",
            f"{what} is called outside a kernel",
            help="call it in a function decorated with @T.prim_func, @T.macro or @tile.jit",
        )
    return builder


class Frame:
    """The body of a construct while it is traced.

    Args:
        kind: root, kernel, loop, while, then or else.
        span: the construct's place.
        what: how messages call it, such as ``the T.serial loop``.
        loop_kind: for loops, of LOOP_KINDS.
        stages: of a pipelined loop.
    """

    __slots__ = (
        "allocations",
        "annotations",
        "ended",
        "jumps",
        "kind",
        "loop_kind",
        "pending",
        "span",
        "stages",
        "stmts",
        "what",
    )

    def __init__(self, kind: str, span: Span | None, what: str, loop_kind: str = "", stages: int = 0) -> None:
        self.kind = kind
        self.stages = stages
        self.span = span
        self.what = what
        self.loop_kind = loop_kind
        self.stmts: list[Any] = []
        self.allocations: list[Buffer] = []
        self.annotations: dict[str, Any] = {}
        self.pending: list[tuple[int, str, Any, Expr | None, Span | None]] = []
        self.ended = False
        self.jumps = False

    @property
    def is_conditional(self) -> bool:
        """Whether the body runs not exactly once."""
        return self.kind in ("loop", "while", "then", "else")

    def body(self) -> Stmt:
        """What was collected, as one statement: facts wrap what follows them, a Block owns allocations and
        annotations."""
        stmts = self.stmts
        for position, key, subject, value, span in reversed(self.pending):
            rest = seq(*stmts[position:], span=span)
            stmts = [*stmts[:position], Attr(key, subject, value, rest, span=span)]
        body = seq(*stmts, span=self.span)
        if self.allocations or self.annotations:
            body = Block(tuple(self.allocations), body, tuple(self.annotations.items()), span=self.span)
        return body


class LoopFrame:
    """A loop of the language, such as ``T.serial(n)``, before it is entered: what a `for` statement of a kernel
    iterates over.

    Subclasses say how many indices there are, open the frames and close them; plain Python code may iterate over one
    as well.
    """

    what = "the loop"
    no_break: Any = None
    no_continue: Any = None

    @property
    def arity(self) -> int:
        """Number of loop indices; a single one is a Var, several are a tuple."""
        raise TypeError(f"{type(self).__name__} does not say its number of indices")

    def open(self, builder: Builder, names: tuple[str, ...]) -> Any:
        """Pushes the frames and returns the index or the tuple of indices."""
        raise TypeError(f"{type(self).__name__} cannot be entered")

    def close(self, builder: Builder) -> None:
        """Pops the frames and emits the loops."""
        raise TypeError(f"{type(self).__name__} cannot be left")

    def __iter__(self) -> Any:
        builder = require_builder(self.what)
        yield self.open(builder, ())
        self.close(builder)


class ScalarRef:
    """A scalar in memory: what T.alloc_var gives and T.Ref passes. Reading it loads, assigning to its name stores.

    It takes part in expressions like one; `named` turns true when a name of the kernel first holds it.
    """

    __slots__ = ("buffer", "indices", "named")

    def __init__(self, buffer: Buffer, indices: tuple[Expr, ...]) -> None:
        self.buffer = buffer
        self.indices = indices
        self.named = False

    def __tile_expr__(self) -> BufferLoad:
        return BufferLoad(self.buffer, self.indices)

    @property
    def dtype(self) -> Any:
        """Element type."""
        return self.buffer.dtype

    def astype(self, dtype: Any) -> Expr:
        """The value converted to `dtype`."""
        return self.__tile_expr__().astype(dtype)

    def __getitem__(self, index: Any) -> BufferLoad:
        _require_zero(self, index)
        return self.__tile_expr__()

    def __setitem__(self, index: Any, value: Any) -> None:
        _require_zero(self, index)
        require_builder("an assignment to a variable").store(self.buffer, self.indices, value)

    def __repr__(self) -> str:
        return repr(self.buffer)

    def __bool__(self) -> bool:
        return bool(self.__tile_expr__())

    __hash__ = object.__hash__


def _delegate(name: str) -> Any:
    def operator(self: ScalarRef, *others: Any) -> Any:
        return getattr(self.__tile_expr__(), name)(*others)

    operator.__name__ = name
    return operator


_TWO_SIDED = ("add", "sub", "mul", "truediv", "floordiv", "mod", "and", "or", "xor", "lshift", "rshift")
_ONE_SIDED = ("neg", "pos", "invert", "lt", "le", "gt", "ge", "eq", "ne")
for _name in (*_TWO_SIDED, *("r" + name for name in _TWO_SIDED), *_ONE_SIDED):
    setattr(ScalarRef, f"__{_name}__", _delegate(f"__{_name}__"))


def _require_zero(ref: ScalarRef, index: Any) -> None:
    items = index if isinstance(index, tuple) else (index,)
    if any(
        item != 0 if isinstance(item, int) else not (isinstance(item, IntImm) and item.value == 0) for item in items
    ):
        raise CompileError(
            "E-INDEX-RANK",
            f"{ref.buffer.name} is a scalar and has no element {index!r}",
            facts=[f"it was made by T.alloc_var({ref.dtype})"],
            help=f"use {ref.buffer.name} alone, or T.alloc_local for an array",
        )


class Builder:
    """Collects the statements of one trace."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.span: Span | None = None
        self.caller: Span | None = None
        self.frames: list[Frame] = [Frame("root", None, "the function")]
        self.kernel: Any = None
        self.values: dict[Var, Expr] = {}
        self.home: dict[Any, Frame] = {}
        self.attrs: dict[str, Any] = {}
        self.size_vars: dict[SizeVar, Span | None] = {}
        self.eager: Any = None
        self.hints: list[str] = []
        self.branches: list[Any] = []
        # Pointer parameters, the tensors that T.match_buffer makes of them, and the T.sblock around this point.
        self.handles: tuple[Var, ...] = ()
        self.matched: dict[Var, Buffer] = {}
        self.blocks: list[Any] = []
        self._checked: set[int] = set()

    # -- frames --------------------------------------------------------------------------------------------------------

    @property
    def frame(self) -> Frame:
        """The innermost frame."""
        return self.frames[-1]

    def push(self, frame: Frame) -> Frame:
        """Opens a frame."""
        self.frames.append(frame)
        return frame

    def pop(self) -> Frame:
        """Closes the innermost frame; names bound in it may no longer be used."""
        frame = self.frames.pop()
        frame.ended = True
        # Names may have been used legally before; what is emitted from now on is looked at afresh.
        self._checked.clear()
        return frame

    def unwind(self, depth: int) -> None:
        """Drops the frames above `depth` and what they hold (an exception left them)."""
        while len(self.frames) > depth:
            self.pop()

    def enclosing(self, *kinds: str) -> Frame | None:
        """The innermost frame of one of the kinds."""
        for frame in reversed(self.frames):
            if frame.kind in kinds:
                return frame
        return None

    def require_kernel(self, what: str) -> Any:
        """The kernel frame around this point (CompileError when there is none)."""
        if self.kernel is None:
            raise CompileError(
                "E-KERNEL-OUTSIDE",
                f"{what} is used outside `with T.Kernel`",
                span=self.span,
                help="move it into the body of `with T.Kernel(…)`",
            )
        return self.kernel

    # -- statements ----------------------------------------------------------------------------------------------------

    def emit(self, stmt: Stmt) -> None:
        """Appends a statement to the innermost frame."""
        if stmt.span is None:
            _set(stmt, "span", self.span)
        self.adopt(stmt)
        self.frames[-1].stmts.append(stmt)

    def emit_built(self, stmt: Stmt) -> None:
        """Appends a statement whose parts were looked at already: a construct that was left."""
        self.frames[-1].stmts.append(stmt)

    def emit_op(self, op: TileOp) -> None:
        """Checks a tile op and emits it."""
        self.require_kernel(f"T.{op.name}")
        if op.span is None:
            _set(op, "span", self.span)
        op.check()
        self.emit(TileOpStmt(self._with_fixed_indices(op), span=op.span))

    def _with_fixed_indices(self, op: TileOp) -> TileOp:
        """The op with indices that read what it writes evaluated before it begins."""
        operands = op.operands()
        written = [region.buffer for _, role, region in operands if role != "in"]
        changes = {}
        for name, _, region in operands:
            mins = tuple(
                [
                    self.bind("index", low) if any(reads_memory(low, buffer) for buffer in written) else low
                    for low in region.mins
                ]
            )
            if any(new is not old for new, old in zip(mins, region.mins)):
                changes[name] = region.with_(mins=mins)
        return op.with_(**changes) if changes else op

    def jump(self, stmt: Stmt) -> None:
        """Emits a break or continue; the loop's frame remembers it."""
        loop = self.enclosing("loop", "while")
        if loop is not None:
            loop.jumps = True
        self.emit(stmt)

    def source_kernel(self, entry: str) -> None:
        """Emits the call of a kernel in the target's own language with all parameters of the function, which
        `finish` adds."""
        self.emit(Evaluate(Call("source_kernel", (StringImm(entry),), DType("void")), span=self.span))

    def wrap_rest(self, key: str, subject: Any, value: Expr | None) -> None:
        """Wraps what follows in the innermost frame in an Attr."""
        if value is not None:
            self.adopt(value)
        frame = self.frames[-1]
        frame.pending.append((len(frame.stmts), key, subject, value, self.span))

    def bind(self, name: str, value: Expr) -> Var:
        """Names a value; the name holds for the rest of the innermost frame."""
        var = Var(name, value.dtype, span=self.span)
        self.emit(Bind(var, value, span=self.span))
        self.values[var] = value
        self.home[var] = self.frames[-1]
        return var

    def hold(self, name: str, value: Expr) -> Expr:
        """A value under a name. A pointer stays what it is, with its place as it is now: the call that gets it is seen
        to use the memory."""
        if isinstance(value, AccessPtr):
            places = (self.bind("index", i) if reads_memory(i) else i for i in value.indices)
            return value.with_(indices=tuple(places))
        return self.bind(name, value)

    def take_hint(self, default: str) -> str:
        """The name that the statement assigns what is allocated next to, or `default`."""
        return self.hints.pop(0) if self.hints else default

    def allocate(self, buffer: Buffer) -> Buffer:
        """Declares a buffer in the innermost frame's block."""
        frame = self.frames[-1]
        frame.allocations.append(buffer)
        self.home[buffer] = frame
        return buffer

    def store(self, buffer: Buffer, indices: tuple[Expr, ...], value: Any, span: Span | None = None) -> None:
        """Stores a value, converted to the buffer's element type."""
        self.require_kernel(f"an assignment to {buffer.name}")
        value = as_expr(value, buffer.dtype, span)
        lanes = value.dtype.lanes
        dtype = buffer.dtype if lanes == 1 or buffer.dtype.lanes > 1 else buffer.dtype.with_lanes(lanes)
        self.emit(BufferStore(buffer, cast(value, dtype), indices, span=span or self.span))

    # -- places and names ----------------------------------------------------------------------------------------------

    def place(self, span: Span | None) -> Span | None:
        """`span` as reached through the macro calls that are being inlined."""
        if span is None or self.caller is None:
            return span
        return span.with_caller(self.caller)

    def adopt(self, root: Any) -> None:
        """Gives new nodes below `root` the current place and refuses names whose scope has ended."""
        checked, span, home = self._checked, self.span, self.home
        stack = [root]
        while stack:
            node = stack.pop()
            key = id(node)
            if key in checked:
                continue
            checked.add(key)
            if node.span is None:
                _set(node, "span", span)
            kind = type(node)
            if kind is IntImm or kind is FloatImm:
                continue
            if kind is BufferLoad or kind is BufferStore or kind is BufferRegion:
                owner = home.get(node.buffer)
                if owner is not None and owner.ended:
                    raise self._ended(node.buffer, owner, node.span)
            elif kind is Var or kind is SizeVar:
                owner = home.get(node)
                if owner is None:
                    if kind is SizeVar:
                        self.size_vars.setdefault(node, span)
                elif owner.ended:
                    raise self._ended(node, owner, span)
                continue
            stack.extend(node.child_nodes())

    def _ended(self, item: Any, frame: Frame, span: Span | None) -> CompileError:
        what = "buffer" if isinstance(item, Buffer) else "value"
        return CompileError(
            "E-NAME-ENDED",
            f"{item.name} is used after {frame.what} that it belongs to has ended",
            span=span,
            spans=[(f"the {what} comes from here", item.span)],
            help=f"allocate {item.name} before {frame.what}"
            if what == "buffer"
            else "keep the value in a T.alloc_var or a buffer that is allocated before, or use it inside",
        )


def known(value: Any) -> Any:
    """A constant expression as its Python number, anything else as it is."""
    return value.value if isinstance(value, (IntImm, FloatImm)) else value


def reads_memory(value: Any, buffer: Buffer | None = None) -> bool:
    """Whether an expression loads from memory (from `buffer` when given): a later store may change its value."""
    stack = [value.__tile_expr__() if isinstance(value, ScalarRef) else value]
    while stack:
        node = stack.pop()
        if isinstance(node, BufferLoad) and (buffer is None or node.buffer is buffer):
            return True
        stack.extend(node.child_nodes())
    return False


def index_of(buffer: Buffer, index: Any, span: Span | None = None) -> Expr:
    """An index as an integer expression.

    Raises:
        CompileError: it is no integer (E-INDEX-TYPE).
    """
    refuse_placeholder(index, span)
    if type(index) is int:
        return const(index, "int32" if -(2**31) <= index < 2**31 else "int64", span)
    if not isinstance(index, (int, Expr)) and hasattr(index, "__index__"):
        return const(index.__index__(), "int32", span)
    if isinstance(index, (int, Expr, ScalarRef)):
        expr = as_expr(index, span=span)
        if expr.dtype.is_int:
            return expr
        if expr.dtype.is_bool:
            return cast(expr, "int32")
        found = f"{expr!r}, which is {expr.dtype}"
    else:
        found = f"{index!r}, a {type(index).__name__}"
    raise CompileError(
        "E-INDEX-TYPE",
        f"{buffer.name} is indexed with something that is no integer",
        span=span,
        facts=[f"index: {found}", f"{buffer!r}"],
        help="use an integer expression; T.cast(x, 'int32') converts",
    )
