"""The translation unit: prelude, kernels, packed host stubs."""

from __future__ import annotations

from tile_core.codegen import CPrinter, abi_prelude, print_host
from tile_core.dtypes import DType
from tile_core.ir import Call, IRModule, KernelLaunch, PrimFunc, StringImm, walk
from tile_core.target import Target

from .cpp import CpuKernelPrinter, needs_strands

__all__ = ["generate"]

_PRELUDE = """\
#include <math.h>
#include <stdlib.h>
#include <tile/tile.h>
"""

_SUPPORT = """\
namespace {

// 0 lets OpenMP decide, which follows torch.set_num_threads.
int tile_threads() {
  static const int count = [] {
    const char* text = getenv("TILE_NUM_THREADS");
    return text ? atoi(text) : 0;
  }();
  return count;
}

inline int tile_launched(const char* kernel, int code) {
  if (TILE_LIKELY(code == 0)) return 0;
  if (code == tile::error_left_waiting) {
    return tile_raise("tile.LaunchError", kernel, "", "T.sync_grid", "all blocks there", "blocks that ended without");
  }
  if (code == tile::error_check_failed) {
    const char* found = tile::failed_check.load();
    if (found == tile::left_waiting) {
      return tile_raise("tile.LaunchError", kernel, "", "a named barrier", found, "threads that wait for nobody");
    }
    return tile_raise("tile.DeviceAssertError", kernel, "", "assert", found, "false");
  }
  return tile_raise("tile.LaunchError", kernel, "", "launch", "memory for the block-local tiles", "out of memory");
}

}  // namespace
"""


def generate(module: IRModule, target: Target) -> dict[str, str]:
    """The sources for a module in form PACKED: ``kernel.cpp`` (kernels only, for people) and ``host.cpp`` (the whole
    unit, which is compiled)."""
    kernels = {f.name: f for f in module.functions if f.attr("calling_convention") == "device"}
    hosts = [f for f in module.functions if f.attr("calling_convention") == "packed"]
    bodies = [
        *_preludes(kernels),
        "namespace {\n",
        *(CpuKernelPrinter().function(f) for f in kernels.values()),
        "}  // namespace\n",
    ]
    prelude = _PRELUDE
    if any(needs_strands(f) for f in kernels.values()):
        prelude += "#include <tile/cooperative.h>\n"
    kernel_text = prelude + "\n" + "\n".join(bodies)

    def launch(printer: CPrinter, call: Call) -> str:
        return _launch(printer, call, kernels)

    stubs = ['extern "C" {\n', *(print_host(f, launch) for f in hosts), '}  // extern "C"\n']
    host_text = "\n".join([prelude, abi_prelude(), _SUPPORT, *bodies, *stubs])
    return {"kernel.cpp": kernel_text, "host.cpp": host_text}


def _preludes(kernels: dict[str, PrimFunc]) -> list[str]:
    """The texts that kernels put before themselves, each once."""
    launches = [n for f in kernels.values() for n in walk(f.body) if isinstance(n, KernelLaunch)]
    texts = [launch.annotation("prelude") for launch in launches]
    return list(dict.fromkeys(text for text in texts if text))


def _pointee(dtype: DType) -> str:
    return "uint8_t" if dtype.is_packed else CpuKernelPrinter().type_name(dtype)


def _launch(printer: CPrinter, call: Call, kernels: dict[str, PrimFunc]) -> str:
    symbol = call.args[0]
    assert isinstance(symbol, StringImm)
    kernel = kernels[symbol.value]
    arguments = []
    for param, value in zip(kernel.params, call.args[8:]):
        text = printer.expr(value)
        # Buffers arrive as untyped addresses.
        arguments.append(text if value.dtype.name != "handle" else f"({_pointee(param.dtype)}*){text}")
    name = printer.expr(symbol)
    return f"tile_launched({name}, {symbol.value}({', '.join([*arguments, 'tile_threads()'])}))"
