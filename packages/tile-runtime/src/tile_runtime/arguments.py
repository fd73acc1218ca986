"""Errors of a failed check of a kernel's entry: `tile_core.codegen.host_errors`, by the runtime's name for it."""

from tile_core.codegen.host_errors import (
    argument_error,
    call_error,
    lazily_negatable,
    lazy_argument,
    refused_argument,
)

__all__ = ["argument_error", "call_error", "lazily_negatable", "lazy_argument", "refused_argument"]
