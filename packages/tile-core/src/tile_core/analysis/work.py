"""Work: how many operations a kernel does and how many bytes it must move, counted from its traced function.

Operations are counted by element type, those of gemms apart: hardware has other peaks for them. Bytes are counted
twice: *needed*, each tensor that the kernel reads or writes once; and *asked*, what its blocks read and write in global
memory, as if there were no cache. Blocks are sampled where there are many, loops are counted at the middle of their
range, and what depends on data is counted once and reported as `inexact`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

from ..arith.evaluate import evaluate
from ..ir import (
    Binary,
    Bind,
    Block,
    Buffer,
    BufferRegion,
    Call,
    Expr,
    For,
    If,
    KernelLaunch,
    PrimFunc,
    Seq,
    Stmt,
    TileOpStmt,
    Unary,
    Var,
    While,
    walk,
)
from ..tileop.gemm import MatrixProduct
from .access import accesses_of, root_buffer

__all__ = ["Work", "count_work"]

SAMPLES = 27
"""At most so many blocks of a grid are looked at."""


@dataclass
class Work:
    """See the module's text.

    Args:
        gemm: multiplications and additions in gemms, by element type of the operands.
        other: operations on floating-point elements outside, by element type; a function such as exp is one.
        read, written: needed bytes.
        asked: bytes that blocks ask global memory for.
        blocks: number of blocks.
        shared: bytes of shared memory that a block declares, without pipelining.
        inexact: what could not be counted.
    """

    gemm: dict[str, float] = field(default_factory=dict)
    other: dict[str, float] = field(default_factory=dict)
    read: int = 0
    written: int = 0
    asked: float = 0.0
    blocks: int = 0
    shared: int = 0
    inexact: list[str] = field(default_factory=list)

    @property
    def operations(self) -> float:
        """All of them."""
        return sum(self.gemm.values()) + sum(self.other.values())

    @property
    def bytes(self) -> int:
        """Needed bytes."""
        return self.read + self.written

    @property
    def intensity(self) -> float:
        """Operations for each needed byte."""
        return self.operations / self.bytes if self.bytes else 0.0


def count_work(function: PrimFunc, sizes: Mapping[str, int] | None = None) -> Work:
    """The work of one call of a traced function (form TILE).

    Args:
        function: the kernel.
        sizes: values of symbolic dimensions and scalar parameters, by name.
    """
    values = {
        var: (sizes or {})[var.name]
        for var in (*function.size_vars(), *(p for p in function.params if isinstance(p, Var)))
        if var.name in (sizes or {})
    }
    work = Work()
    counter = _Counter(work, {param for param in function.params if isinstance(param, Buffer)})
    counter.statement(function.body, 1.0, values)
    for buffer in function.params:
        if isinstance(buffer, Buffer):
            size = int(prod(counter.number(extent, values) for extent in buffer.shape) * buffer.dtype.bits / 8)
            work.read += size * (buffer in counter.read)
            work.written += size * (buffer in counter.written)
    work.inexact = list(dict.fromkeys(work.inexact))
    return work


class _Counter:
    def __init__(self, work: Work, params: set[Buffer]) -> None:
        self.work = work
        self.params = params
        self.read: set[Buffer] = set()
        self.written: set[Buffer] = set()

    def number(self, expr: Expr | int, env: Mapping[Var, int]) -> float:
        """A size in this environment; 1, and a note, where it is not known."""
        if isinstance(expr, int):
            return expr
        try:
            return float(evaluate(expr, env))
        except Exception:
            self.work.inexact.append(f"{expr!r} is not known beforehand")
            return 1.0

    def statement(self, stmt: Stmt, times: float, env: dict[Var, int]) -> None:
        if isinstance(stmt, Seq):
            for item in stmt.stmts:
                self.statement(item, times, env)
        elif isinstance(stmt, KernelLaunch):
            self._launch(stmt, times, env)
        elif isinstance(stmt, For):
            self._touch(stmt, times, env)
            extent = max(0.0, self.number(stmt.extent, env))
            start = self.number(stmt.min, env)
            step = 1.0 if stmt.step is None else self.number(stmt.step, env)
            inside = {**env, stmt.var: int(start + (extent - 1) / 2 * step)}
            self.statement(stmt.body, times * extent, inside)
        elif isinstance(stmt, If):
            self._branch(stmt, times, env)
        elif isinstance(stmt, While):
            self.work.inexact.append("the number of iterations of a while loop is not known")
            self._touch(stmt, times, env)
            self.statement(stmt.body, times, env)
        elif isinstance(stmt, Bind):
            self._touch(stmt, times, env)
            try:
                env[stmt.var] = evaluate(stmt.value, env)  # an environment is its scope's own
            except Exception:
                env.pop(stmt.var, None)
        elif isinstance(stmt, Block):
            self.work.shared += int(
                sum(
                    prod(self.number(extent, env) for extent in buffer.shape) * buffer.dtype.bits / 8
                    for buffer in stmt.allocations
                    if buffer.scope.startswith("shared") and buffer.data is None
                )
                * (self._first_block)
            )
            self.statement(stmt.body, times, env)
        else:
            self._touch(stmt, times, env)
            for child in stmt.child_nodes():
                if isinstance(child, Stmt):
                    self.statement(child, times, env)

    _first_block = True

    def _launch(self, stmt: KernelLaunch, times: float, env: dict[Var, int]) -> None:
        grid = [max(0, int(self.number(extent, env))) for extent in stmt.grid]
        blocks = prod(grid)
        self.work.blocks += blocks
        for extent, var in zip(stmt.threads, stmt.thread_vars):
            env = {**env, var: int(self.number(extent, env)) // 2}
        sampled = list(_sampled(grid))
        weight = sum(weight for _, weight in sampled) or 1.0
        for place, share in sampled:
            self.statement(stmt.body, times * blocks * share / weight, {**env, **dict(zip(stmt.grid_vars, place))})
            self._first_block = False
        self._first_block = True

    def _branch(self, stmt: If, times: float, env: dict[Var, int]) -> None:
        self._touch(stmt, times, env)
        try:
            taken = bool(evaluate(stmt.condition, env))
        except Exception:
            self.work.inexact.append(f"whether {stmt.condition!r} holds is not known beforehand")
            taken = True
        body = stmt.then_body if taken else stmt.else_body
        if body is not None:
            self.statement(body, times, env)

    def _touch(self, stmt: Stmt, times: float, env: dict[Var, int]) -> None:
        """What the statement itself does, without what is inside it."""
        for site in accesses_of(stmt):
            buffer = root_buffer(site.buffer)
            if buffer in self.params:
                if site.reads:
                    self.read.add(buffer)
                if site.writes:
                    self.written.add(buffer)
                count = prod(self.number(extent, env) for extent in site.region.extents)
                self.work.asked += times * count * buffer.dtype.bits / 8 * (site.reads + site.writes)
        if isinstance(stmt, TileOpStmt):
            self._tile_op(stmt, times, env)
            return
        for expr in stmt.child_nodes():
            if isinstance(expr, Expr):
                self._expression(expr, times)

    def _tile_op(self, stmt: TileOpStmt, times: float, env: dict[Var, int]) -> None:
        op = stmt.op
        if isinstance(op, MatrixProduct):
            # Of a sparse A what is kept: the rest is no work for any way of doing it.
            m, n = self._tile(op.c, env)
            k = self._tile(op.a, env)[0 if op.transpose_a else 1]
            _add(self.work.gemm, op.a.buffer.dtype.name, times * 2 * m * n * k)
            return
        name = type(op).name
        if name == "copy":
            return
        sources = [region for _, role, region in op.operands() if isinstance(region, BufferRegion) and role == "in"]
        if name in ("fill", "clear") or not sources:
            return
        count = max(prod(self.number(extent, env) for extent in region.extents) for region in sources)
        if sources[0].buffer.dtype.is_float:
            _add(self.work.other, sources[0].buffer.dtype.name, times * count)

    def _tile(self, region: BufferRegion, env: dict[Var, int]) -> tuple[float, float]:
        extents = [self.number(extent, env) for extent in region.extents]
        return extents[-2], extents[-1]

    def _expression(self, expr: Expr, times: float) -> None:
        for node in walk(expr):
            if isinstance(node, (Binary, Unary, Call)) and node.dtype.is_float:
                _add(self.work.other, node.dtype.name, times * node.dtype.lanes)


def _sampled(grid: list[int]) -> Iterator[tuple[tuple[int, ...], float]]:
    """Places of a grid with the number of blocks that each stands for: middles of equal parts of every axis."""
    per_axis = max(1, int(SAMPLES ** (1 / max(1, len([g for g in grid if g > 1])))))
    axes: list[list[tuple[int, float]]] = []
    for extent in grid:
        parts = min(extent, per_axis)
        bounds = [extent * part // parts for part in range(parts + 1)] if parts else []
        axes.append([((low + high - 1) // 2, float(high - low)) for low, high in pairwise(bounds)])
    places: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
    for axis in axes:
        places = [((*place, index), weight * share) for place, weight in places for index, share in axis]
    yield from places


def _add(table: dict[str, float], key: str, amount: float) -> None:
    table[key] = table.get(key, 0.0) + amount
