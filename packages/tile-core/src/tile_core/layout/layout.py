"""Layout: where each element of a tile lies.

A layout maps the indices of a tile (its domain) to indices in memory (its image, a box that is stored row-major). The
map is an expression for code and text; what it *means* is its table, so equality, injectivity, vector width and bank
conflicts are exact. Affine maps answer most questions without the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

from ..errors import CompileError, declare_codes
from ..ir import Expr, structural_equal
from ..ir.values import IndexMap, register_value
from ..source import Span
from .maps import apply_map, flat_index, make_map, static_extents, unflatten

__all__ = ["Conflicts", "Layout", "column_major", "panels", "row_major"]

declare_codes(
    {
        "E-LAYOUT-RANGE": "a layout sends an element outside its image",
        "E-LAYOUT-INJECTIVE": "a layout puts two elements in one place",
        "E-LAYOUT-COMPOSE": "two layouts whose shapes do not fit each other",
        "E-LAYOUT-INVERSE": "a layout that has no inverse",
        "E-LAYOUT-INDEX": "an access pattern that leaves a layout's domain",
    }
)


@dataclass(frozen=True, slots=True)
class Conflicts:
    """Bank conflicts of one access by a group of threads.

    Args:
        ways: the most words that one bank has to deliver in a phase; 1 is free of conflicts.
        wavefronts: total trips over all phases.
        phases: trips that an access without conflicts would take.
    """

    ways: int
    wavefronts: int
    phases: int


class Layout:
    """An index map of a tile, with constant extents; a value: equal tables make equal layouts.

    ``Layout(shape, lambda i, j: (j // 8, i, j % 8))`` derives the image; ``Layout(domain, image, forward)`` states it.

    Args:
        domain: extents of the tile; as a keyword also `shape`.
        image: extents of the memory box, in elements, row-major; derived from the largest index of each axis when
            left out.
        forward: a function from indices to an index or a tuple of indices, or an IndexMap; as a keyword also
            `forward_fn`.

    Raises:
        CompileError: extents are no positive constants, the function is no index map, or an index leaves the image.
    """

    __slots__ = ("_affine", "_table", "domain", "forward", "image")

    def __init__(
        self, domain: Any = None, image: Any = None, forward: Any = None, *, shape: Any = None, forward_fn: Any = None
    ) -> None:
        domain, forward = shape if domain is None else domain, forward_fn if forward is None else forward
        if forward is None and (callable(image) or isinstance(image, IndexMap)):
            image, forward = None, image
        what = "T.Layout"
        self.domain: tuple[int, ...] = static_extents(domain, what)
        self.forward, self._affine, bounds = make_map(forward, self.domain, what)
        self._table: Any = None
        self.image: tuple[int, ...] = self._image(image, bounds)

    def _image(self, image: Any, bounds: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
        exact = bounds
        if image is None:
            # Bounds of affine results are exact; others may be wider than the truth.
            if any(a is None for a in self._affine) or any(low < 0 for low, _ in bounds):
                exact = self._true_bounds()
            self._check_low(exact)
            return tuple(high + 1 for _, high in exact)
        extents = static_extents(image, "T.Layout")
        if len(extents) != len(bounds):
            raise CompileError(
                "E-LAYOUT-MAP",
                "T.Layout: the function does not map indices to indices",
                facts=[f"it gives {len(bounds)} indices, the image {extents} has {len(extents)} axes"],
                help="return one index for each axis of the image",
            )
        if any(low < 0 or high >= e for (low, high), e in zip(bounds, extents)):
            exact = self._true_bounds()
            self._check_low(exact)
            for axis, ((_, high), extent) in enumerate(zip(exact, extents)):
                if high >= extent:
                    raise self._outside(axis, high, f"0 … {extent - 1}")
        return extents

    def _true_bounds(self) -> tuple[tuple[int, int], ...]:
        return tuple((int(c.min()), int(c.max())) for c in self.coordinates())

    def _check_low(self, bounds: tuple[tuple[int, int], ...]) -> None:
        for axis, (low, _) in enumerate(bounds):
            if low < 0:
                raise self._outside(axis, low, "indices ≥ 0")

    def _outside(self, axis: int, value: int, allowed: str) -> CompileError:
        import numpy as np

        where = np.argwhere(self.coordinates()[axis] == value)[0]
        return CompileError(
            "E-LAYOUT-RANGE",
            f"T.Layout: an element lies outside the image on axis {axis}",
            facts=[
                f"element {tuple(int(w) for w in where)} of {self.domain} gets index {value}",
                f"allowed: {allowed}",
            ],
            help="correct the function, or leave out the image to have it derived",
        )

    # ---- as a value

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not type(self) or not isinstance(other, Layout):
            return NotImplemented
        if self.domain != other.domain or self.image != other.image:
            return False
        known = self._affine_form()
        theirs = other._affine_form()
        if known is not None and theirs is not None:
            return known == theirs
        if structural_equal(self.forward, other.forward):
            return True
        return self.table() is other.table()

    def __hash__(self) -> int:
        return hash((self.domain, self.image))

    def __repr__(self) -> str:
        return self.script()

    def script(self) -> str:
        """The layout as the language writes it."""
        names = ", ".join(v.name for v in self.forward.vars)
        results = ", ".join(repr(r) for r in self.forward.results)
        comma = "," if len(self.forward.results) == 1 else ""
        image = "" if self._tight() else f"{self.image}, "
        return f"T.Layout({self.domain}, {image}lambda {names}: ({results}{comma}))"

    def _tight(self) -> bool:
        if all(a is not None for a in self._affine):
            tops = [sum(k * (e - 1) for k, e in zip(a[0], self.domain) if k > 0) + a[1] for a in self._affine if a]
            return self.image == tuple(t + 1 for t in tops)
        return self.image == tuple(high + 1 for _, high in self._true_bounds())

    def _affine_form(self) -> tuple[Any, ...] | None:
        """Coefficients with those of one-element axes cleared, or None when a result is not affine."""
        form = []
        for item in self._affine:
            if item is None:
                return None
            coefficients, constant = item
            form.append((tuple(k if e > 1 else 0 for k, e in zip(coefficients, self.domain)), constant))
        return tuple(form)

    # ---- the map

    @property
    def ndim(self) -> int:
        return len(self.domain)

    @property
    def size(self) -> int:
        """Elements of the image: what must be allocated."""
        return prod(self.image)

    def physical(self, indices: Sequence[Any]) -> tuple[Expr, ...]:
        """The indices in memory of the element at `indices` (expressions or ints)."""
        if len(indices) != len(self.domain):
            raise CompileError(
                "E-LAYOUT-INDEX",
                "a layout is asked for an element with the wrong number of indices",
                facts=[f"layout of {self.domain}, {len(indices)} indices"],
                help=f"give {len(self.domain)} indices",
            )
        return apply_map(self.forward, indices)

    def at(self, *indices: int) -> tuple[int, ...]:
        """The indices in memory of one element, as numbers.

        Raises:
            CompileError: it is no element of the tile.
        """
        inside = len(indices) == len(self.domain) and all(0 <= i < e for i, e in zip(indices, self.domain))
        if not inside:
            raise CompileError(
                "E-LAYOUT-INDEX",
                "a layout is asked for an element that its tile does not have",
                facts=[f"element {indices}, tile {self.domain}"],
                help="give one index an axis, from 0 to below its extent",
            )
        return tuple(int(c[indices]) for c in self.coordinates())

    def offset(self, indices: Sequence[Any]) -> Expr:
        """The row-major offset in the image of the element at `indices`."""
        return flat_index(self.physical(indices), self.image)

    def coordinates(self) -> list[Any]:
        """For each axis of the image an array of the domain's shape."""
        from .tables import tabulate

        return tabulate(self.forward.vars, self.forward.results, self.domain)

    def table(self) -> Any:
        """The offset in the image of each element: a read-only int64 array of the domain's shape."""
        if self._table is None:
            from .tables import flatten, intern

            self._table = intern(flatten(self.coordinates(), self.image))
        return self._table

    # ---- questions

    @property
    def injective(self) -> bool:
        """Whether no two elements share a place."""
        if self._mixed_radix():
            return True
        import numpy as np

        return int(np.unique(self.table()).size) == prod(self.domain)

    def _mixed_radix(self) -> bool:
        """Whether the strides nest: a quick proof that an affine layout is injective."""
        form = self._affine_form()
        if form is None:
            return False
        strides = [0] * len(self.domain)
        for extent, (coefficients, _) in zip(self.image, form):
            strides = [s * extent + k for s, k in zip(strides, coefficients)]
        reach = 1
        for stride, extent in sorted((abs(s), e) for s, e in zip(strides, self.domain) if e > 1):
            if stride < reach:
                return False
            reach = stride * (extent - 1) + reach
        return True

    @property
    def bijective(self) -> bool:
        """Whether every place of the image holds exactly one element."""
        return prod(self.domain) == self.size and self.injective

    def require_injective(self, name: str = "the tile", span: Span | None = None) -> Layout:
        """The layout itself.

        Raises:
            CompileError: two elements share a place; both are named.
        """
        if self.injective:
            return self
        import numpy as np

        flat = self.table().ravel()
        order = np.argsort(flat, kind="stable")
        repeat = int(np.argmax(flat[order][1:] == flat[order][:-1]))
        pair = [tuple(int(v) for v in np.unravel_index(order[repeat + k], self.domain)) for k in (0, 1)]
        raise CompileError(
            "E-LAYOUT-INJECTIVE",
            f"the layout of {name} puts two elements in one place",
            span=span,
            facts=[f"elements {pair[0]} and {pair[1]} both lie at offset {int(flat[order[repeat]])}", repr(self)],
            help="make the function give every element a place of its own",
        )

    def contains(self, other: Layout) -> bool:
        """Whether every place that `other` uses is one that this layout uses."""
        import numpy as np

        return bool(np.isin(other.table(), self.table()).all())

    def vector_width(self, axis: int = -1, limit: int | None = None) -> int:
        """The most elements that one aligned vector access along `axis` can take.

        Every aligned group of that many elements along the axis lies contiguously and starts at a multiple of the
        width.
        """
        import numpy as np

        axis %= len(self.domain)
        extent = self.domain[axis]
        lines = np.moveaxis(self.table(), axis, -1).reshape(-1, extent)
        for width in range(min(extent, limit or extent), 1, -1):
            if extent % width:
                continue
            groups = lines.reshape(-1, width)
            if (groups[:, 0] % width == 0).all() and (np.diff(groups, axis=1) == 1).all():
                return width
        return 1

    def bank_conflicts(
        self, access: Any, itemsize: int, width: int = 1, banks: int = 32, bank_bytes: int = 4, axis: int = -1
    ) -> Conflicts:
        """Conflicts of one access.

        Args:
            access: the first element that each thread takes: rows of indices, one a thread.
            itemsize: bytes an element.
            width: elements a thread takes along `axis`.
            banks, bank_bytes: the memory: 32 banks of 4 bytes on NVIDIA GPUs.
            axis: the axis along which a thread's elements follow each other.

        Raises:
            CompileError: a thread leaves the domain.
        """
        import numpy as np

        points = np.asarray(access, dtype=np.int64).reshape(-1, len(self.domain))
        steps = np.zeros((width, len(self.domain)), dtype=np.int64)
        steps[:, axis] = np.arange(width)
        touched = points[:, None, :] + steps[None, :, :]
        if (touched < 0).any() or (touched >= np.asarray(self.domain)).any():
            raise CompileError(
                "E-LAYOUT-INDEX",
                "an access leaves the tile",
                facts=[f"tile {self.domain}, largest index {tuple(int(v) for v in touched.max(axis=(0, 1)))}"],
                help="give indices of elements inside the tile",
            )
        offsets = self.table()[tuple(touched.reshape(-1, len(self.domain)).T)].reshape(len(points), width)
        # All bytes of an element count: an element wider than a bank takes several words.
        addresses = offsets[:, :, None] * itemsize + np.arange(0, itemsize, min(itemsize, bank_bytes))
        words = addresses.reshape(len(points), -1) // bank_bytes
        group = max(1, banks * bank_bytes // max(bank_bytes, width * itemsize))
        ways, wavefronts, phases = 1, 0, 0
        for first in range(0, len(points), group):
            used = np.unique(words[first : first + group])
            trips = int(np.bincount(used % banks, minlength=banks).max())
            ways, wavefronts, phases = max(ways, trips), wavefronts + trips, phases + 1
        return Conflicts(ways, wavefronts, phases)

    # ---- algebra

    def compose(self, inner: Layout) -> Layout:
        """This layout after `inner`: its domain, this image."""
        if inner.image != self.domain:
            raise CompileError(
                "E-LAYOUT-COMPOSE",
                "the layouts do not fit each other",
                facts=[f"the inner one ends in {inner.image}", f"the outer one starts from {self.domain}"],
                help="reshape one of them, or state the inner image",
            )
        return Layout(inner.domain, self.image, lambda *indices: self.physical(inner.physical(indices)))

    def inverse(self) -> Layout:
        """The layout that sends each place of the image back to its element.

        Raises:
            CompileError: the layout is not bijective, or its inverse is no expression that Tile can write.
        """
        from .invert import inverse_map

        if not self.bijective:
            raise CompileError(
                "E-LAYOUT-INVERSE",
                "the layout has no inverse",
                facts=[f"{prod(self.domain)} elements in {self.size} places", repr(self)],
                help="only a layout that fills its image with every element once can be inverted",
            )
        return Layout(self.image, self.domain, inverse_map(self))

    def repeat(self, axis: int, factor: int) -> Layout:
        """`factor` copies of the tile side by side along `axis`, each with this layout, one after another in memory."""
        axis %= len(self.domain)
        extent = self.domain[axis]
        domain = tuple(e * factor if a == axis else e for a, e in enumerate(self.domain))

        def forward(*indices: Any) -> tuple[Any, ...]:
            inside = [i % extent if a == axis else i for a, i in enumerate(indices)]
            return (indices[axis] // extent, *self.physical(inside))

        return Layout(domain, (factor, *self.image), forward)

    def expand(self, leading: Any) -> Layout:
        """The layout with further axes in front that stay as they are: one tile for each of their indices."""
        extents = static_extents(leading, "expand")
        count = len(extents)
        return Layout(
            (*extents, *self.domain),
            (*extents, *self.image),
            lambda *indices: (*indices[:count], *self.physical(indices[count:])),
        )

    def reshape(self, domain: Any) -> Layout:
        """The layout seen through another shape of equally many elements, in row-major order."""
        extents = static_extents(domain, "reshape")
        if prod(extents) != prod(self.domain):
            raise CompileError(
                "E-LAYOUT-COMPOSE",
                "the shapes hold different numbers of elements",
                facts=[f"layout of {self.domain}: {prod(self.domain)}", f"asked for {extents}: {prod(extents)}"],
                help="give a shape of equally many elements",
            )
        return Layout(
            extents, self.image, lambda *indices: self.physical(unflatten(flat_index(indices, extents), self.domain))
        )

    def draw(self, format: str = "text") -> str:
        """A picture of the layout: ``text`` is a table of offsets, ``svg`` a drawing coloured by bank."""
        from .draw import draw

        return draw(self, format)


@lru_cache(maxsize=512)
def row_major(shape: tuple[int, ...]) -> Layout:
    """Elements in the order of their indices, last index fastest."""
    return Layout(shape, shape, lambda *indices: indices)


@lru_cache(maxsize=512)
def column_major(shape: tuple[int, ...]) -> Layout:
    """Elements with the first index fastest."""
    return Layout(shape, tuple(reversed(shape)), lambda *indices: tuple(reversed(indices)))


@lru_cache(maxsize=512)
def panels(shape: tuple[int, ...], width: int, axis: int = -1) -> Layout:
    """Panels for a packed gemm: `width` neighbours along `axis` lie side by side, the other axes run over them,
    panels follow each other.

    The image is (panels, other axes …, width); the last panel is padded where `width` does not divide the extent.
    """
    axis %= len(shape)
    others = tuple(e for a, e in enumerate(shape) if a != axis)

    def forward(*indices: Any) -> tuple[Any, ...]:
        rest = [i for a, i in enumerate(indices) if a != axis]
        return (indices[axis] // width, *rest, indices[axis] % width)

    return Layout(shape, (-(-shape[axis] // width), *others, width), forward)


def _layout_fields(layout: Layout) -> tuple[tuple[str, Any], ...]:
    return ("domain", layout.domain), ("image", layout.image), ("forward", layout.forward)


register_value(Layout, "Layout", _layout_fields, Layout)
