"""The emulator's declaration as an execution backend; reading it loads no compiler."""

from tile_core.plugin import ExecutionBackend

__all__ = ["EMULATE"]

EMULATE = ExecutionBackend(
    name="emulate",
    api=(1, 0),  # what this was built for, not what the installed core has
    targets=("cuda",),
    available="tile_emulator.execution:available",
    build="tile_emulator.execution:build",
    files=(),
    callee_allocates=True,
)
