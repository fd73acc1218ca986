"""Tensors to try a kernel with."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from tile_core.dtypes import as_dtype
from tile_core.errors import OptionError, declare_codes

if TYPE_CHECKING:
    import torch

    from ..signature import KernelParam

__all__ = ["TensorSupplyType", "get_tensor_supply", "supply_tensor", "torch_dtype"]

declare_codes({"E-SUPPLY": "no tensor can be made for a parameter"})


class TensorSupplyType(Enum):
    """What generated inputs hold."""

    Integer = 1
    """Small whole numbers: sums stay exact in half precision."""
    Uniform = 2
    """Even between -1 and 1."""
    Normal = 3
    """Normal with mean 0 and deviation 1/2."""
    Randn = 4
    """Normal with mean 0 and deviation 1."""
    Zero = 5
    One = 6
    Auto = 7
    """Randn for floats, Integer for integers and bool."""


def torch_dtype(name: str) -> torch.dtype:
    """The torch dtype of that name.

    Raises:
        OptionError: torch has none (sub-byte types, handles).
    """
    import torch

    found = getattr(torch, name, None)
    # torch has names for types below a byte, and no operation on them
    if not isinstance(found, torch.dtype) or as_dtype(name).bits < 8:
        raise OptionError("E-SUPPLY", f"torch has no tensors of type {name}", help="pass your own inputs")
    return found


def get_tensor_supply(
    supply_type: TensorSupplyType = TensorSupplyType.Integer,
) -> Callable[[KernelParam], torch.Tensor | int]:
    """A function that makes the argument for a parameter of a kernel; symbolic extents and scalars are 1. It is made
    where torch has a CUDA device, else on the CPU.

    Args:
        supply_type: what tensors hold.
    """

    def supply(param: KernelParam) -> torch.Tensor | int:
        import torch

        if not param.is_tensor:
            return 1
        shape = tuple(size if isinstance(size, int) else 1 for size in param.shape)
        return supply_tensor(shape, param.dtype, supply_type, "cuda" if torch.cuda.is_available() else "cpu")

    return supply


def supply_tensor(
    shape: tuple[int, ...], dtype: str, kind: TensorSupplyType = TensorSupplyType.Auto, device: Any = "cpu"
) -> torch.Tensor:
    """A tensor of `shape` and `dtype` filled as `kind` says, from torch's default generator."""
    import torch

    wanted = torch_dtype(dtype)
    if kind is TensorSupplyType.Auto:
        kind = TensorSupplyType.Randn if wanted.is_floating_point else TensorSupplyType.Integer
    if kind is TensorSupplyType.Zero:
        return torch.zeros(shape, dtype=wanted, device=device)
    if kind is TensorSupplyType.One:
        return torch.ones(shape, dtype=torch.int8, device=device).to(wanted)
    if wanted is torch.bool:
        return torch.randint(0, 2, shape, device=device).to(torch.bool)
    if not wanted.is_floating_point or kind is TensorSupplyType.Integer:
        low = 0 if dtype.startswith("uint") else -2
        return torch.randint(low, 3, shape, device=device).to(wanted)
    # Types of one byte have no generators of their own in torch.
    wide = wanted if wanted.itemsize > 1 else torch.float32
    if kind is TensorSupplyType.Uniform:
        return (torch.rand(shape, dtype=wide, device=device) * 2 - 1).to(wanted)
    deviation = 0.5 if kind is TensorSupplyType.Normal else 1.0
    return (torch.randn(shape, dtype=wide, device=device) * deviation).to(wanted)
