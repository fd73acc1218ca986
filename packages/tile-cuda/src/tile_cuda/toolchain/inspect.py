"""What is known of compiled device code: registers, spills, shared memory of each kernel; its machine code as text."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tile_core.errors import ToolchainError, declare_codes

__all__ = ["assembler_report", "disassemble", "resources"]

declare_codes({"E-SASS": "machine code cannot be shown: the disassembler is missing or failed"})

_TOOLS = (("cuobjdump", ("-sass",)), ("nvdisasm", ("-c",)))

_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_LOCAL = re.compile(r"(\d+) bytes smem")


def assembler_report(log: str) -> str:
    """The assembler's report out of a compiler's log, without what differs from run to run."""
    return "\n".join(line.strip() for line in log.splitlines() if "ptxas" in line and "Compile time" not in line)


def resources(report: str, kernels: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each kernel its name, threads, shared_bytes and, where the report tells them, registers, spill_bytes and
    stack_bytes.

    Args:
        report: what `assembler_report` gives.
        kernels: name, threads and shared_bytes (dynamic) of each, as the code generator noted them.
    """
    found: dict[str, dict[str, int]] = {}
    entry: dict[str, int] = {}
    for line in report.splitlines():
        if match := _ENTRY.search(line):
            entry = found.setdefault(match[1], {"static_bytes": 0})
        if match := _STACK.search(line):
            entry["stack_bytes"], entry["spill_bytes"] = int(match[1]), int(match[2]) + int(match[3])
        if match := _USED.search(line):
            entry["registers"] = int(match[1])
            if match := _LOCAL.search(line):
                entry["static_bytes"] = int(match[1])
    rows = []
    for kernel in kernels:
        row: dict[str, Any] = {"name": kernel["name"], "threads": kernel["threads"], **found.get(kernel["name"], {})}
        row["shared_bytes"] = kernel["shared_bytes"] + row.pop("static_bytes", 0)
        rows.append(row)
    return rows


def disassemble(cubin: bytes) -> str:
    """The machine code as text, by cuobjdump or nvdisasm.

    Raises:
        ToolchainError: neither is found, or it failed.
    """
    tool = next(((path, options) for name, options in _TOOLS if (path := _find(name)) is not None), None)
    if tool is None:
        raise ToolchainError(
            "E-SASS",
            "showing machine code needs cuobjdump or nvdisasm, and neither was found",
            facts=["looked in CUDA_HOME/bin and on PATH"],
            help="install the CUDA toolkit's binary utilities; export_ptx needs no tool",
        )
    with tempfile.TemporaryDirectory(prefix="tile-cuda-") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        run = subprocess.run([tool[0], *tool[1], str(path)], capture_output=True, text=True)
    if run.returncode:
        raise ToolchainError(
            "E-SASS", f"{Path(tool[0]).name} failed", facts=[f"it says: {line}" for line in run.stderr.splitlines()[:5]]
        )
    return run.stdout


def _find(name: str) -> str | None:
    for root in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")):
        inside = os.path.join(root, "bin", name) if root else ""
        if inside and os.access(inside, os.X_OK):
            return inside
    return shutil.which(name)
