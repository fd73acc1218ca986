"""Analyses: facts about a function that passes read and nobody stores in the IR."""

from .access import AccessSite, accesses_of, element_region, root_buffer
from .dependence import (
    UNRESOLVED,
    Box,
    Dependence,
    LoopDependences,
    boxes_apart,
    covered_box,
    dependences,
    fixed_by,
    owner_exclusions,
    reduced,
)
from .executors import ExecutorMap, executors_of
from .iteration import IterationAccess, iteration_accesses
from .scope import ScopedVisitor, conjuncts

__all__ = [
    "UNRESOLVED",
    "AccessSite",
    "Box",
    "Dependence",
    "ExecutorMap",
    "IterationAccess",
    "LoopDependences",
    "ScopedVisitor",
    "accesses_of",
    "boxes_apart",
    "conjuncts",
    "covered_box",
    "dependences",
    "element_region",
    "executors_of",
    "fixed_by",
    "iteration_accesses",
    "owner_exclusions",
    "reduced",
    "root_buffer",
]
