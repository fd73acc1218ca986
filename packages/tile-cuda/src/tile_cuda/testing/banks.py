"""How often the lanes of a warp meet in a bank of shared memory, access by access, in the code that was generated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tile_core.ir import (
    AccessPtr,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    Expr,
    For,
    IntImm,
    IRModule,
    KernelLaunch,
    PrimFunc,
    Ramp,
    Var,
    Visitor,
    substitute,
    walk,
)
from tile_core.layout.tables import tabulate

from ..layouts.partition import WARP
from ..layouts.shared import wavefronts

__all__ = ["BankAccess", "bank_accesses"]


@dataclass(frozen=True)
class BankAccess:
    """An access to a shared tile.

    Args:
        tile: its name.
        kind: load, store, ldmatrix or cp_async.
        width: bytes a lane (ldmatrix: a row of a matrix).
        trips: to the banks, over all warps and iterations looked at.
        least: trips that the bytes need without conflicts.
    """

    tile: str
    kind: str
    width: int
    trips: int
    least: int


def bank_accesses(module: IRModule) -> list[BankAccess]:
    """The accesses to shared memory of a module's kernels (form PACKED), in the order of the code.

    Values that are no loop's index nor a thread's, such as tile numbers, count as 0; of long loops the first iterations
    are looked at.
    """
    finder = _Finder()
    for function in module.functions:
        if function.attr("calling_convention") == "device":
            finder.kernel(function)
    return finder.found


class _Finder(Visitor):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[BankAccess] = []
        self.loops: list[tuple[Var, int]] = []
        self.values: dict[Var, Expr] = {}

    def kernel(self, function: PrimFunc) -> None:
        """Looks through one kernel."""
        launch = function.body
        assert isinstance(launch, KernelLaunch)
        self.threads = [(v, e.value) for v, e in zip(launch.thread_vars, launch.threads) if isinstance(e, IntImm)]
        self.visit(launch.body)

    def visit_For(self, node: For) -> None:
        count = node.extent.value if isinstance(node.extent, IntImm) else 2
        self.loops.append((node.var, min(count, 4) if node.kind == "serial" else count))
        self.visit_children(node)
        self.loops.pop()

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.plain(node, "load", node.dtype.lanes)
        self.visit_children(node)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.plain(node, "store", node.value.dtype.lanes)
        self.visit_children(node)

    def visit_Evaluate(self, node: Evaluate) -> None:
        call = node.value
        if isinstance(call, Call) and call.op in ("cuda.ldmatrix", "cuda.cp_async"):
            for pointer in call.args:
                if isinstance(pointer, AccessPtr) and _shared(pointer.buffer):
                    given = dict(call.annotations)
                    lanes = given["num"] * 8 if call.op == "cuda.ldmatrix" else WARP
                    self.take(pointer.buffer, pointer.indices[0], call.op.removeprefix("cuda."), 16, lanes, given)
        else:
            self.visit_children(node)

    def plain(self, node: Any, kind: str, lanes: int) -> None:
        if not _shared(node.buffer):
            return
        index = node.indices[0]
        if isinstance(index, Ramp):
            assert isinstance(index.stride, IntImm)
            if index.stride.value == 1:
                self.take(node.buffer, index.base, kind, node.buffer.dtype.bits * index.lanes // 8, WARP, {})
        elif lanes == 1:
            self.take(node.buffer, index, kind, node.buffer.dtype.bits // 8, WARP, {})

    def take(self, buffer: Buffer, index: Expr, kind: str, width: int, lanes: int, given: dict[str, Any]) -> None:
        """Tabulates an address over threads and loops."""
        width = given.get("bytes", width)
        own = [*self.loops, *reversed(self.threads)]
        known = {var for var, _ in own}
        others = {v: IntImm(0, v.dtype) for v in walk(index) if isinstance(v, Var) and v not in known}
        variables, extents = tuple(v for v, _ in own), tuple(e for _, e in own)
        (table,) = tabulate(variables, (substitute(index, others) if others else index,), extents)
        threads = int(np.prod([e for _, e in self.threads]))
        starts = np.unique(np.asarray(table).reshape(-1, threads), axis=0)
        starts = np.pad(starts * buffer.dtype.bits // 8, ((0, 0), (0, -threads % WARP)), constant_values=-1)
        starts = starts.reshape(-1, WARP)[:, :lanes]
        if lanes < WARP:
            starts = np.pad(starts, ((0, 0), (0, WARP - lanes)), constant_values=-1)
        self.found.append(BankAccess(buffer.name, kind, width, wavefronts(starts, width), _least(starts, width)))


def _least(starts: np.ndarray, width: int) -> int:
    """Trips for as many different bytes, each bank used as often as any other."""
    total, together = 0, max(1, min(WARP, 128 // max(width, 4)))
    for group in starts.reshape(-1, together):
        steps = np.arange(0, width, min(width, 4))
        words = np.unique((group[group >= 0][:, None] + steps) // 4)
        total += -(-len(words) // 32)
    return total


def _shared(buffer: Buffer) -> bool:
    while buffer.data is not None:
        buffer = buffer.data
    return buffer.scope == "shared"
