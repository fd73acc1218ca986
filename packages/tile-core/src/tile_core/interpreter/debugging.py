"""What a kernel prints and checks while it runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import Call, StringImm
from .effects import register_effect
from .faults import ExecutionFault

if TYPE_CHECKING:
    from .machine import Machine

__all__ = ["written"]


def written(value: Any) -> str:
    """A number as kernels print it."""
    value = np.asarray(value)[()]
    if isinstance(value, (bool, np.bool_)):
        return str(int(value))
    return str(int(value)) if np.issubdtype(np.asarray(value).dtype, np.integer) else f"{float(value):g}"


def _lines(machine: Machine, pieces: Any, where: Any) -> list[str]:
    """The pieces' line for each active lane for which `where` holds."""
    values = [p.value if isinstance(p, StringImm) else np.asarray(machine.evaluate(p)) for p in pieces]
    shape = np.broadcast_shapes(machine.batch_shape, np.shape(where))
    active = np.broadcast_to(where if machine.mask is None else where & machine.mask, shape)
    lines = []
    for lane in np.argwhere(active) if shape else ([()] if active else []):
        at = tuple(lane)
        parts = [v if isinstance(v, str) else written(np.broadcast_to(v, shape)[at] if shape else v) for v in values]
        lines.append("".join(parts))
    return lines


def _print(machine: Machine, call: Call) -> None:
    lines = _lines(machine, call.args, np.asarray(True))
    if dict(call.annotations).get("thread") is not None or machine.parallel:
        # One thread's, or an iteration that is spread over the threads.
        lines = lines[:1]
    for line in lines:
        sys.stdout.write(line + "\n")


def _assert(machine: Machine, call: Call) -> None:
    fails = np.logical_not(np.asarray(machine.evaluate(call.args[0])))
    if not np.any(fails):
        return
    lines = _lines(machine, call.args[1:], fails)
    if lines:
        raise ExecutionFault("E-RUN-ASSERT", lines[0], span=call.span)


register_effect("device_print", _print)
register_effect("device_assert", _assert)
