"""``with T.Kernel(…)``: the launch, and who executes what inside it."""

from __future__ import annotations

import os
from typing import Any

from ..errors import CompileError, declare_codes
from ..frontend.builder import Builder, Frame, ScalarRef, known, require_builder
from ..frontend.placeholder import refuse_placeholder
from ..ir import Attr, Expr, IntImm, KernelLaunch, Var, as_expr
from ..source import Span

__all__ = [
    "CUDASourceCodeKernel",
    "Kernel",
    "get_block_binding",
    "get_block_bindings",
    "get_block_extent",
    "get_block_extents",
    "get_thread_binding",
    "get_thread_bindings",
    "get_thread_extent",
    "get_thread_extents",
    "ws",
]

declare_codes(
    {
        "E-KERNEL-GRID": "a grid extent that is no usable integer, or too many of them",
        "E-KERNEL-THREADS": "a number of threads that no block has, or a thread index that the kernel lacks",
        "E-KERNEL-INDICES": "the indices of a block of several axes in place of one of them",
        "E-KERNEL-NESTED": "a kernel inside a kernel",
        "E-WARP-GROUP": "warp groups that a block does not have",
        "E-SOURCE-KERNEL": "a kernel in CUDA text that cannot be launched so",
        "E-KERNEL-CLUSTER": "cluster dimensions that no grid can have",
    }
)

_MAX_THREADS = 1024
_GROUP = 128  # threads of a warp group
_AXES = "xyz"


class Kernel:
    """Launches a block of threads for each index of a grid: ``with T.Kernel(grid_x, grid_y, threads=128) as (bx,
    by):``.

    Args:
        blocks: one to three grid extents, x first; integers or expressions of shape variables.
        threads: threads a block, an int or up to three of them, x first; None lets the target choose.
        prelude: text put before the kernel in the generated source.
        cluster_dims: blocks a cluster, an int or one an axis (targets with clusters).

    A single index is bound to a name, several to a tuple of names.
    """

    def __init__(self, *blocks: Any, threads: Any = None, prelude: str | None = None, cluster_dims: Any = None) -> None:
        self.grid = _grid(blocks)
        self.threads = _threads(threads)
        self.cluster = _cluster(cluster_dims, len(self.grid))
        self.prelude = prelude
        self.annotations: dict[str, Any] = {}
        self.names: tuple[str, ...] = ()
        self.span: Span | None = None
        self.grid_vars: tuple[Var, ...] = ()
        self.thread_vars: tuple[Var, ...] = ()
        self._builder: Builder | None = None
        self._home = Frame("kernel", None, "the kernel")
        self._depth = 0

    def take_names(self, names: tuple[str, ...] | None, span: Span | None) -> None:
        """The names and the place of the `with` statement."""
        self.span = span
        self.names = names or ()
        if names is not None and len(names) not in (1, len(self.grid)):
            raise CompileError(
                "E-LOOP-TARGET",
                f"T.Kernel has {len(self.grid)} grid ax{'is' if len(self.grid) == 1 else 'es'}, {len(names)} are named",
                span=span,
                help="give one name for each grid extent: as (bx, by)",
            )

    def __enter__(self) -> Any:
        builder = require_builder("T.Kernel")
        if builder.kernel is not None:
            raise CompileError(
                "E-KERNEL-NESTED",
                "T.Kernel inside T.Kernel",
                span=self.span,
                spans=[("the outer kernel is here", builder.kernel.span)],
                help="end the first kernel before the second begins",
            )
        if builder.enclosing("loop", "while", "then", "else") is not None:
            raise CompileError(
                "E-KERNEL-NESTED",
                "T.Kernel inside a loop or branch that is decided when the function runs",
                span=self.span,
                help="put the loop or branch into the kernel",
            )
        if builder.eager is not None:
            builder.eager.require_solved(builder)
        self._builder, self._depth = builder, len(builder.frames)
        for extent in self.grid:
            builder.adopt(extent)
        frame = builder.push(Frame("kernel", self.span or builder.span, "the kernel"))
        names = self.names if len(self.names) == len(self.grid) else tuple("b" + a for a in _AXES[: len(self.grid)])
        self.grid_vars = tuple([Var(n, e.dtype, span=frame.span) for n, e in zip(names, self.grid)])
        self._home = frame
        self._make_threads(builder)
        for var in self.grid_vars:
            builder.home[var] = frame
        builder.kernel = self
        return self.grid_vars[0] if len(self.grid_vars) == 1 else _BlockIndices(self.grid_vars)

    def fix_threads(self) -> None:
        """The number of threads of a kernel that leaves it to the target and asks for a thread's index: TileLang's."""
        if not self.threads and self._builder is not None:
            self.threads = (_GROUP,)
            self._make_threads(self._builder)

    def _make_threads(self, builder: Builder) -> None:
        self.thread_vars = tuple([Var("t" + a, span=self._home.span) for a, _ in zip(_AXES, self.threads)])
        for var in self.thread_vars:
            builder.home[var] = self._home

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        builder = self._builder
        if builder is None:
            return
        self._builder = None
        builder.kernel = None
        if kind is not None:
            builder.unwind(self._depth)
            return
        frame = builder.pop()
        span = frame.span
        builder.emit_built(
            KernelLaunch(
                self.grid_vars,
                self.grid,
                self.thread_vars,
                tuple([IntImm(n, span=span) for n in self.threads]),
                frame.body(),
                self.cluster,
                (*(() if self.prelude is None else (("prelude", self.prelude),)), *self.annotations.items()),
                span=span,
            )
        )


class _BlockIndices(tuple[Var, ...]):
    """The indices of a block of a grid of several axes: a tuple, with which nothing is computed by mistake."""

    __slots__ = ()

    def _not_one(self, other: Any = None) -> Any:
        raise CompileError(
            "E-KERNEL-INDICES",
            f"the {len(self)} indices of a block are used as one number",
            facts=[f"T.Kernel has {len(self)} grid axes: {', '.join(v.name for v in self)}"],
            help="name each: with T.Kernel(…) as (bx, by)",
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __mod__ = _not_one
    __lt__ = __le__ = __gt__ = __ge__ = _not_one


class ws:
    """Gives the statements in ``with T.ws(0):`` to some of a block's warp groups: 128 threads each, counted along the
    threads of the block. Tile ops inside are done by these threads alone; others go on behind it. The kernel says
    ``threads=``, a multiple of 128.

    Args:
        warp_group_idx: numbers of warp groups that follow each other, from 0.

    Raises:
        CompileError: groups that the block does not have, or not in a row (E-WARP-GROUP).
    """

    def __init__(self, *warp_group_idx: Any) -> None:
        builder = require_builder("T.ws")
        kernel = builder.require_kernel("T.ws")
        total = 1
        for extent in kernel.threads:
            total *= extent
        groups = [known(g) for g in warp_group_idx]
        whole = all(isinstance(g, int) and not isinstance(g, bool) for g in groups)
        rows = sorted(groups) if whole else []
        row = bool(rows) and rows == list(range(rows[0], rows[0] + len(rows)))
        if not kernel.threads or not row or rows[0] < 0 or (rows[-1] + 1) * _GROUP > total:
            raise CompileError(
                "E-WARP-GROUP",
                f"T.ws does not take {', '.join(map(repr, warp_group_idx)) or 'nothing'}",
                facts=[
                    f"threads: {', '.join(map(str, kernel.threads)) or 'left to the target'}",
                    f"warp groups: {total // _GROUP if kernel.threads else 'not known'}",
                ],
                help=f"give the kernel threads={_GROUP * 2}, say, and name groups that follow each other: T.ws(0)",
            )
        if builder.enclosing("executors") is not None:
            raise CompileError("E-WARP-GROUP", "T.ws inside T.ws", span=builder.span, help="end the first one before")
        self.part = (rows[0] * _GROUP, len(rows) * _GROUP)

    def __enter__(self) -> None:
        builder = require_builder("T.ws")
        builder.push(Frame("executors", builder.span, "the T.ws"))

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        builder = require_builder("T.ws")
        frame = builder.pop()
        if kind is None:
            builder.emit_built(Attr("executors", self.part, None, frame.body(), span=frame.span))


class CUDASourceCodeKernel(Kernel):
    """Launches a kernel that is written in CUDA: ``with T.CUDASourceCodeKernel(grid, threads=128,
    source_code_or_path=text): pass``. It runs on CUDA targets only.

    The kernel is given the parameters of the function in order, tensors as pointers, then its shape variables; scalars
    of types that C does not have (float16 and narrower) as float.

    Args:
        blocks, threads, prelude, cluster_dims: as for `Kernel`; a grid extent for each index.
        source_code_or_path: the text, or the path of a file that holds it.
        entry_name: the name of the ``extern "C" __global__`` function in it.

    Raises:
        CompileError: no such text, or a body with statements (E-SOURCE-KERNEL).
    """

    def __init__(
        self,
        *blocks: Any,
        threads: Any = None,
        source_code_or_path: Any = None,
        entry_name: str = "main_kernel",
        cluster_dims: Any = None,
        prelude: str | None = None,
    ) -> None:
        super().__init__(*blocks, threads=threads, prelude=prelude, cluster_dims=cluster_dims)
        text = _source_text(source_code_or_path)
        if not isinstance(entry_name, str) or not entry_name.isidentifier() or entry_name not in text:
            raise CompileError(
                "E-SOURCE-KERNEL",
                f"the source has no function {entry_name!r}",
                facts=[f"{len(text.splitlines())} lines of text"],
                help=f'define it: extern "C" __global__ void {entry_name}(…), or pass entry_name=',
            )
        self.annotations["source"] = text
        self.annotations["entry"] = entry_name

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        builder = self._builder
        if builder is not None and kind is None:
            if builder.frame.stmts or builder.frame.allocations:
                raise CompileError(
                    "E-SOURCE-KERNEL",
                    "statements in a kernel whose body is CUDA text",
                    span=self.span,
                    help="write `pass`, and all that the kernel does into the text",
                )
            builder.source_kernel(self.annotations["entry"])
        super().__exit__(kind, value, traceback)


def _source_text(source: Any) -> str:
    text = os.fspath(source) if isinstance(source, os.PathLike) else source
    if isinstance(text, str) and text and "\n" not in text and "{" not in text:
        try:
            with open(text, encoding="utf-8") as file:
                return file.read()
        except OSError as error:
            raise CompileError(
                "E-SOURCE-KERNEL",
                f"the source file {text!r} cannot be read",
                facts=[str(error)],
                help="pass the text itself, or the path of a file that exists",
            ) from None
    if isinstance(text, str) and text:
        return text
    raise CompileError(
        "E-SOURCE-KERNEL",
        "T.CUDASourceCodeKernel needs a source",
        facts=[f"found {source!r}"],
        help="pass source_code_or_path=, a text or a path",
    )


def get_thread_binding(dim: int = 0) -> Var:
    """The index of the executing thread along axis `dim` (0: x). A kernel without ``threads=`` that asks has 128."""
    return _thread(dim)[0]


def get_thread_bindings() -> tuple[Var, ...]:
    """The indices of the executing thread, x first."""
    kernel = _kernel("T.get_thread_bindings")
    kernel.fix_threads()
    return kernel.thread_vars


def get_thread_extent(dim: int = 0) -> int:
    """The number of threads along axis `dim` (0: x)."""
    return _thread(dim)[1]


def get_thread_extents() -> tuple[int, ...]:
    """The numbers of threads, x first."""
    kernel = _kernel("T.get_thread_extents")
    kernel.fix_threads()
    return kernel.threads


def get_block_binding(dim: int = 0) -> Var:
    """The index of the block along axis `dim` of the grid (0: x)."""
    return _block(dim)[0]


def get_block_bindings() -> tuple[Var, ...]:
    """The indices of the block, x first."""
    return _kernel("T.get_block_bindings").grid_vars


def get_block_extent(dim: int = 0) -> Expr:
    """The number of blocks along axis `dim` of the grid (0: x)."""
    return _block(dim)[1]


def get_block_extents() -> tuple[Expr, ...]:
    """The numbers of blocks, x first."""
    return _kernel("T.get_block_extents").grid


def _kernel(what: str) -> Kernel:
    return require_builder(what).require_kernel(what)


def _thread(dim: int) -> tuple[Var, int]:
    kernel = _kernel("T.get_thread_binding")
    kernel.fix_threads()
    if isinstance(dim, int) and 0 <= dim < len(kernel.threads):
        return kernel.thread_vars[dim], kernel.threads[dim]
    raise CompileError(
        "E-KERNEL-THREADS",
        f"the kernel has no thread index {dim!r}",
        facts=[f"threads: {', '.join(map(str, kernel.threads)) or 'left to the target'}"],
        help="pass threads= to T.Kernel, with an extent for each axis that you use",
    )


def _block(dim: int) -> tuple[Var, Expr]:
    kernel = _kernel("T.get_block_binding")
    if isinstance(dim, int) and 0 <= dim < len(kernel.grid):
        return kernel.grid_vars[dim], kernel.grid[dim]
    raise CompileError(
        "E-KERNEL-GRID",
        f"the grid has no axis {dim!r}",
        facts=[f"grid: {', '.join(map(repr, kernel.grid))}"],
        help="pass an axis from 0 to 2 that the grid has",
    )


def _grid(blocks: tuple[Any, ...]) -> tuple[Expr, ...]:
    if not 1 <= len(blocks) <= 3:
        raise CompileError(
            "E-KERNEL-GRID",
            "T.Kernel takes one to three grid extents",
            facts=[f"found {len(blocks)}"],
            help="fold further axes into one and split the index with // and %",
        )
    return tuple([_grid_extent(axis, value) for axis, value in enumerate(blocks)])


def _grid_extent(axis: int, value: Any) -> Expr:
    refuse_placeholder(value)
    if isinstance(value, (int, Expr, ScalarRef)) and not isinstance(value, bool):
        extent = as_expr(value)
        if extent.dtype.is_int and not (isinstance(extent, IntImm) and extent.value < 0):
            return extent
        found = f"{extent!r}, which is {extent.dtype}"
    elif hasattr(value, "__index__") and not isinstance(value, bool):
        return _grid_extent(axis, value.__index__())
    else:
        found = f"{value!r}, a {type(value).__name__}"
    raise CompileError(
        "E-KERNEL-GRID",
        f"grid extent {_AXES[axis]} of T.Kernel is no integer ≥ 0",
        facts=[f"found {found}"],
        help="use an integer or an integer expression; T.ceildiv(n, block) rounds up",
    )


def _threads(threads: Any) -> tuple[int, ...]:
    if threads is None:
        return ()
    given = tuple(threads) if isinstance(threads, (tuple, list)) else (threads,)
    values = tuple([known(v) for v in given])
    total = 1
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            total = 0
            break
        total *= value
    if 1 <= total <= _MAX_THREADS and 1 <= len(values) <= 3:
        return values
    raise CompileError(
        "E-KERNEL-THREADS",
        f"T.Kernel cannot launch blocks of threads={threads!r}",
        facts=[f"allowed: an integer, or up to three, with a product from 1 to {_MAX_THREADS}"],
        help="use a multiple of 32 such as 128",
    )


def _cluster(cluster: Any, axes: int) -> tuple[int, ...]:
    if cluster is None:
        return ()
    values = tuple(cluster) if isinstance(cluster, (tuple, list)) else (cluster,)
    if 1 <= len(values) <= 3 and all(isinstance(v, int) and not isinstance(v, bool) and v >= 1 for v in values):
        # Axes that the grid lacks may only have extent 1: (2, 1, 1) is a cluster of a one-dimensional grid.
        if all(v == 1 for v in values[axes:]):
            return values[:axes]
    raise CompileError(
        "E-KERNEL-CLUSTER",
        f"T.Kernel cannot form clusters of cluster_dims={cluster!r}",
        facts=[f"the grid has {axes} ax{'is' if axes == 1 else 'es'}"],
        help="give an integer ≥ 1 for each axis of the grid",
    )
