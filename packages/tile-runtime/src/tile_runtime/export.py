"""A compiled kernel for programs without Tile: the shared library and a C header.

The library exports the entry by tvm-ffi's C ABI, so ``tvm_ffi.load_module(path)`` calls it from Python, and C++ calls
it through the header's function, which takes a `DLTensor*` for each tensor and a number for each scalar. It needs
libtvm_ffi and the target's driver, nothing else of Tile.
"""

from __future__ import annotations

import re
from pathlib import Path

from tile_core.errors import CompileError, declare_codes
from tile_core.plugin.api import Artifact

from .signature import KernelParam, Signature

__all__ = ["header", "write_file"]

declare_codes({"E-EXPORT-NAME": "a kernel whose name C does not allow"})

_C_TYPES = {"bool": "int", "float": "double", "int": "int64_t", "uint": "uint64_t", "handle": "void*"}


def header(artifact: Artifact, signature: Signature) -> str:
    """The C header of an exported library.

    Raises:
        CompileError: the kernel's name is not one of C.
    """
    name = signature.name
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise CompileError(
            "E-EXPORT-NAME", f"{name!r} cannot name a function in C", help="give the kernel an ASCII name"
        )
    count = len(signature.inputs)
    parameters = [f"{_c_type(param)} {_c_name(param)}" for param in signature.inputs]
    if signature.outputs:
        parameters.append("TVMFFIAny* result")
    fill = [line for place, param in enumerate(signature.inputs) for line in _fill(place, param)]
    result = "result" if signature.outputs else "&result"
    lines = [
        f"/* {name}, compiled by Tile for {artifact.target}.",
        " *",
        *(f" *   {'in ' if not param.is_output else 'out'} {param}" for param in signature.params),
        " *",
        " * Every call checks its arguments. It returns 0, or -1 with an error that TVMFFIErrorMoveFromRaised gives.",
        " */",
        f"#ifndef TILE_{name.upper()}_H",
        f"#define TILE_{name.upper()}_H",
        "#include <stdint.h>",
        "#include <string.h>",
        "#include <tvm/ffi/c_api.h>",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        f"int __tvm_ffi_{artifact.entry}(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result);",
        "",
        *_comment(signature),
        f"static inline int tile_{name}({', '.join(parameters) or 'void'}) {{",
        f"  TVMFFIAny args[{max(1, count)}];",
        *([] if signature.outputs else ["  TVMFFIAny result;"]),
        "  memset(args, 0, sizeof args);",
        f"  memset({result}, 0, sizeof(TVMFFIAny));",
        *(f"  {line}" for line in fill),
        f"  return __tvm_ffi_{artifact.entry}(0, args, {count}, {result});",
        "}",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "#endif",
        "",
    ]
    return "\n".join(lines)


def write_file(path: str | Path, content: bytes) -> Path:
    """Writes a file; folders are made."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return target


def _comment(signature: Signature) -> list[str]:
    if not signature.outputs:
        return []
    what = "the tensor" if len(signature.outputs) == 1 else "an ffi Array of the tensors"
    names = ", ".join(param.name for param in signature.outputs)
    return [
        f"/* result: {what} {names}, allocated by what TVMFFIEnvSetDLPackManagedTensorAllocator was given; yours to",
        "   release with TVMFFIObjectDecRef(result->v_obj). */",
    ]


def _c_type(param: KernelParam) -> str:
    return "DLTensor*" if param.is_tensor else _C_TYPES[_kind(param)]


def _c_name(param: KernelParam) -> str:
    return param.name if param.name not in ("args", "result") else f"{param.name}_"


def _kind(param: KernelParam) -> str:
    if param.dtype == "handle":
        return "handle"
    return "float" if param.dtype.startswith(("float", "bfloat")) else param.dtype.rstrip("0123456789")


def _fill(place: int, param: KernelParam) -> list[str]:
    name = _c_name(param)
    if param.is_tensor:
        index, member, value = f"{name} ? kTVMFFIDLTensorPtr : kTVMFFINone", "v_ptr", name
    else:
        index, member, value = {
            "bool": ("kTVMFFIBool", "v_int64", f"{name} != 0"),
            "int": ("kTVMFFIInt", "v_int64", name),
            "uint": ("kTVMFFIInt", "v_int64", f"(int64_t){name}"),
            "float": ("kTVMFFIFloat", "v_float64", name),
            "handle": ("kTVMFFIOpaquePtr", "v_ptr", name),
        }[_kind(param)]
    return [f"args[{place}].type_index = {index};", f"args[{place}].{member} = {value};"]
