"""``tile info``: what is installed, what it can reach, and what is set."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Sequence
from typing import Any

from ..__about__ import __version__
from ..errors import TileError
from ..plugin import PLUGIN_API, Backend, Command, Reason, registry, resolve
from ..settings import Settings, settings
from ..target import Target
from .missing import missing_pieces

__all__ = ["COMMAND", "run"]

COMMAND = Command("info", PLUGIN_API, "list plugins, targets, compilers and settings", f"{__name__}:run")


def run(words: Sequence[str]) -> int:
    """Runs the command; gives the exit code."""
    parser = argparse.ArgumentParser("tile info", description="Lists plugins, targets, compilers and settings.")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    given = parser.parse_args(list(words))
    facts = collect()
    if given.json:
        import json

        print(json.dumps(facts, indent=2))
    else:
        print(render(facts))
    return 0


def collect() -> dict[str, Any]:
    """Everything that the command shows, as plain values."""
    return {
        "tile_core": __version__,
        "plugin_api": ".".join(map(str, PLUGIN_API)),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "plugins": [
            {
                "kind": r.kind,
                "name": r.name,
                "distribution": r.distribution,
                "version": r.version,
                "state": r.state,
                "reason": r.reason,
            }
            for r in registry.records(loaded=True)
        ],
        "targets": _targets(),
        "execution_backends": _execution_backends(),
        "missing": missing_pieces(),
        "settings": _settings(),
        "unknown_settings": Settings.unknown_variables(),
    }


def render(facts: dict[str, Any]) -> str:
    """The tables."""
    lines = [
        f"tile-core {facts['tile_core']}, plugin API {facts['plugin_api']}, Python {facts['python']}, "
        f"{facts['platform']}",
        "",
        "plugins",
        *_table(
            ("kind", "name", "distribution", "version", "state", "reason"),
            [tuple(row.values()) for row in facts["plugins"]],
        ),
        "",
        "targets",
        *_table(
            ("target", "device", "compiler"),
            [(row["target"] + (" (auto)" if row["auto"] else ""), row["device"], row["compiler"])
             for row in facts["targets"]],
        ),
        "",
        "execution backends",
        *_table(
            ("name", "targets", "available"),
            [(row["name"], ", ".join(row["targets"]), row["available"]) for row in facts["execution_backends"]],
        ),
        "",
        "missing here",
        *_table(
            ("piece", "costs", "how to get it"),
            [(row["piece"], row["costs"], row["get"]) for row in facts["missing"]],
        ),
        "",
        "settings",
        *_table(
            ("variable", "value", "from"),
            [(row["variable"], row["value"], row["from"]) for row in facts["settings"]],
        ),
    ]  # fmt: skip
    for name, near in facts["unknown_settings"].items():
        lines.append(f"  {name} is set and means nothing" + (f"; did you mean {near}?" if near else ""))
    return "\n".join(lines)


def _targets() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    taken = False
    for backend in registry.backends():
        outcome = registry.current().detect(backend)
        # The highest priority comes first, so the first device is what "auto" takes.
        auto, taken = bool(outcome) and not taken, taken or bool(outcome)
        device = f"absent: {outcome.text}" if isinstance(outcome, Reason) else f"present: {outcome.detail}"
        for kind in backend.kinds:
            rows.append({"target": kind, "auto": auto, "device": device, "compiler": _compiler(backend, kind)})
            auto = False
    return rows


def _compiler(backend: Backend, kind: str) -> str:
    if backend.toolchain is None:
        return "none"
    try:
        target = resolve(backend.resolve_target)(Target(kind))
        return str(resolve(backend.toolchain).identity(target)).splitlines()[0]
    except TileError as error:
        return f"missing: {error.summary}"
    except Exception as error:
        return f"asking for it raised {type(error).__name__}: {error}"


def _execution_backends() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for spec in registry.current().ready("tile.execution_backends"):
        try:
            outcome = resolve(spec.available)()
            text = (
                f"no: {outcome.text}"
                if isinstance(outcome, Reason)
                else ": ".join(filter(None, ("yes", outcome.detail)))
            )
        except Exception as error:
            text = f"asking raised {type(error).__name__}: {error}"
        rows.append({"name": spec.name, "targets": list(spec.targets), "available": text})
    return rows


def _settings() -> list[dict[str, str]]:
    rows: list[dict[str, str]] = []
    for setting in Settings.all():
        source = next((name for name in (setting.name, *setting.fallbacks) if os.environ.get(name, "").strip()), None)
        try:
            value = _text(getattr(settings, setting.attribute))
        except TileError as error:
            value = f"cannot be read: {'; '.join(error.facts)}"
        rows.append({"variable": setting.name, "value": value, "from": source or "default"})
    return rows


def _text(value: Any) -> str:
    if value is None or value in ((), {}):
        return "none"
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, dict):
        return ",".join(f"{k}={v}" for k, v in value.items())
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Aligned columns; the last one is not padded, and cut at the terminal's width only by the terminal."""
    if not rows:
        return ["  none"]
    widths = [max(len(str(row[i])) for row in (head, *rows)) for i in range(len(head))]
    return [
        ("  " + "  ".join(str(cell).ljust(width) for cell, width in zip(row, widths))).rstrip() for row in (head, *rows)
    ]


if __name__ == "__main__":
    raise SystemExit(run(sys.argv[1:]))
