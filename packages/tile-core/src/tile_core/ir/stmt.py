"""Statements: the effect-producing nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .expr import Expr, Var
from .node import Node, attr, binder, child, children, node

if TYPE_CHECKING:
    from .buffer import Buffer

__all__ = [
    "LOOP_KINDS",
    "Assert",
    "Attr",
    "Bind",
    "Block",
    "Break",
    "BufferStore",
    "Continue",
    "Evaluate",
    "For",
    "If",
    "KernelLaunch",
    "Return",
    "Seq",
    "Stmt",
    "TileOpStmt",
    "While",
    "seq",
]

# serial: in order. parallel: T.Parallel, iterations independent. pipelined: T.Pipelined. unroll: expanded by the
# device compiler or explicitly.
# vectorized: one SIMD operation. persistent: outer tile loop. threads: over the threads of a block (the CPU runs
# user thread code so).
LOOP_KINDS = ("serial", "parallel", "pipelined", "unroll", "vectorized", "persistent", "threads")


class Stmt(Node):
    """Base of statements."""

    __slots__ = ()

    def __repr__(self) -> str:
        from .printer import stmt_text

        return stmt_text(self)


@node
class BufferStore(Stmt):
    """`buffer[indices] = value`; a Ramp as last index stores a vector. Lanes where `predicate` is false are not
    written."""

    buffer: Buffer = attr()
    value: Expr = child()
    indices: tuple[Expr, ...] = children()
    predicate: Expr | None = child(default=None)


@node
class Seq(Stmt):
    """Statements one after another. An empty one does nothing. Build with `seq`, which flattens."""

    stmts: tuple[Stmt, ...] = children()


@node
class For(Stmt):
    """`for var in [min, min + extent·step) step step` of a kind of LOOP_KINDS; `extent` is the trip count.

    Nested T.Parallel axes are nested parallel loops. `annotations` is a tuple of (key, value) pairs; known keys:
    num_stages, order, stage,
    coalesced_width, loop_layout, prefer_async, unroll_factor, explicit.
    """

    var: Var = binder()
    min: Expr = child()
    extent: Expr = child()
    kind: str = attr()
    body: Stmt = child()
    step: Expr | None = child(default=None)
    annotations: tuple[tuple[str, Any], ...] = attr(default=())

    def annotation(self, key: str, default: Any = None) -> Any:
        """The value of an annotation."""
        for name, value in self.annotations:
            if name == key:
                return value
        return default


@node
class While(Stmt):
    """Repeats `body` while `condition` holds."""

    condition: Expr = child()
    body: Stmt = child()


@node
class Break(Stmt):
    """Leaves the innermost loop."""


@node
class Continue(Stmt):
    """Goes on with the next iteration of the innermost loop."""


@node
class If(Stmt):
    """Runs one of two statements."""

    condition: Expr = child()
    then_body: Stmt = child()
    else_body: Stmt | None = child(default=None)


@node
class Bind(Stmt):
    """Names a value for the statements that follow in the same sequence."""

    var: Var = binder()
    value: Expr = child()


@node
class Evaluate(Stmt):
    """Evaluates an expression for its effect."""

    value: Expr = child()


@node
class Block(Stmt):
    """Owns the buffers that it allocates: they live while `body` runs.

    Annotations (tuple of pairs): layouts — ((buffer, layout), …); safe_value — ((buffer, expr), …); swizzle — panel
    order; and others that passes add.
    """

    allocations: tuple[Buffer, ...] = binder()
    body: Stmt = child()
    annotations: tuple[tuple[str, Any], ...] = attr(default=())

    def annotation(self, key: str, default: Any = None) -> Any:
        """The value of an annotation."""
        for name, value in self.annotations:
            if name == key:
                return value
        return default


@node
class Assert(Stmt):
    """Stops the program with `message` when `condition` is false."""

    condition: Expr = child()
    message: str = attr()


@node
class Attr(Stmt):
    """A fact or instruction that holds while `body` runs: key, subject and value are the key's business (``assume``:
    value is the fact)."""

    key: str = attr()
    subject: Any = attr()
    value: Expr | None = child()
    body: Stmt = child()


@node
class KernelLaunch(Stmt):
    """Runs `body` for each block of a grid, on `threads` threads a block.

    Args:
        grid_vars, grid: block indices and extents (up to three), x first.
        thread_vars, threads: thread indices and extents, x first; extents are constants. () means that the target
            chooses.
        cluster: blocks a cluster, an axis each, or ().
    """

    grid_vars: tuple[Var, ...] = binder()
    grid: tuple[Expr, ...] = children()
    thread_vars: tuple[Var, ...] = binder()
    threads: tuple[Expr, ...] = children()
    body: Stmt = child()
    cluster: tuple[int, ...] = attr(default=())
    annotations: tuple[tuple[str, Any], ...] = attr(default=())

    def annotation(self, key: str, default: Any = None) -> Any:
        """The value of an annotation."""
        for name, value in self.annotations:
            if name == key:
                return value
        return default


@node
class Return(Stmt):
    """Ends the function; `value` is for host functions (0: success)."""

    value: Expr | None = child(default=None)


@node
class TileOpStmt(Stmt):
    """A tile op (copy, gemm, reduce …) as a statement. `candidate` is the name of the chosen candidate from form
    CHOSEN on."""

    op: Any = child()
    candidate: str | None = attr(default=None)


def seq(*stmts: Stmt | None, span: Any = None) -> Stmt:
    """One statement that runs `stmts` in order: nested sequences are flattened, None and empty ones dropped."""
    flat: list[Stmt] = []
    stack = list(reversed(stmts))
    while stack:
        stmt = stack.pop()
        if stmt is None:
            continue
        if type(stmt) is Seq:
            stack.extend(reversed(stmt.stmts))
        else:
            flat.append(stmt)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat), span=span)
