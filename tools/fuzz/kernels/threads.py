"""Code of single threads: variables, arrays and loops of their own, exchanges in warps and blocks, random numbers."""

from __future__ import annotations

from .maker import Maker
from .program import Program

__all__ = ["Threads"]

COUNTS = (32, 64, 96, 128, 160, 256, 384, 7, 40, 100)
SHAPES = ((16, 4), (32, 2), (8, 4, 2), (5, 3))


class Threads(Maker):
    """Every thread has integers v and w, a float f and an array; it writes them to rows of its own."""

    def program(self) -> Program:
        self.special = self.chance(0.3)
        threads = self.one(SHAPES) if self.chance(0.2) else self.one(COUNTS)
        self.threads = threads if isinstance(threads, int) else _product(threads)
        self.blocks = self.one((1, 1, 2, 3))
        self.length = self.one((1, 7, 64, 200, 1000))
        extent = self.size("n", self.length)
        self.kind = self.one(("int32", "int32", "int16", "uint8", "int64"))
        whole = self.threads // 32 * 32
        self.warps = whole > 0
        self.partial = whole if whole != self.threads else 0
        rows = self.blocks * self.threads
        if isinstance(threads, int):
            self.line("t = T.get_thread_binding()")
        else:
            parts = [f"T.get_thread_binding({d})" for d in range(len(threads))]
            scale = [_product(threads[:d]) for d in range(len(threads))]
            self.line("t = " + " + ".join(f"{p} * {s}" for p, s in zip(parts, scale)))
        self.line(f"row = bx * {self.threads} + t")
        self.line('v = T.alloc_var("int32", init=0)')
        self.line('w = T.alloc_var("int64", init=1)')
        self.line('f = T.alloc_var("float32", init=0.0)')
        self.line('array = T.alloc_local((4,), "int32")')
        self.line(f'shared = T.alloc_shared(({self.threads},), "{self.kind}")')
        self.line('bins = T.alloc_shared((8,), "int32")')
        self.draws = self.chance(0.25)
        if self.draws:
            options = self.one(("", ", seq=row", ", seq=row + 5, off=3"))
            self.line(f"T.rng_init({self.one((0, 42, 2**40 + 1))}{options})")
        self.line("for e in T.unroll(4):")
        self.line("    array[e] = t * 2 + e")
        self.line(f"v = T.cast(A[row % {extent}], 'int32')")
        self.body(3, uniform=True)
        for column, value in enumerate(("v", "T.cast(w, 'int32')", "array[0]", "array[t % 4]")):
            self.line(f"Z[row, {column}] = {value}")
        self.line("ZF[row, 0] = f")
        if self.draws:
            self.line(f"for e in T.serial({self.one((1, 4, 5))}):")
            self.line(f"    ZR[row, e] = T.rng_rand_float({self.one(('', 'bit=32, dist=' + repr('uniform')))})")
        parameters = [
            f'A: T.Tensor(({extent},), "{self.one(("int32", "int8", "uint8", "int64"))}")',
            f'B: T.Tensor(({4 * rows},), "int32")',
            f'Z: T.Tensor(({rows}, 4), "int32")',
            f'ZF: T.Tensor(({rows}, 1), "float32")',
            f'ZR: T.Tensor(({rows}, 5), "float32")',
            'S: T.Tensor((8,), "int32")',
        ]
        return self.finish(parameters, f"with T.Kernel({self.blocks}, threads={threads}) as bx:")

    def body(self, depth: int, uniform: bool, variable: str = "") -> None:
        """Some statements; `uniform` says that all threads of the block come here together."""
        for _ in range(self.one((2, 3, 5)) if depth == 3 else self.one((1, 1, 2))):
            self.statement(depth, uniform, variable)

    def statement(self, depth: int, uniform: bool, variable: str) -> None:
        plain = [self.assign, self.assign, self.assign_float, self.assign_array, self.vector, self.update, self.wide]
        together = [self.exchange, self.lanes, self.lanes, self.votes, self.histogram, self.meeting]
        if uniform:
            plain += together
        nested = [self.branch, self.loop, self.repeat] if depth else []
        make = self.one(plain + nested + nested)
        if make in nested:
            make(depth, uniform)
        elif make in together:
            make()
        else:
            make(variable)

    # Values

    def integer(self, depth: int, variable: str = "") -> str:
        """An int32."""
        if depth == 0 or self.chance(0.25):
            leaves = [
                "v",
                "t",
                "row",
                "array[1]",
                "array[v % 4]",
                "T.cast(w, 'int32')",
                str(self.one((-7, -1, 0, 1, 3))),
            ]
            leaves += [f"T.cast(A[(row * {self.one((1, 2, 3))} + {self.one((0, 1, 5))}) % {self.length}], 'int32')"]
            leaves += [f"B[row * 4 + {self.one((0, 3, 9))}]", *([variable] * 2 if variable else [])]
            return self.one(leaves)
        a, b = self.integer(depth - 1, variable), self.integer(depth - 1, variable)
        op = self.one(("+", "-", "*", "&", "|", "^", "max", "min", "//", "%", ">>", "<<", "if", "select", "clz", "div"))
        if op in ("max", "min"):
            return f"T.{op}({a}, {b})"
        if op in ("//", "%"):
            return f"({a} {op} {self.one((2, 3, 7, -5))})"
        if op in (">>", "<<"):
            return f"(({a}) {op} {self.one((1, 4, 9))})"
        if op == "if":
            return f"({a} if {self.condition(variable)} else {b})"
        if op == "select":
            return f"T.Select({self.condition(variable)}, {a}, {b})"
        if op == "clz":
            return f"T.clz(T.cast({a}, 'int32'))"
        if op == "div":
            return f"T.{self.one(('truncdiv', 'truncmod'))}(T.cast({a}, 'int32'), T.cast({self.one((3, -4))}, 'int32'))"
        return f"({a} {op} {b})"

    def condition(self, variable: str = "") -> str:
        """A condition that differs between threads."""
        left = self.one(["v", "t", "array[2]", "row", *([variable] if variable else [])])
        text = f"{left} % {self.one((2, 3, 5))} {self.one(('==', '!=', '<', '>='))} {self.one((0, 1, 2))}"
        if self.chance(0.2):
            text = f"{text} {self.one(('and', 'or'))} {self.one(('t > 3', 'v < 100', 'row == 5'))}"
        return f"({text})"

    # Statements of one thread

    def assign(self, variable: str) -> None:
        self.line(f"v {self.one(('=', '=', '+=', '-='))} {self.integer(2, variable)}")

    def wide(self, variable: str) -> None:
        self.line(f"w = w * {self.one((1, 3, -5))} + T.cast({self.integer(1, variable)}, 'int64')")

    def assign_float(self, variable: str) -> None:
        value = f"f + T.cast({self.integer(1, variable)} % {self.one((3, 5, 16))}, 'float32')"
        self.line(f"f = {self.bounded(value, 'float32')}")

    def assign_array(self, variable: str) -> None:
        where = self.one(("0", "3", "v % 4", "t % 4", "(row + 1) % 4"))
        self.line(f"array[{where}] = {self.integer(2, variable)}")

    def vector(self, variable: str) -> None:
        """Lanes packed, worked on and taken out again; words of memory."""
        name = self.name("x")
        if self.chance(0.3):
            self.line(f"{name} = T.ldg128(B[row * 4])")
            self.line(f"v = T.cast(T.extract_lane({name}, {self.one(('0', '3', 't % 4'))}), 'int32')")
            return
        count = self.one((2, 4, 8))
        lanes = ", ".join(self.integer(1, variable) for _ in range(count))
        self.line(f"{name} = T.int32x{count}({lanes})")
        other = self.name("y")
        work = self.one(
            (f"{name} * {name} + {name}", f"T.max({name}, T.int32x{count}(1))", f"{name} - T.int32x{count}(v)")
        )
        self.line(f"{other} = {work}")
        self.line(f"v = T.extract_lane({other}, {self.one(('0', '1', f'v % {count}'))})")

    def update(self, variable: str) -> None:
        self.line(f"T.atomic_add(S[v % 8], {self.one(('1', 't', 'v', '-2'))})")
        if self.chance(0.3):
            self.line(f"T.device_assert(t < {self.threads})")

    # Statements of all threads

    def exchange(self) -> None:
        """Through shared memory, one element a thread."""
        self.line("T.sync_threads()")
        self.line(f"shared[{self.one(('t', f'{self.threads - 1} - t'))}] = T.cast(v, '{self.kind}')")
        self.line("T.sync_threads()")
        self.line(f"v = T.cast(shared[(t * {self.one((1, 3))} + {self.one((0, 1, 31))}) % {self.threads}], 'int32')")

    def lanes(self) -> None:
        """What lanes of a warp give each other."""
        if not self.warps:
            return self.assign("")
        value = self.one((
            "T.shfl_xor(v, {d})", "T.shfl_down(v, {d}, {w})", "T.shfl_up(v, {d})", "T.shfl_sync(v, t + {d}, {w})",
            "T.warp_reduce_sum(v)", "T.warp_reduce_max(v)", "T.warp_reduce_min(v)", "T.warp_reduce_bitor(v)",
            "T.warp_reduce_bitand(v)", "T.cast(T.ballot(v > {d}), 'int32')", "T.cast(T.any_sync(v > 40), 'int32')",
            "T.cast(T.all_sync(v > -9), 'int32')", "T.cast(T.match_any_sync(v), 'int32')",
            "T.get_lane_idx() + T.get_warp_idx() * 100", "T.cast(T.shfl_xor(w, {d}), 'int32')",
            "T.cast(T.shfl_down(f, {d}), 'int32')",
        )).format(d=self.one((1, 2, 8, 16)), w=self.one((8, 16, 32)))  # fmt: skip
        if self.partial:
            with self.block(f"if t < {self.partial}:"):
                self.line(f"v = {value}")
        else:
            self.line(f"v = {value}")

    def votes(self) -> None:
        """What all threads of the block have in common."""
        word = self.one(("count", "and", "or"))
        self.line(f"v += T.cast(T.syncthreads_{word}(v % 3 {self.one(('== 1', '>= 0', '> 1'))}), 'int32')")

    def histogram(self) -> None:
        """Updates of shared memory, by all threads at once."""
        self.line("T.sync_threads()")
        with self.block("if t < 8:"):
            self.line(f"bins[t] = {self.one(('0', 't'))}")
        if self.threads < 8:
            with self.block("if t == 0:"):
                self.line(f"for e in T.serial({self.threads}, 8):")
                self.line("    bins[e] = 0")
        self.line("T.sync_threads()")
        op = self.one(("add", "max", "min", "or", "xor", "and"))
        self.line(f"T.atomic_{op}(bins[v % 8], {self.one(('1', 't', 'v'))})")
        self.line("T.sync_threads()")
        self.line("v += bins[t % 8]")

    def meeting(self) -> None:
        if self.warps and not self.partial and self.chance(0.5):
            self.line("T.sync_warp()")
        else:
            self.line("T.sync_threads()")

    # Control flow

    def branch(self, depth: int, uniform: bool) -> None:
        together = uniform and self.chance(0.3)
        with self.block(f"if {'bx % 2 == 0' if together else self.condition()}:"):
            self.body(depth - 1, together)
        if self.chance(0.4):
            with self.block("else:"):
                self.body(depth - 1, together)

    def loop(self, depth: int, uniform: bool) -> None:
        variable = self.name("k")
        together = uniform and self.chance(0.5)
        head = self.one(("T.serial(3)", "range(4, 0, -1)", "T.unroll(2)", "T.serial(1, 8, 3)", "range(bx + 1)"))
        if not together:
            head = self.one((head, "range(t % 3 + 1)", "T.serial(v % 4)", "T.serial(t % 5, -1, -2)"))
        with self.block(f"for {variable} in {head}:"):
            if self.chance(0.4):
                with self.block(f"if {f'{variable} == 2' if together else self.condition(variable)}:"):
                    self.line(self.one(("break", "continue")))
            self.body(depth - 1, together, variable)

    def repeat(self, depth: int, uniform: bool) -> None:
        variable = self.name("w")
        together = uniform and self.chance(0.5)
        self.line(f'{variable} = T.alloc_var("int32", init={"0" if together else self.one(("0", "t % 3"))})')
        with self.block(f"while {variable} < {self.one((1, 3))}:"):
            self.line(f"{variable} += 1")
            if self.chance(0.3):
                with self.block(f"if {f'{variable} == 2' if together else self.condition(variable)}:"):
                    self.line(self.one(("break", "continue")))
            self.body(depth - 1, together, variable)


def _product(extents: tuple[int, ...]) -> int:
    result = 1
    for extent in extents:
        result *= extent
    return result
