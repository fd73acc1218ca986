"""LowerThreadCode: code that the user wrote for single threads runs as loops over the threads of a block.

Needs PIPED with tile ops lowered, leaves PIPED without threads: for targets on which one thread runs a whole block.
Statements that depend on the thread become the body of a parallel loop over the threads; a block-wide sync ends one
such loop and starts the next. What does not depend on the thread runs once. A value that threads keep across a sync
(a local buffer, a bound variable) gets one element a thread, threads last, so that neighbours lie side by side. So does
a local buffer that is the same on all threads, where a loop over threads changes it and others see it: each thread
changes its own copy, and what runs once reads the first thread's.

Every thread must reach a sync of the block or of the grid: one under a condition or in a loop that differs between
threads is an error, since there is no order of loops that could carry it out. What the lanes of a warp do together
(`shfl`, votes, `sync_warp`) also ends the loop over the threads; under a condition that differs between threads, the
condition is kept for each thread and every loop that comes out of its body asks for it. Where the branches of a
condition meet at named barriers, they become parts that go on side by side. Updates that add up are made by every
thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..dtypes import DType
from ..errors import CompileError, declare_codes
from ..ir import (
    SIDE_BY_SIDE,
    AccessPtr,
    Attr,
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
    Select,
    Seq,
    Stmt,
    Var,
    While,
    binary,
    cast,
    const,
    has_thread_code,
    is_thread_call,
    seq,
    substitute,
    unary,
    walk,
)
from .base import Pass, PassContext, register_pass
from .scoped import is_index
from .thread_collectives import Together
from .thread_variance import is_block_sync, symbols, variant_symbols

__all__ = ["LowerThreadCode"]

declare_codes(
    {
        "E-THREAD-DIVERGENT": "a block-wide sync that not all threads of the block reach together",
        "E-THREAD-PARTIAL": "a named barrier of some threads to which all of the block come",
        "E-THREAD-RETURN": "a return or jump that only some threads of a block take",
    }
)


@register_pass("LowerThreadCode", needs="PIPED..THREAD", leaves="same")
class LowerThreadCode(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        return _Launches().rewrite(function)


class _Launches(Rewriter):
    def rewrite_KernelLaunch(self, node: KernelLaunch) -> Stmt:
        if not node.thread_vars and not _has_meeting(node.body):
            return node
        threads = _Threads(node)
        body = threads.lower(node.body)
        arrays = tuple(threads.arrays)
        return node.with_(thread_vars=(), threads=(), body=Block(arrays, body) if arrays else body)


class _Threads:
    """One launch: which symbols differ between threads, and the body as loops over threads.

    `guard` holds, where a condition that differs between threads has been split round a meeting of some of them, which
    threads it holds for.
    """

    def __init__(self, launch: KernelLaunch) -> None:
        self.vars = launch.thread_vars
        self.extents = tuple(launch.threads)
        self.count = 1
        for extent in self.extents:
            if isinstance(extent, IntImm):
                self.count *= extent.value
        self.by_thread = has_thread_code(launch.body, launch.thread_vars)
        self.variant = variant_symbols(launch, self.by_thread)
        self.guard: Buffer | None = None
        self.copied: set[Buffer] = set()
        self._find_copied(launch.body)
        self.kept: dict[Any, Buffer] = {}
        self.arrays: list[Buffer] = []
        self.conditions: list[Expr] = []
        self.meets_partly = False
        self.together = Together(self.count, self.array)

    def array(self, name: str, size: int, dtype: DType) -> Buffer:
        """An array that lives as long as the kernel."""
        buffer = Buffer(name, (const(size, "int32"),), dtype, "local")
        self.arrays.append(buffer)
        return buffer

    # Statements that end up without syncs

    def lower(self, stmt: Stmt) -> Stmt:
        """The statement for all threads: loops over threads round what differs between them."""
        if _is_meeting(stmt):
            return self.meeting(stmt)
        call = _thread_call(stmt)
        if call is not None:
            return self.collective(stmt, call)
        if self.is_thread_code(stmt) or (self.guard is not None and not _has_meeting(stmt)):
            return self.over_threads(stmt)
        if not self.differs(stmt) and not _has_meeting(stmt):
            return self.once(stmt)
        if isinstance(stmt, Seq):
            return self.sequence(stmt)
        if isinstance(stmt, Block):
            return self.block(stmt)
        if self._divergent_control(stmt) is not None:
            self._check_uniform(stmt)
            return self.divergent(stmt)
        return stmt.map_children(lambda c: self.lower(c) if isinstance(c, Stmt) else self.once(c))

    def once(self, node: Any) -> Any:
        """What runs once for the block, with the first thread's copies."""
        if not self.copied:
            return node
        copies = {buffer: wide for buffer, wide in self.kept.items() if buffer in self.copied}
        return _Expand(copies, const(0, "int32")).rewrite(node)

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
            if self._runs(item):
                run.append(item)
            elif isinstance(item, Bind) and is_index(item.value) and item.var not in self.variant:
                # The same on all threads and at all times: it need not end the run.
                result.append(self.once(item))
            else:
                end_run()
                result.append(self.lower(item))
        end_run()
        return seq(*result)

    def _runs(self, item: Stmt) -> bool:
        """Whether a statement joins those before it in one loop over the threads."""
        return self.is_thread_code(item) or (self.guard is not None and not _has_meeting(item))

    def block(self, stmt: Block) -> Stmt:
        """Thread-level buffers that differ between threads get one copy a thread."""
        allocations: list[Buffer] = []
        for buffer in stmt.allocations:
            if buffer in self.variant or buffer in self.copied:
                wide = buffer.with_(shape=(*buffer.shape, const(self.count, "int32")))
                self.kept[buffer] = wide
                allocations.append(wide)
            else:
                allocations.append(buffer)
        return stmt.with_(allocations=tuple(allocations), body=self.lower(stmt.body))

    def _keep_binds(self, stmt: Seq) -> None:
        """Finds variables that are bound in one run and used in a later one."""
        owner: dict[Var, int] = {}
        run = 0
        for item in stmt.stmts:
            runs = self._runs(item)
            if not runs and not (isinstance(item, Bind) and is_index(item.value) and item.var not in self.variant):
                run += 1
            if isinstance(item, Bind) and (item.var in self.variant or (runs and self.guard is not None)):
                owner[item.var] = run if runs else -1
            for node in walk(item):
                if isinstance(node, Var) and owner.get(node, run) != run:
                    self.keep(node)

    def keep(self, var: Var) -> Buffer:
        """The array that holds a variable's value for each thread."""
        if var not in self.kept:
            self.kept[var] = self.array(var.name, self.count, var.dtype)
        return self.kept[var]

    def is_thread_code(self, stmt: Stmt) -> bool:
        """Whether a statement is what each thread does on its own: it differs between threads and holds nothing for the
        whole block."""
        if not self.differs(stmt) or _has_meeting(stmt):
            return False
        if not isinstance(stmt, (Seq, Block)) and self._divergent_control(stmt) is not None:
            return True
        if isinstance(stmt, (Bind, BufferStore, Evaluate)):
            return True
        parts = [c for c in stmt.child_nodes() if isinstance(c, Stmt)]
        return all(self.is_thread_code(part) or not _touches_shared_memory(part) for part in parts)

    # Loops over threads

    def over_threads(self, stmt: Stmt) -> Stmt:
        """A parallel loop over the threads, x innermost, with kept values in their buffers; only those that `guard`
        lets do something."""
        _check_jumps(stmt)
        guard = self.guard
        return self.each(lambda thread: stmt, lambda thread, body: body if guard is None else _if(guard, thread, body))

    def each(self, build: Callable[[Expr], Stmt], wrap: Callable[[Expr, Stmt], Stmt] | None = None) -> Stmt:
        """A parallel loop over the threads: what `build` makes of the thread's number, with kept values in their
        buffers."""
        fresh = {v: v.with_() for v in self.vars}
        thread = self.linear(fresh)
        stmt = build(thread)
        body = _Expand(self.kept, thread).rewrite(stmt)
        body = substitute(Seq(()) if body is None else body, fresh)
        body = body if wrap is None else wrap(thread, body)
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
        """Whether a statement does something else on different threads, or something that counts for each of them."""
        if any(symbol in self.variant for symbol in symbols(stmt)) or (self.by_thread and _counts(stmt)):
            return True
        return bool(self.copied) and not self.copied.isdisjoint(_written(stmt))

    def _find_copied(self, body: Stmt) -> None:
        """Finds the thread-level buffers that are the same on all threads, and that loops over threads change for
        others to see. What writes them is the threads' own from then on, so it takes more than one sweep."""
        while True:
            before = len(self.copied)
            stack: list[Stmt] = [body]
            while stack:
                stmt = stack.pop()
                if self.is_thread_code(stmt):
                    inside = {b for node in walk(stmt) if isinstance(node, Block) for b in node.allocations}
                    self.copied |= set(_written(stmt)) - inside - self.variant
                elif self.differs(stmt) or _has_meeting(stmt):
                    stack += [c for c in stmt.child_nodes() if isinstance(c, Stmt)]
            if len(self.copied) == before:
                return

    # What threads do together

    def collective(self, stmt: Stmt, call: Call) -> Stmt:
        """A call in which the lanes of a warp, or all threads, work together: what each brings is stored first, then
        each takes what it gets."""
        whole = call.op.startswith("sync_threads_")
        if whole and self.guard is not None:
            raise self._divergent(stmt)
        brought = [self.array("brought", self.count, a.dtype) for a in call.args[:3]]
        guard = self.guard
        store = self.each(
            lambda thread: seq(*(BufferStore(b, a, (thread,)) for b, a in zip(brought, call.args))),
            lambda thread, body: body if guard is None else _if(guard, thread, body),
        )
        var = stmt.var if isinstance(stmt, Bind) else None
        if whole:
            result = self.array("total", 1, call.dtype)
            total = self.together.total(call.op.removeprefix("sync_threads_"), brought[0], result)
            taken = [] if var is None else [Bind(var, BufferLoad(result, (const(0, "int32"),)), span=stmt.span)]
            return seq(store, total, *taken)
        result = self.array("given", self.count, call.dtype) if var is None else self.keep(var)
        return seq(store, self.together.lower(call, brought, guard, result))

    def divergent(self, stmt: Stmt) -> Stmt:
        """A condition or loop that differs between threads, round a meeting of those for which it holds."""
        if isinstance(stmt, If):
            return self._divergent_if(stmt)
        if isinstance(stmt, For):
            return self._divergent_for(stmt)
        assert isinstance(stmt, While)
        guard, test = self._narrow(stmt.condition)
        some = self.array("some", 1, DType("int32"))
        again = self.together.total("or", guard, some)
        body = seq(self._under(guard, stmt.condition, stmt.body), self._renew(guard, stmt.condition), again)
        condition = binary("ne", BufferLoad(some, (const(0, "int32"),)), 0)
        return seq(test, again, While(condition, body, span=stmt.span))

    def _divergent_if(self, stmt: If) -> Stmt:
        tests, branches = [], []
        met_partly, self.meets_partly = self.meets_partly, False
        for condition, body in ((stmt.condition, stmt.then_body), (unary("not", stmt.condition), stmt.else_body)):
            if body is not None:
                guard, test = self._narrow(condition)
                tests.append(test)
                branches.append((guard, condition, body))
        parts = [self._under(*branch) for branch in branches]
        partly, self.meets_partly = self.meets_partly, met_partly or self.meets_partly
        if not partly:
            return seq(*tests, *parts)
        apart = Seq(tuple(Attr("part", number, None, part) for number, part in enumerate(parts)))
        return seq(*tests, Attr(SIDE_BY_SIDE, None, None, apart, span=stmt.span))

    def _divergent_for(self, stmt: For) -> Stmt:
        count, low = self.array("count", self.count, DType("int32")), self.keep(stmt.var)
        most, zero = self.array("most", 1, DType("int32")), const(0, "int32")
        step: Expr = const(1, stmt.var.dtype) if stmt.step is None else stmt.step
        first = self.array("first", self.count, stmt.var.dtype)
        guard = self.guard
        start = self.each(
            lambda thread: seq(
                BufferStore(
                    count,
                    cast(stmt.extent, "int32")
                    if guard is None
                    else Select(BufferLoad(guard, (thread,)), cast(stmt.extent, "int32"), zero, True),
                    (thread,),
                ),
                BufferStore(first, stmt.min, (thread,)),
            )
        )
        longest = seq(
            BufferStore(most, zero, (zero,)),
            self.together.each(
                lambda t: BufferStore(most, binary("max", BufferLoad(most, (zero,)), BufferLoad(count, (t,))), (zero,)),
                kind="serial",
            ),
        )
        turn = Var(f"{stmt.var.name}_turn", DType("int32"))
        inside = self.array("inside", self.count, DType("bool"))
        advance = self.each(
            lambda thread: seq(
                BufferStore(inside, binary("lt", turn, BufferLoad(count, (thread,))), (thread,)),
                BufferStore(
                    low,
                    binary("add", BufferLoad(first, (thread,)), binary("mul", cast(turn, stmt.var.dtype), step)),
                    (thread,),
                ),
            )
        )
        body = seq(advance, self._under(inside, None, stmt.body))
        return seq(start, longest, For(turn, zero, BufferLoad(most, (zero,)), "serial", body, span=stmt.span))

    def _narrow(self, condition: Expr) -> tuple[Buffer, Stmt]:
        """(which threads go on where a condition holds, the statement that finds them)."""
        holds = self.array("holds", self.count, DType("bool"))
        return holds, self._test(holds, self.guard, condition)

    def _renew(self, guard: Buffer, condition: Expr) -> Stmt:
        return self._test(guard, guard, condition)

    def _test(self, holds: Buffer, guard: Buffer | None, condition: Expr) -> Stmt:
        def build(thread: Expr) -> Stmt:
            value = condition
            if guard is not None:
                value = Select(BufferLoad(guard, (thread,)), condition, const(False, "bool"), True)
            return BufferStore(holds, value, (thread,))

        return self.each(build)

    def _under(self, guard: Buffer, condition: Expr | None, stmt: Stmt) -> Stmt:
        outer, self.guard = self.guard, guard
        known = len(self.conditions)
        self.conditions.append(const(True, "bool") if condition is None else condition)
        try:
            return self.lower(stmt)
        finally:
            self.guard = outer
            del self.conditions[known:]

    # What cannot be carried out

    def _check_uniform(self, stmt: Stmt) -> None:
        sync = next((s for s in walk(stmt) if is_block_sync(s)), None)
        if sync is not None:
            raise self._divergent(sync, stmt)

    def _divergent(self, sync: Any, stmt: Any = None) -> CompileError:
        control = None if stmt is None else self._divergent_control(stmt)
        facts = [] if control is None else [f"{type(stmt).__name__.lower()}: {control!r} differs between threads"]
        facts = facts or [f"{c!r} differs between threads" for c in self.conditions]
        return CompileError(
            "E-THREAD-DIVERGENT",
            f"not all threads of the block reach this T.{sync.value.op}() together",
            span=sync.span,
            spans=[] if stmt is None else [("it stands under", stmt.span)],
            facts=facts,
            help="move the sync out, and split the condition round the statements before and after it",
        )

    def _divergent_control(self, stmt: Stmt) -> Expr | None:
        """The condition or bound of a statement that differs between threads, or None."""
        for name in _CONTROLS.get(type(stmt), ()):
            control = getattr(stmt, name)
            if any(symbol in self.variant for symbol in symbols(control)):
                return control
        return None

    def meeting(self, stmt: Any) -> Stmt:
        """A meeting orders what stands before and after it: the loops over threads do so by ending there. Blocks, and
        parts of a block's threads, are left to wait for each other."""
        call = stmt.value
        if call.op == "sync_grid" or (call.op == "sync_threads" and len(call.args) < 2):
            if self.guard is not None:
                raise self._divergent(stmt)
            return stmt if call.op == "sync_grid" else Seq(())
        if call.op == "sync_warp":
            return Seq(())
        barrier, expected = call.args
        if isinstance(expected, IntImm) and expected.value in (0, self._present()):
            return Seq(())
        if self.guard is not None:
            self.meets_partly = True
            here = self.array("here", 1, DType("int32"))
            op = "arrive_part" if call.op == "arrive_named" else "sync_part"
            meeting = Call(op, (barrier, expected, BufferLoad(here, (const(0, "int32"),))), call.dtype)
            return seq(self.together.total("count", self.guard, here), Evaluate(meeting, span=stmt.span))
        raise CompileError(
            "E-THREAD-PARTIAL",
            "all threads of the block come to a barrier for some of them",
            span=stmt.span,
            facts=[f"threads that meet: {expected!r}", f"threads that reach it: {self.count}"],
            help="use T.sync_threads() for the whole block, or put the call under the condition of those that meet",
        )

    def _present(self) -> int | None:
        """How many threads reach this place, where that follows from thread indices alone."""
        from ..arith import evaluate

        present = 0
        for number in range(self.count):
            values: dict[Any, int] = {}
            rest = number
            for var, extent in zip(self.vars, self.extents):
                assert isinstance(extent, IntImm)
                values[var] = rest % extent.value
                rest //= extent.value
            try:
                present += all(bool(evaluate(condition, values)) for condition in self.conditions)
            except (ValueError, KeyError):
                return None
        return present


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


def _written(stmt: Stmt) -> Iterator[Buffer]:
    """Thread-level buffers that a statement writes."""
    for item in walk(stmt):
        writes = isinstance(item, BufferStore) or (isinstance(item, AccessPtr) and item.mode != "r")
        if writes and item.buffer.memory.level == "thread":
            yield item.buffer


def _touches_shared_memory(stmt: Stmt) -> bool:
    """Whether a statement writes memory that threads share, or does something else that is done once a block."""
    for item in walk(stmt):
        if isinstance(item, BufferStore) and item.buffer.memory.level != "thread":
            return True
        if isinstance(item, Evaluate) or (isinstance(item, For) and item.kind == "parallel"):
            return True
    return False


_MEETINGS = ("sync_threads", "sync_warp", "sync_named", "arrive_named", "sync_grid")


def _is_meeting(node: Any) -> bool:
    """A statement that only orders what threads did."""
    return isinstance(node, Evaluate) and isinstance(node.value, Call) and node.value.op in _MEETINGS


def _thread_call(stmt: Stmt) -> Call | None:
    """The call in which threads work together that a statement consists of."""
    value = stmt.value if isinstance(stmt, (Bind, Evaluate)) else None
    return value if isinstance(value, Call) and is_thread_call(value) and value.op not in _MEETINGS else None


def _has_meeting(stmt: Stmt) -> bool:
    return any(_is_meeting(item) or (isinstance(item, Call) and is_thread_call(item)) for item in walk(stmt))


def _counts(stmt: Stmt) -> bool:
    """Whether a statement does something that adds up over the threads that do it: an atomic update, outside of
    parallel loops, whose iterations are spread over the threads."""
    stack: list[Any] = [stmt]
    while stack:
        item = stack.pop()
        if isinstance(item, For) and item.kind == "parallel":
            continue
        if isinstance(item, Call) and item.op.startswith("atomic_") and item.op != "atomic_load":
            return True
        if isinstance(item, Call) and item.op == "device_print" and not item.annotations:
            return True
        stack.extend(item.child_nodes())
    return False


def _if(guard: Buffer, thread: Expr, body: Stmt) -> Stmt:
    return If(BufferLoad(guard, (thread,)), body, span=body.span)


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
