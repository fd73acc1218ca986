"""Helpers for tests of Tile, of its plugins and of kernels.

Imported explicitly; tile_core loads nothing of it. Loading ``tile_core.testing.plugin`` in pytest gives the fixtures.
The names here are TileLang's, for test files that come from there.
"""

from typing import TYPE_CHECKING, Any

from .marks import (
    main,
    requires_cuda,
    requires_cuda_compute_version,
    requires_cuda_compute_version_eq,
    requires_cuda_compute_version_ge,
    requires_cuda_compute_version_gt,
    requires_cuda_compute_version_le,
    requires_cuda_compute_version_lt,
    requires_package,
    set_random_seed,
)

if TYPE_CHECKING:
    torch_assert_close: Any

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
    "torch_assert_close",
]


def __getattr__(name: str) -> Any:
    from ..offers import named_part

    return named_part(__name__, name, ("torch_assert_close",))
