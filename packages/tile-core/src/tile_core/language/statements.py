"""Statements as calls: branches, facts and effects that code made by other programs writes so, and indices of blocks
and threads by their CUDA names. In kernels written by hand, Python's statements say the same."""

from __future__ import annotations

from typing import Any

from ..errors import CompileError, declare_codes
from ..frontend.builder import Builder, Frame, LoopFrame, known, require_builder
from ..frontend.loops import loop_bound
from ..frontend.operators import as_condition, is_expression
from ..frontend.placeholder import refuse_placeholder
from ..ir import Attr, Buffer, Call, Evaluate, Expr, IntImm, Var, as_expr, binary, find_intrinsic
from ..ir import If as _If
from .allocate import alloc_fragment, alloc_global, alloc_local, alloc_shared
from .allreduce import CommReducer, reduce_scope
from .views import view

__all__ = [
    "Else",
    "If",
    "Then",
    "alloc_buffer",
    "attr",
    "bind",
    "decl_buffer",
    "evaluate",
    "launch_thread",
    "thread_binding",
]

declare_codes(
    {
        "E-BRANCH": "T.If, T.Then and T.Else that do not belong together",
        "E-ATTR": "an attribute that cannot be said of a statement",
        "E-THREAD-NAME": "an index of blocks or threads that the kernel does not have",
    }
)

_NAMES = {f"{kind}.{axis}": (kind, number) for kind in ("blockIdx", "threadIdx") for number, axis in enumerate("xyz")}


class If:
    """A branch as a statement of its own: ``with T.If(condition): with T.Then(): …`` and, if wanted, ``with T.Else():
    …`` inside it.

    Args:
        condition: decided when the kernel runs.
    """

    def __init__(self, condition: Any) -> None:
        refuse_placeholder(condition)
        builder = require_builder("T.If")
        builder.require_kernel("T.If")
        self.condition = as_condition(condition, builder.span)
        builder.adopt(self.condition)
        self.span = builder.span
        self.bodies: dict[str, Any] = {}

    def __enter__(self) -> None:
        require_builder("T.If").branches.append(self)

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        builder = require_builder("T.If")
        builder.branches.pop()
        if kind is not None:
            return
        if "then" not in self.bodies:
            raise CompileError(
                "E-BRANCH", "T.If without T.Then", span=self.span, help="write `with T.Then():` inside `with T.If(…):`"
            )
        builder.emit_built(_If(self.condition, self.bodies["then"], self.bodies.get("else"), span=self.span))


class Then:
    """What a `T.If` runs when its condition holds."""

    kind = "then"

    def __enter__(self) -> None:
        what = f"T.{type(self).__name__}"
        builder = require_builder(what)
        branch = builder.branches[-1] if builder.branches else None
        if branch is None or self.kind in branch.bodies or (self.kind == "else" and "then" not in branch.bodies):
            raise CompileError(
                "E-BRANCH",
                f"{what} {'outside a T.If' if branch is None else 'where its T.If has it already, or before T.Then'}",
                span=builder.span,
                help="write one `with T.Then():` and at most one `with T.Else():` directly inside `with T.If(…):`",
            )
        self.branch = branch
        builder.push(Frame(self.kind, builder.span, what))

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        frame = require_builder("T.Then").pop()
        if kind is None:
            self.branch.bodies[self.kind] = frame.body()


class Else(Then):
    """What a `T.If` runs when its condition does not hold."""

    kind = "else"


class attr:
    """Says something of the statements in ``with T.attr(node, key, value):`` to passes that know the key; others leave
    it alone.

    Args:
        node: a buffer, an index or a text that it is said of; None for nothing in particular. With the key
            ``reduce_scope``, a `comm_reducer`.
        attr_key: what is said.
        value: a number, an expression or a text.
    """

    def __init__(self, node: Any, attr_key: str, value: Any) -> None:
        builder = require_builder("T.attr")
        builder.require_kernel("T.attr")
        self.reduction = reduce_scope(node) if isinstance(node, CommReducer) and attr_key == "reduce_scope" else None
        if self.reduction is not None:
            return
        fits = node is None or isinstance(node, (Buffer, Var, str))
        if not fits or not isinstance(attr_key, str) or attr_key in ("address", "independent", "executors"):
            raise CompileError(
                "E-ATTR",
                f"T.attr cannot say {attr_key!r} of {node!r}",
                facts=["allowed: a buffer, an index, a text or None; a key that passes do not use themselves"],
                help="leave it out, or state a fact with T.assume",
            )
        self.key = attr_key
        text = isinstance(value, str)
        self.subject = node if not text else (node, value)
        self.value = None if text or value is None else as_expr(value)
        if self.value is not None:
            builder.adopt(self.value)

    def __enter__(self) -> None:
        if self.reduction is not None:
            return self.reduction.__enter__()
        builder = require_builder("T.attr")
        builder.push(Frame("attr", builder.span, "the T.attr"))

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        if self.reduction is not None:
            self.reduction.__exit__(kind, value, traceback)
            return
        builder = require_builder("T.attr")
        frame = builder.pop()
        if kind is None:
            builder.emit_built(Attr(self.key, self.subject, self.value, frame.body(), span=frame.span))


def evaluate(value: Any) -> None:
    """Evaluates an expression for its effect, as a call alone on its line does; without an effect nothing happens.

    Args:
        value: an expression, usually a call. A call that is a statement by itself, such as T.tvm_thread_allreduce,
            gives None: it has been made already.
    """
    builder = require_builder("T.evaluate")
    builder.require_kernel("T.evaluate")
    if value is None:
        return
    refuse_placeholder(value)
    expr = as_expr(value)
    builder.adopt(expr)
    if isinstance(expr, Call) and not find_intrinsic(expr.op).pure:
        builder.emit(Evaluate(expr))


def bind(value: Any, name: str | None = None) -> Expr:
    """Names the value that an expression has here, as an assignment to a name does.

    Args:
        value: the expression.
        name: what the text of the kernel calls it.
    """
    builder = require_builder("T.bind")
    builder.require_kernel("T.bind")
    refuse_placeholder(value)
    return builder.bind(name or builder.take_hint("value"), as_expr(value))


def alloc_buffer(shape: Any, dtype: Any = "float32", scope: str = "global", annotations: Any = None) -> Buffer:
    """A buffer in any memory that a kernel allocates in.

    Args:
        shape: extents.
        dtype: element type.
        scope: global, shared, fragment or local, also by TileLang's names such as ``shared.dyn``.
        annotations: must be left out.

    Raises:
        CompileError: another scope (E-ALLOC-SCOPE), annotations (E-ATTR).
    """
    if annotations:
        raise CompileError(
            "E-ATTR",
            "T.alloc_buffer takes no annotations",
            facts=[f"found {annotations!r}"],
            help="say how a tile is laid out with T.annotate_layout",
        )
    if not isinstance(scope, str) or scope == "global":
        return alloc_global(shape, dtype, scope)
    if scope in ("local.fragment", "fragment"):
        return alloc_fragment(shape, dtype, scope)
    if scope.startswith("local"):
        return alloc_local(shape, dtype, scope)
    return alloc_shared(shape, dtype, scope)


def decl_buffer(
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Any = None,
) -> Buffer:
    """A buffer: a view of `data` where that is given, else new memory.

    Args:
        shape, dtype, scope: as for `alloc_buffer`.
        data: the buffer that it shows.
        strides: in elements, for views in device memory.
        elem_offset, align, offset_factor, buffer_type, axis_separators: must be left at their defaults.

    Raises:
        CompileError: an option that is not at its default (E-ATTR), or as for `view` and `alloc_buffer`.
    """
    given = {"elem_offset": elem_offset, "align": align, "offset_factor": offset_factor, "buffer_type": buffer_type}
    given["axis_separators"] = axis_separators
    wrong = {name: value for name, value in given.items() if value not in (None, 0, "", "default", (), [])}
    if wrong or (data is None and strides is not None):
        raise CompileError(
            "E-ATTR",
            f"T.decl_buffer does not take {', '.join(wrong) or 'strides without data'}",
            facts=[f"found {name}={value!r}" for name, value in wrong.items()],
            help="leave them out",
        )
    return alloc_buffer(shape, dtype, scope) if data is None else view(data, shape, dtype, strides)


class BoundIndex(LoopFrame):
    """An index of the kernel's under its CUDA name: a value, or what a `for` statement takes once in each thread."""

    def __init__(self, what: str, var: Var, first: Expr, extent: Expr, whole: bool) -> None:
        self.what = what
        self.var = var
        self.first = first
        self.extent = extent
        self.whole = whole
        self.index = var if known(first) == 0 else binary("add", var, first)
        self._depth = 0

    def __tile_expr__(self) -> Expr:
        return self.index

    @property
    def arity(self) -> int:
        return 1

    def open(self, builder: Builder, names: tuple[str, ...]) -> Any:
        self._depth = len(builder.frames)
        if not self.whole:
            builder.push(Frame("then", builder.span, f"the {self.what}"))
        return builder.bind(names[0] if names else "i", self.index) if self.index is not self.var else self.var

    def close(self, builder: Builder) -> None:
        if not self.whole:
            frame = builder.pop()
            builder.emit_built(_If(binary("lt", self.var, self.extent), frame.body(), span=frame.span))


def thread_binding(start: Any, stop: Any = None, thread: str | None = None, *, annotations: Any = None) -> BoundIndex:
    """An index of the kernel's blocks or threads: ``tx = T.thread_binding(0, 128, thread="threadIdx.x")``, or a loop
    over it, whose body the threads of the range run.

    Args:
        start, stop: the range of the index; with one of them it starts at 0.
        thread: ``threadIdx.x`` and its like, ``blockIdx.x`` and its like.
        annotations: must be left out.

    Raises:
        CompileError: the kernel has no such index, or not so many (E-THREAD-NAME).
    """
    if annotations:
        raise CompileError("E-ATTR", "T.thread_binding takes no annotations", help="leave annotations out")
    low = loop_bound("T.thread_binding", "start", 0 if stop is None else start, None)
    high = loop_bound("T.thread_binding", "stop", start if stop is None else stop, None)
    return _bound_index("T.thread_binding", thread, low, binary("sub", high, low))


class launch_thread:
    """An index of the kernel's blocks or threads by name, with its extent: ``with T.launch_thread("threadIdx.x", 128)
    as tx:``; the kernel itself is launched by `T.Kernel`.

    Args:
        thread: ``threadIdx.x`` and its like, ``blockIdx.x`` and its like.
        extent: how many there are in `T.Kernel`.

    Raises:
        CompileError: the kernel has no such index, or not so many (E-THREAD-NAME).
    """

    def __init__(self, thread: str, extent: Any) -> None:
        size = loop_bound("T.launch_thread", "extent", extent, None)
        self.found = _bound_index("T.launch_thread", thread, as_expr(0), size)
        if not self.found.whole:
            raise _no_index("T.launch_thread", thread, size)

    def __tile_expr__(self) -> Expr:
        return self.found.index

    def __enter__(self) -> Expr:
        return self.found.index

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        return None


def _bound_index(what: str, thread: Any, first: Expr, extent: Expr) -> BoundIndex:
    kernel = require_builder(what).require_kernel(what)
    kind, axis = _NAMES.get(thread, ("", 0))
    variables, extents = {
        "threadIdx": (kernel.thread_vars, kernel.threads),
        "blockIdx": (kernel.grid_vars, kernel.grid),
    }.get(kind, ((), ()))
    if axis >= len(variables):
        raise _no_index(what, thread, extent)
    have = extents[axis]
    same = have is extent or known(have) == known(extent)
    same = same if not is_expression(same) else isinstance(same, IntImm) and bool(same.value)
    if not same and not (kind == "threadIdx" and isinstance(extent, IntImm) and extent.value < have):
        raise _no_index(what, thread, extent)
    return BoundIndex(what, variables[axis], first, extent, same)


def _no_index(what: str, thread: Any, extent: Expr) -> CompileError:
    kernel = require_builder(what).kernel
    return CompileError(
        "E-THREAD-NAME",
        f"{what}: the kernel has no {extent!r} of {thread!r}",
        facts=[
            f"blocks: {', '.join(map(repr, kernel.grid))}",
            f"threads: {', '.join(map(str, kernel.threads)) or 'left to the target'}",
            f"names: {', '.join(_NAMES)}",
        ],
        help="give T.Kernel the extents: T.Kernel(grid, threads=128)",
    )
