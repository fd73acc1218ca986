"""Drawings of the show commands: a little SVG, and a page round it. No script, style or font from outside."""

from __future__ import annotations

import html
from collections.abc import Sequence

__all__ = ["Svg", "colour", "page"]

_COLOURS = ("#8ecae6", "#ffb703", "#a7c957", "#e5989b", "#b8b8ff", "#f4a261", "#90be6d", "#cdb4db")


def colour(number: int) -> str:
    """One of a few colours, the same for the same number."""
    return _COLOURS[number % len(_COLOURS)]


class Svg:
    """A drawing of a given size; pieces are added one by one."""

    def __init__(self, width: float, height: float) -> None:
        self.width = width
        self.height = height
        self.parts: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, fill: str, title: str = "") -> None:
        """A filled box with a tip."""
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="3" fill="{fill}" '
            f'stroke="#444" stroke-width="0.5"><title>{html.escape(title)}</title></rect>'
        )

    def write(self, x: float, y: float, text: str, *, bold: bool = False, dim: bool = False) -> None:
        """A line of text."""
        weight = ' font-weight="bold"' if bold else ""
        fill = "#777" if dim else "#111"
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}"{weight}>{html.escape(text)}</text>')

    def line(self, x1: float, y1: float, x2: float, y2: float, *, dashed: bool = False, heavy: bool = False) -> None:
        """A straight line."""
        style = ' stroke-dasharray="4 3"' if dashed else ""
        width, stroke = ("3", "#c1121f") if heavy else ("1", "#888")
        self.parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}" '
            f'stroke-width="{width}"{style}/>'
        )

    def text(self) -> str:
        """The whole drawing."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:.0f}" height="{self.height:.0f}" '
            f'viewBox="0 0 {self.width:.0f} {self.height:.0f}" font-family="ui-monospace, monospace" font-size="12">\n'
            '<rect width="100%" height="100%" fill="#fff"/>\n' + "\n".join(self.parts) + "\n</svg>\n"
        )

    @staticmethod
    def stacked(drawings: Sequence[Svg]) -> Svg:
        """Several drawings under each other."""
        whole = Svg(max(d.width for d in drawings), sum(d.height for d in drawings))
        down = 0.0
        for drawing in drawings:
            whole.parts.append(f'<g transform="translate(0 {down:.1f})">\n' + "\n".join(drawing.parts) + "\n</g>")
            down += drawing.height
        return whole


def page(title: str, parts: Sequence[str]) -> str:
    """One self-contained page."""
    body = "\n".join(f"<section>{part}</section>" for part in parts)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        "<style>body { font: 14px/1.5 system-ui, sans-serif; margin: 1rem; } svg { max-width: 100%; height: auto; } "
        "pre { font: 12px/1.45 ui-monospace, monospace; overflow: auto; }</style></head>\n"
        f"<body><h1>{html.escape(title)}</h1>\n{body}\n</body></html>\n"
    )
