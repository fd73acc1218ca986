"""Calls with effects: what barriers and their like do in the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import AccessPtr, Call
from .faults import ExecutionFault
from .operators import BINARY
from .values import convert

if TYPE_CHECKING:
    from .machine import Machine

__all__ = ["EFFECTS", "register_effect"]

EFFECTS: dict[str, Callable[[Any, Call], Any]] = {}


def register_effect(name: str, function: Callable[[Any, Call], Any]) -> None:
    """Adds a row for an intrinsic with effects that a backend or third party registered: (machine, call) → value."""
    if name in EFFECTS:
        raise ValueError(f"intrinsic {name} has a meaning already")
    EFFECTS[name] = function


def _sync_threads(machine: Machine, call: Call) -> None:
    mask = machine.mask
    if machine.threads is None or mask is None:
        return
    if not np.broadcast_to(mask, machine.batch_shape).all():
        waiting = np.flatnonzero(np.broadcast_to(mask, machine.batch_shape).reshape(-1, machine.batch_shape[-1])[0])
        raise ExecutionFault(
            "E-RUN-DIVERGENCE",
            "not all threads of the block reach this barrier",
            span=call.span,
            facts=[f"{waiting.size} of {machine.batch_shape[-1]} threads do, the first of them thread {waiting[0]}"],
            help="move T.sync_threads() out of conditions and loops that differ between threads",
        )


def _atomic(op: str) -> Callable[[Any, Call], Any]:
    def update(machine: Machine, call: Call) -> Any:
        pointer, value_expr = call.args[0], call.args[1]
        if not isinstance(pointer, AccessPtr):
            raise ExecutionFault("E-RUN-EXTERNAL", f"{call.op} needs the address of an element", span=call.span)
        buffer = pointer.buffer
        value = convert(machine.evaluate(value_expr), value_expr.dtype, buffer.dtype)
        indices = tuple(machine.evaluate(i) for i in pointer.indices)
        shape = np.broadcast_shapes(machine.batch_shape, np.shape(value), *(np.shape(i) for i in indices))
        active = np.broadcast_to(True if machine.mask is None else machine.mask, shape)
        previous = np.zeros(shape, dtype=np.asarray(value).dtype)
        outer = machine.mask
        # One lane after another: that is what indivisible means.
        for lane in np.ndindex(*shape):
            if not active[lane]:
                continue
            at = tuple(np.broadcast_to(i, shape)[lane] for i in indices)
            machine.mask = None
            old = machine.load(buffer, at, False, None, call.span)
            given = np.broadcast_to(value, shape)[lane]
            machine.store(buffer, at, False, None, given if op == "exch" else BINARY[op](old, given), call.span)
            previous[lane] = old
        machine.mask = outer
        return previous if shape else previous[()]

    return update


register_effect("sync_threads", _sync_threads)
for _name, _op in (
    ("atomic_add", "add"),
    ("atomic_max", "max"),
    ("atomic_min", "min"),
    ("atomic_and", "bitand"),
    ("atomic_or", "bitor"),
    ("atomic_xor", "bitxor"),
    ("atomic_exchange", "exch"),
):
    register_effect(_name, _atomic(_op))
