"""An artifact as files of a cache entry, and back.

    kernel.json     name, entry, target, what `explain()` shows, the list of the other files
    <source names>  as the codegen named them
    <binary names>  as the toolchain named them

The traced function is not among them: whoever looks an entry up has it already (its text is in the key).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tile_core.plugin.api import Artifact
from tile_core.target import Target

from ..kernel import choice_text
from .entry import Entry

__all__ = ["artifact_files", "artifact_from_entry", "artifact_from_files"]

DESCRIPTION = "kernel.json"
KEPT_NOTES = ("diagnostics", "inert_options", "pass_seconds", "pipelines", "solver_queries")


def artifact_files(artifact: Artifact) -> dict[str, bytes]:
    """The files that `artifact_from_entry` needs."""
    description = {
        "name": artifact.name,
        "entry": artifact.entry,
        "target": [artifact.target.kind, artifact.target.attrs],
        "choices": [choice_text(choice) for choice in artifact.choices],
        "notes": {name: artifact.notes[name] for name in KEPT_NOTES if name in artifact.notes},
        "sources": list(artifact.sources),
        "binaries": list(artifact.binaries),
    }
    files = {DESCRIPTION: json.dumps(description, sort_keys=True, indent=1, default=str).encode()}
    files.update({name: text.encode() for name, text in artifact.sources.items()})
    files.update({name: _bytes(content) for name, content in artifact.binaries.items()})
    return files


def artifact_from_entry(entry: Entry, function: Any, target: Target) -> Artifact:
    """The artifact that was kept as `entry`, for `function`; its binaries are paths. `module` is the function alone:
    nothing was lowered.

    Raises:
        ValueError, KeyError: the entry is whole and yet not an artifact (another format).
    """
    return _artifact(function, target, entry.read, entry.files.__getitem__)


def artifact_from_files(files: Mapping[str, bytes], function: Any, target: Target) -> Artifact:
    """The artifact whose `artifact_files` are given; its binaries are bytes."""
    return _artifact(function, target, files.__getitem__, files.__getitem__)


def _artifact(function: Any, target: Target, read: Callable[[str], bytes], binary: Callable[[str], Any]) -> Artifact:
    from tile_core.ir import IRModule

    description = json.loads(read(DESCRIPTION))
    return Artifact(
        target=target,
        name=description["name"],
        function=function,
        module=IRModule((function,)),
        sources={name: read(name).decode() for name in description["sources"]},
        binaries={name: binary(name) for name in description["binaries"]},
        entry=description["entry"],
        choices=list(description["choices"]),
        notes=dict(description["notes"]),
    )


def _bytes(content: Any) -> bytes:
    return content if isinstance(content, bytes) else content.read_bytes()
