"""Operands of ``T.gemm_sp`` from tensors and back: what a sparse matrix keeps, and where.

A tensor of 16- or 8-bit elements is sparse along its last dimension when each group of four neighbours has at most two
that are not 0; one of 32-bit elements, when each pair has at most one. `tile_core.tileop.gemm_sparse` says what the
bits of E mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tile_core.errors import ArgumentError, declare_codes

if TYPE_CHECKING:
    import torch

__all__ = ["compress", "decompress", "randn_semi_sparse"]

declare_codes(
    {
        "E-SPARSE-OPERAND": "a tensor that is no operand of a sparse product: its element type, or its last dimension",
        "E-SPARSE-PATTERN": "a tensor with more elements that are not 0 than a sparse product keeps",
    }
)

_ELEMENTS = ("float16", "bfloat16", "float32", "int8", "uint8")
_PLACES = ("int8", "uint8", "int16", "uint16", "int32", "uint32")

# Four bits by which of a group's elements are not 0 (element i is bit i). Elements that are 0 fill the places.
_PAIRS = (0b0100, 0b0100, 0b1110, -1)
_QUADS = (4, 4, 4, 4, 8, 8, 9, -1, 12, 12, 13, -1, 14, -1, -1, -1)


def compress(A: torch.Tensor, dtype: torch.dtype | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """(A_sparse, E) of a tensor that is sparse along its last dimension, on its device.

    Zeros are not told apart: a -0.0 is kept only where a place is left over.

    Args:
        A: [..., K] of float16, bfloat16, float32, int8, uint8 or an 8-bit float.
        dtype: of E; int16 where it is not given. K is a multiple of its bits, of half of them for float32.

    Returns:
        A_sparse [..., K/2] and E [..., K/F], F elements of K an element of E.

    Raises:
        ArgumentError: E-SPARSE-OPERAND, E-SPARSE-PATTERN.
    """
    import torch

    group = _group(A)
    dtype = torch.int16 if dtype is None else dtype
    per = _groups_an_element(dtype)
    if A.dim() == 0 or A.shape[-1] % (group * per):
        raise ArgumentError(
            "E-SPARSE-OPERAND",
            f"the last dimension of a tensor to compress must be a multiple of {group * per}, got {list(A.shape)}",
            facts=[f"an element of {dtype} holds the places of {group * per} elements of {A.dtype}"],
            help="pad it with zeros, or take a narrower dtype for E",
        )
    groups = A.unflatten(-1, (A.shape[-1] // group, group))
    full = (groups if groups.dtype.itemsize > 1 or not groups.is_floating_point() else groups.float()) != 0
    weights = torch.tensor([1 << i for i in range(group)], dtype=torch.uint8, device=A.device)
    found = (full * weights).sum(-1)
    table = torch.tensor(_PAIRS if group == 2 else _QUADS, dtype=torch.int64, device=A.device)
    places = table[found]
    if bool((places < 0).any()):
        raise _not_sparse(groups, places < 0)
    kept = _bits(groups).gather(-1, _positions(places, group)).reshape(*A.shape[:-1], A.shape[-1] // 2)
    shifts = torch.arange(0, 4 * per, 4, device=A.device)
    words = (places.unflatten(-1, (places.shape[-1] // per, per)) << shifts).sum(-1)
    return kept.view(A.dtype), words.to(getattr(torch, f"int{8 * dtype.itemsize}")).view(dtype)


def decompress(A_sparse: torch.Tensor, E: torch.Tensor) -> torch.Tensor:
    """The tensor that `A_sparse` and `E` stand for: [..., K] for [..., K/2] and [..., K/F].

    Raises:
        ArgumentError: E-SPARSE-OPERAND.
    """
    import torch

    group, per = _group(A_sparse), _groups_an_element(E.dtype)
    count = A_sparse.shape[-1] * 2 if A_sparse.dim() else 0
    if E.shape != (*A_sparse.shape[:-1], count // (group * per)) or count % (group * per):
        raise ArgumentError(
            "E-SPARSE-OPERAND",
            f"E does not say where the elements of A_sparse lie: {list(E.shape)} for {list(A_sparse.shape)}",
            facts=[f"an element of {E.dtype} holds the places of {group * per // 2} elements of A_sparse"],
            help="pass the two that compress gave",
        )
    shifts = torch.arange(0, 4 * per, 4, device=E.device)
    words = E.view(getattr(torch, f"int{8 * E.dtype.itemsize}")).to(torch.int64)
    places = (words[..., None] >> shifts & 15).flatten(-2)
    kept = _bits(A_sparse).reshape(*places.shape, group // 2)
    whole = torch.zeros(*places.shape, group, dtype=kept.dtype, device=kept.device)
    whole.scatter_(-1, _positions(places, group), kept)
    return whole.reshape(*A_sparse.shape[:-1], count).view(A_sparse.dtype)


def randn_semi_sparse(M: int, K: int, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
    """An [M, K] tensor of normal numbers that is sparse along K; which elements are kept is random. float16 where no
    dtype is given, on torch's default device where no device is."""
    import torch

    dtype = torch.float16 if dtype is None else dtype
    dense = torch.randn(M, K, device=device)
    if not dtype.is_floating_point:
        dense = (8 * dense).clamp(0 if dtype == torch.uint8 else -127, 127).round()
    group = _group(dense.to(dtype))
    chances = torch.rand(M, K // group, group, device=dense.device)
    dropped = chances.topk(group // 2, dim=-1).indices
    return dense.reshape(M, -1, group).scatter(-1, dropped, 0.0).reshape(M, K).to(dtype)


def _positions(places: Any, group: int) -> Any:
    """Which elements of its group four bits keep, [..., 1 or 2]."""
    import torch

    return (places >> 1 & 1)[..., None] if group == 2 else torch.stack((places & 3, places >> 2), -1)


def _bits(tensor: Any) -> Any:
    """The same as integers, which every device can gather."""
    import torch

    return tensor.contiguous().view(getattr(torch, f"int{8 * tensor.dtype.itemsize}"))


def _group(tensor: Any) -> int:
    """Elements that share four bits of E."""
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in _ELEMENTS and not name.startswith(("float8_e4m3", "float8_e5m2")):
        raise ArgumentError(
            "E-SPARSE-OPERAND",
            f"sparse products have no operands of {tensor.dtype}",
            facts=[f"allowed: {', '.join(_ELEMENTS)} and the floats of 8 bits"],
            help="convert it first",
        )
    return 2 if tensor.dtype.itemsize == 4 else 4


def _groups_an_element(dtype: Any) -> int:
    """Groups whose places an element of E holds."""
    if str(dtype).removeprefix("torch.") not in _PLACES:
        raise ArgumentError(
            "E-SPARSE-OPERAND",
            f"E cannot be {dtype}",
            facts=[f"allowed: {', '.join(_PLACES)}"],
            help="leave dtype out: E is then int16",
        )
    return 2 * dtype.itemsize


def _not_sparse(groups: Any, wrong: Any) -> ArgumentError:
    """Names the first group with too many elements."""
    at = wrong.nonzero()[0].tolist()
    group = groups.shape[-1]
    first, most = at[-1] * group, group // 2
    where = ", ".join([*map(str, at[:-1]), f"{first}:{first + group}"])
    return ArgumentError(
        "E-SPARSE-PATTERN",
        f"the tensor is not {most}:{group} sparse along its last dimension",
        facts=[
            f"A[{where}] = {groups[tuple(at)].tolist()}",
            f"{int(wrong.sum())} of {wrong.numel()} groups of {group} have more than {most} elements that are not 0",
        ],
        help=f"set all but {most} of each {group} neighbours to 0",
    )
