"""The sources of a module: ``kernel.cu``, ``host.c`` and ``lines.json``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from math import prod
from typing import Any

from tile_core.codegen import HostCPrinter, abi_prelude, print_host, print_host_python
from tile_core.errors import CompileError, declare_codes
from tile_core.ir import Buffer, Call, IntImm, IRModule, KernelLaunch, PrimFunc, StringImm, walk
from tile_core.target import Target

from ..device import HEADER_NAME
from ..driver.launcher import launcher_prelude
from ..target import Architecture, architecture
from .cuda import CudaKernelPrinter, line_numbers

__all__ = ["LAUNCH", "LINES", "generate", "generate_kernels", "preludes"]

LINES = "lines.json"
"""Name of the source that maps generated lines to the kernel's, and says what lies where in shared memory."""

LAUNCH = "launch.py"
"""Name of the source with the host function in Python (`tile_core.codegen.print_host_python`)."""

declare_codes({"E-CUDA-SHARED": "a kernel needs more shared memory than a block can have"})

_PRELUDE = f"""\
#include "{HEADER_NAME}"

using tile::bf16;
using tile::e4m3;
using tile::e5m2;
using tile::fp16;
"""


def generate(module: IRModule, target: Target) -> dict[str, str]:
    """The sources for a module in form PACKED.

    ``kernel.cu`` holds the kernels, for NVRTC and for the emulator; ``host.c`` the packed stubs, which launch through
    the driver; ``launch.py`` the same function in Python; ``lines.json`` what `generate_kernels` found.

    Raises:
        CompileError: shared memory beyond what the architecture has (E-CUDA-SHARED), an instruction that it lacks.
    """
    kernels = {f.name: f for f in module.functions if f.attr("calling_convention") == "device"}
    text, found = generate_kernels(kernels, architecture(target))
    shared = {entry["name"]: entry["shared_bytes"] for entry in found["kernels"]}
    cooperative = {entry["name"] for entry in found["kernels"] if entry.get("cooperative")}
    numbers = {name: i for i, name in enumerate(kernels)}

    def launch(printer: HostCPrinter, call: Call) -> str:
        return _launch(printer, call, shared)

    hosts = [f for f in module.functions if f.attr("calling_convention") == "packed"]
    host = [
        abi_prelude(),
        f'#define TILE_ARCH "{architecture(target).name}"',
        launcher_prelude(),
        *(_launcher(f, numbers[f.name], shared[f.name], f.name in cooperative) for f in kernels.values()),
        *(print_host(f, launch, "(DLDevice){kDLCUDA, tile_current_device()}") for f in hosts),
    ]
    return {
        "kernel.cu": text,
        "host.c": "\n".join(host),
        LAUNCH: "\n".join(print_host_python(f) for f in hosts),
        LINES: json.dumps(found, indent=1),
    }


def generate_kernels(kernels: dict[str, PrimFunc], arch: Architecture) -> tuple[str, dict[str, Any]]:
    """The text of ``kernel.cu``, and what is known of it:

    - ``kernels``: name, threads, shared_bytes of each; ``cooperative`` where all its blocks must run at once;
      ``l2_window`` where one of its tensors should stay in the second-level cache: [parameter, how much of it];
    - ``lines``: generated line → file, line, column;
    - ``syncs``: [ordinal, generated line, name of the device function] of each synchronisation;
    - ``buffers``: kernel, name, scope, offset, bytes and storage of each buffer in shared memory.
    """
    parts = [_PRELUDE, *preludes(kernels.values())]
    found: dict[str, Any] = {"version": 1, "kernels": [], "lines": {}, "syncs": [], "buffers": []}
    for name, function in kernels.items():
        launch = function.body
        if isinstance(launch, KernelLaunch) and launch.annotation("source") is not None:
            # The kernel's own text; what it declares of shared memory is in it.
            threads = prod(e.value for e in launch.threads if isinstance(e, IntImm))
            parts.append(launch.annotation("source"))
            found["kernels"].append({"name": name, "threads": threads, "shared_bytes": 0})
            continue
        printer = CudaKernelPrinter(arch, first_ordinal=len(found["syncs"]))
        shift = sum(part.count("\n") + 1 for part in parts)
        parts.append(printer.function(function))
        _check_shared(function, printer, arch)
        found["kernels"].append({"name": name, "threads": printer.threads, "shared_bytes": printer.shared_bytes})
        if any(what == "sync_grid" for _, _, what in printer.ordinals.found):
            found["kernels"][-1]["cooperative"] = True
        if function.attr("l2_window") is not None:
            found["kernels"][-1]["l2_window"] = list(function.attr("l2_window"))
        found["lines"].update(line_numbers(printer.line_map, shift))
        found["syncs"] += [[ordinal, line + shift, what] for ordinal, line, what in printer.ordinals.found]
        found["buffers"] += [
            {
                "kernel": name,
                "name": b.name,
                "scope": "shared",
                "offset": b.offset,
                "bytes": b.bytes,
                "storage": b.storage,
            }
            for b in printer.shared
        ]
    return "\n".join(parts), found


def preludes(kernels: Iterable[PrimFunc]) -> list[str]:
    """The texts that kernels put before themselves (T.import_source), each once."""
    launches = [n for f in kernels for n in walk(f.body) if isinstance(n, KernelLaunch)]
    return list(dict.fromkeys(text for text in (launch.annotation("prelude") for launch in launches) if text))


def _check_shared(function: PrimFunc, printer: CudaKernelPrinter, arch: Architecture) -> None:
    if printer.shared_bytes <= arch.block_shared_bytes:
        return
    raise CompileError(
        "E-CUDA-SHARED",
        f"{function.name} needs {printer.shared_bytes} bytes of shared memory a block; {arch.name} has "
        f"{arch.block_shared_bytes}",
        span=function.span,
        facts=[f"{b.name}: {b.bytes} bytes at {b.offset}" for b in printer.shared],
        help="use smaller tiles or fewer pipeline stages",
    )


# The host side.


def _launcher(kernel: PrimFunc, number: int, shared: int, cooperative: bool) -> str:
    """A C function that launches one kernel: device, grid, threads, its arguments."""
    types = HostCPrinter(lambda printer, call: "")
    parameters, addresses = [], []
    window = kernel.attr("l2_window")
    options = ", 1" if cooperative else ""
    if window is not None:
        place, ratio = window
        count = len(kernel.params)
        options += f", .window = {place + 1}, .window_size = {count}, .hit_ratio = {ratio!r}f"
    for index, param in enumerate(kernel.params):
        ctype = "void*" if isinstance(param, Buffer) else types.type_name(param.dtype)
        parameters.append(f"{ctype} a{index}")
        addresses.append(f"&a{index}")
    if window is not None:
        parameters.append("int64_t window_bytes")
        addresses.append("&window_bytes")
    return f"""\
static tile_kernel_t tile_kernel_{number} = {{"{kernel.name}", {shared}{options}}};

static int tile_launch_{kernel.name}({", ".join(["int32_t device", "const int64_t* size", *parameters])}) {{
  void* arguments[] = {{{", ".join(addresses) or "0"}}};
  return tile_launch(&tile_kernel_{number}, device, size, arguments);
}}
"""


def _launch(printer: HostCPrinter, call: Call, shared: dict[str, int]) -> str:
    symbol = call.args[0]
    assert isinstance(symbol, StringImm)
    sizes = [f"(int64_t){printer.expr(a)}" for a in call.args[1:7]]
    wanted = call.args[7]
    dynamic = max(shared[symbol.value], wanted.value if isinstance(wanted, IntImm) else 0)
    arguments = [printer.device_id(), f"(const int64_t[]){{{', '.join([*sizes, str(dynamic)])}}}"]
    arguments += [printer.expr(a) for a in call.args[8:]]
    return f"tile_launch_{symbol.value}({', '.join(arguments)})"
