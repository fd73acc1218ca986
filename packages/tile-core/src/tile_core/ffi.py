"""The one module that imports tvm_ffi, and only inside functions.

``import tvm_ffi`` imports torch where it is installed and asks for a CUDA device: seconds that ``import tile_core``
must not cost.
"""

from __future__ import annotations

import hashlib
import importlib.util
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import ToolchainError, declare_codes

if TYPE_CHECKING:
    import tvm_ffi

__all__ = ["HEADERS", "headers_digest", "include_directories", "load_module", "tvm_ffi_module"]

# Headers that the generated code of several backends includes.
HEADERS = Path(__file__).parent / "codegen" / "include"

declare_codes({"E-FFI": "the tvm-ffi library is missing or lacks a part"})


def tvm_ffi_module() -> Any:
    """The `tvm_ffi` package, imported now."""
    try:
        import tvm_ffi
    except ImportError as error:
        raise ToolchainError(
            "E-FFI",
            "tvm_ffi cannot be imported",
            facts=(f"found: {type(error).__name__}: {error}",),
            help="install apache-tvm-ffi (tile-core's metadata names the versions that fit)",
        ) from error
    return tvm_ffi


def load_module(path: str | Path) -> tvm_ffi.Module:
    """The shared library at `path` as a module of packed functions (``module.get_function(name)``)."""
    return tvm_ffi_module().load_module(str(path))


def include_directories() -> tuple[Path, ...]:
    """Folders with ``tvm/ffi/c_api.h`` and ``dlpack/dlpack.h``, found without importing tvm_ffi."""
    spec = importlib.util.find_spec("tvm_ffi")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        include = Path(location) / "include"
        if (include / "tvm" / "ffi" / "c_api.h").is_file():
            return (include,)
    raise ToolchainError(
        "E-FFI",
        "the C headers of tvm-ffi were not found",
        facts=("looked for include/tvm/ffi/c_api.h in the tvm_ffi package",),
        help="install apache-tvm-ffi as a wheel (its headers come along)",
    )


def headers_digest() -> str | None:
    """The digest of the headers that compiled host functions include; None where they are not installed. Another
    release of tvm-ffi may lay out arguments otherwise."""
    try:
        return _digest(include_directories())
    except (ToolchainError, OSError):
        return None


@cache
def _digest(folders: tuple[Path, ...]) -> str:
    found = hashlib.sha256()
    for folder in folders:
        for name in ("dlpack/dlpack.h", "tvm/ffi/c_api.h", "tvm/ffi/extra/c_env_api.h"):
            found.update((folder / name).read_bytes())
    return found.hexdigest()
