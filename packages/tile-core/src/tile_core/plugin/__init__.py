"""What plugins import from Tile, and how Tile finds them.

`api` holds the specs that entry points name; `registry` finds, checks and keeps them. Nothing is scanned at import.
"""

from .api import (
    PLUGIN_API,
    Artifact,
    Backend,
    BinaryStore,
    Command,
    ExecutionBackend,
    InstrumentSpec,
    Ok,
    PassExtension,
    Reason,
    Runtime,
    Toolchain,
    resolve,
)

__all__ = [
    "PLUGIN_API",
    "Artifact",
    "Backend",
    "BinaryStore",
    "Command",
    "ExecutionBackend",
    "InstrumentSpec",
    "Ok",
    "PassExtension",
    "Reason",
    "Runtime",
    "Toolchain",
    "resolve",
]
