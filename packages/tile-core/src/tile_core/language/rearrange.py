"""Copies that rearrange: patches of images as rows of a matrix, and transposition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import CompileError, declare_codes
from ..frontend.builder import Builder, known, require_builder
from ..frontend.loops import Nest, loop_bound
from ..frontend.regions import static_value
from ..ir import Buffer, BufferLoad, BufferRegion, Expr, IntImm, Select, binary, cast, const
from .operands import annotation_pairs, require_option, tile_region

__all__ = ["c2d_im2col", "im2col", "transpose"]

declare_codes(
    {
        "E-IM2COL": "patches of an image that are not described by what was given",
        "E-TRANSPOSE": "tiles of which one is not the other transposed",
    }
)

_EVICTION = ("evict_normal", "evict_first", "evict_last")


def im2col(
    img: Any,
    col: Any,
    nhw_step: Any,
    c_step: Any,
    kernel: int,
    stride: int,
    dilation: int,
    pad: int,
    eviction_policy: str | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> None:
    """Loads a tile of the matrix whose rows are the patches that a convolution sees: ``col[i, j] = img[n, y, x, c]``.

    Row ``nhw_step · rows + i`` is an output pixel (n, oy, ox), column ``c_step · columns + j`` a place (ky, kx, c) of
    the kernel; y = oy · stride + ky · dilation − pad, and x likewise. What lies outside the image, or behind the last
    row or column of the matrix, is 0.

    Args:
        img: images (N, H, W, C) in global memory.
        col: a tile (rows, columns) on chip.
        nhw_step, c_step: which tile of the matrix.
        kernel, stride, dilation, pad: of the convolution, the same for both axes.
        eviction_policy: evict_normal, evict_first or evict_last: what the cache should do with it.
        annotations: further hints, by name.

    Raises:
        CompileError: other shapes, memories or numbers (E-IM2COL).
    """
    builder = require_builder("T.im2col")
    builder.require_kernel("T.im2col")
    tile = tile_region("T.im2col", "col", col)
    extents = tile.tile_extents()
    if not isinstance(img, Buffer) or img.ndim != 4 or img.is_on_chip:
        raise CompileError(
            "E-IM2COL",
            "T.im2col: img is no tensor (N, H, W, C)",
            facts=[f"found {img!r}"],
            help="pass the whole tensor",
        )
    if len(extents) != 2 or not tile.buffer.is_on_chip:
        raise CompileError(
            "E-IM2COL",
            "T.im2col: col is no tile (rows, columns) on chip",
            facts=[f"found {tile!r}"],
            help="pass a tile from T.alloc_shared or T.alloc_fragment",
        )
    numbers = {"kernel": kernel, "stride": stride, "dilation": dilation, "pad": pad}
    for name, value in numbers.items():
        number = known(value)
        if not isinstance(number, int) or isinstance(number, bool) or number < (0 if name == "pad" else 1):
            raise CompileError(
                "E-IM2COL",
                f"T.im2col does not take {name}={value!r}",
                facts=[f"allowed: an integer ≥ {0 if name == 'pad' else 1}"],
                help="pass constants; square kernels have one size",
            )
    if eviction_policy is not None:
        require_option("T.im2col", "eviction_policy", eviction_policy, _EVICTION)
    pairs = annotation_pairs("T.im2col", {"eviction_policy": eviction_policy}, annotations)
    row_tile, column_tile = (
        loop_bound("T.im2col", n, v, None) for n, v in (("nhw_step", nhw_step), ("c_step", c_step))
    )
    size, step, spread, border = (known(v) for v in numbers.values())

    def fill(index: tuple[Expr, Expr]) -> Expr:
        row = binary("add", binary("mul", row_tile, extents[0]), index[0])
        column = binary("add", binary("mul", column_tile, extents[1]), index[1])
        return _patch(img, row, column, size, step, spread, border, extents[1])

    _nest(builder, "T.im2col", tile, extents, pairs, fill)


c2d_im2col = im2col


def transpose(src: Any, dst: Any, annotations: Mapping[str, Any] | None = None) -> None:
    """``dst[j, i] = src[i, j]`` for tiles of two axes, converting the element type; `annotations` are hints, by name.

    Raises:
        CompileError: the shapes do not fit (E-TRANSPOSE), or both are the same memory (E-TRANSPOSE).
    """
    builder = require_builder("T.transpose")
    builder.require_kernel("T.transpose")
    source, target = tile_region("T.transpose", "src", src), tile_region("T.transpose", "dst", dst)
    rows, columns = ([static_value(e) for e in region.tile_extents()] for region in (source, target))
    facts = [f"src = {source!r}: {rows}", f"dst = {target!r}: {columns}"]
    fits = len(rows) == len(columns) == 2 and not any(
        isinstance(a, IntImm) and isinstance(b, IntImm) and a.value != b.value for a, b in zip(rows, reversed(columns))
    )
    if not fits:
        raise CompileError(
            "E-TRANSPOSE",
            "T.transpose: the tiles are not each other's transposed",
            facts=facts,
            help="give tiles of shapes (m, n) and (n, m)",
        )
    if _storage(source.buffer) is _storage(target.buffer):
        raise CompileError(
            "E-TRANSPOSE",
            f"T.transpose reads and writes {source.buffer.name}",
            facts=facts,
            help="transpose into another tile: the elements move in no particular order",
        )

    def fill(index: tuple[Expr, Expr]) -> Expr:
        return source.load((index[1], index[0]))

    _nest(builder, "T.transpose", target, tuple(columns), annotation_pairs("T.transpose", {}, annotations), fill)


def _nest(
    builder: Builder, what: str, target: BufferRegion, extents: tuple[Expr, ...], pairs: tuple[Any, ...], value: Any
) -> None:
    """A parallel nest over a tile of two axes that stores `value(indices)`."""
    loops = Nest(what, "parallel", tuple([(const(0, e.dtype), e, None) for e in extents]), pairs)
    index = loops.open(builder, ("i", "j"))
    builder.store(target.buffer, target.indices(index), cast(value(index), target.dtype))
    loops.close(builder)


def _patch(
    img: Buffer, row: Expr, column: Expr, kernel: int, stride: int, dilation: int, pad: int, width: Expr
) -> Expr:
    _, high, wide, channels = img.shape
    reach = 2 * pad - dilation * (kernel - 1) - 1

    def outputs(extent: Expr) -> Expr:
        return binary("add", binary("floordiv", binary("add", extent, reach), stride), 1)

    down, across = outputs(high), outputs(wide)
    pixels = binary("mul", down, across)
    oy = binary("floordiv", binary("floormod", row, pixels), across)
    ox = binary("floormod", row, across)
    ky = binary("floordiv", column, binary("mul", channels, kernel))
    kx = binary("floormod", binary("floordiv", column, channels), kernel)

    def place(out: Expr, k: Expr) -> Expr:
        return binary("sub", binary("add", binary("mul", out, stride), binary("mul", k, dilation)), pad)

    indices = (binary("floordiv", row, pixels), place(oy, ky), place(ox, kx), binary("floormod", column, channels))
    inside: Expr | None = None
    if pad:
        for value, extent in ((indices[1], high), (indices[2], wide)):
            for check in (binary("ge", value, 0), binary("lt", value, extent)):
                inside = check if inside is None else binary("and", inside, check)
    patch = binary("mul", channels, kernel * kernel)
    if not (isinstance(patch, IntImm) and isinstance(width, IntImm) and patch.value % width.value == 0):
        check = binary("lt", column, patch)
        inside = check if inside is None else binary("and", inside, check)
    load = BufferLoad(img, indices)
    return load if inside is None else Select(inside, load, const(0, img.dtype), lazy=True)


def _storage(buffer: Buffer) -> Buffer:
    while buffer.data is not None:
        buffer = buffer.data
    return buffer
