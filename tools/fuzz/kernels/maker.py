"""What the families of kernels share: chances, lines of text, the outer shape of a kernel."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .program import Program, Tile

__all__ = ["EXTENTS", "THREADS", "Maker", "place_names"]

THREADS = (32, 64, 96, 128, 160, 256, 384, 40, 100)
EXTENTS = (1, 2, 3, 7, 8, 12, 15, 16, 17, 31, 32, 33, 40, 64, 126, 200, 250)


class Maker:
    """One kernel in the making. Parameters whose names begin with Z, V or C are outputs; those with S begin as 0, for
    kernels that add to them; the others are inputs."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed + 1)
        self.seed = seed
        self.lines: list[str] = []
        self.macros: list[str] = []
        self.depth = 2
        self.count = 0
        self.special = False
        self.sizes: dict[str, int] = {}
        self.dynamic: dict[str, str] = {}

    def program(self) -> Program:
        """The kernel."""
        raise NotImplementedError

    # Chances

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def one(self, options: Sequence[Any]) -> Any:
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
        """The whole text: a function with one launch, whose body the lines are."""
        return self.assembled(parameters, [f"    {launch}", *self.lines])

    def assembled(self, parameters: list[str], body: list[str]) -> Program:
        """The whole text: macros, sizes, a function with a body."""
        dynamic = [f'{name} = T.dynamic("{name}", "{dtype}")' for name, dtype in self.dynamic.items()]
        head = [*self.macros, *dynamic, "@T.prim_func", f"def kernel({', '.join(parameters)}):"]
        return Program("\n".join([*head, *body]) + "\n", dict(self.sizes), self.special, self.seed)

    def size(self, name: str, value: int, share: float = 0.35) -> str:
        """A size as text: a number, or a shape variable with that value."""
        if not self.chance(share):
            return str(value)
        self.sizes[name] = value
        self.dynamic[name] = "int64" if self.chance(0.15) else "int32"
        return name

    def strided(self, name: str, extents: Sequence[str], lengths: Sequence[int], dtype: str) -> str:
        """A parameter with strides: rows or columns apart, axes in any order, sometimes known only at the call."""
        order = list(range(len(lengths)))
        if self.chance(0.3):
            self.random.shuffle(order)
        strides, reach = [0] * len(lengths), self.one((1, 1, 1, 2, 3))
        for axis in reversed(order):
            strides[axis] = reach
            reach = reach * lengths[axis] + self.one((0, 0, 1, 4, 8))
        texts = [self.size(f"s{name.lower()}{axis}", stride, 0.3) for axis, stride in enumerate(strides)]
        return f'{name}: T.StridedTensor(({", ".join(extents)},), ({", ".join(texts)},), "{dtype}")'

    def constant(self, dtype: str) -> str:
        value = self.one((-3, -1, 0, 1, 2, 5))
        if dtype == "bool":
            return f'T.cast({value % 2}, "bool")'
        if "float" in dtype:
            return f'T.cast({float(value)}, "{dtype}")'
        return f'T.cast({abs(value) if dtype[0] == "u" else value}, "{dtype}")'

    def bounded(self, expression: str, dtype: str) -> str:
        """Keeps floats small, so that sums and products stay exact."""
        if "float" not in dtype:
            return expression
        return f'T.min(T.max({expression}, T.cast(-8.0, "{dtype}")), T.cast(8.0, "{dtype}"))'

    def bound_tile(self, tile: Tile) -> None:
        """A loop that keeps a tile's floats small."""
        if not tile.is_float:
            return
        variables = [self.name("i") for _ in tile.shape]
        with self.block(f"for {', '.join(variables)} in T.Parallel({', '.join(map(str, tile.shape))}):"):
            self.line(f"{tile.at(variables)} = {self.bounded(tile.at(variables), tile.dtype)}")


def place_names(variables: Sequence[str], starts: Sequence[int]) -> list[str]:
    """Indices of an element: variables from where a region starts."""
    return [v if s == 0 else f"{v} + {s}" for v, s in zip(variables, starts)]
