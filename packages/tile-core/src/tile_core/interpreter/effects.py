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

__all__ = ["EFFECTS", "register_effect", "sync_threads"]

EFFECTS: dict[str, Callable[[Any, Call], Any]] = {}


def register_effect(name: str, function: Callable[[Any, Call], Any]) -> None:
    """Adds a row for an intrinsic with effects that a backend or third party registered: (machine, call) → value."""
    if name in EFFECTS:
        raise ValueError(f"intrinsic {name} has a meaning already")
    EFFECTS[name] = function


def sync_threads(machine: Machine, call: Call) -> None:
    """A meeting of the whole block, which all threads must reach."""
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
        lanes = machine.batch_shape
        if machine.parallel and machine.threads is not None and machine.mask is None:
            # Iterations of a parallel loop are spread over the threads: one of them makes the update.
            lanes = (*lanes[:-1], 1)
        shape = np.broadcast_shapes(lanes, np.shape(value), *(np.shape(i) for i in indices))
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


def _atomic_load(machine: Machine, call: Call) -> Any:
    pointer = call.args[0]
    assert isinstance(pointer, AccessPtr)
    indices = tuple(machine.evaluate(i) for i in pointer.indices)
    return machine.load(pointer.buffer, indices, False, None, call.span)


def _async_copy(machine: Machine, call: Call) -> None:
    """Done at once: what a copy writes may not be looked at before a wait, so nobody sees the difference."""
    target, source = call.args[0], call.args[1]
    assert isinstance(target, AccessPtr) and isinstance(source, AccessPtr)
    allowed = machine.evaluate(call.args[2]) if len(call.args) > 2 else None
    to = tuple(machine.evaluate(i) for i in target.indices)
    start = tuple(machine.evaluate(i) for i in source.indices)
    for element in range(machine.integer(target.extent)):
        value = machine.load(source.buffer, (*start[:-1], start[-1] + element), False, allowed, call.span)
        machine.store(target.buffer, (*to[:-1], to[-1] + element), False, None, value, call.span)


def _nothing(machine: Machine, call: Call) -> None:
    """Groups and waits of copies that are done at once."""


def _reducer_update(machine: Machine, call: Call) -> Any:
    return _REDUCER[call.args[2].value](machine, call)  # type: ignore[attr-defined]


_REDUCER = {"sum": _atomic("add"), "max": _atomic("max"), "min": _atomic("min")}
register_effect("reducer_update", _reducer_update)
register_effect("sync_threads", sync_threads)
register_effect("async_copy", _async_copy)
register_effect("async_commit", _nothing)
register_effect("async_wait", _nothing)
register_effect("atomic_load", _atomic_load)
register_effect("atomic_store", _atomic("exch"))
for _name, _op in (
    ("add", "add"),
    ("max", "max"),
    ("min", "min"),
    ("and", "bitand"),
    ("or", "bitor"),
    ("xor", "bitxor"),
):
    register_effect(f"atomic_{_name}", _atomic(_op))
    register_effect(f"atomic_fetch_{_name}", _atomic(_op))
