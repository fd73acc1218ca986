"""Layouts: where each element of a tile lies in memory, and which thread holds it. Questions are answered from
tables."""

from .fragment import Fragment
from .layout import Conflicts, Layout, column_major, panels, row_major
from .swizzle import SWIZZLE_SPANS, padded, swizzle_span, swizzled

__all__ = [
    "SWIZZLE_SPANS",
    "Conflicts",
    "Fragment",
    "Layout",
    "column_major",
    "padded",
    "panels",
    "row_major",
    "swizzle_span",
    "swizzled",
]
