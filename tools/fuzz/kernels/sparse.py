"""Products of which A holds two of every four elements of a row, and E says which."""

from __future__ import annotations

from .maker import Maker
from .program import Program

__all__ = ["SparseProducts"]

# Four codes of four bits, each two places in order; what an input says picks one of them.
_CODES = (0x4E9C, 0x498D, 0x4448, 0x4ECD)


class SparseProducts(Maker):
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
