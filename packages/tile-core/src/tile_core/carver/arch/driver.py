"""Counts that persistent kernels are made for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    get_num_sms: Any

__all__ = ["get_num_sms"]


def __getattr__(name: str) -> Any:
    from ...offers import named_part

    return named_part(__name__, name, __all__)
