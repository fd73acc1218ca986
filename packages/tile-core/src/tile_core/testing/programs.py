"""Random kernels in form TILE: what fuzzers of passes, of the interpreter and of backends run.

`random_program(seed)` is a function whose meaning is defined: no race, no access outside on-chip memory, no read of
memory that nobody wrote. Tiles are of odd sizes, the last ones hang over the edge of the tensors, loops and conditions
nest, integers wrap.
"""

from __future__ import annotations

import random
from typing import Any

from ..dtypes import DType
from ..ir import (
    Block,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    Expr,
    For,
    If,
    KernelLaunch,
    PrimFunc,
    Seq,
    SizeVar,
    Stmt,
    TileOpStmt,
    Var,
    as_shape,
    binary,
    cast,
    const,
    full_region,
    select,
    seq,
    unary,
)
from ..tileop import GEMM_DTYPES, Copy, Fill, Gemm, Reduce, Scan, TileOp
from .passes import random_arguments

__all__ = ["random_program", "random_program_arguments", "random_program_type"]

# The first is the row's and the tensors'; tiles take any of them. Floats and integers do not mix: a rounding error of
# the last bit would become an error of 1.
_TYPES = (
    ("float32",),
    ("float32",),
    ("int32",),
    ("int16",),
    ("float16",),
    ("float64", "float32"),
    ("float32", "float16"),
    ("float32", "bfloat16"),
    ("int32", "int8", "int64"),
    ("uint8", "int32", "uint32"),
)
_EXTENTS = (1, 2, 3, 5, 8, 12, 16, 17, 32)


def random_program(seed: int, *, statements: int = 6) -> PrimFunc:
    """A kernel made from `seed`; the same for the same seed everywhere.

    Its parameters are two input tensors, X and Y, an output Z of tiles, an output R of rows and an output E that is
    written element by element. Half of the kernels take their sizes from the tensors.
    """
    return _Maker(seed, statements).function()


def random_program_type(seed: int) -> str:
    """The narrowest element type that values of `random_program(seed)` pass through: its tolerance counts."""
    return min(_Maker(seed, 0).types, key=lambda dtype: dtype.bits).name


def random_program_arguments(seed: int) -> list[Any]:
    """An argument for each parameter of `random_program(seed)`."""
    maker = _Maker(seed, 0)
    return random_arguments(maker.function(), seed, maker.sizes())


class _Maker:
    def __init__(self, seed: int, statements: int) -> None:
        self.random = random.Random(seed)
        self.statements = statements
        self.rows, self.columns = self.random.choice(_EXTENTS), self.random.choice(_EXTENTS)
        self.bx, self.by = Var("bx"), Var("by")
        self.types = tuple(DType(name) for name in self.random.choice(_TYPES))
        self.dtype = self.types[0]
        shape, self.grid = self._sizes()
        self.x, self.y, self.z, self.e = (Buffer(name, shape, self.dtype) for name in "XYZE")
        # A row result for each block along x: there are no more of them than columns.
        self.r = Buffer("R", (shape[1], shape[0]), self.dtype)
        tile = as_shape((self.rows, self.columns))
        self.tiles = [Buffer(f"t{i}", tile, self.random.choice(self.types), self._scope()) for i in range(3)]
        self.row = Buffer("row", as_shape((self.rows,)), self.dtype, "fragment")
        self.count = 0

    def function(self) -> PrimFunc:
        body: list[Stmt] = [self._load(self.tiles[0], self.x), self._load(self.tiles[1], self.y)]
        body += [_op(Fill(full_region(self.tiles[2]), self._constant(self.tiles[2].dtype))), self._reduce(clear=True)]
        for _ in range(self.statements):
            body.append(self._statement(depth=2))
        body.append(self._elements())
        body.append(_op(Copy(full_region(self.random.choice(self.tiles)), self._window(self.z))))
        body.append(_op(Copy(full_region(self.row), self._row_window())))
        block = Block((*self.tiles, self.row), Seq(tuple(body)))
        threads = self.random.choice((32, 64, 96, 128))
        launch = KernelLaunch((self.bx, self.by), self.grid, (Var("tx"),), as_shape((threads,)), block)
        return PrimFunc("fuzz", (self.x, self.y, self.z, self.r, self.e), launch)

    def sizes(self) -> dict[str, int]:
        """Values of the shape variables: a few tiles, the last of them partly outside."""
        return {"m": self.height, "n": self.width}

    def _sizes(self) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        """(height and width, blocks along x and y): constants, or variables with the blocks that cover them."""
        blocks = (self.random.randint(1, 3), self.random.randint(1, 3))
        self.height = max(1, blocks[1] * self.rows - self.random.randrange(self.rows))
        self.width = max(1, blocks[0] * self.columns - self.random.randrange(self.columns))
        if self.random.random() < 0.5:
            height, width = SizeVar("m"), SizeVar("n")
            return (height, width), (_ceildiv(width, self.columns), _ceildiv(height, self.rows))
        blocks = (-(-self.width // self.columns), -(-self.height // self.rows))
        return as_shape((self.height, self.width)), as_shape(blocks)

    def _shift(self, extent: int, far: int) -> int:
        """How far off a neighbour is; what would always lie outside is an error, so small tensors have near ones."""
        return self.random.choice([s for s in (-1, 0, 0, 1, far) if abs(s) < extent])

    # Statements

    def _statement(self, depth: int) -> Stmt:
        makers = [self._parallel, self._parallel, self._parallel, self._row_loop, self._tile_op, self._tile_op]
        if depth:
            makers += [self._serial, self._branch, self._pipelined]
        maker = self.random.choice(makers)
        return maker(depth) if maker in makers[6:] else maker()  # type: ignore[operator]

    def _parallel(self) -> Stmt:
        i, j = self._var("i"), self._var("j")
        target = self.random.choice(self.tiles)
        others = [t for t in self.tiles if t is not target]
        loads = [BufferLoad(target, (i, j)), BufferLoad(self.row, (i,)), *(BufferLoad(t, (i, j)) for t in others)]
        body: Stmt = BufferStore(target, self._value(target.dtype, loads, (i, j)), (i, j))
        if self.random.random() < 0.4:
            other = BufferStore(target, self._value(target.dtype, loads, (i, j)), (i, j)) if self._coin() else None
            body = If(self._condition((i, j), loads), body, other)
        return self._nest((i, self.rows), (j, self.columns), body)

    def _elements(self) -> Stmt:
        """E, element by element, from neighbours in X and Y that may lie outside."""
        i, j = self._var("i"), self._var("j")
        row = binary("add", binary("mul", self.by, self.rows), i)
        column = binary("add", binary("mul", self.bx, self.columns), j)
        loads: list[Expr] = []
        for tensor in (self.x, self.y, self.x):
            down, right = self._shift(self.height, 3), self._shift(self.width, 5)
            loads.append(BufferLoad(tensor, (binary("add", row, down), binary("add", column, right))))
        body = BufferStore(self.e, self._value(self.dtype, loads, (row, column)), (row, column))
        if self.random.random() < 0.3:
            return self._nest((j, self.columns), (i, self.rows), body)
        return self._nest((i, self.rows), (j, self.columns), body)

    def _pipelined(self, depth: int) -> Stmt:
        """A pipelined loop that loads a window of X or Y that moves, and computes on it."""
        k = self._var("k")
        tile = self.random.choice(self.tiles)
        window = self._window(self.random.choice((self.x, self.y)), binary("mul", k, self.random.choice((1, 3))))
        body = seq(_op(Copy(window, full_region(tile))), self._parallel(), self._tile_op())
        stages = self.random.choice((1, 2, 3))
        loop = _loop(k, self.random.choice((0, 1, 2, 3, 4)), "pipelined", body)
        return loop.with_(annotations=(("num_stages", stages),))

    def _row_loop(self) -> Stmt:
        i = self._var("i")
        loads: list[Expr] = [BufferLoad(self.row, (i,))]
        body = BufferStore(self.row, self._value(self.dtype, loads, (i,)), (i,))
        return _loop(i, self.rows, "parallel", body)

    def _tile_op(self) -> Stmt:
        first, second, third = (full_region(t) for t in self.random.sample(self.tiles, 3))
        kind = self.random.choice(("copy", "reduce", "fill", "scan", "gemm"))
        if kind == "copy":
            return _op(Copy(first, second))
        if kind == "fill":
            return _op(Fill(first, self._constant(first.dtype)))
        if kind == "scan" and first.dtype is second.dtype:
            name = self.random.choice(("sum", "max"))
            return _op(Scan(first, second, name, self.random.randrange(2), self._coin()))
        if kind == "gemm" and self.rows == self.columns and _multiply(first, second, third):
            return _op(Gemm(first, second, third, self._coin(), self._coin(), clear_accum=self._coin()))
        return self._reduce(clear=self._coin())

    def _coin(self) -> bool:
        return self.random.random() < 0.5

    def _reduce(self, clear: bool) -> Stmt:
        kinds = ("max", "min", "absmax", "sum", "abssum") if self.dtype.is_float else ("max", "min", "sum", "bitxor")
        source = full_region(self.random.choice(self.tiles))
        return _op(Reduce(source, full_region(self.row), self.random.choice(kinds), 1, clear))

    def _serial(self, depth: int) -> Stmt:
        k = self._var("k")
        kind = self.random.choice(("serial", "serial", "unroll"))
        body = [self._statement(depth - 1) for _ in range(self.random.randint(1, 2))]
        return _loop(k, self.random.choice((0, 1, 2, 3)), kind, Seq(tuple(body)))

    def _branch(self, depth: int) -> Stmt:
        condition = self._condition((self.bx, self.by), [])
        other = self._statement(depth - 1) if self.random.random() < 0.5 else None
        return If(condition, self._statement(depth - 1), other)

    # Values

    def _value(self, dtype: DType, loads: list[Any], indices: tuple[Expr, ...], depth: int = 3) -> Expr:
        """An expression of type `dtype` over loads and indices."""
        choice = self.random.random()
        if depth == 0 or choice < 0.2:
            leaves = [*loads, self._constant(dtype), self.random.choice(indices)]
            return cast(self.random.choice(leaves), dtype)
        if choice < 0.35:
            condition = self._condition(indices, loads)
            a, b = (self._value(dtype, loads, indices, depth - 1) for _ in range(2))
            return select(condition, a, b, lazy=self._coin())
        if choice < 0.4:
            other = self.random.choice(self.types)
            return cast(self._value(other, loads, indices, depth - 1), dtype)
        value = self._value(dtype, loads, indices, depth - 1)
        if choice < 0.5:
            return unary("neg", value)
        if choice < 0.6:
            if dtype.is_float:
                return Call(self.random.choice(("abs", "floor", "ceil", "trunc")), (value,), dtype)
            op = self.random.choice(("floordiv", "floormod", "truncdiv", "truncmod", "shl", "shr"))
            return binary(op, value, const(self.random.choice((1, 2, 3, 5, 7)), dtype))
        ops = ("add", "sub", "mul", "min", "max", *(() if dtype.is_float else ("bitand", "bitor", "bitxor")))
        return binary(self.random.choice(ops), value, self._value(dtype, loads, indices, depth - 1))

    def _condition(self, indices: tuple[Expr, ...], loads: list[Any]) -> Expr:
        op = self.random.choice(("lt", "le", "gt", "ge", "eq", "ne"))
        if loads and self.random.random() < 0.4:
            load = self.random.choice(loads)
            left = binary(op, load, self._constant(load.dtype))
        else:
            modulus = self.random.choice((2, 3, 5))
            left = binary(op, binary("floormod", self.random.choice(indices), modulus), self.random.randrange(modulus))
        if self.random.random() < 0.25:
            return binary(self.random.choice(("and", "or")), left, self._condition(indices, loads))
        return left

    def _constant(self, dtype: DType) -> Expr:
        value = self.random.choice((-3, -1, 0, 1, 2, 7))
        if dtype.is_float:
            return const(value / 2, dtype)
        return const(abs(value) if dtype.kind == "u" else value, dtype)

    # Places

    def _load(self, tile: Buffer, tensor: Buffer) -> Stmt:
        return _op(Copy(self._window(tensor), full_region(tile)))

    def _window(self, tensor: Buffer, right: Expr | None = None) -> BufferRegion:
        column = binary("mul", self.bx, self.columns)
        mins = (binary("mul", self.by, self.rows), column if right is None else binary("add", column, right))
        return BufferRegion(tensor, mins, as_shape((self.rows, self.columns)), (False, False))

    def _row_window(self) -> BufferRegion:
        mins = (self.bx, binary("mul", self.by, self.rows))
        return BufferRegion(self.r, mins, as_shape((1, self.rows)), (True, False))

    def _nest(self, outer: tuple[Var, int], inner: tuple[Var, int], body: Stmt) -> Stmt:
        return _loop(outer[0], outer[1], "parallel", _loop(inner[0], inner[1], "parallel", body))

    def _var(self, name: str) -> Var:
        self.count += 1
        return Var(f"{name}{self.count}")

    def _scope(self) -> str:
        return self.random.choice(("shared", "fragment"))


def _loop(var: Var, extent: int, kind: str, body: Stmt) -> Stmt:
    return For(var, const(0, "int32"), const(extent, "int32"), kind, body)


def _multiply(a: BufferRegion, b: BufferRegion, c: BufferRegion) -> bool:
    """Whether `Gemm` takes these element types."""
    names = a.dtype.name, b.dtype.name, c.dtype.name
    return any(all(name in row for name, row in zip(names, types)) for types in GEMM_DTYPES)


def _ceildiv(a: Expr, b: int) -> Expr:
    return binary("floordiv", binary("add", a, b - 1), b)


def _op(op: TileOp) -> Stmt:
    op.check()
    return TileOpStmt(op)
