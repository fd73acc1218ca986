"""Matrix products in a pipelined loop over K, with an epilogue; conditions and loops around them."""

from __future__ import annotations

from .maker import Maker
from .program import Program

__all__ = ["Products"]

TYPES = (
    ("float16", "float32"),
    ("float16", "float32"),
    ("float16", "float16"),
    ("bfloat16", "float32"),
    ("float32", "float32"),
    ("tfloat32", "float32"),
    ("float64", "float64"),
    ("int8", "int32"),
    ("uint8", "int32"),
    ("int4", "int32"),
    ("float8_e4m3fn", "float32"),
    ("float8_e5m2", "float32"),
)
WEIGHTS = ("int4", "uint4", "int8", "float8_e4m3fn", "float4_e2m1fn", "uint8")
"""What B may be in memory, to be widened on chip."""


class Products(Maker):
    """C = epilogue(A · B [+ A · D])."""

    def program(self) -> Program:
        self.narrow, self.wide = self.one(TYPES)
        packed = self.narrow == "int4"
        self.special = self.narrow in ("float16", "bfloat16", "float32") and self.chance(0.1)
        rows, columns = self.one((16, 32, 48, 64)), self.one((16, 32, 40, 64))
        step = self.one((16, 32, 48)) if not (packed or "8" in self.narrow[:8]) else self.one((32, 64))
        trips = self.one((0, 1, 2, 3, 4, 5))
        self.threads = self.one((32, 64, 128, 128, 256, 96, 384))
        self.transposed = self.chance(0.3) and not packed, self.chance(0.4) or packed
        # B may come as other, narrower elements, which a loop widens.
        self.stored = self.one(WEIGHTS) if self.narrow in ("float16", "bfloat16") and self.chance(0.3) else self.narrow
        halved = self.stored in ("int4", "uint4", "float4_e2m1fn")
        self.second = self.stored == self.narrow and self.chance(0.35)
        rest = self.one((0, 0, 1, 8, step - 1))
        m, n = rows * 2 - self.one((0, 0, 5)), columns - self.one((0, 0, 3))
        k = max(trips * step - rest, 1)
        if packed:
            k += k % 2
        if halved:
            k, n = k + k % 2, n + n % 2
        height, width, length = (
            self.size(name, value) if not (halved or packed) else str(value)
            for name, value in (("m", m), ("n", n), ("k", k))
        )
        self.rows, self.columns, self.step = rows, columns, step
        a_shape, b_shape = self._operands(rows, columns, step)
        left = (length, height) if self.transposed[0] else (height, length)
        right = (width, length) if self.transposed[1] else (length, width)
        self._memory(a_shape, b_shape)
        extent = f"T.ceildiv({length}, {step})" if length in self.sizes else str(-(-k // step))
        grid = f"T.ceildiv({height}, {rows})" if height in self.sizes else str(-(-m // rows))
        persistent = self.chance(0.12)
        if persistent:
            head = f"for by in T.Persistent({grid}, 2, worker, group_size={self.one((1, 2, 8))}):"
        else:
            head = self._around()
        if head:
            self.line(head)
            self.depth += 1
        if persistent:
            self.line("T.clear(c)")
        self._steps(extent, b_shape)
        if head and head.startswith("while"):
            self.line("w += 1")
        if head and not persistent:
            self.depth -= 1
        self._epilogue()
        target = f"C[by * {rows}, 0]"
        if self.wide in ("float32", "int32", "float64") and not self.special and self.chance(0.12):
            target = target.replace("C", "S")
            self.line(f"T.atomic_add({target}, c)")
        else:
            self.line(f"T.copy(c, {target})")
        result = target[0]
        right_lengths = (n, k) if self.transposed[1] else (k, n)
        left_lengths = (k, m) if self.transposed[0] else (m, k)
        parameters = [
            self._tensor("A", left, left_lengths, self.narrow),
            self._tensor("B", right, right_lengths, self.stored),
            *([self._tensor("D", right, right_lengths, self.narrow)] if self.second else []),
            f'{result}: T.Tensor(({height}, {width}), "{self.wide}")',
        ]
        names, blocks = ("(_, worker)", "1, 2") if persistent else ("(bx, by)", f"1, {grid}")
        return self.finish(parameters, f"with T.Kernel({blocks}, threads={self.threads}) as {names}:")

    def _operands(self, rows: int, columns: int, step: int) -> tuple[tuple[int, int], tuple[int, int]]:
        return (
            (step, rows) if self.transposed[0] else (rows, step),
            (columns, step) if self.transposed[1] else (step, columns),
        )

    def _tensor(self, name: str, extents: tuple[str, str], lengths: tuple[int, int], dtype: str) -> str:
        if dtype not in ("int4", "uint4", "float4_e2m1fn") and self.chance(0.15):
            return self.strided(name, extents, lengths, dtype)
        return f'{name}: T.Tensor(({", ".join(extents)}), "{dtype}")'

    def _memory(self, a_shape: tuple[int, int], b_shape: tuple[int, int]) -> None:
        self.line(f'a = T.alloc_shared({a_shape}, "{self.narrow}")')
        self.line(f'b = T.alloc_shared({b_shape}, "{self.narrow}")')
        self.line(f'c = T.alloc_fragment(({self.rows}, {self.columns}), "{self.wide}")')
        self.held = not self.transposed[0] and self.narrow != "int4" and self.chance(0.2)
        if self.held:
            self.line(f'held = T.alloc_fragment({a_shape}, "{self.narrow}")')
        if self.second:
            self.line(f'd = T.alloc_shared({b_shape}, "{self.narrow}")')
        if self.stored != self.narrow:
            self.line(f'packed = T.alloc_shared({b_shape}, "{self.stored}")')
        if self.chance(0.1):
            self.line(f"T.use_swizzle({self.one((2, 3))})")
        self.line("T.clear(c)")

    def _around(self) -> str | None:
        """What stands around the loop over K."""
        outer = self.random.random()
        if outer < 0.15:
            return "if by % 2 == 0:"
        if outer < 0.3:
            return f"for outer in T.serial({self.one((1, 2))}):"
        if outer < 0.4:
            self.line('w = T.alloc_var("int32", init=0)')
            return f"while w < {self.one((0, 1, 2))}:"
        return None

    def _steps(self, extent: str, b_shape: tuple[int, int]) -> None:
        policy = self.one(("", "", ", policy=T.GemmWarpPolicy.FullRow", ", policy=T.GemmWarpPolicy.FullCol"))
        flags = f", transpose_A={self.transposed[0]}, transpose_B={self.transposed[1]}{policy}"
        stages = self.one((0, 1, 2, 2, 3, 4))
        with self.block(f"for kk in T.Pipelined({extent}, num_stages={stages}):"):
            offset = f"kk * {self.step}"
            place = f"0, {offset}" if self.transposed[1] else f"{offset}, 0"
            start = f"{offset}, by * {self.rows}" if self.transposed[0] else f"by * {self.rows}, {offset}"
            self.line(f"T.copy(A[{start}], a)")
            if self.stored == self.narrow:
                self.line(f"T.copy(B[{place}], b)")
            else:
                self.line(f"T.copy(B[{place}], packed)")
                with self.block(f"for i, j in T.Parallel{b_shape}:"):
                    self.line(f'b[i, j] = T.cast(packed[i, j], "{self.narrow}"){self.one(("", " * 2", " + 1"))}')
            operand = "a"
            if self.held:
                operand = "held"
                self.line("T.copy(a, held)")
            if self.chance(0.3) and self.narrow != "int4":
                with self.block(f"for i, j in T.Parallel{b_shape}:"):
                    self.line(f'b[i, j] = T.max(b[i, j], T.cast({int(self.narrow[0] != "u") * -1}, "{self.narrow}"))')
            self.line(f"T.gemm({operand}, b, c{flags})")
            if self.second:
                self.line(f"T.copy(D[{place}], d)")
                self.line(f"T.gemm({operand}, d, c{flags})")
            if self.chance(0.2):
                with self.block(f"for i, j in T.Parallel({self.rows}, {self.columns}):"):
                    self.line(f'c[i, j] = c[i, j] + T.cast((i + kk) % 3, "{self.wide}")')

    def _epilogue(self) -> None:
        loop = f"for i, j in T.Parallel({self.rows}, {self.columns}):"
        if self.chance(0.4):
            with self.block(loop):
                self.line(f'c[i, j] = T.max(c[i, j], T.cast(0, "{self.wide}")) - T.cast(j % 3, "{self.wide}")')
        if self.chance(0.3):
            top, axis = self.name("top"), self.one((0, 1))
            self.line(f'{top} = T.alloc_fragment(({(self.rows, self.columns)[1 - axis]},), "{self.wide}")')
            self.line(f"T.reduce_{self.one(('max', 'min'))}(c, {top}, dim={axis})")
            with self.block(loop):
                self.line(f"c[i, j] = c[i, j] - {top}[{'ij'[1 - axis]}]")
        if self.chance(0.15) and self.wide != "float16":
            # Through a second product, of the first one's (narrowed, small) result: as in attention.
            inner = "float16" if "float" in self.wide else "int8"
            if self.wide == "float64" or self.columns % 16 or (inner == "int8" and self.columns % 32):
                return
            self.line(f'p = T.alloc_fragment(({self.rows}, {self.columns}), "{inner}")')
            self.line(f'e = T.alloc_shared(({self.columns}, {self.columns}), "{inner}")')
            with self.block(loop):
                small = f'T.max(T.min(c[i, j], T.cast(2, "{self.wide}")), T.cast(-2, "{self.wide}"))'
                self.line(f'p[i, j] = T.cast({small}, "{inner}")')
            with self.block(f"for i, j in T.Parallel({self.columns}, {self.columns}):"):
                self.line(f'e[i, j] = T.cast((i + j) % 3, "{inner}")')
            self.line("T.gemm(p, e, c)")
