"""Analyses: facts about a function that passes read and nobody stores in the IR."""

from .access import AccessSite, accesses_of, element_region, root_buffer
from .dependence import Box, boxes_apart, covered_box, fixed_by
from .executors import ExecutorMap, executors_of
from .scope import ScopedVisitor, conjuncts

__all__ = [
    "AccessSite",
    "Box",
    "ExecutorMap",
    "ScopedVisitor",
    "accesses_of",
    "boxes_apart",
    "conjuncts",
    "covered_box",
    "element_region",
    "executors_of",
    "fixed_by",
    "root_buffer",
]
