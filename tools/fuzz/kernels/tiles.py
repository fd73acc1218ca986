"""Tiles of one shape, and vectors of it: element-wise work, copies of regions, reductions, scans, control flow."""

from __future__ import annotations

from .maker import EXTENTS, THREADS, place_names
from .program import Program, Tile
from .values import Values

__all__ = ["Tiles"]

FLOATS = ("float32", "float32", "float16", "bfloat16", "float64")
INTEGERS = ("int32", "int32", "int8", "int16", "int64", "uint8", "uint32")
NARROW_FLOATS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float6_e2m3fn", "float4_e2m1fn", "tfloat32")
NARROW_INTEGERS = ("int4", "uint4", "bool", "uint16", "uint64")
SUMS = ("int32", "uint32", "int64", "uint64", "float32", "float64", "float16", "bfloat16")


class Tiles(Values):
    """Three tiles of one shape, a vector for each axis, and what is done to them one after the other."""

    def program(self) -> Program:
        family, narrow = (FLOATS, NARROW_FLOATS) if self.chance(0.5) else (INTEGERS, NARROW_INTEGERS)
        self.special = self.chance(0.2)
        rank = self.one((1, 2, 2, 2, 2, 3, 4))
        dtypes = [self.one(family) for _ in range(3)]
        if self.chance(0.35):
            dtypes[self.one((1, 2))] = self.one(narrow)
        packed = any(d in ("int4", "uint4", "float4_e2m1fn") for d in dtypes)
        self.shape = self._shape(rank, packed)
        self.tensor_type = dtypes[0]
        grid = [self.one((1, 2, 3)), self.one((1, 2)) if rank > 1 else 1]
        self.grid_axes = tuple({rank - 1: "bx", rank - 2: "by"}.get(axis, "") for axis in range(rank))
        # Tensors hang over: the last two axes (or the only one) are divided into blocks, the others are whole.
        lengths = list(self.shape)
        tails = (0, 0, 2) if packed else (0, 0, 1, 3)
        lengths[-1] = max(1 + packed, self.shape[-1] * grid[0] - self.one(tails))
        if rank > 1:
            lengths[-2] = max(1, self.shape[-2] * grid[1] - self.one((0, 0, 1, 3)))
        extents = [self.size(f"n{axis}", length) for axis, length in enumerate(lengths)]
        if packed:
            extents[-1] = str(lengths[-1])
            self.sizes.pop(f"n{rank - 1}", None), self.dynamic.pop(f"n{rank - 1}", None)
        self.tiles = [Tile(f"t{i}", self.shape, d, self.one(("shared", "fragment"))) for i, d in enumerate(dtypes)]
        self.vectors = [
            Tile(f"v{axis}", self.shape[:axis] + self.shape[axis + 1 :], self._vector_type(), self._vector_scope())
            for axis in range(rank)
            if rank > 1
        ]
        parameters = self._parameters(extents, lengths)
        for index, extent in enumerate(extents):
            if extent in self.sizes and self.chance(0.3):
                self.line(f"T.assume({extent} >= {self.one((0, 1, lengths[index]))})")
        self._memory()
        for _ in range(self.one((2, 3, 4, 6))):
            self.statement(2)
        self._results(extents)
        counts = [self._blocks(extents[-1], lengths[-1], self.shape[-1]), "1"]
        if rank > 1:
            counts[1] = self._blocks(extents[-2], lengths[-2], self.shape[-2])
        return self.finish(parameters, f"with T.Kernel({', '.join(counts)}, threads={self.one(THREADS)}) as (bx, by):")

    # The frame

    def _shape(self, rank: int, packed: bool) -> tuple[int, ...]:
        limit, options = 4096, EXTENTS
        while True:
            shape = [self.one(options) for _ in range(rank)]
            if packed:
                shape[-1] += shape[-1] % 2
            if Tile("", tuple(shape), "", "").volume <= limit:
                return tuple(shape)
            options = EXTENTS[: 12 if rank < 4 else 7]

    def _parameters(self, extents: list[str], lengths: list[int]) -> list[str]:
        shape = f"({', '.join(extents)},)"
        parameters = []
        for name in "XY":
            if self.chance(0.2):
                parameters.append(self.strided(name, extents, lengths, self.tensor_type))
            else:
                parameters.append(f'{name}: T.Tensor({shape}, "{self.tensor_type}")')
        for i, tile in enumerate(self.tiles):
            packed = tile.dtype in ("int4", "uint4", "float4_e2m1fn")
            if not packed and self.chance(0.12):
                parameters.append(self.strided(f"Z{i}", extents, lengths, tile.dtype))
            else:
                parameters.append(f'Z{i}: T.Tensor({shape}, "{tile.dtype}")')
        for i, vector in enumerate(self.vectors):
            parameters.append(f'V{i}: T.Tensor((2, 3, {", ".join(map(str, vector.shape))}), "{vector.dtype}")')
        exact = self.tiles[0].dtype in SUMS and not (self.special and self.tiles[0].is_float)
        self.sum_type = self.tiles[0].dtype if exact and self.chance(0.5) else ""
        if self.sum_type:
            parameters.append(f'S: T.Tensor({self.shape}, "{self.sum_type}")')
        self.counted = self.chance(0.15)
        if self.counted:
            parameters.append('SH: T.Tensor((7,), "int32")')
        if self.chance(0.2):
            self.scalars = ("p", "q")
            parameters += ["p: T.int32", f"q: T.{self.one(('float32', 'int64', 'int32'))}"]
            self.sizes |= {"p": self.one((-3, 0, 1, 2)), "q": self.one((-1, 0, 2, 3))}
        return parameters

    def _blocks(self, extent: str, length: int, tile: int) -> str:
        return f"T.ceildiv({extent}, {tile})" if extent in self.sizes else str(-(-length // tile))

    def _memory(self) -> None:
        """Allocations, annotations and what the tiles hold at first."""
        self.kept: list[Tile] = []
        for tile in (*self.tiles, *self.vectors):
            self.line(f'{tile.name} = T.alloc_{tile.scope}({tile.shape}, "{tile.dtype}")')
        self.line('counter = T.alloc_var("int32", init=0)')
        if len(self.shape) == 2 and self.chance(0.1):
            self.line(f"T.use_swizzle({self.one((2, 4))})")
        for tile in self.tiles:
            wide = len(self.shape) == 2 and self.shape[1] % 8 == 0 and self.shape[1] & (self.shape[1] - 1) == 0
            if tile.scope == "shared" and wide and self.chance(0.3):
                self.line(f"T.annotate_layout({{{tile.name}: T.Layout({self.shape}, lambda i, j: (i, j ^ (i % 8)))}})")
        if self.chance(0.1):
            self.line(f"T.annotate_safe_value({{X: {self.one((1, 2, 3))}}})")
        for tile in self.tiles[:2]:
            self.line(f"T.copy({self.window(self.one('XY'))}, {tile.name})")
        for tile in (self.tiles[2], *self.vectors):
            self.line(f"T.fill({tile.name}, {self.constant(tile.dtype)})")

    def _results(self, extents: list[str]) -> None:
        for i, tile in enumerate(self.tiles):
            self.line(f"T.copy({tile.name}, {self.window(f'Z{i}', still=True)})")
        for i, vector in enumerate(self.vectors):
            self.line(f"T.copy({vector.name}, V{i}[by, bx, {', '.join(f'0:{e}' for e in vector.shape)}])")
        if self.sum_type:
            self._add_up()
        if self.counted:
            variables = [self.name("i") for _ in self.shape]
            tile = self.tiles[0]
            index = f'T.cast({tile.at(variables)}, "int32") % 7' if not tile.is_float else f"({variables[-1]} * 3) % 7"
            with self.block(f"for {', '.join(variables)} in T.Parallel({', '.join(map(str, self.shape))}):"):
                self.line(f"T.atomic_add(SH[{index}], {self.one((1, 2))})")

    def _add_up(self) -> None:
        """Blocks together make S of their first tiles: by tile or by element, in one operation that has no order."""
        tile = self.tiles[0]
        ops = (
            ["add", "add", "max", "min"]
            if tile.is_float or self.sum_type[-2:] == "64"
            else ["add", "max", "min", "or", "and", "xor"]
        )
        op = self.one(ops)
        order = self.one(("", "", ', memory_order="relaxed"', ', memory_order="acq_rel"'))
        if self.chance(0.5):
            self.line(f"T.atomic_{op}(S[{', '.join('0' for _ in self.shape)}], {tile.name}{order})")
            return
        variables = [self.name("i") for _ in self.shape]
        with self.block(f"for {', '.join(variables)} in T.Parallel({', '.join(map(str, self.shape))}):"):
            update = f"T.atomic_{op}(S[{', '.join(variables)}], {tile.at(variables)}{order})"
            if self.chance(0.4):
                with self.block(f"if {self.condition(variables, tile)}:"):
                    self.line(update)
            else:
                self.line(update)

    def _vector_type(self) -> str:
        same = [t.dtype for t in self.tiles if t.dtype in ("float32", "float16", "bfloat16", "float64")]
        if self.tiles[0].is_float:
            return self.one(["float32", *same])
        return self.one(("int32", "int64"))

    def _vector_scope(self) -> str:
        return self.one(("shared", "fragment", "fragment"))

    def window(self, tensor: str, still: bool = False, shift: str | None = None) -> str:
        """The region of a tensor that belongs to the block, perhaps moved."""
        parts = []
        for axis, extent in enumerate(self.shape):
            block = self.grid_axes[axis]
            low = f"{block} * {extent}" if block else "0"
            if not still and block:
                # What lies outside for all blocks is refused.
                moved = self.one(("", "", " + 1", " - 1", " + 3")) if extent > 6 else ""
                low += shift if shift and axis == len(self.shape) - 1 else moved
            parts.append(f"{low}:{low} + {extent}")
        if self.chance(0.2):  # by its first element; the extents come from the other side
            parts = [part.partition(":")[0] for part in parts]
        return f"{tensor}[{', '.join(parts)}]"

    # Statements

    def statement(self, depth: int) -> None:
        """One statement; loops and branches have others inside, `depth` deep."""
        simple = [self.elements] * 4 + [self.reduce] * 3 + [self.copy, self.copy, self.scan, self.scan, self.fill]
        simple += [self.transpose, self.reshape, self.workspace, self.reducer, self.macro, self.asynchronous, self.rows]
        compound = [self.loop, self.loop, self.branch, self.pipeline, self.pipeline, self.repeat] if depth else []
        make = self.one(simple + compound)
        make(depth) if make in compound else make()

    def elements(self) -> None:
        """Element by element over the tile or a part of it."""
        target = self.one(self.tiles)
        part = target.scope == "shared" and self.chance(0.3)
        starts, extents = self._part(self.shape) if part else ([0] * len(self.shape), list(self.shape))
        variables = [self.name("i") for _ in self.shape]
        places = place_names(variables, starts)
        width = self.one(("", "", "", "", ", coalesced_width=2", ", coalesced_width=4"))
        if extents[-1] % 4:
            width = ""
        with self.block(f"for {', '.join(variables)} in T.Parallel({', '.join(map(str, extents))}{width}):"):
            store = f"{target.at(places)} = {self.value(target, places)}"
            if self.chance(0.05) and target.dtype != "bool":
                self.line(f"T.device_assert({places[0]} < {self.shape[0]})")
            if self.chance(0.1):
                named = self.name("x")
                self.line(f"{named} = {self.value(target, places)}")
                store = f"{target.at(places)} = {named} if {self.condition(places, target)} else {target.at(places)}"
            if self.chance(0.3):
                with self.block(f"if {self.condition(places, target)}:"):
                    self.line(store)
                if self.chance(0.4):
                    with self.block("else:"):
                        self.line(f"{target.at(places)} = {self.value(target, places)}")
            else:
                self.line(store)

    def rows(self) -> None:
        """A thread works through a row of a shared tile in a loop of its own."""
        shared = [t for t in self.tiles if t.scope == "shared" and t.dtype not in ("int4", "uint4", "float4_e2m1fn")]
        if len(self.shape) != 2 or not shared:
            return self.elements()
        target = self.one(shared)
        row, column = self.name("i"), self.name("k")
        backwards = self.chance(0.3)
        bounds = f"{self.shape[1] - 1}, -1, -1" if backwards else f"{self.shape[1]}"
        inner = f"for {column} in T.{self.one(('serial', 'unroll'))}({bounds}):"
        with self.block(f"for {row} in T.Parallel({self.shape[0]}):"), self.block(inner):
            if self.chance(0.2):
                with self.block(f"if {column} % 5 == 3:"):
                    self.line("continue")
            # An element of a fragment belongs to a thread that a loop's variable does not tell.
            tiles, vectors = self.tiles, self.vectors
            self.tiles, self.vectors = [t for t in tiles if t.scope == "shared"], []
            self.line(f"{target.at([row, column])} = {self.value(target, [row, column])}")
            self.tiles, self.vectors = tiles, vectors

    def copy(self) -> None:
        source, target = self.random.sample(self.tiles, 2)
        options = self.one(("", "", "", "", ', prefer_instruction="sync"', ", disable_tma=True"))
        if source.scope == target.scope == "shared" and self.chance(0.5):
            starts, extents = self._part(self.shape)
            others = [self.random.randrange(e - n + 1) for e, n in zip(self.shape, extents)]
            self.line(f"T.copy({_region(source, starts, extents)}, {_region(target, others, extents)}{options})")
        else:
            self.line(f"T.copy({source.name}, {target.name}{options})")

    def asynchronous(self) -> None:
        """A copy that goes on while something else is done."""
        fitting = [t for t in self.tiles if t.scope == "shared" and t.dtype == self.tensor_type]
        if not fitting:
            return self.copy()
        self.line(f"T.async_copy({self.window(self.one('XY'))}, {self.one(fitting).name})")
        if self.chance(0.7):
            self.line("T.ptx_wait_group(0)")

    def fill(self) -> None:
        target = self.one(self.tiles)
        if target.scope == "shared" and self.chance(0.5):
            starts, extents = self._part(self.shape)
            self.line(f"T.fill({_region(target, starts, extents)}, {self.constant(target.dtype)})")
        else:
            self.line(f"T.clear({target.name})")

    def transpose(self) -> None:
        """A tile, turned into memory of its own and back with something done to it."""
        if len(self.shape) != 2:
            return self.elements()
        source = self.one([t for t in self.tiles if t.scope == "shared"] or [None])
        if source is None or source.dtype in ("int4", "uint4", "float4_e2m1fn"):
            return self.elements()
        turned = Tile(self.name("u"), self.shape[::-1], source.dtype, "shared")
        self.line(f'{turned.name} = T.alloc_shared({turned.shape}, "{turned.dtype}")')
        self.line(f"T.transpose({source.name}, {turned.name})")
        i, j = self.name("i"), self.name("i")
        target = self.one([t for t in self.tiles if t is not source])
        value = self.bounded(f'T.cast({turned.at([j, i])}, "{target.dtype}")', target.dtype)
        with self.block(f"for {i}, {j} in T.Parallel({self.shape[0]}, {self.shape[1]}):"):
            self.line(f"{target.at([i, j])} = {value}")

    def reshape(self) -> None:
        """The same memory in one axis, and at times as other bits."""
        target = self.one(self.tiles)
        flat = Tile(self.name("f"), (target.volume,), target.dtype, target.scope)
        self.line(f"{flat.name} = T.reshape({target.name}, ({target.volume},))")
        i = self.name("i")
        with self.block(f"for {i} in T.Parallel({target.volume}):"):
            here = flat.at([i])
            if target.dtype == "bool":
                self.line(f"{here} = {i} % 3 == 1")
            else:
                added = f'{here} + T.cast({i} % {self.one((2, 3, 5))}, "{target.dtype}")'
                self.line(f"{here} = {self.bounded(added, target.dtype)}")
        signless = {"int32": "uint32", "int16": "uint16", "uint8": "int8", "int64": "uint64"}
        if target.dtype in signless and target.scope == "shared" and self.chance(0.5):
            other = signless[target.dtype]
            bits = self.name("g")
            self.line(f'{bits} = T.view({target.name}, ({target.volume},), "{other}")')
            with self.block(f"for {i} in T.Parallel({target.volume}):"):
                self.line(f'{bits}[{i}] = {bits}[{i}] >> T.cast(1, "{other}")')

    def workspace(self) -> None:
        """Through device memory of the call."""
        source, target = self.random.sample(self.tiles, 2)
        if "4" in (source.dtype[3:], source.dtype[4:]) or source.dtype == "float4_e2m1fn":
            return self.copy()
        name = self.name("W")
        self.line(f'{name} = T.alloc_global((2, 3, {", ".join(map(str, self.shape))}), "{source.dtype}")')
        whole = ", ".join(f"0:{e}" for e in self.shape)
        self.line(f"T.copy({source.name}, {name}[by, bx, {whole}])")
        if self.chance(0.4):
            self.elements()
        self.line(f"T.copy({name}[by, bx, {whole}], {target.name})")
        self.bound_tile(target)

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
        options = "" if kind == "abssum" or self.chance(0.6) else ", clear=False"
        if kind in ("max", "min", "absmax") and vector.is_float and self.chance(0.2):
            options += ", nan_propagate=True"
        self.line(f"T.reduce_{kind}({self.one(fitting).name}, {vector.name}, dim={axis}{options})")
        if "clear=False" in options or vector.dtype == "float16":
            self.bound_tile(vector)  # what loops add up stays small

    def reducer(self) -> None:
        """What `reduce` does, by contributions of parallel iterations."""
        if not self.vectors:
            return self.elements()
        axis = self.random.randrange(len(self.vectors))
        vector = self.vectors[axis]
        if vector.dtype not in ("float32", "float64", "int32", "int64") or self.special:
            return self.reduce()
        tile, name = self.one(self.tiles), self.name("r")
        op = self.one(("sum", "max", "min"))
        replication = self.one(("", ', replication="all"'))
        self.line(f'{name} = T.alloc_reducer({vector.shape}, "{vector.dtype}", op="{op}"{replication})')
        self.line(f"T.reducer_init({name}{self.one(('', ', 2'))})")
        variables = [self.name("i") for _ in self.shape]
        kept = variables[:axis] + variables[axis + 1 :]
        with self.block(f"for {', '.join(variables)} in T.Parallel({', '.join(map(str, self.shape))}):"):
            update = f'T.reducer_update({name}[{", ".join(kept)}], T.cast({tile.at(variables)}, "{vector.dtype}"))'
            if self.chance(0.3):
                with self.block(f"if {self.condition(variables, tile)}:"):
                    self.line(update)
            else:
                self.line(update)
        self.line(f"T.finalize_reducer({name}, {vector.name})")
        if vector.is_float:
            i = [self.name("i") for _ in vector.shape]
            with self.block(f"for {', '.join(i)} in T.Parallel({', '.join(map(str, vector.shape))}):"):
                self.line(f"{vector.at(i)} = {self.bounded(vector.at(i), vector.dtype)}")

    def scan(self) -> None:
        fitting = [t for t in self.tiles if t.dtype in ("float32", "float64", "int32", "int64")]
        if not fitting:
            return self.copy()
        tile = self.one(fitting)
        kind = self.one(("cumsum", "cummax"))
        self.line(f"T.{kind}({tile.name}, dim={self.random.randrange(len(self.shape))}, reverse={self.chance(0.4)})")
        self.bound_tile(tile)

    def macro(self) -> None:
        """A call of a macro that has a tile, a value and a variable by reference."""
        tile = self.one(self.tiles)
        name = self.name("macro")
        places = [f"m{axis}" for axis in range(len(self.shape))]
        there = Tile("tile", self.shape, tile.dtype, tile.scope)
        value = f'{there.at(places)} + T.cast(amount, "{tile.dtype}")'
        if tile.dtype == "bool":
            value = "amount > 0"
        self.macros += [
            "@T.macro",
            f"def {name}(tile, amount, count: T.Ref):",
            f"    for {', '.join(places)} in T.Parallel({', '.join(map(str, self.shape))}):",
            f"        {there.at(places)} = {self.bounded(value, tile.dtype)}",
            "    count = count + 1",
        ]
        self.line(f"{name}({tile.name}, {self.one(('1', 'bx', 'counter', 'by + 2'))}, counter)")

    # Control flow

    def loop(self, depth: int) -> None:
        variable = self.name("k")
        head = self.one((
            "T.serial({n})", "T.serial({n})", "T.unroll({n})", "range({n})", "T.serial({n}, -1, -1)",
            "range({n}, 0, -2)", "T.serial(1, {n}, 2)", "T.unroll({n}, explicit=True)",
            "T.unroll({n}, unroll_factor=2)", "T.grid({n}, 2)", "list(range({n}))",
        ))  # fmt: skip
        head = head.format(n=self.one((0, 1, 2, 3)))
        if "explicit" in head:
            head = head.replace("(0", "(1")
        names = f"{variable}, {self.name('k')}" if "grid" in head else variable
        with self.block(f"for {names} in {head}:"):
            if self.chance(0.25) and "explicit" not in head and "list" not in head:
                word = "continue" if "grid" in head else self.one(("break", "continue"))
                with self.block(f"if {self.one((f'{variable} == 1', 'counter > 1', 'bx == 1'))}:"):
                    self.line(word)
            self.statement(depth - 1)
            if self.chance(0.3):
                self.line(f"counter += {variable}")

    def branch(self, depth: int) -> None:
        shared = [t for t in self.tiles if t.scope == "shared" and t.dtype in ("int32", "float32", "uint8")]
        condition = self.uniform()
        if shared and self.chance(0.2):
            condition = f"T.{self.one(('any_of', 'all_of'))}({self.one(shared).name})"
        with self.block(f"if {condition}:"):
            self.statement(depth - 1)
        if self.chance(0.2):
            with self.block(f"elif {self.uniform()}:"):
                self.statement(depth - 1)
        if self.chance(0.4):
            with self.block("else:"):
                self.statement(depth - 1)

    def repeat(self, depth: int) -> None:
        """A while loop that ends: its variable only grows."""
        variable = self.name("w")
        self.line(f'{variable} = T.alloc_var("int32", init=0)')
        with self.block(f"while {variable} < {self.one((0, 1, 2, 3))}:"):
            self.line(f"{variable} += 1")
            if self.chance(0.25):
                with self.block(f"if {self.one((f'{variable} == 2', 'bx == 1'))}:"):
                    self.line(self.one(("break", "continue")))
            self.statement(depth - 1)

    def pipeline(self, depth: int) -> None:
        if self.chance(0.2):
            with self.block(f"if {self.uniform()}:"):
                self._pipeline(depth)
        else:
            self._pipeline(depth)

    def _pipeline(self, depth: int) -> None:
        variable, tile, step = self.name("k"), self.one(self.tiles), self.one((1, 2, 3))
        trips = self.one(("0", "1", "2", "3", "4", "bx + 1", "by", "1, 4"))
        with self.block(f"for {variable} in T.Pipelined({trips}, num_stages={self.one((0, 1, 2, 3, 4))}):"):
            self.line(f"T.copy({self.window(self.one('XY'), shift=f' + {variable} * {step}')}, {tile.name})")
            self.elements()
            if self.chance(0.4):
                self.statement(0)

    def _part(self, shape: tuple[int, ...]) -> tuple[list[int], list[int]]:
        extents = [self.random.randint(1, e) for e in shape]
        return [self.random.randrange(e - n + 1) for e, n in zip(shape, extents)], extents


def _region(tile: Tile, starts: list[int], extents: list[int]) -> str:
    return f"{tile.name}[{', '.join(f'{s}:{s + e}' for s, e in zip(starts, extents))}]"
