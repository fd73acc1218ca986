"""Arithmetic on index expressions: simplifying, bounding, proving. Compiler arithmetic is on Python ints and never
overflows.
"""

from .evaluate import Undefined, evaluate
from .interval import Interval, bounds_of
from .modular import ModularSet, modular_of
from .prover import Decision, Prover
from .simplify import Simplifier, simplify

__all__ = [
    "Decision",
    "Interval",
    "ModularSet",
    "Prover",
    "Simplifier",
    "Undefined",
    "bounds_of",
    "evaluate",
    "modular_of",
    "simplify",
]
