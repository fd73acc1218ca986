"""Making and comparing tensors: what the runtime offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    TensorSupplyType: Any
    get_tensor_supply: Any
    torch_assert_close: Any

__all__ = ["TensorSupplyType", "get_tensor_supply", "torch_assert_close"]


def __getattr__(name: str) -> Any:
    from ..offers import named_part

    return named_part(__name__, name, __all__)
