"""One record for each entry point: where it comes from, what became of it, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from .api import PLUGIN_API, Backend, Command, ExecutionBackend, InstrumentSpec, PassExtension, Runtime

__all__ = ["GROUPS", "STATES", "Record", "load", "scan"]

# group: what its entry points must name. A dialect is a module of names.
GROUPS: dict[str, type] = {
    "tile.backends": Backend,
    "tile.execution_backends": ExecutionBackend,
    "tile.runtime": Runtime,
    "tile.dialects": ModuleType,
    "tile.passes": PassExtension,
    "tile.instruments": InstrumentSpec,
    "tile.commands": Command,
}

# listed: seen, not imported yet. ready: imported and checked. The others say why not in `reason`.
STATES = ("listed", "ready", "broken", "incompatible", "conflict", "disabled")


@dataclass(slots=True)
class Record:
    """An entry point.

    Args:
        group, name, value: as the distribution's metadata say; value is ``module:object``.
        distribution, version: who brings it.
        load: imports the object.
    """

    group: str
    name: str
    value: str
    distribution: str
    version: str
    load: Callable[[], Any] = field(repr=False)
    state: str = "listed"
    reason: str = ""
    spec: Any = field(default=None, repr=False)
    cause: BaseException | None = field(default=None, repr=False)

    @property
    def place(self) -> str:
        """Who brings it and where: ``tile-cuda 0.2.0 (tile_cuda.plugin:BACKEND)``."""
        return f"{self.distribution} {self.version} ({self.value})"

    @property
    def kind(self) -> str:
        """What it is, in words: ``backend``, ``execution backend``, …"""
        word = self.group.removeprefix("tile.").replace("_", " ")
        return {"passes": "pass"}.get(word, word.removesuffix("s"))


def scan(entry_points: Iterable[Any], disabled: tuple[str, ...]) -> list[Record]:
    """Records of all entry points of Tile's groups, sorted; nothing is imported."""
    records: dict[tuple[str, str, str], Record] = {}
    for point in entry_points:
        if point.group not in GROUPS:
            continue
        distribution = point.dist.metadata["Name"] if point.dist is not None else "unknown"
        version = point.dist.version if point.dist is not None else "unknown"
        record = Record(point.group, point.name, point.value, distribution, version, point.load)
        if _is_disabled(record, disabled):
            record.state, record.reason = "disabled", "TILE_DISABLE_PLUGINS names it"
        # The same distribution found twice (an old copy further down the path) is one.
        records.setdefault((record.group, record.name, normal_name(distribution)), record)
    order = list(GROUPS)
    return sorted(records.values(), key=lambda r: (order.index(r.group), r.name, r.distribution))


def load(record: Record) -> None:
    """Imports a listed record and checks it; what goes wrong becomes its state."""
    if record.state != "listed":
        return
    try:
        spec = record.load()
    except (Exception, SystemExit) as error:
        record.state, record.cause = "broken", error
        record.reason = f"importing it raised {type(error).__name__}: {error}"
        return
    expected = GROUPS[record.group]
    fault = _fault(record, spec, expected)
    if fault:
        record.state, record.reason = "broken", fault
        return
    mismatch = None if expected is ModuleType else _incompatible(record, spec.api)
    if mismatch:
        record.state, record.reason = "incompatible", mismatch
        return
    record.state, record.spec = "ready", spec


def normal_name(distribution: str) -> str:
    """A distribution's name as installers compare it."""
    return distribution.lower().replace("_", "-").replace(".", "-")


def _is_disabled(record: Record, disabled: tuple[str, ...]) -> bool:
    if "all" in disabled and normal_name(record.distribution) != "tile-core":
        return True
    return record.name in disabled or normal_name(record.distribution) in map(normal_name, disabled)


def _fault(record: Record, spec: Any, expected: type) -> str | None:
    if not isinstance(spec, expected):
        article = "an" if expected.__name__[0] in "AEIOU" else "a"
        return f"it names {spec!r}, which is not {article} {expected.__name__} instance"
    # A runtime's entry is called `default`, whatever its own name; a module has no name of that kind.
    if expected not in (ModuleType, Runtime) and spec.name != record.name:
        return f"its entry point is called {record.name!r} and its spec {spec.name!r}"
    if expected is not ModuleType and not _is_version(spec.api):
        return f"its api is {spec.api!r}, not a pair (major, minor)"
    return None


def _is_version(api: Any) -> bool:
    return isinstance(api, tuple) and len(api) == 2 and all(type(n) is int for n in api)


def _incompatible(record: Record, api: tuple[int, int]) -> str | None:
    major, minor = PLUGIN_API
    if api[0] == major and api[1] <= minor:
        return None
    mover = record.distribution if api < PLUGIN_API else "tile-core"
    return f"it was built for plugin API {api[0]}.{api[1]}, this tile-core provides {major}.{minor}: upgrade {mover}"
