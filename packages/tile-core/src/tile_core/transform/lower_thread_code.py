"""LowerThreadCode: code that the user wrote for single threads runs as loops over the threads of a block.

Needs PIPED with tile ops lowered, leaves PIPED without threads: for targets on which one thread runs a whole block.
Statements that depend on the thread become the body of a parallel loop over the threads; a block-wide sync ends one
such loop and starts the next. What does not depend on the thread runs once. A value that threads keep across a sync
(a local buffer, a bound variable) gets one element a thread, threads last, so that neighbours lie side by side.

Every thread must reach a sync: one under a condition or in a loop that differs between threads is an error, since
there is no order of loops that could carry it out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import CompileError, declare_codes
from ..ir import (
    AccessPtr,
    Bind,
    Block,
    Break,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Continue,
    Evaluate,
    Expr,
    For,
    If,
    IntImm,
    KernelLaunch,
    PrimFunc,
    Return,
    Rewriter,
    Seq,
    Stmt,
    Var,
    While,
    binary,
    const,
    seq,
    substitute,
    walk,
)
from .base import Pass, PassContext, register_pass
from .scoped import is_index

__all__ = ["LowerThreadCode"]

declare_codes(
    {
        "E-THREAD-DIVERGENT": "a block-wide sync that not all threads of the block reach together",
        "E-THREAD-PARTIAL": "a sync of a part of the block's threads on a target that runs a block on one thread",
        "E-THREAD-RETURN": "a return or jump that only some threads of a block take",
    }
)


@register_pass("LowerThreadCode", needs="PIPED..THREAD", leaves="same")
class LowerThreadCode(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        return _Launches().rewrite(function)


class _Launches(Rewriter):
    def rewrite_KernelLaunch(self, node: KernelLaunch) -> Stmt:
        if not node.thread_vars:
            return node
        body = _Threads(node).lower(node.body)
        return node.with_(thread_vars=(), threads=(), body=body)


class _Threads:
    """One launch: which symbols differ between threads, and the body as loops over threads."""

    def __init__(self, launch: KernelLaunch) -> None:
        self.vars = launch.thread_vars
        self.extents = tuple(launch.threads)
        self.count = 1
        for extent in self.extents:
            if isinstance(extent, IntImm):
                self.count *= extent.value
        self.variant = _variant_symbols(launch)
        self.kept: dict[Any, Buffer] = {}

    # Statements that end up without syncs

    def lower(self, stmt: Stmt) -> Stmt:
        """The statement for all threads: loops over threads round what differs between them."""
        if _is_sync(stmt):
            self._check_sync(stmt)
            return Seq(())
        if self.is_thread_code(stmt):
            return self.over_threads(stmt)
        if not self.differs(stmt) and not _has_sync(stmt):
            return stmt
        if isinstance(stmt, Seq):
            return self.sequence(stmt)
        if isinstance(stmt, Block):
            return self.block(stmt)
        self._check_uniform(stmt)
        return stmt.map_children(lambda c: self.lower(c) if isinstance(c, Stmt) else c)

    def sequence(self, stmt: Seq) -> Stmt:
        """Runs of statements of threads become one loop each; values bound in one and used in another are kept."""
        result: list[Stmt] = []
        run: list[Stmt] = []
        self._keep_binds(stmt)

        def end_run() -> None:
            if run:
                result.append(self.over_threads(seq(*run)))
                run.clear()

        for item in stmt.stmts:
            if self.is_thread_code(item):
                run.append(item)
            elif isinstance(item, Bind) and is_index(item.value):
                # The same on all threads and at all times: it need not end the run.
                result.append(item)
            else:
                end_run()
                result.append(self.lower(item))
        end_run()
        return seq(*result)

    def block(self, stmt: Block) -> Stmt:
        """Thread-level buffers that differ between threads get one copy a thread."""
        allocations: list[Buffer] = []
        for buffer in stmt.allocations:
            if buffer in self.variant:
                wide = buffer.with_(shape=(*buffer.shape, const(self.count, "int32")))
                self.kept[buffer] = wide
                allocations.append(wide)
            else:
                allocations.append(buffer)
        return self._with_kept(stmt.with_(allocations=tuple(allocations), body=self.lower(stmt.body)), stmt)

    def _with_kept(self, new: Block, old: Block) -> Block:
        kept = [b for symbol, b in self.kept.items() if isinstance(symbol, Var) and b not in self._placed]
        self._placed.update(kept)
        return new.with_(allocations=(*new.allocations, *kept)) if kept else new

    @property
    def _placed(self) -> set[Buffer]:
        return self.__dict__.setdefault("placed", set())

    def _keep_binds(self, stmt: Seq) -> None:
        """Finds variables that are bound in one run and used in a later one."""
        owner: dict[Var, int] = {}
        run = 0
        for item in stmt.stmts:
            if not self.is_thread_code(item) and not (isinstance(item, Bind) and is_index(item.value)):
                run += 1
            if isinstance(item, Bind) and item.var in self.variant:
                owner[item.var] = run
            for node in walk(item):
                if isinstance(node, Var) and owner.get(node, run) != run and node not in self.kept:
                    self.kept[node] = Buffer(node.name, (const(self.count, "int32"),), node.dtype, "local")

    def is_thread_code(self, stmt: Stmt) -> bool:
        """Whether a statement is what each thread does on its own: it differs between threads and holds nothing for the
        whole block."""
        if not self.differs(stmt) or _has_sync(stmt):
            return False
        if not isinstance(stmt, (Seq, Block)) and self._divergent_control(stmt) is not None:
            return True
        if isinstance(stmt, (Bind, BufferStore, Evaluate)):
            return True
        parts = [c for c in stmt.child_nodes() if isinstance(c, Stmt)]
        return all(self.is_thread_code(part) or not _touches_shared_memory(part) for part in parts)

    # Loops over threads

    def over_threads(self, stmt: Stmt) -> Stmt:
        """A parallel loop over the threads, x innermost, with kept values in their buffers."""
        _check_jumps(stmt)
        fresh = {v: v.with_() for v in self.vars}
        body = _Expand(self.kept, self.linear(fresh)).rewrite(stmt)
        body = substitute(Seq(()) if body is None else body, fresh)
        for var, extent in zip(self.vars, self.extents):
            if isinstance(extent, IntImm) and extent.value == 1:
                body = substitute(body, {fresh[var]: const(0, var.dtype)})
            else:
                body = For(fresh[var], const(0, var.dtype), extent, "parallel", body, span=stmt.span)
        return body

    def linear(self, fresh: dict[Var, Var]) -> Expr:
        """The number of the thread in its block."""
        number: Expr = const(0, "int32")
        scale = 1
        for var, extent in zip(self.vars, self.extents):
            if isinstance(extent, IntImm) and extent.value > 1:
                term = fresh[var] if scale == 1 else binary("mul", fresh[var], scale)
                number = term if scale == 1 else binary("add", number, term)
                scale *= extent.value
        return number

    def differs(self, stmt: Stmt) -> bool:
        """Whether a statement does something else on different threads."""
        return any(symbol in self.variant for symbol in _symbols(stmt))

    # What cannot be carried out

    def _check_uniform(self, stmt: Stmt) -> None:
        control = self._divergent_control(stmt)
        if control is None:
            return
        sync = next(s for s in walk(stmt) if _is_sync(s))
        raise CompileError(
            "E-THREAD-DIVERGENT",
            "not all threads of the block reach this T.sync_threads() together",
            span=sync.span,
            spans=[("it stands under", stmt.span)],
            facts=[f"{type(stmt).__name__.lower()}: {control!r} differs between threads"],
            help="move the sync out, and split the condition round the statements before and after it",
        )

    def _divergent_control(self, stmt: Stmt) -> Expr | None:
        """The condition or bound of a statement that differs between threads, or None."""
        for name in _CONTROLS.get(type(stmt), ()):
            control = getattr(stmt, name)
            if any(symbol in self.variant for symbol in _symbols(control)):
                return control
        return None

    def _check_sync(self, stmt: Any) -> None:
        arguments = stmt.value.args  # type: ignore[attr-defined]
        if len(arguments) < 2:
            return
        count = arguments[1]
        if not (isinstance(count, IntImm) and count.value in (0, self.count)):
            raise CompileError(
                "E-THREAD-PARTIAL",
                "a sync of a part of the threads cannot be carried out on this target",
                span=stmt.span,
                facts=[f"threads that meet: {count!r}", f"threads of the block: {self.count}"],
                help="use T.sync_threads() for the whole block",
            )


_CONTROLS: dict[type, tuple[str, ...]] = {If: ("condition",), While: ("condition",), For: ("min", "extent")}


class _Expand(Rewriter):
    """Accesses to kept values go to the thread's own element."""

    def __init__(self, kept: dict[Any, Buffer], thread: Expr) -> None:
        super().__init__()
        self.kept = kept
        self.thread = thread

    def rewrite_Var(self, node: Var) -> Expr:
        buffer = self.kept.get(node)
        return node if buffer is None else BufferLoad(buffer, (self.thread,), span=node.span)

    def rewrite_Bind(self, node: Bind) -> Stmt:
        buffer = self.kept.get(node.var)
        value = self.rewrite(node.value)
        if buffer is None:
            return node if value is node.value else node.with_(value=value)
        return BufferStore(buffer, value, (self.thread,), span=node.span)

    def rewrite_BufferLoad(self, node: BufferLoad) -> Any:
        return self._access(node)

    def rewrite_BufferStore(self, node: BufferStore) -> Any:
        return self._access(node)

    def rewrite_AccessPtr(self, node: AccessPtr) -> Any:
        return self._access(node)

    def _access(self, node: Any) -> Any:
        new = node.map_children(self.rewrite)
        wide = self.kept.get(node.buffer)
        return new if wide is None else new.with_(buffer=wide, indices=(*new.indices, self.thread))


def _variant_symbols(launch: KernelLaunch) -> set[Any]:
    """Thread indices, the variables bound to values that depend on them, and thread-level buffers whose contents do."""
    variant: set[Any] = set(launch.thread_vars)
    while True:
        before = len(variant)
        _Spread(variant).visit(launch.body, False)
        if len(variant) == before:
            return variant


class _Spread:
    """One sweep over the statements: adds the symbols that a variant value or a variant condition makes variant."""

    def __init__(self, variant: set[Any]) -> None:
        self.variant = variant

    def visit(self, stmt: Any, under: bool) -> None:
        if isinstance(stmt, Bind):
            if self._depends(stmt.value):
                self.variant.add(stmt.var)
        elif isinstance(stmt, BufferStore):
            # Memory that threads share holds one value, whoever wrote it.
            if stmt.buffer.memory.level == "thread" and (under or any(map(self._depends, stmt.child_nodes()))):
                self.variant.add(stmt.buffer)
        elif isinstance(stmt, Evaluate):
            if under or self._depends(stmt.value):
                pointers = (p.buffer for p in walk(stmt.value) if isinstance(p, AccessPtr) and p.mode != "r")
                self.variant.update(b for b in pointers if b.memory.level == "thread")
        elif isinstance(stmt, (If, While)):
            inside = under or self._depends(stmt.condition)
            for child in stmt.child_nodes():
                if isinstance(child, Stmt):
                    self.visit(child, inside)
        elif isinstance(stmt, For):
            differs = self._depends(stmt.min) or self._depends(stmt.extent)
            if differs:
                self.variant.add(stmt.var)
            self.visit(stmt.body, under or differs)
        else:
            for child in stmt.child_nodes():
                if isinstance(child, Stmt):
                    self.visit(child, under)

    def _depends(self, expr: Expr) -> bool:
        return any(symbol in self.variant for symbol in _symbols(expr))


def _symbols(node: Any) -> Iterator[Any]:
    """Variables and buffers that a tree mentions."""
    for item in walk(node):
        if isinstance(item, Var):
            yield item
        elif isinstance(item, (BufferLoad, BufferStore, AccessPtr)):
            yield item.buffer


def _touches_shared_memory(stmt: Stmt) -> bool:
    """Whether a statement writes memory that threads share, or does something else that is done once a block."""
    for item in walk(stmt):
        if isinstance(item, BufferStore) and item.buffer.memory.level != "thread":
            return True
        if isinstance(item, Evaluate) or (isinstance(item, For) and item.kind == "parallel"):
            return True
    return False


def _is_sync(node: Any) -> bool:
    return isinstance(node, Evaluate) and isinstance(node.value, Call) and node.value.op == "sync_threads"


def _has_sync(stmt: Stmt) -> bool:
    return any(_is_sync(item) for item in walk(stmt))


def _check_jumps(stmt: Stmt) -> None:
    """A thread may leave its own loops, not the block's."""
    stack: list[tuple[Any, bool]] = [(stmt, False)]
    while stack:
        item, in_loop = stack.pop()
        if isinstance(item, Return) or (isinstance(item, (Break, Continue)) and not in_loop):
            raise CompileError(
                "E-THREAD-RETURN",
                f"a {type(item).__name__.lower()} that only some threads of the block take",
                span=item.span,
                help="put the statements that follow under the opposite condition",
            )
        inside = in_loop or isinstance(item, (For, While))
        stack += [(child, inside) for child in item.child_nodes() if isinstance(child, Stmt)]
