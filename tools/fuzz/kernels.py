"""Random kernels as source text: `random_kernel(seed)`.

What a kernel means is defined and exact, so that three ways of running it must agree to the last bit: no race, no read
of memory that nobody wrote, sums of small integers, one rounding where a value is narrowed. The axes are those along
which compilers of this kind went wrong before: odd thread counts and extents, regions with offsets, rows that are no
multiple of 16 bytes, narrow types, reductions over every axis, two products into one accumulator, conditions and loops
around pipelines, division by what does not divide, NaN and infinity, sizes known only at the call.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["Program", "random_kernel"]

THREADS = (32, 64, 96, 128, 160, 256)
EXTENTS = (1, 2, 3, 7, 8, 12, 15, 16, 17, 31, 32, 33, 40, 64, 126)
FLOATS = ("float32", "float32", "float16", "bfloat16", "float64")
INTEGERS = ("int32", "int32", "int8", "int16", "int64", "uint8", "uint32")
PRODUCTS = (
    ("float16", "float32"),
    ("float16", "float32"),
    ("bfloat16", "float32"),
    ("float32", "float32"),
    ("float64", "float64"),
    ("int8", "int32"),
)


@dataclass(frozen=True)
class Program:
    """A kernel as text.

    Args:
        source: defines `kernel`.
        sizes: values of its shape variables.
        special: whether inputs hold NaN and infinities.
        seed: of the inputs.
    """

    source: str
    sizes: dict[str, int] = field(default_factory=dict)
    special: bool = False
    seed: int = 0


@dataclass(frozen=True)
class Tile:
    """A tile on chip."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    scope: str

    @property
    def is_float(self) -> bool:
        return "float" in self.dtype


def random_kernel(seed: int) -> Program:
    """A kernel made from `seed`; the same for the same seed everywhere."""
    drawn = random.Random(seed).random()
    maker = _SparseProducts(seed) if drawn < 0.04 else _Products(seed) if drawn < 0.35 else _Tiles(seed)
    return maker.program()


class _Maker:
    """What both families of kernels share: lines, names, the outer shape of a kernel."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed + 1)
        self.seed = seed
        self.lines: list[str] = []
        self.depth = 2
        self.count = 0
        self.special = False
        self.sizes: dict[str, int] = {}

    # Chances

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def one(self, options):
        return self.random.choice(options)

    # Text

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self.depth += 1
        yield
        self.depth -= 1

    def name(self, base: str) -> str:
        self.count += 1
        return f"{base}{self.count}"

    def finish(self, parameters: list[str], launch: str) -> Program:
        dynamic = "".join(f'{name} = T.dynamic("{name}")\n' for name in self.sizes)
        head = [dynamic + "@T.prim_func", f"def kernel({', '.join(parameters)}):", f"    {launch}"]
        return Program("\n".join([*head, *self.lines]) + "\n", dict(self.sizes), self.special, self.seed)

    def size(self, name: str, value: int) -> str:
        """A size as text: a number, or a shape variable with that value."""
        if self.chance(0.35):
            self.sizes[name] = value
            return name
        return str(value)

    def constant(self, dtype: str) -> str:
        value = self.one((-3, -1, 0, 1, 2, 5))
        if "float" in dtype:
            return f'T.cast({float(value)}, "{dtype}")'
        return f'T.cast({abs(value) if dtype[0] == "u" else value}, "{dtype}")'

    def bounded(self, expression: str, dtype: str) -> str:
        """Keeps floats small, so that sums and products stay exact."""
        if "float" not in dtype:
            return expression
        return f'T.min(T.max({expression}, T.cast(-8.0, "{dtype}")), T.cast(8.0, "{dtype}"))'


class _Tiles(_Maker):
    """Tiles of one shape, and vectors of it: element-wise work, copies of regions, reductions, scans, control flow."""

    def program(self) -> Program:
        family = FLOATS if self.chance(0.5) else INTEGERS
        self.special = family is FLOATS and self.chance(0.2)
        rank = self.one((1, 2, 2, 2, 2, 3))
        self.shape = tuple(self.one(EXTENTS) for _ in range(rank))
        while _volume(self.shape) > 4096:
            self.shape = tuple(self.one(EXTENTS[:12]) for _ in range(rank))
        self.dtypes = [self.one(family) for _ in range(3)]
        self.grid = [self.one((1, 2, 3)), self.one((1, 2)) if rank > 1 else 1]
        self.tensor_type = self.dtypes[0]
        self.blocks = ("bx", "by")
        # Tensors hang over: the last two axes (or the only one) are divided into blocks, the first of three is whole.
        lengths = list(self.shape)
        lengths[-1] = max(1, self.shape[-1] * self.grid[0] - self.one((0, 0, 1, 3)))
        if rank > 1:
            lengths[-2] = max(1, self.shape[-2] * self.grid[1] - self.one((0, 0, 1, 3)))
        self.lengths = lengths
        extents = [self.size(f"n{axis}", length) for axis, length in enumerate(lengths)]
        shape = f"({', '.join(extents)},)"
        self.tiles = [Tile(f"t{i}", self.shape, d, self.one(("shared", "fragment"))) for i, d in enumerate(self.dtypes)]
        self.vectors = [
            Tile(f"v{axis}", self.shape[:axis] + self.shape[axis + 1 :], self._vector_type(), self._vector_scope())
            for axis in range(rank)
            if rank > 1
        ]
        for tile in (*self.tiles, *self.vectors):
            self.line(f'{tile.name} = T.alloc_{tile.scope}({tile.shape}, "{tile.dtype}")')
        self.line('counter = T.alloc_var("int32", init=0)')
        for tile in self.tiles[:2]:
            self.line(f"T.copy({self.window(self.one('XY'))}, {tile.name})")
        for tile in (self.tiles[2], *self.vectors):
            self.line(f"T.fill({tile.name}, {self.constant(tile.dtype)})")
        for _ in range(self.one((2, 3, 4, 6))):
            self.statement(2)
        outputs = [f'Z{i}: T.Tensor({shape}, "{t.dtype}")' for i, t in enumerate(self.tiles)]
        for i, tile in enumerate(self.tiles):
            self.line(f"T.copy({tile.name}, {self.window(f'Z{i}', still=True)})")
        sums = f'S: T.Tensor({self.shape}, "{self.tiles[0].dtype}")'
        if self.tiles[0].dtype in ("int32", "float32", "uint32") and not self.special and self.chance(0.4):
            self.line(f"T.atomic_add(S[{', '.join('0' for _ in self.shape)}], {self.tiles[0].name})")
        for i, vector in enumerate(self.vectors):
            outputs.append(f'V{i}: T.Tensor((2, 3, {", ".join(map(str, vector.shape))}), "{vector.dtype}")')
            self.line(f"T.copy({vector.name}, V{i}[by, bx, {', '.join(f'0:{e}' for e in vector.shape)}])")
        inputs = [f'{name}: T.Tensor({shape}, "{self.tensor_type}")' for name in "XY"]
        columns, rows = (
            extents[-1] if extents[-1] in self.sizes else None,
            extents[-2] if rank > 1 and extents[-2] in self.sizes else None,
        )
        grid = [
            f"T.ceildiv({columns}, {self.shape[-1]})" if columns else str(-(-lengths[-1] // self.shape[-1])),
            (f"T.ceildiv({rows}, {self.shape[-2]})" if rows else str(-(-lengths[-2] // self.shape[-2])))
            if rank > 1
            else "1",
        ]
        launch = f"with T.Kernel({grid[0]}, {grid[1]}, threads={self.one(THREADS)}) as (bx, by):"
        return self.finish([*inputs, *outputs, sums], launch)

    def _vector_type(self) -> str:
        return "float32" if self.tiles[0].is_float else self.one(("int32", "int64"))

    def _vector_scope(self) -> str:
        return self.one(("shared", "fragment", "fragment"))

    def window(self, tensor: str, still: bool = False, shift: str | None = None) -> str:
        """The region of a tensor that belongs to the block, perhaps moved."""
        parts = []
        rank = len(self.shape)
        for axis, extent in enumerate(self.shape):
            block = {rank - 1: "bx", rank - 2: "by"}.get(axis)
            low = f"{block} * {extent}" if block else "0"
            if not still and block:
                low += shift if shift and axis == rank - 1 else self.one(("", "", " + 1", " - 1", " + 3"))
            parts.append(f"{low}:{low} + {extent}")
        return f"{tensor}[{', '.join(parts)}]"

    # Statements

    def statement(self, depth: int) -> None:
        simple = [
            self.elements,
            self.elements,
            self.elements,
            self.copy,
            self.reduce,
            self.reduce,
            self.scan,
            self.fill,
        ]
        compound = [self.loop, self.branch, self.pipeline, self.repeat] if depth else []
        make = self.one(simple + compound)
        make(depth) if make in compound else make()

    def elements(self) -> None:
        """Element by element over the tile or a part of it."""
        target = self.one(self.tiles)
        part = target.scope == "shared" and self.chance(0.3)
        starts, extents = self._part(self.shape) if part else ([0] * len(self.shape), list(self.shape))
        variables = [self.name("i") for _ in self.shape]
        places = [v if s == 0 else f"{v} + {s}" for v, s in zip(variables, starts)]
        with self.block(f"for {', '.join(variables)} in T.Parallel({', '.join(map(str, extents))}):"):
            store = f"{target.name}[{', '.join(places)}] = {self.value(target, places)}"
            if self.chance(0.3):
                with self.block(f"if {self.condition(places, target)}:"):
                    self.line(store)
                if self.chance(0.4):
                    with self.block("else:"):
                        self.line(f"{target.name}[{', '.join(places)}] = {self.value(target, places)}")
            else:
                self.line(store)

    def copy(self) -> None:
        source, target = self.random.sample(self.tiles, 2)
        if source.scope == target.scope == "shared" and self.chance(0.5):
            starts, extents = self._part(self.shape)
            others = [self.random.randrange(e - n + 1) for e, n in zip(self.shape, extents)]
            self.line(f"T.copy({_region(source, starts, extents)}, {_region(target, others, extents)})")
        else:
            self.line(f"T.copy({source.name}, {target.name})")

    def fill(self) -> None:
        target = self.one(self.tiles)
        if target.scope == "shared" and self.chance(0.5):
            starts, extents = self._part(self.shape)
            self.line(f"T.fill({_region(target, starts, extents)}, {self.constant(target.dtype)})")
        else:
            self.line(f"T.clear({target.name})")

    def reduce(self) -> None:
        if not self.vectors:
            return self.elements()
        axis = self.random.randrange(len(self.vectors))
        vector = self.vectors[axis]
        fitting = [t for t in self.tiles if t.dtype == vector.dtype]
        if not fitting:
            return self.elements()
        kinds = ["sum", "max", "min", "absmax", "abssum"]
        if not vector.is_float:
            kinds = ["sum", "max", "min", "bitand", "bitor", "bitxor"]
        kind = self.one(kinds)
        clear = self.chance(0.6)
        self.line(f"T.reduce_{kind}({self.one(fitting).name}, {vector.name}, dim={axis}, clear={clear})")
        if vector.is_float and not clear:
            # What loops add up stays small.
            variables = [self.name("i") for _ in vector.shape]
            place = f"{vector.name}[{', '.join(variables)}]"
            with self.block(f"for {', '.join(variables)} in T.Parallel({', '.join(map(str, vector.shape))}):"):
                self.line(f"{place} = {self.bounded(place, vector.dtype)}")

    def scan(self) -> None:
        fitting = [t for t in self.tiles if t.dtype in ("float32", "float64", "int32", "int64")]
        if not fitting:
            return self.copy()
        tile = self.one(fitting)
        kind = self.one(("cumsum", "cummax"))
        self.line(f"T.{kind}({tile.name}, dim={self.random.randrange(len(self.shape))}, reverse={self.chance(0.4)})")
        if tile.is_float:
            variables = [self.name("i") for _ in self.shape]
            place = f"{tile.name}[{', '.join(variables)}]"
            with self.block(f"for {', '.join(variables)} in T.Parallel({', '.join(map(str, self.shape))}):"):
                self.line(f"{place} = {self.bounded(place, tile.dtype)}")

    def loop(self, depth: int) -> None:
        variable = self.name("k")
        kind = self.one(("T.serial", "T.serial", "T.unroll", "range"))
        with self.block(f"for {variable} in {kind}({self.one((0, 1, 2, 3))}):"):
            self.statement(depth - 1)
            if self.chance(0.3):
                self.line(f"counter += {variable}")

    def branch(self, depth: int) -> None:
        with self.block(f"if {self.uniform()}:"):
            self.statement(depth - 1)
        if self.chance(0.4):
            with self.block("else:"):
                self.statement(depth - 1)

    def repeat(self, depth: int) -> None:
        """A while loop that ends: its variable only grows."""
        variable = self.name("w")
        self.line(f'{variable} = T.alloc_var("int32", init=0)')
        with self.block(f"while {variable} < {self.one((0, 1, 2, 3))}:"):
            self.statement(depth - 1)
            self.line(f"{variable} += 1")

    def pipeline(self, depth: int) -> None:
        variable = self.name("k")
        tile = self.one(self.tiles)
        step = self.one((1, 2, 3))
        trips = self.one(("0", "1", "2", "3", "4", "bx + 1", "by"))
        if self.chance(0.2):
            self.line(f"if {self.uniform()}:")
            self.depth += 1
            self._pipeline(variable, tile, step, trips, depth)
            self.depth -= 1
        else:
            self._pipeline(variable, tile, step, trips, depth)

    def _pipeline(self, variable: str, tile: Tile, step: int, trips: str, depth: int) -> None:
        with self.block(f"for {variable} in T.Pipelined({trips}, num_stages={self.one((0, 1, 2, 3))}):"):
            self.line(f"T.copy({self.window(self.one('XY'), shift=f' + {variable} * {step}')}, {tile.name})")
            self.elements()
            if self.chance(0.4):
                self.statement(0)

    # Values

    def value(self, target: Tile, places: list[str]) -> str:
        return self.bounded(self.expression(target, places, 2), target.dtype)

    def expression(self, target: Tile, places: list[str], depth: int) -> str:
        dtype = target.dtype
        if depth == 0 or self.chance(0.2):
            return self.leaf(target, places)
        if self.chance(0.2):
            a, b = (self.expression(target, places, depth - 1) for _ in range(2))
            return f"T.if_then_else({self.condition(places, target)}, {a}, {b})"
        if "float" in dtype:
            op = self.one(("+", "-", "max", "min", "*", "neg", "floor", "abs"))
        else:
            op = self.one(("+", "-", "*", "max", "min", "//", "%", "&", "|", "^", ">>", "<<", "truncdiv"))
        a = self.expression(target, places, depth - 1)
        if op in ("max", "min"):
            return f"T.{op}({a}, {self.expression(target, places, depth - 1)})"
        if op in ("floor", "abs"):
            return f"T.{op}({a})"
        if op == "neg":
            return f"(-{a})"
        if op == "truncdiv":
            return f'T.truncdiv({a}, T.cast({self.one((3, 7))}, "{dtype}"))'
        if op in ("//", "%", ">>", "<<"):
            return f'({a} {op} T.cast({self.one((1, 2, 3, 5))}, "{dtype}"))'
        if op == "*":
            return f"({self.leaf(target, places)} * {self.leaf(target, places)})"
        return f"({a} {op} {self.expression(target, places, depth - 1)})"

    def leaf(self, target: Tile, places: list[str]) -> str:
        """A value of the target's type: an element, a constant, an index."""
        dtype = target.dtype
        choice = self.random.random()
        if choice < 0.3:
            return f"{target.name}[{', '.join(places)}]"
        if choice < 0.55:
            other = self.one([t for t in self.tiles if t is not target])
            where = places
            if other.scope == "shared" and self.chance(0.4):
                where = [
                    f"({p} * {self.one((1, 2, 3))} + {self.one((0, 1, 5))}) % {e}" for p, e in zip(places, self.shape)
                ]
            return f'T.cast({other.name}[{", ".join(where)}], "{dtype}")'
        if choice < 0.65 and self.vectors:
            axis = self.random.randrange(len(self.vectors))
            vector = self.vectors[axis]
            where = places[:axis] + places[axis + 1 :]
            return f'T.cast({self._clamped(vector, where)}, "{dtype}")'
        if choice < 0.8:
            rank = len(self.shape)
            where = []
            for axis, place in enumerate(places):
                block = {rank - 1: "bx", rank - 2: "by"}.get(axis)
                where.append(
                    f"{block} * {self.shape[axis]} + {place}{self.one(('', ' - 1', ' + 2'))}" if block else place
                )
            return f'T.cast({self.one("XY")}[{", ".join(where)}], "{dtype}")'
        if choice < 0.9:
            index = f"({' + '.join(places)}) % {self.one((3, 5, 7))}"
            return f'T.cast({index}, "{dtype}")'
        return self.constant(dtype)

    def _clamped(self, vector: Tile, where: list[str]) -> str:
        place = f"{vector.name}[{', '.join(where)}]"
        return self.bounded(place, vector.dtype)

    def condition(self, places: list[str], target: Tile) -> str:
        op = self.one(("<", "<=", ">", ">=", "==", "!="))
        if self.chance(0.4):
            return f"{target.name}[{', '.join(places)}] {op} {self.constant(target.dtype)}"
        modulus = self.one((2, 3, 5))
        place = self.one([*places, "bx"])
        return f"({place}) % {modulus} {op} {self.random.randrange(modulus)}"

    def uniform(self) -> str:
        """A condition that is the same for all threads of a block."""
        return self.one(("bx % 2 == 0", "by < 1", "bx + by > 1", "counter < 2", "(bx * 3 + 1) // 2 == 2"))

    def _part(self, shape: tuple[int, ...]) -> tuple[list[int], list[int]]:
        extents = [self.random.randint(1, e) for e in shape]
        return [self.random.randrange(e - n + 1) for e, n in zip(shape, extents)], extents


class _Products(_Maker):
    """Matrix products in a pipelined loop over K, with an epilogue; conditions and loops around them."""

    def program(self) -> Program:
        narrow, wide = self.one(PRODUCTS)
        self.special = "float" in narrow and self.chance(0.1)
        rows, columns = self.one((16, 32, 48, 64)), self.one((16, 32, 40, 64))
        step = self.one((16, 32, 48))
        stages = self.one((0, 1, 2, 2, 3, 4))
        trips = self.one((0, 1, 2, 3, 4, 5))
        threads = self.one((32, 64, 128, 128, 256))
        transpose_a, transpose_b = self.chance(0.3), self.chance(0.4)
        second = self.chance(0.35)
        rest = self.one((0, 0, 1, 8, step - 1))
        m, n = rows * 2 - self.one((0, 0, 5)), columns - self.one((0, 0, 3))
        k = max(trips * step - rest, 0) if trips else 0
        k = max(k, 1)
        height, width, length = self.size("m", m), self.size("n", n), self.size("k", k)
        left = (length, height) if transpose_a else (height, length)
        right = (width, length) if transpose_b else (length, width)
        a_shape = (step, rows) if transpose_a else (rows, step)
        b_shape = (columns, step) if transpose_b else (step, columns)
        a_scope = "shared" if self.chance(0.8) else "fragment"
        self.line(f'a = T.alloc_shared({a_shape}, "{narrow}")')
        self.line(f'b = T.alloc_shared({b_shape}, "{narrow}")')
        self.line(f'c = T.alloc_fragment(({rows}, {columns}), "{wide}")')
        if a_scope == "fragment" and not transpose_a:
            self.line(f'held = T.alloc_fragment({a_shape}, "{narrow}")')
        if second:
            self.line(f'd = T.alloc_shared({b_shape}, "{narrow}")')
        self.line("T.clear(c)")
        outer = self.random.random()
        head = None
        if outer < 0.15:
            head = "if by % 2 == 0:"
        elif outer < 0.3:
            head = f"for outer in T.serial({self.one((1, 2))}):"
        elif outer < 0.4:
            self.line('w = T.alloc_var("int32", init=0)')
            head = f"while w < {self.one((0, 1, 2))}:"
        if head:
            self.line(head)
            self.depth += 1
        policy = self.one(("", "", ", policy=T.GemmWarpPolicy.FullRow", ", policy=T.GemmWarpPolicy.FullCol"))
        flags = f", transpose_A={transpose_a}, transpose_B={transpose_b}{policy}"
        extent = f"T.ceildiv({length}, {step})" if length in self.sizes else str(-(-k // step))
        with self.block(f"for kk in T.Pipelined({extent}, num_stages={stages}):"):
            offset = f"kk * {step}"
            self.line(f"T.copy(A[{f'{offset}, by * {rows}' if transpose_a else f'by * {rows}, {offset}'}], a)")
            self.line(f"T.copy(B[{f'0, {offset}' if transpose_b else f'{offset}, 0'}], b)")
            operand = "a"
            if a_scope == "fragment" and not transpose_a:
                operand = "held"
                self.line("T.copy(a, held)")
            if self.chance(0.3):
                with self.block(f"for i, j in T.Parallel{b_shape}:"):
                    self.line(f'b[i, j] = T.max(b[i, j], T.cast(-1, "{narrow}"))')
            self.line(f"T.gemm({operand}, b, c{flags})")
            if second:
                self.line(f"T.copy(D[{f'0, {offset}' if transpose_b else f'{offset}, 0'}], d)")
                self.line(f"T.gemm({operand}, d, c{flags})")
            if self.chance(0.2):
                with self.block(f"for i, j in T.Parallel({rows}, {columns}):"):
                    self.line(f'c[i, j] = c[i, j] + T.cast((i + kk) % 3, "{wide}")')
        if head:
            if head.startswith("while"):
                self.line("w += 1")
            self.depth -= 1
        if self.chance(0.4):
            with self.block(f"for i, j in T.Parallel({rows}, {columns}):"):
                self.line(f'c[i, j] = T.max(c[i, j], T.cast(0, "{wide}")) - T.cast(j % 3, "{wide}")')
        if self.chance(0.3):
            self.line(f'top = T.alloc_fragment(({rows},), "{wide}")')
            self.line("T.reduce_max(c, top, dim=1)")
            with self.block(f"for i, j in T.Parallel({rows}, {columns}):"):
                self.line("c[i, j] = c[i, j] - top[i]")
        self.line(f"T.copy(c, C[by * {rows}, 0])")
        grid = f"T.ceildiv({height}, {rows})" if height in self.sizes else str(-(-m // rows))
        parameters = [
            f'A: T.Tensor(({", ".join(left)}), "{narrow}")',
            f'B: T.Tensor(({", ".join(right)}), "{narrow}")',
            *([f'D: T.Tensor(({", ".join(right)}), "{narrow}")'] if second else []),
            f'C: T.Tensor(({height}, {width}), "{wide}")',
        ]
        return self.finish(parameters, f"with T.Kernel(1, {grid}, threads={threads}) as (bx, by):")


# Four codes of four bits, each two places in order; what an input says picks one of them.
_CODES = (0x4E9C, 0x498D, 0x4448, 0x4ECD)


class _SparseProducts(_Maker):
    """Products of a sparse A in a pipelined loop, whose places the kernel makes of any numbers."""

    def program(self) -> Program:
        narrow, wide = self.one((("float16", "float32"), ("bfloat16", "float32"), ("int8", "int32")))
        rows, columns = self.one((16, 32, 48, 64)), self.one((16, 32, 40, 64))
        step = self.one((16, 32, 64, 64, 128))
        trips, rest = self.one((0, 1, 2, 3, 5)), self.one((0, 0, 1))
        words = step // 16
        count = max(trips * words - rest, 1)
        m, n = rows * 2 - self.one((0, 0, 5)), columns - self.one((0, 0, 3))
        height, width, length = self.size("m", m), self.size("n", n), self.size("w", count)
        turned = [self.chance(0.3) for _ in range(3)]

        def shape(turn: bool, first: object, second: object) -> tuple[str, str]:
            return (str(second), str(first)) if turn else (str(first), str(second))

        tensors = (
            ("A", narrow, shape(turned[0], height, f"{length} * 8"), shape(turned[0], rows, step // 2)),
            ("E", "int16", shape(turned[1], height, length), shape(turned[1], rows, words)),
            ("B", narrow, shape(turned[2], f"{length} * 16", width), shape(turned[2], step, columns)),
        )
        for name, dtype, _, tile in tensors:
            self.line(f'{name.lower()} = T.alloc_shared(({", ".join(tile)}), "{dtype}")')
        self.line(f'c = T.alloc_fragment(({rows}, {columns}), "{wide}")')
        self.line("T.clear(c)")
        flags = ", ".join(f"transpose_{name}={turn}" for (name, *_), turn in zip(tensors, turned))
        policy = self.one(("", "", ", policy=T.GemmWarpPolicy.FullRow", ", policy=T.GemmWarpPolicy.FullCol"))
        extent = f"T.ceildiv({length}, {words})"
        with self.block(f"for kk in T.Pipelined({extent}, num_stages={self.one((0, 1, 2, 2, 3, 4))}):"):
            places = (f"kk * {step // 2}", f"kk * {words}", f"kk * {step}")
            for (name, *_), turn, depth in zip(tensors, turned, places):
                outer = "0" if name == "B" else f"by * {rows}"
                at = (depth, outer) if turn != (name == "B") else (outer, depth)
                self.line(f"T.copy({name}[{', '.join(at)}], {name.lower()})")
            with self.block(f"for i, j in T.Parallel({', '.join(tensors[1][3])}):"):
                first, *others = _CODES
                value = f'T.cast({first}, "int16")'
                for number, code in enumerate(others):
                    value = f'T.if_then_else(e[i, j] % 4 == {number}, T.cast({code}, "int16"), {value})'
                self.line(f"e[i, j] = {value}")
            self.line(f"T.gemm_sp(a, e, b, c, {flags}{policy})")
        self.line(f"T.copy(c, C[by * {rows}, 0])")
        grid = f"T.ceildiv({height}, {rows})" if height in self.sizes else str(-(-m // rows))
        parameters = [f'{name}: T.Tensor(({", ".join(of)}), "{dtype}")' for name, dtype, of, _ in tensors]
        parameters.append(f'C: T.Tensor(({height}, {width}), "{wide}")')
        threads = self.one((32, 64, 96, 128, 128, 256))
        return self.finish(parameters, f"with T.Kernel(1, {grid}, threads={threads}) as (bx, by):")


def _region(tile: Tile, starts: list[int], extents: list[int]) -> str:
    return f"{tile.name}[{', '.join(f'{s}:{s + e}' for s, e in zip(starts, extents))}]"


def _volume(shape: tuple[int, ...]) -> int:
    result = 1
    for extent in shape:
        result *= extent
    return result
