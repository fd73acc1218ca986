"""Pictures of layouts and fragments: a text table, and SVG.

A tile of more than two axes is drawn as one picture for each index of its leading axes, one after another.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from ..errors import OptionError, declare_codes

if TYPE_CHECKING:
    from .fragment import Fragment
    from .layout import Layout

__all__ = ["draw"]

declare_codes({"E-LAYOUT-DRAW": "a layout is asked for a picture in a form that does not exist"})

_CELL_WIDTH, _CELL_HEIGHT, _MARGIN = 46, 22, 34
# Hues are spread by the golden angle, so that neighbouring threads or banks differ.
_GOLDEN = 137.508
_BANKS = 32
_STYLE = "text{font:12px monospace;fill:#111}.c{text-anchor:middle}.e{text-anchor:end}rect{stroke:#fff}"


def draw(layout: Layout | Fragment, format: str = "text") -> str:
    """The picture.

    Args:
        layout: what to draw.
        format: ``text`` or ``svg``.

    Raises:
        OptionError: another format.
    """
    if format not in ("text", "svg"):
        raise OptionError(
            "E-LAYOUT-DRAW",
            f"a layout cannot be drawn as {format!r}",
            facts=["formats: text, svg"],
            help="use draw('text') or draw('svg')",
        )
    pages = list(_pages(layout))
    title = repr(layout)
    if format == "text":
        return "\n\n".join([title, *(_text(name, rows) for name, rows in pages)]) + "\n"
    return _svg(title, pages)


Cell = tuple[str, int]


def _pages(layout: Layout | Fragment) -> Iterator[tuple[str, list[list[Cell]]]]:
    """(name of the leading indices, rows of (label, colour number))."""
    import numpy as np

    domain = layout.domain if layout.ndim > 1 else (1, *layout.domain)
    leading, (rows, columns) = domain[:-2], domain[-2:]
    tables = getattr(layout, "tables", None)
    if tables is None:
        offsets = layout.table().reshape(-1, rows, columns)  # type: ignore[union-attr]
        cells = [[[(str(v), int(v) % _BANKS) for v in row] for row in page] for page in offsets.tolist()]
    else:
        threads, regs = (t.reshape(-1, rows, columns, t.shape[-1]) for t in tables())
        cells = [
            [
                [(_holders(t, r), int(t[0])) for t, r in zip(thread_row, reg_row)]
                for thread_row, reg_row in zip(thread_page, reg_page)
            ]
            for thread_page, reg_page in zip(threads.tolist(), regs.tolist())
        ]
    for page in range(prod(leading)):
        where = ", ".join(str(int(v)) for v in np.unravel_index(page, leading)) if leading else ""
        yield (f"[{where}, :, :]" if where else ""), cells[page]


def _holders(threads: list[int], regs: list[int]) -> str:
    shown = [f"t{t}:{r}" for t, r in zip(threads[:2], regs[:2])]
    return " ".join(shown) + (f" +{len(threads) - 2}" if len(threads) > 2 else "")


def _text(name: str, rows: list[list[Cell]]) -> str:
    width = max(len(label) for row in rows for label, _ in row)
    head = max(2, len(str(len(rows) - 1)))
    lines = [name] if name else []
    lines.append(" " * head + " |" + "".join(f" {c:>{width}}" for c in range(len(rows[0]))))
    lines.append("-" * (head + 1) + "+" + "-" * ((width + 1) * len(rows[0])))
    for number, row in enumerate(rows):
        lines.append(f"{number:>{head}} |" + "".join(f" {label:>{width}}" for label, _ in row))
    return "\n".join(lines)


def _svg(title: str, pages: list[tuple[str, list[list[Cell]]]]) -> str:
    longest = max(len(label) for _, rows in pages for row in rows for label, _ in row)
    cell = max(_CELL_WIDTH, 7 * longest + 10)
    body: list[str] = []
    top = _MARGIN
    right = 0
    for name, rows in pages:
        if name:
            body.append(f'<text x="{_MARGIN}" y="{top + 10}">{escape(name)}</text>')
            top += 18
        for column in range(len(rows[0])):
            body.append(f'<text x="{_MARGIN + column * cell + cell // 2}" y="{top + 10}" class="c">{column}</text>')
        top += 16
        for number, row in enumerate(rows):
            middle = top + _CELL_HEIGHT // 2 + 4
            body.append(f'<text x="{_MARGIN - 6}" y="{middle}" class="e">{number}</text>')
            for column, (label, colour) in enumerate(row):
                left = _MARGIN + column * cell
                hue = round(colour * _GOLDEN % 360)
                body.append(
                    f'<rect x="{left}" y="{top}" width="{cell}" height="{_CELL_HEIGHT}" fill="hsl({hue} 65% 82%)"/>'
                    f'<text x="{left + cell // 2}" y="{middle}" class="c">{escape(label)}</text>'
                )
            top += _CELL_HEIGHT
        right = max(right, _MARGIN + len(rows[0]) * cell)
        top += 12
    width = max(right + 12, 7 * len(title) + 2 * _MARGIN)
    height = top + 8
    size = f'width="{width}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {height}">',
            f"<style>{_STYLE}</style>",
            f'<rect {size} fill="#fff"/>',
            f'<text x="{_MARGIN}" y="20">{escape(title)}</text>',
            *body,
            "</svg>",
            "",
        ]
    )
