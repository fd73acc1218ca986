"""Layouts: where each element of a tile lies in memory, and which thread holds it. Questions are answered from
tables."""

from .fragment import Fragment
from .layout import Conflicts, Layout, column_major, panels, row_major
from .swizzle import (
    SWIZZLE_SPANS,
    make_full_bank_swizzled_layout,
    make_half_bank_swizzled_layout,
    make_quarter_bank_swizzled_layout,
    make_swizzled_layout,
    padded,
    swizzle_span,
    swizzled,
)

__all__ = [
    "SWIZZLE_SPANS",
    "Conflicts",
    "Fragment",
    "Layout",
    "column_major",
    "make_full_bank_swizzled_layout",
    "make_half_bank_swizzled_layout",
    "make_quarter_bank_swizzled_layout",
    "make_swizzled_layout",
    "padded",
    "panels",
    "row_major",
    "swizzle_span",
    "swizzled",
]
