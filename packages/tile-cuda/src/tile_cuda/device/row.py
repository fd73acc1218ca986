"""A row of the device function table, and the registry of rows.

One row makes the function in both headers, its IR intrinsic ``cuda.<intrinsic>``, the execution effects that passes and
the emulator read, and the tests that compile both bodies.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tile_core.errors import InternalError
from tile_core.ir import (
    Call,
    Collective,
    CommitGroup,
    Completion,
    Intrinsic,
    OperandEffect,
    Rendezvous,
    WaitGroup,
    find_intrinsic,
    intrinsics,
    register_intrinsic,
)

__all__ = [
    "Commit",
    "DeviceFunction",
    "Meet",
    "Reads",
    "Together",
    "Updates",
    "Wait",
    "Writes",
    "device_function",
    "device_functions",
    "find_device_function",
    "has_device_function",
]


@dataclass(frozen=True)
class DeviceFunction:
    """A row.

    Args:
        name: of the C++ function, in namespace ``tile``.
        signature: its C++ prototype, template head included. A first parameter of type ``site`` makes it a
            synchronisation, which the emulator can switch off.
        arguments: names of the IR call's arguments, in order.
        effects: Reads, Writes, Updates, Commit, Wait, Meet, Together; in names of arguments.
        ptx: the body for the device compiler.
        emulation: the body for the emulator: calls of ``emu::`` and of other rows.
        intrinsic: what follows ``cuda.`` in the IR; several rows may share it when `match` tells them apart.
        match: annotations of the IR call for which this row is meant.
        template: arguments or annotations that become template arguments, in order.
        result: result type of the IR call, as `Intrinsic.result` has it.
        optional: how many of the last arguments may be left out.
        pure: no effect, and equal calls give equal results.
        minimum: oldest architecture, compute capability times ten.
        doc: one line.
    """

    name: str
    signature: str
    arguments: tuple[str, ...]
    effects: tuple[Any, ...]
    ptx: str
    emulation: str
    intrinsic: str
    match: Mapping[str, Any] = field(default_factory=dict)
    template: tuple[str, ...] = ()
    result: str = "void"
    optional: int = 0
    pure: bool = False
    minimum: int = 75
    doc: str = ""

    @property
    def is_synchronisation(self) -> bool:
        """Whether a call carries its ordinal."""
        return re.search(r"\(site\b", self.signature) is not None


_rows: dict[str, DeviceFunction] = {}
_by_intrinsic: dict[str, list[DeviceFunction]] = {}


def device_function(
    name: str,
    signature: str,
    arguments: Sequence[str] = (),
    *,
    ptx: str,
    emulation: str,
    effects: Sequence[Any] = (),
    intrinsic: str | None = None,
    match: Mapping[str, Any] | None = None,
    **more: Any,
) -> DeviceFunction:
    """Adds a row and, for the first row of an intrinsic, registers the intrinsic.

    Raises:
        InternalError: the name is taken, or rows of one intrinsic disagree about its arguments or effects.
    """
    row = DeviceFunction(
        name,
        signature,
        tuple(arguments),
        tuple(effects),
        ptx.strip(),
        emulation.strip(),
        intrinsic or name,
        dict(match or {}),
        **more,
    )
    if name in _rows:
        raise InternalError("E-INTERNAL", f"the device function {name} is in the table twice")
    resolved = tuple(effect.resolve(row.arguments) for effect in row.effects)
    op = f"cuda.{row.intrinsic}"
    if row.intrinsic in _by_intrinsic:
        known = find_intrinsic(op)
        if (known.effects, known.result, known.pure) != (resolved, row.result, row.pure):
            raise InternalError("E-INTERNAL", f"rows of {op} disagree about its effects")
    else:
        register_intrinsic(
            Intrinsic(
                op,
                None if row.optional else len(row.arguments),
                row.result,
                row.pure,
                "sync" if any(isinstance(e, Rendezvous) for e in resolved) else "none" if row.pure else "opaque",
                row.doc,
                resolved,
            )
        )
    _rows[name] = row
    _by_intrinsic.setdefault(row.intrinsic, []).append(row)
    return row


def device_functions() -> tuple[DeviceFunction, ...]:
    """All rows, in the order of the table."""
    return tuple(_rows.values())


def find_device_function(call: Call) -> DeviceFunction:
    """The row that carries out an IR call.

    Raises:
        InternalError: there is none, which a candidate that was declared legal must not lead to.
    """
    given = dict(call.annotations)
    name = call.op.removeprefix("cuda.")
    for row in _by_intrinsic.get(name, ()):
        if all(_plain(given.get(key)) == _plain(value) for key, value in row.match.items()):
            low, high = len(row.arguments) - row.optional, len(row.arguments)
            if not low <= len(call.args) <= high:
                raise InternalError(
                    "E-INTERNAL",
                    f"{call.op} takes {high} arguments, found {len(call.args)}",
                    span=call.span,
                    facts=[f"arguments: {', '.join(row.arguments)}"],
                )
            return row
    facts = [f"{key} = {value}" for key, value in given.items()]
    known = "registered" if call.op in intrinsics() else "unknown"
    raise InternalError("E-INTERNAL", f"no device function for {call.op} ({known})", span=call.span, facts=facts)


def has_device_function(name: str) -> bool:
    """Whether the table has rows for ``cuda.<name>``."""
    return name in _by_intrinsic


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, (list, tuple)) else str(value) if value is not None else None


# Effects in names of arguments.


def _position(arguments: tuple[str, ...], name: str | None) -> int | None:
    return None if name is None else arguments.index(name)


@dataclass(frozen=True)
class _Operand:
    argument: str
    engine: str = "generic"
    queue: str | None = None
    kind = ""

    def resolve(self, arguments: tuple[str, ...]) -> OperandEffect:
        completion = Completion() if self.queue is None else Completion("group", queue=self.queue)
        return OperandEffect(arguments.index(self.argument), self.kind, self.engine, completion)


class Reads(_Operand):
    """Reads what an argument points to."""

    kind = "read"


class Writes(_Operand):
    """Writes what an argument points to."""

    kind = "write"


class Updates(_Operand):
    """Reads and writes what an argument points to."""

    kind = "accumulate"


@dataclass(frozen=True)
class Commit:
    """See `CommitGroup`."""

    queue: str

    def resolve(self, arguments: tuple[str, ...]) -> CommitGroup:
        return CommitGroup(self.queue)


@dataclass(frozen=True)
class Wait:
    """See `WaitGroup`."""

    queue: str
    pending: str | None = None

    def resolve(self, arguments: tuple[str, ...]) -> WaitGroup:
        return WaitGroup(self.queue, _position(arguments, self.pending))


@dataclass(frozen=True)
class Meet:
    """See `Rendezvous`."""

    unit: str
    barrier: str | None = None
    count: str | None = None
    waits: bool = True

    def resolve(self, arguments: tuple[str, ...]) -> Rendezvous:
        return Rendezvous(self.unit, _position(arguments, self.barrier), _position(arguments, self.count), self.waits)


@dataclass(frozen=True)
class Together:
    """See `Collective`."""

    unit: str = "warp"

    def resolve(self, arguments: tuple[str, ...]) -> Collective:
        return Collective(self.unit)
