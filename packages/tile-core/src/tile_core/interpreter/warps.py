"""What the lanes of a warp, and the threads of a block, do together: their values side by side in the last axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import Call
from ..ir.thread_intrinsics import WARP_REDUCTIONS, WARP_SIZE, shuffles
from ..tileop.numerics import identity_value
from .effects import register_effect, sync_threads
from .faults import ExecutionFault
from .operators import BINARY
from .values import numpy_type, wrap

if TYPE_CHECKING:
    from .machine import Machine
    from .turns import Turns

__all__ = ["Barriers"]


def _threads(machine: Machine) -> int:
    return machine.batch_shape[-1] if machine.batch_shape else 1


def _values(machine: Machine, expr: Any) -> np.ndarray:
    """A value for each thread of the block."""
    return np.broadcast_to(np.asarray(machine.evaluate(expr)).reshape(-1), (_threads(machine),))


def _present(machine: Machine) -> np.ndarray:
    """Which threads come here."""
    mask = True if machine.mask is None else np.asarray(machine.mask).reshape(-1)
    return np.broadcast_to(mask, (_threads(machine),))


def _by_warp(values: np.ndarray, missing: Any) -> np.ndarray:
    """Values as (warps, 32), those of a last, shorter warp filled up."""
    lack = -len(values) % WARP_SIZE
    filled = np.concatenate([values, np.full(lack, missing, dtype=values.dtype)]) if lack else values
    return filled.reshape(-1, WARP_SIZE)


def _given(machine: Machine, values: np.ndarray) -> Any:
    """A result for each thread."""
    return values[0] if not machine.batch_shape else np.ascontiguousarray(values[: _threads(machine)])


def _shuffle(kind: str) -> Callable[[Any, Call], Any]:
    def effect(machine: Machine, call: Call) -> Any:
        value, moved, size = (_values(machine, a) for a in call.args[:3])
        moved, size = moved.astype(np.int64), size.astype(np.int64)
        threads = np.arange(_threads(machine))
        lane = threads % WARP_SIZE
        place = lane % size
        if kind == "shfl":
            source = lane - place + moved % size
            inside = np.ones_like(lane, dtype=bool)
        elif kind == "shfl_xor":
            source = lane ^ moved
            # A lane of an earlier segment may be read, a lane of a later one may not.
            inside = source <= (lane | (size - 1))
        else:
            found = place - moved if kind == "shfl_up" else place + moved
            source, inside = lane - place + found, (found >= 0) & (found < size)
        thread = threads - lane + source
        inside = inside & (thread >= 0) & (thread < len(threads))
        # A lane that does not come brings nothing: whoever asks it keeps the own value.
        inside = inside & _present(machine)[np.where(inside, thread, threads)]
        return _given(machine, value[np.where(inside, thread, threads)])

    return effect


def _words(machine: Machine, holds: np.ndarray) -> np.ndarray:
    """For each thread the lanes of its warp that came and for which something holds, as bits."""
    lanes = _by_warp(holds & _present(machine), False).astype(np.uint64) << np.arange(WARP_SIZE, dtype=np.uint64)
    return np.repeat(lanes.sum(axis=1).astype(np.uint32), WARP_SIZE)[: _threads(machine)]


def _vote(name: str) -> Callable[[Any, Call], Any]:
    def effect(machine: Machine, call: Call) -> Any:
        holds = _values(machine, call.args[0]).astype(bool) if call.args else np.ones(_threads(machine), dtype=bool)
        if name == "any_sync":
            return _given(machine, _words(machine, holds) != 0)
        if name == "all_sync":
            return _given(machine, _words(machine, ~holds) == 0)
        return _given(machine, _words(machine, holds))

    return effect


def _matches(machine: Machine, call: Call) -> np.ndarray:
    values = _by_warp(_values(machine, call.args[0]), 0)
    present = _by_warp(_present(machine), False)
    equal = (values[:, :, None] == values[:, None, :]) & present[:, None, :]
    bits = (equal.astype(np.uint64) << np.arange(WARP_SIZE, dtype=np.uint64)).sum(axis=2).astype(np.uint32)
    return bits.reshape(-1)[: _threads(machine)]


def _match_any(machine: Machine, call: Call) -> Any:
    return _given(machine, _matches(machine, call))


def _match_all(machine: Machine, call: Call) -> Any:
    found, everybody = _matches(machine, call), _words(machine, np.ones(_threads(machine), dtype=bool))
    warps = _by_warp((found == everybody) | ~_present(machine), True).all(axis=1)
    same = np.repeat(warps, WARP_SIZE)[: _threads(machine)]
    return _given(machine, np.where(same, everybody, np.uint32(0)))


def _reduce(kind: str) -> Callable[[Any, Call], Any]:
    op = {"sum": "add"}.get(kind, kind)

    def effect(machine: Machine, call: Call) -> Any:
        dtype = call.args[0].dtype
        neutral = numpy_type(dtype).type(identity_value(kind, dtype))
        values = _values(machine, call.args[0]).astype(numpy_type(dtype))
        held = _by_warp(np.where(_present(machine), values, neutral), neutral)
        distance = WARP_SIZE // 2
        while distance:
            # The device's butterfly, so that sums round alike.
            held = wrap(BINARY[op](held, held[:, np.arange(WARP_SIZE) ^ distance]), dtype)
            distance //= 2
        return _given(machine, held.reshape(-1))

    return effect


def _total(kind: str) -> Callable[[Any, Call], Any]:
    def effect(machine: Machine, call: Call) -> Any:
        sync_threads(machine, call)
        holds = _values(machine, call.args[0]).astype(bool)
        total = {"count": holds.sum, "and": holds.all, "or": holds.any}[kind]()
        return np.int32(total)

    return effect


def _nothing(machine: Machine, call: Call) -> None:
    """Lanes run in step: what a meeting of some of them orders is in order."""


class Barriers:
    """The named barriers of a block: for each, the threads that have come, and how often it has let them go on."""

    def __init__(self) -> None:
        self.arrived: dict[int, int] = {}
        self.released: dict[int, int] = {}
        self.events = 0
        self.known = 0

    def arrive(self, number: int, wanted: int, here: int) -> None:
        """`here` threads come, of `wanted` that the barrier waits for."""
        self.events += 1
        self.arrived[number] = self.arrived.get(number, 0) + here
        if self.arrived[number] >= wanted:
            self.arrived[number] -= wanted
            self.released[number] = self.released.get(number, 0) + 1

    def after_round(self, outer: list[Turns]) -> Callable[[int, int], None]:
        """What to do after each round of parts within those of `outer`: nothing where somebody has come or left, else
        to wait for those outside."""
        seen = [-1, -1]

        def check(waiting: int, ended: int) -> None:
            if seen != [self.events, ended]:
                seen[:] = [self.events, ended]
            elif outer:
                outer[-1].wait()
            else:
                raise self.stuck()

        return check

    def stuck(self) -> ExecutionFault:
        """The fault where nobody is left to come."""
        return ExecutionFault(
            "E-RUN-DIVERGENCE",
            "threads wait at a named barrier to which the others do not come",
            facts=[f"barrier {n}: {count} threads have come" for n, count in self.arrived.items() if count],
            help="let as many threads arrive as the barrier waits for, in every iteration",
        )


def _named(waits: bool) -> Callable[[Any, Call], None]:
    def effect(machine: Machine, call: Call) -> None:
        number, wanted = machine.integer(call.args[0]), machine.integer(call.args[1])
        here = machine.integer(call.args[2]) if len(call.args) > 2 else int(_present(machine).sum())
        if not here:
            return
        barriers = machine.barriers
        before = barriers.released.get(number, 0)
        barriers.arrive(number, wanted, here)
        while waits and barriers.released.get(number, 0) == before:
            if not machine.parts:
                raise barriers.stuck()
            machine.parts[-1].wait()

    return effect


def _sync_grid(machine: Machine, call: Call) -> None:
    sync_threads(machine, call)
    if machine.grid is not None:
        machine.grid.wait()


for _name in shuffles:
    register_effect(_name, _shuffle(_name))
for _name in ("ballot", "any_sync", "all_sync", "activemask"):
    register_effect(_name, _vote(_name))
register_effect("match_any", _match_any)
register_effect("match_all", _match_all)
for _name in WARP_REDUCTIONS:
    register_effect(f"warp_reduce_{_name}", _reduce(_name))
for _name in ("count", "and", "or"):
    register_effect(f"sync_threads_{_name}", _total(_name))
register_effect("sync_warp", _nothing)
register_effect("sync_grid", _sync_grid)
for _name in ("named", "part"):
    register_effect(f"sync_{_name}", _named(waits=True))
    register_effect(f"arrive_{_name}", _named(waits=False))
