"""Meta classes: objects with state that live while a kernel is traced, and the scheduler of persistent tiles."""

from __future__ import annotations

from typing import Any

from ..errors import CompileError, declare_codes
from ..frontend.builder import ScalarRef, known, require_builder
from ..frontend.macro import Macro, macro
from ..frontend.operators import is_expression
from ..ir import Expr, FloatImm, IntImm, Var, as_expr
from .allocate import alloc_var
from .kernel import get_block_extents

__all__ = ["PersistentTileScheduler", "inline", "meta_class"]

declare_codes({"E-META": "a meta class or scheduler that is used in a way that it is not made for"})


def inline(func: Any) -> Macro:
    """Decorator for a method `func` of a `meta_class`: its body is inlined where it is called, as a `macro` is."""
    return macro(func)


def meta_class(cls: type) -> type:
    """Decorator for a class `cls` whose objects hold variables and expressions of a kernel.

    An attribute that holds a T.alloc_var is that variable: assigning to the attribute stores. An expression assigned to
    any other attribute is evaluated there, once. Methods marked `inline` may branch and loop over expressions; others
    are plain Python.
    """
    if not isinstance(cls, type):
        raise CompileError(
            "E-META", "T.meta_class decorates a class", facts=[f"found {cls!r}"], help="write it above `class Name:`"
        )
    plain: Any = cls.__setattr__

    def __setattr__(self: Any, name: str, value: Any) -> None:
        held = self.__dict__.get(name) if hasattr(self, "__dict__") else None
        if isinstance(held, ScalarRef) and not (isinstance(value, ScalarRef) and not value.named):
            if is_expression(value) or isinstance(value, (bool, int, float)):
                require_builder(name).store(held.buffer, held.indices, value)
                return
        if isinstance(value, ScalarRef):
            if value.named:
                value = value.__tile_expr__()
            else:
                value.named = True
        if isinstance(value, Expr) and not isinstance(value, (Var, IntImm, FloatImm)):
            builder = require_builder(name)
            value = value if builder.kernel is None else builder.bind(name, value)
        plain(self, name, value)

    cls.__setattr__ = __setattr__  # type: ignore[method-assign,assignment]
    cls.__tile_meta__ = True  # type: ignore[attr-defined]
    return cls


@meta_class
class PersistentTileScheduler:
    """The order in which persistent workers take the tiles of a matrix: worker w takes tiles w, w + workers, …

        tiles = T.PersistentTileScheduler(rows, columns, num_workers=blocks)
        tiles.init(bx)
        while tiles.valid():
            … tiles.m_idx, tiles.n_idx …
            tiles.next_tile()

    Args:
        num_m_tiles, num_n_tiles: the grid of tiles.
        num_workers: workers that share the tiles; None for the blocks of the kernel's grid, by clusters.
        swizzle_size: columns (rows, unless `column_major`) of a panel; tiles run across a panel before along it.
        column_major: whether panels are made of columns, and tiles run down them.
        cluster_size: blocks that work on one tile.
        stateful: whether the scheduler holds a current tile; without, only `coord` may be used.
        name: begins the names of its variables.
    """

    def __init__(
        self,
        num_m_tiles: Any,
        num_n_tiles: Any,
        num_workers: Any = None,
        swizzle_size: int = 1,
        column_major: bool = True,
        cluster_size: int = 1,
        stateful: bool = True,
        name: str | None = None,
    ) -> None:
        builder = require_builder("T.PersistentTileScheduler")
        builder.require_kernel("T.PersistentTileScheduler")
        for label, value in (("swizzle_size", swizzle_size), ("cluster_size", cluster_size)):
            number = known(value)
            if not isinstance(number, int) or isinstance(number, bool) or number < 1:
                raise CompileError(
                    "E-META",
                    f"T.PersistentTileScheduler does not take {label}={value!r}",
                    facts=["allowed: a positive integer"],
                    help=f"leave {label} out",
                )
        for label, value in (("num_m_tiles", num_m_tiles), ("num_n_tiles", num_n_tiles), ("num_workers", num_workers)):
            if not (value is None and label == "num_workers") and not _is_integer(value):
                raise CompileError(
                    "E-META",
                    f"T.PersistentTileScheduler does not take {label}={value!r}",
                    facts=["allowed: an integer or an integer expression"],
                    help="pass T.ceildiv(M, block_M) and its like",
                )
        label = name or builder.take_hint("tiles")
        self._names = [f"{label}_{part}" for part in ("m", "n", "linear", "iter")]
        self.num_m_tiles = num_m_tiles
        self.num_n_tiles = num_n_tiles
        if num_workers is None:
            workers: Any = 1
            for extent in get_block_extents():
                workers = workers * extent
            num_workers = workers // cluster_size
        self.num_workers = num_workers
        self.swizzle_size = known(swizzle_size)
        self.column_major = bool(column_major)
        self.cluster_size = known(cluster_size)
        self.stateful = bool(stateful)
        if self.stateful:
            parts = []
            for text in self._names:
                builder.hints = [text]
                parts.append(alloc_var("int32", init=0))
            builder.hints = []
            self.m_idx, self.n_idx, self.linear_idx, self.current_iter = parts

    def init(self, worker_id: Any) -> None:
        """Begins with the first tile of a worker."""
        self._require_state("init")
        self.linear_idx = as_expr(worker_id)
        self.current_iter = 0
        self.update_current_idx(self.linear_idx)

    def valid(self) -> Any:
        """Whether there is a current tile, as a condition."""
        self._require_state("valid")
        return self.linear_idx < self.num_m_tiles * self.num_n_tiles

    def next_tile(self) -> None:
        """Goes on to the worker's next tile."""
        self._require_state("next_tile")
        self.linear_idx = self.linear_idx + self.num_workers
        self.current_iter = self.current_iter + 1
        self.update_current_idx(self.linear_idx)

    def update_current_idx(self, linear_idx: Any) -> None:
        """Makes the tile with a number the current one."""
        self._require_state("update_current_idx")
        m, n = self.coord(linear_idx)
        self.m_idx = m
        self.n_idx = n

    def coord(self, tile_id: Any) -> tuple[Any, Any]:
        """(row, column) of the tile with a number."""
        down, across = self.num_m_tiles, self.num_n_tiles
        if not self.column_major:
            down, across = across, down
        size = down * self.swizzle_size
        number = tile_id.__tile_expr__() if isinstance(tile_id, ScalarRef) else tile_id
        panel, rest = number // size, number % size
        if self.swizzle_size == 1:
            first, second = rest, panel
        else:
            # A worker that has had its last tile asks once more, for a number past the end: nothing divides by 0 there.
            width = _extreme("max", 1, _extreme("min", self.swizzle_size, across - panel * self.swizzle_size))
            first, second = rest // width, panel * self.swizzle_size + rest % width
        return (first, second) if self.column_major else (second, first)

    def _require_state(self, method: str) -> None:
        if self.stateful:
            return
        raise CompileError(
            "E-META",
            f"{method} of a T.PersistentTileScheduler without state",
            facts=["it was made with stateful=False"],
            help="use coord(tile_id), or leave stateful out",
        )


def _is_integer(value: Any) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool)
    return is_expression(value) and as_expr(value).dtype.is_int


def _extreme(name: str, a: int, b: Any) -> Any:
    from . import math

    return getattr(math, name)(a, b) if is_expression(b) else {"min": min, "max": max}[name](a, b)
