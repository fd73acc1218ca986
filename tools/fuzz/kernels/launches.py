"""Several launches in one function, with workspaces between them: blocks, persistent workers, warp groups."""

from __future__ import annotations

from .maker import Maker
from .program import Program

__all__ = ["Launches"]

TYPES = ("float32", "float32", "int32", "float16", "bfloat16", "int8", "int64")
THREADS = (32, 64, 128, 96, 160, 256)


class Launches(Maker):
    """A chain of matrices of one size, each made from the one before by a launch of its own."""

    def program(self) -> Program:
        self.rows, self.columns = self.one((1, 7, 16, 33, 40)), self.one((1, 8, 17, 32, 50, 64))
        self.height, self.width = self.size("n", self.rows), self.size("m", self.columns)
        self.tile = self.one((4, 8, 16)), self.one((8, 16, 32))
        stages = self.one((1, 2, 2, 3))
        names = ["A", *(f"W{i}" for i in range(stages - 1)), "Z"]
        self.depth = 1
        types = [self.one(TYPES) for _ in names]
        for name, dtype in list(zip(names, types))[1:-1]:
            self.line(f'{name} = T.alloc_global(({self.height}, {self.width}), "{dtype}")')
        self.vector = self.chance(0.4)
        for number in range(stages):
            before, after = (names[number], types[number]), (names[number + 1], types[number + 1])
            make = self.one(
                (self.blocks, self.blocks, self.persistent, self.scheduled, self.groups, self.deep, self.hands)
            )
            make(before, after)
        parameters = [
            f'A: T.Tensor(({self.height}, {self.width}), "{types[0]}")',
            f'Z: T.Tensor(({self.height}, {self.width}), "{types[-1]}")',
        ]
        if self.vector:
            parameters.append(f'V: T.Tensor(({self.height},), "float32")')
            self.sums(names[-1], types[-1])
        return self.assembled(parameters, self.lines)

    def across(self) -> str:
        """How many tiles lie side by side."""
        return f"T.ceildiv({self.width}, {self.tile[1]})"

    def down(self) -> str:
        """How many lie one below the other."""
        return f"T.ceildiv({self.height}, {self.tile[0]})"

    def work(self, before: tuple[str, str], after: tuple[str, str], i: str, j: str) -> None:
        """One tile, from the matrix before to the one after."""
        rows, columns = self.tile
        name, held = self.name("t"), self.name("h")
        scope, other = self.one((("shared", "fragment"), ("shared", "shared"), ("fragment", "fragment")))
        self.line(f'{name} = T.alloc_{scope}({self.tile}, "{before[1]}")')
        self.line(f'{held} = T.alloc_{other}({self.tile}, "{after[1]}")')
        at = f"{i} * {rows}, {j} * {columns}"
        self.line(f"T.copy({before[0]}[{at}], {name})")
        a, b = self.name("i"), self.name("i")
        with self.block(f"for {a}, {b} in T.Parallel({rows}, {columns}):"):
            value = (
                f'T.cast({name}[{a}, {b}], "{after[1]}") + T.cast(({a} * {self.one((1, 2))} + {b}) % 3, "{after[1]}")'
            )
            if self.chance(0.3):
                beside = f"{before[0]}[{i} * {rows} + {a}, {j} * {columns} + {b} - 1]"
                value = f'{value} - T.cast({beside}, "{after[1]}")'
            self.line(f"{held}[{a}, {b}] = {self.bounded(value, after[1])}")
        self.line(f"T.copy({held}, {after[0]}[{at}])")

    def blocks(self, before: tuple[str, str], after: tuple[str, str]) -> None:
        with self.block(f"with T.Kernel({self.across()}, {self.down()}, threads={self.one(THREADS)}) as (bx, by):"):
            if self.chance(0.3):
                self.line(f"T.use_swizzle({self.one((2, 3))}, order={self.one(('row', 'column'))!r})")
            self.work(before, after, "by", "bx")

    def deep(self, before: tuple[str, str], after: tuple[str, str]) -> None:
        """A grid of three axes, of which the last says nothing."""
        head = f"with T.Kernel({self.across()}, {self.down()}, 2, threads={self.one(THREADS)}) as (bx, by, bz):"
        with self.block(head), self.block("if bz == 1:"):
            self.work(before, after, "by", "bx")

    def persistent(self, before: tuple[str, str], after: tuple[str, str]) -> None:
        workers = self.one((1, 2, 3, 7))
        with self.block(f"with T.Kernel({workers}, threads={self.one(THREADS)}) as bx:"):
            options = f"group_size={self.one((1, 2, 8))}, num_stages={self.one((0, 0, 2))}"
            with self.block(f"for i, j in T.Persistent(({self.down()}, {self.across()}), {workers}, bx, {options}):"):
                self.work(before, after, "i", "j")

    def scheduled(self, before: tuple[str, str], after: tuple[str, str]) -> None:
        with self.block(f"with T.Kernel({self.one((1, 2, 3))}, threads={self.one(THREADS)}) as bx:"):
            options = f"swizzle_size={self.one((1, 2))}, column_major={self.chance(0.5)}"
            self.line(f"tiles = T.PersistentTileScheduler({self.down()}, {self.across()}, {options})")
            self.line("tiles.init(bx)")
            with self.block("while tiles.valid():"):
                self.work(before, after, "tiles.m_idx", "tiles.n_idx")
                self.line("tiles.next_tile()")

    def groups(self, before: tuple[str, str], after: tuple[str, str]) -> None:
        """Warp groups of a block: each has rows of its own."""
        count = self.one((2, 3))
        if self.rows <= self.tile[0] * (count - 1):  # a group without rows is refused
            return self.blocks(before, after)
        rows = f"T.ceildiv({self.height}, {self.tile[0] * count})"
        with self.block(f"with T.Kernel({self.across()}, {rows}, threads={128 * count}) as (bx, by):"):
            for group in range(count):
                with self.block(f"with T.ws({group}):"):
                    self.work(before, after, f"(by * {count} + {group})", "bx")

    def hands(self, before: tuple[str, str], after: tuple[str, str]) -> None:
        """One warp group loads what another works on."""
        rows, columns = self.tile
        with self.block(f"with T.Kernel({self.across()}, threads=256) as bx:"):
            name, k = self.name("t"), self.name("k")
            self.line(f'{name} = T.alloc_shared({self.tile}, "{before[1]}")')
            with self.block(f"for {k} in T.serial({self.down()}):"):
                with self.block("with T.ws(0):"):
                    self.line(f"T.copy({before[0]}[{k} * {rows}, bx * {columns}], {name})")
                with self.block("with T.ws(1):"):
                    held = self.name("h")
                    self.line(f'{held} = T.alloc_fragment({self.tile}, "{after[1]}")')
                    a, b = self.name("i"), self.name("i")
                    with self.block(f"for {a}, {b} in T.Parallel({rows}, {columns}):"):
                        self.line(f'{held}[{a}, {b}] = T.cast({name}[{a}, {b}], "{after[1]}")')
                    self.line(f"T.copy({held}, {after[0]}[{k} * {rows}, bx * {columns}])")

    def sums(self, name: str, dtype: str) -> None:
        """A launch that adds up the rows of the last matrix."""
        with self.block(f"with T.Kernel({self.height}, threads={self.one(THREADS)}) as bx:"):
            if self.chance(0.5):
                self.line('total = T.alloc_fragment((1,), "float32")')
                self.line(f'row = T.alloc_fragment((1, {self.columns}), "float32")')
                self.line(f"T.copy({name}[bx, 0], row)")
                self.line("T.reduce_sum(row, total, dim=1)")
                self.line("T.copy(total, V[bx])")
                return
            self.line('total = T.alloc_var("float32", init=0.0)')
            with self.block(f"for k in range({self.columns - 1}, -1, -1):"):
                self.line(f'total += T.cast({name}[bx, k], "float32")')
            self.line("V[bx] = total")
