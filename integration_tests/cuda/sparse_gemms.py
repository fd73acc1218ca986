"""Products of a sparse A: element types, types of E, transposes, depths of pipelines, edges on every side."""

from typing import Any

import torch

import tile_core.language as T
from tile_runtime.sparse import compress, randn_semi_sparse

from .case import Case, normal
from .gemms import rounded

__all__ = ["KERNELS"]


def product(
    tile: tuple[int, int, int] = (32, 32, 32),
    dtype: str = "float16",
    accumulator: str = "float32",
    places: str = "int16",
    stages: int = 2,
    threads: int = 64,
    transposed: str = "",
    policy: Any = T.GemmWarpPolicy.Square,
    missing: tuple[int, int, int] = (0, 0, 0),
    registers: str = "",
    arch: str = "sm_80",
    quick: bool = False,
) -> Case:
    """C = op(A) op(B) by one block.

    Args:
        places: the type of E.
        transposed: which of "a", "e" and "b" are.
        missing: rows of A, columns of B and elements of E at the end of the last step, where the tile is larger than
            what there is.
        registers: which of "a", "e" and "b" the product takes from there.
    """
    block_m, block_n, step = tile
    m, n = block_m - missing[0], block_n - missing[1]
    held = "float32" if dtype == "tfloat32" else dtype
    wide = held == "float32"
    bits = torch.iinfo(getattr(torch, places)).bits
    covered = bits // 2 if wide else bits
    words = step // covered
    a_turned, e_turned, b_turned = ("a" in transposed, "e" in transposed, "b" in transposed)

    def shape(turned: bool, rows: Any, columns: Any) -> tuple[Any, Any]:
        return (columns, rows) if turned else (rows, columns)

    def make() -> Any:
        W = T.dynamic("w")

        @T.prim_func
        def gemm(
            A: T.Tensor(shape(a_turned, m, W * (covered // 2)), held),
            E: T.Tensor(shape(e_turned, m, W), places),
            B: T.Tensor(shape(b_turned, W * covered, n), held),
            C: T.Tensor((m, n), accumulator),
        ):
            with T.Kernel(1, threads=threads) as _:
                a = T.alloc_shared(shape(a_turned, block_m, step // 2), dtype)
                e = T.alloc_shared(shape(e_turned, block_m, words), places)
                b = T.alloc_shared(shape(b_turned, step, block_n), dtype)
                c = T.alloc_fragment((block_m, block_n), accumulator)
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(W, words), num_stages=stages):
                    if a_turned:
                        T.copy(A[k * step // 2, 0], a)
                    else:
                        T.copy(A[0, k * step // 2], a)
                    if e_turned:
                        T.copy(E[k * words, 0], e)
                    else:
                        T.copy(E[0, k * words], e)
                    if b_turned:
                        T.copy(B[0, k * step], b)
                    else:
                        T.copy(B[k * step, 0], b)
                    operands = []
                    for name, given in (("a", a), ("e", e), ("b", b)):
                        operand = given
                        if name in registers:
                            operand = T.alloc_fragment(given.shape, given.dtype)
                            T.copy(given, operand)
                        operands.append(operand)
                    T.gemm_sp(*operands, c, a_turned, e_turned, b_turned, policy)
                T.copy(c, C[0, 0])

        return gemm

    def inputs(random: torch.Generator, trips: int) -> list[torch.Tensor]:
        k, type_ = covered * max(words * trips - missing[2], 0), getattr(torch, held)
        torch.manual_seed(trips)
        kept, e = compress(randn_semi_sparse(m, k, type_, device="cpu"), getattr(torch, places))
        b = normal(random, k, n, dtype=type_)
        return [x.T.contiguous() if turned else x for x, turned in ((kept, a_turned), (e, e_turned), (b, b_turned))]

    def meaning(a: torch.Tensor, e: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        a, e, b = (x.T if turned else x for x, turned in ((a, a_turned), (e, e_turned), (b, b_turned)))
        total = torch.int32 if accumulator == "int32" else torch.float32
        groups = {2: (4, 14), 4: ()}[2 if wide else 4]
        whole = expanded(a, e, bits, groups)
        if dtype == "tfloat32":
            whole, b = rounded(whole), rounded(b.contiguous())
        return [(whole.to(total) @ b.to(total)).to(getattr(torch, accumulator))]

    return Case(make, inputs, meaning, stages, terms=lambda trips: max(step * trips, 1), arch=arch, quick=quick)


def expanded(a: torch.Tensor, e: torch.Tensor, bits: int, pairs: tuple[int, ...]) -> torch.Tensor:
    """A by the definition of E's bits, element by element of a group."""
    size = 2 if pairs else 4
    words = (e.to(torch.int64)[..., None] >> torch.arange(0, bits, 4)) & 15
    codes = words.flatten(1)
    whole = torch.zeros(len(a), codes.shape[1], size, dtype=a.dtype)
    if pairs:
        for place, code in enumerate(pairs):
            whole[..., place] = torch.where(codes == code, a, 0)
        return whole.flatten(1)
    first, second = a[:, 0::2], a[:, 1::2]
    for place in range(4):
        whole[..., place] = torch.where(codes & 3 == place, first, torch.where(codes >> 2 == place, second, 0))
    return whole.flatten(1)


KERNELS: dict[str, Case] = {
    "gemm_sparse_fp16": product(quick=True),
    "gemm_sparse_bf16": product((32, 32, 96), "bfloat16", stages=3),
    "gemm_sparse_int8": product((32, 32, 64), "int8", "int32", "int32", transposed="b", quick=True),
    "gemm_sparse_tf32": product(dtype="tfloat32", quick=True),
    "gemm_sparse_fp16_turned": product((32, 32, 64), transposed="aeb", places="uint8", stages=0),
    "gemm_sparse_fp16_long_steps": product((32, 32, 64), transposed="a", places="int32", stages=4),
    "gemm_sparse_int8_turned": product((32, 32, 64), "int8", "int32", transposed="aeb", stages=1),
    "gemm_sparse_int8_bytes": product((32, 32, 64), "int8", "int32", "uint8", transposed="a", stages=3),
    "gemm_sparse_tf32_turned": product(dtype="tfloat32", transposed="aeb", places="int8", stages=0),
    "gemm_sparse_tf32_long_steps": product((32, 32, 32), "tfloat32", places="uint32", transposed="b", stages=4),
    "gemm_sparse_uint8": product((32, 32, 64), "uint8", "int32", stages=1),
    "gemm_sparse_fp8": product((32, 32, 64), "float8_e4m3fn", transposed="b", arch="sm_89"),
    "gemm_sparse_fp16_edges": product((32, 32, 64), missing=(5, 3, 1), stages=3),
    "gemm_sparse_bf16_edges": product((64, 32, 64), "bfloat16", places="uint16", missing=(9, 7, 3), transposed="e"),
    "gemm_sparse_int8_edges": product((32, 32, 128), "int8", "int32", missing=(1, 2, 3), stages=4),
    "gemm_sparse_tf32_edges": product((32, 32, 64), "tfloat32", missing=(2, 4, 3), stages=3),
    "gemm_sparse_a_in_registers": product((32, 32, 64), registers="a", threads=32),
    "gemm_sparse_operands_in_registers": product((32, 32, 32), "tfloat32", registers="ab", transposed="b"),
    "gemm_sparse_sums_in_fp16": product((64, 32, 32), accumulator="float16", policy=T.GemmWarpPolicy.FullRow),
    "threads_sparse_gemm_fp32": product(dtype="float32"),
    "threads_sparse_gemm_in_registers": product((32, 32, 16), missing=(3, 0, 0), registers="aeb", stages=1),
    "threads_sparse_gemm_sums_in_fp16": product((16, 24, 16), accumulator="float16", threads=96),
}
