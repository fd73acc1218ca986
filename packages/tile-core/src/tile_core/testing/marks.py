"""Marks and small helpers for test files of kernels, by TileLang's names: ``import tile_core.testing``.

A file that uses them needs pytest; what a machine lacks skips the test.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, Literal

__all__ = [
    "main",
    "requires_cuda",
    "requires_cuda_compute_version",
    "requires_cuda_compute_version_eq",
    "requires_cuda_compute_version_ge",
    "requires_cuda_compute_version_gt",
    "requires_cuda_compute_version_le",
    "requires_cuda_compute_version_lt",
    "requires_package",
    "set_random_seed",
]

_TESTS: dict[str, Callable[[tuple[int, int], tuple[int, int]], bool]] = {
    "eq": lambda has, wanted: has == wanted,
    "ge": lambda has, wanted: has >= wanted,
    "gt": lambda has, wanted: has > wanted,
    "le": lambda has, wanted: has <= wanted,
    "lt": lambda has, wanted: has < wanted,
}


def main() -> None:
    """Runs the tests of the file that calls this, with the command line's further arguments, and exits."""
    import pytest

    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    assert caller is not None
    sys.exit(pytest.main([caller.f_code.co_filename, *sys.argv[1:]]))


def set_random_seed(seed: int = 42) -> None:
    """Starts the generators of Python, and of numpy and torch where they are loaded, from one seed."""
    import random

    random.seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed % 2**32)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(seed)


def requires_cuda(function: Any) -> Any:
    """Mark: skipped where torch finds no CUDA device."""
    return _unless(_capability() is not None, "no CUDA device")(function)


def requires_cuda_compute_version(
    major_version: int, minor_version: int = 0, mode: Literal["ge", "gt", "le", "lt", "eq"] = "ge"
) -> Callable[[Any], Any]:
    """Mark: skipped where the CUDA device's architecture does not compare so with the version, or there is none."""
    if mode not in _TESTS:
        raise ValueError(f"mode={mode!r} is none of {', '.join(_TESTS)}")
    has = _capability()
    fits = has is not None and _TESTS[mode](has, (major_version, minor_version))
    return _unless(fits, f"needs an architecture {mode} {major_version}.{minor_version}, found {has}")


def requires_cuda_compute_version_eq(major_version: int, minor_version: int = 0) -> Callable[[Any], Any]:
    """Mark: this architecture only."""
    return requires_cuda_compute_version(major_version, minor_version, "eq")


def requires_cuda_compute_version_ge(major_version: int, minor_version: int = 0) -> Callable[[Any], Any]:
    """Mark: this architecture or a later one."""
    return requires_cuda_compute_version(major_version, minor_version, "ge")


def requires_cuda_compute_version_gt(major_version: int, minor_version: int = 0) -> Callable[[Any], Any]:
    """Mark: a later architecture."""
    return requires_cuda_compute_version(major_version, minor_version, "gt")


def requires_cuda_compute_version_le(major_version: int, minor_version: int = 0) -> Callable[[Any], Any]:
    """Mark: this architecture or an earlier one."""
    return requires_cuda_compute_version(major_version, minor_version, "le")


def requires_cuda_compute_version_lt(major_version: int, minor_version: int = 0) -> Callable[[Any], Any]:
    """Mark: an earlier architecture."""
    return requires_cuda_compute_version(major_version, minor_version, "lt")


def requires_package(*packages: str) -> Callable[[Any], Any]:
    """Mark: skipped where one of the packages cannot be imported."""
    from importlib.util import find_spec

    absent = [name for name in packages if find_spec(name) is None]
    return _unless(not absent, f"not installed: {', '.join(absent)}")


def _unless(fits: bool, reason: str) -> Callable[[Any], Any]:
    import pytest

    return pytest.mark.skipif(not fits, reason=reason)


def _capability() -> tuple[int, int] | None:
    """The architecture of torch's CUDA device; None without torch or a device."""
    try:
        import torch
    except ImportError:
        return None
    return torch.cuda.get_device_capability() if torch.cuda.is_available() else None
