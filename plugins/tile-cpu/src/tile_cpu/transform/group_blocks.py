"""GroupBlocks: neighbouring blocks of a matrix product run as one task and share what they load.

Needs TILE, leaves TILE. Blocks of a row of the grid load the same tiles of A, blocks of a column the same of B. One
thread that runs GX × GY neighbouring blocks at once loads each tile once for all of them: every statement is repeated
over just those block indices that it depends on, and each tile has one copy for each index that its contents depend
on:

    for k: for y: copy A[y];  for x: copy B[x];  for y, x: gemm(A[y], B[x], C[y][x])

Blocks are independent of each other, so any order of their statements is right. It is done for kernels whose loops
hold only copies and gemms, where loads are what limits (measured at 2048³ with blocks of 128×128: 34 of 134 ms were
copies from the third cache). A grid too small to give each thread several groups keeps single blocks; that is decided
when the kernel runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tile_core.dtypes import DType
from tile_core.ir import (
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
    For,
    If,
    KernelLaunch,
    PrimFunc,
    Rewriter,
    Seq,
    Stmt,
    TileOpStmt,
    Var,
    While,
    binary,
    cast,
    const,
    seq,
    walk,
)
from tile_core.tileop import AtomicUpdate, Copy, Gemm
from tile_core.transform import Pass, PassContext, register_pass

from .. import intrinsics  # noqa: F401  (the row of cpu.worth_grouping)

__all__ = ["GroupBlocks"]

INT32 = DType("int32")

# All copies of all tiles, in bytes: about half of a second cache.
_LARGEST = 960 * 1024
# Blocks a group, x and y, best first.
_SHAPES = ((4, 2), (2, 4), (2, 2), (2, 1), (1, 2))


@register_pass("GroupBlocks", needs="TILE", leaves="same")
class GroupBlocks(Pass):
    def function(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        return _Launches().rewrite(function)


class _Launches(Rewriter):
    def rewrite_KernelLaunch(self, node: KernelLaunch) -> Stmt:
        found = _analyse(node)
        return node if found is None else _Group(node, found).launch()


@dataclass
class _Kernel:
    """A launch that can be grouped: its tiles, and for each the block indices that its contents depend on."""

    block: Block
    depends: dict[Buffer, frozenset[Var]]
    shape: tuple[int, int]


class _Group:
    """Builds the grouped launch. `index` are the block indices x and y of a group's own blocks."""

    def __init__(self, launch: KernelLaunch, kernel: _Kernel) -> None:
        self.launched = launch
        self.kernel = kernel
        self.index = launch.grid_vars[:2]
        self.group = tuple(Var(f"{v.name}_group", v.dtype) for v in self.index)
        self.sizes = tuple(Var(f"{v.name}_size", INT32) for v in self.index)
        self.copies = {b: self._wide(b) for b in kernel.block.allocations}

    def launch(self) -> KernelLaunch:
        """The launch over groups."""
        node = self.launched
        values = self._group_sizes()
        grid = tuple(
            binary("floordiv", binary("add", extent, binary("sub", size, 1)), size)
            for extent, size in zip(node.grid, values)
        )
        body = self.statement(self.kernel.block.body)
        block = self.kernel.block.with_(allocations=tuple(self.copies.values()), body=body)
        # The prover knows no range of a call's result; with this it knows those of all block indices.
        positive = (binary("ge", size, 1) for size in self.sizes)
        known = Attr("assume", None, binary("and", *positive), block)
        sized = seq(*(Bind(var, value) for var, value in zip(self.sizes, values)), known)
        return node.with_(grid_vars=(*self.group, *node.grid_vars[2:]), grid=(*grid, *node.grid[2:]), body=sized)

    def _group_sizes(self) -> tuple[Expr, Expr]:
        """1 × 1, or the group's shape where there are enough blocks for all threads."""
        x, y = self.kernel.shape
        blocks = cast(binary("mul", *self.launched.grid[:2]), INT32)
        worth = Call("cpu.worth_grouping", (blocks, const(x * y, INT32)), INT32)
        first, second = (binary("add", 1, binary("mul", worth, n - 1)) if n > 1 else const(1, INT32) for n in (x, y))
        return first, second

    def statement(self, stmt: Stmt) -> Stmt:
        """The statement for all blocks of the group, repeated over the indices that it depends on."""
        if isinstance(stmt, Seq):
            return seq(*(self.statement(s) for s in stmt.stmts))
        if isinstance(stmt, For) and not self.depends(stmt.min, stmt.extent):
            return stmt.with_(body=self.statement(stmt.body))
        if isinstance(stmt, Block) and not stmt.allocations:
            return stmt.with_(body=self.statement(stmt.body))
        return self.repeated(stmt)

    def depends(self, *nodes: Any) -> tuple[Var, ...]:
        """The block indices that a tree depends on, directly or through a tile."""
        found = _dependences(nodes, self.kernel.depends, self.index)
        return tuple(v for v in self.index if v in found)

    def repeated(self, stmt: Stmt) -> Stmt:
        """Loops over the indices that a statement depends on, y outside."""
        needed = self.depends(stmt)
        fresh = {v: v.with_() for v in needed}
        body = _Own(fresh, self.copies, self.kernel.depends, dict(zip(self.index, self._starts()))).rewrite(stmt)
        for var, group, size, extent in reversed(list(zip(self.index, self.group, self.sizes, self.launched.grid))):
            if var not in fresh:
                continue
            low = binary("mul", group, cast(size, group.dtype))
            count = binary("min", cast(size, var.dtype), binary("sub", extent, low))
            body = For(fresh[var], low, cast(count, var.dtype), "serial", body, span=stmt.span)
        return body

    def _starts(self) -> list[Expr]:
        return [binary("mul", g, cast(s, g.dtype)) for g, s in zip(self.group, self.sizes)]

    def _wide(self, buffer: Buffer) -> Buffer:
        """One copy of a tile for each combination of the indices that it depends on."""
        x, y = self.kernel.shape
        count = dict(zip(self.index, (x, y)))
        leading = tuple(const(count[v], INT32) for v in self.index if v in self.kernel.depends[buffer])
        return buffer.with_(shape=(*leading, *buffer.shape)) if leading else buffer


class _Own(Rewriter):
    """One statement of one block of the group: its own indices and its own copies of tiles."""

    def __init__(
        self,
        fresh: dict[Var, Var],
        copies: dict[Buffer, Buffer],
        depends: dict[Buffer, frozenset[Var]],
        starts: dict[Var, Expr],
    ) -> None:
        super().__init__()
        self.vars = dict(fresh)
        self.copies = copies
        self.depends = depends
        self.starts = starts
        self.index = tuple(starts)

    def rewrite_BufferRegion(self, node: BufferRegion) -> BufferRegion:
        lead = self._lead(node.buffer)
        new = node.map_children(self.rewrite)
        if lead is None:
            return new
        squeezed = node.squeezed or (False,) * len(node.mins)
        return new.with_(
            buffer=self.copies[node.buffer],
            mins=(*lead, *new.mins),
            extents=(*(const(1, INT32) for _ in lead), *new.extents),
            squeezed=(*(True for _ in lead), *squeezed),
        )

    def rewrite_BufferLoad(self, node: BufferLoad) -> Any:
        return self._access(node)

    def rewrite_BufferStore(self, node: BufferStore) -> Any:
        return self._access(node)

    def _access(self, node: Any) -> Any:
        lead = self._lead(node.buffer)
        new = node.map_children(self.rewrite)
        return new if lead is None else new.with_(buffer=self.copies[node.buffer], indices=(*lead, *new.indices))

    def _lead(self, buffer: Buffer) -> tuple[Expr, ...] | None:
        """The indices of the block's copy of a tile; None for a buffer that is no tile or has one copy."""
        needed = self.depends.get(buffer)
        if not needed:
            return None
        return tuple(binary("sub", self.vars[v], self.starts[v]) for v in self.index if v in needed)


def _analyse(launch: KernelLaunch) -> _Kernel | None:
    """What grouping needs to know, or None where a launch is not of the kind that gains."""
    if len(launch.grid_vars) < 2:
        return None
    body = launch.body
    if not isinstance(body, Block) or any(pair[0] in ("layouts", "safe_value") for pair in body.annotations):
        return None
    if not _is_product(body.body) or not _is_plain(launch, body):
        return None
    index = launch.grid_vars[:2]
    depends: dict[Buffer, frozenset[Var]] = {b: frozenset() for b in body.allocations}
    while True:
        before = sum(map(len, depends.values()))
        _spread(body.body, (), depends, index)
        if sum(map(len, depends.values())) == before:
            break
    if not _shares(body.body, depends, index):
        return None
    for shape in _SHAPES:
        if sum(_bytes(b, depends[b], index, shape) for b in body.allocations) <= _LARGEST:
            return _Kernel(body, depends, shape)
    return None


def _is_product(body: Stmt) -> bool:
    """Whether the loops of a body (parallel ones aside) hold only copies and gemms, at least one of each."""
    loops = [s for s in _statements(body) if isinstance(s, For) and s.kind in ("serial", "pipelined")]
    if not loops:
        return False
    for loop in loops:
        inner = _statements(loop.body)
        ops = [s.op for s in inner if isinstance(s, TileOpStmt)]
        if len(ops) != len(inner) or not all(isinstance(op, (Copy, Gemm)) for op in ops):
            return False
        if {type(op) for op in ops} != {Copy, Gemm}:
            return False
    return True


def _is_plain(launch: KernelLaunch, body: Block) -> bool:
    """Nothing in a launch depends on threads, has effects of its own, or looks at a tile as a piece of memory."""
    threads = set(launch.thread_vars)
    own = set(body.allocations)
    for node in walk(body.body):
        if isinstance(node, (Evaluate, While, AccessPtr, Bind)) or (isinstance(node, Var) and node in threads):
            return False
        if isinstance(node, TileOpStmt) and isinstance(node.op, AtomicUpdate):
            return False
        if isinstance(node, Block) and node.allocations:
            return False
        buffer = getattr(node, "buffer", None)
        if isinstance(buffer, Buffer) and buffer.is_on_chip and (buffer not in own or buffer.data is not None):
            return False
    return all(b.static_shape() is not None for b in own)


def _spread(stmt: Stmt, around: tuple[Any, ...], depends: dict[Buffer, frozenset[Var]], index: tuple[Var, ...]) -> None:
    """Adds to each tile the indices that what is stored in it depends on."""
    if isinstance(stmt, (Seq, Block)):
        for child in stmt.child_nodes():
            if isinstance(child, Stmt):
                _spread(child, around, depends, index)
        return
    if isinstance(stmt, For):
        _spread(stmt.body, (*around, stmt.min, stmt.extent), depends, index)
        return
    if isinstance(stmt, If):
        for child in (stmt.then_body, stmt.else_body):
            if child is not None:
                _spread(child, (*around, stmt.condition), depends, index)
        return
    found = _dependences((stmt, *around), depends, index)
    for buffer in _written(stmt):
        if buffer in depends:
            depends[buffer] |= found


def _dependences(nodes: Any, depends: dict[Buffer, frozenset[Var]], index: tuple[Var, ...]) -> set[Var]:
    found: set[Var] = set()
    known = set(index)
    for root in nodes:
        for item in walk(root):
            if isinstance(item, Var) and item in known:
                found.add(item)
            buffer = getattr(item, "buffer", None)
            if isinstance(buffer, Buffer):
                found.update(depends.get(buffer, ()))
    return found


def _written(stmt: Stmt) -> list[Buffer]:
    if isinstance(stmt, BufferStore):
        return [stmt.buffer]
    if isinstance(stmt, TileOpStmt):
        return [region.buffer for _, role, region in stmt.op.operands() if role != "in"]
    return []


def _shares(body: Stmt, depends: dict[Buffer, frozenset[Var]], index: tuple[Var, ...]) -> bool:
    """Whether a copy inside a loop serves more than one block of a group."""
    known = frozenset(index)
    for loop in walk(body):
        if not isinstance(loop, For) or _dependences((loop.min, loop.extent), depends, index):
            continue
        for stmt in _statements(loop.body):
            is_load = isinstance(stmt, TileOpStmt) and isinstance(stmt.op, Copy) and not stmt.op.src.buffer.is_on_chip
            if is_load and len(depends.get(stmt.op.dst.buffer, known)) < len(index):  # type: ignore[attr-defined]
                return True
    return False


def _statements(body: Stmt) -> list[Stmt]:
    while isinstance(body, Block):
        body = body.body
    return list(body.stmts) if isinstance(body, Seq) else [body]


def _bytes(buffer: Buffer, depends: frozenset[Var], index: tuple[Var, ...], shape: tuple[int, int]) -> int:
    count = buffer.dtype.bytes
    for extent in buffer.static_shape() or ():
        count *= extent
    for var, n in zip(index, shape):
        count *= n if var in depends else 1
    return count
