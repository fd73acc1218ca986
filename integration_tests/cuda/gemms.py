"""Matrix products: element types, transposes, warp policies, epilogues, split and batched."""

from typing import Any

import torch

import tile_core.language as T

from .case import Case, normal

__all__ = ["KERNELS"]


def product(
    tile: tuple[int, int, int] = (32, 32, 16),
    dtype: str = "float16",
    accumulator: str = "float32",
    stages: int = 2,
    threads: int = 64,
    transpose_a: bool = False,
    transpose_b: bool = False,
    policy: Any = T.GemmWarpPolicy.Square,
    storage: str | None = None,
    odd: int = 0,
    arch: str = "sm_80",
    quick: bool = False,
) -> Case:
    """C = op(A) op(B) by one block; `odd` elements are missing at the end of the last step."""
    m, n, step = tile
    held = storage or dtype

    def make() -> Any:
        K = T.dynamic("k")

        @T.prim_func
        def gemm(
            A: T.Tensor((K, m) if transpose_a else (m, K), held),
            B: T.Tensor((n, K) if transpose_b else (K, n), held),
            C: T.Tensor((m, n), accumulator),
        ):
            with T.Kernel(1, threads=threads) as _:
                a = T.alloc_shared((step, m) if transpose_a else (m, step), dtype)
                b = T.alloc_shared((n, step) if transpose_b else (step, n), dtype)
                c = T.alloc_fragment((m, n), accumulator)
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(K, step), num_stages=stages):
                    if transpose_a:
                        T.copy(A[k * step, 0], a)
                    else:
                        T.copy(A[0, k * step], a)
                    if transpose_b:
                        T.copy(B[0, k * step], b)
                    else:
                        T.copy(B[k * step, 0], b)
                    T.gemm(a, b, c, transpose_A=transpose_a, transpose_B=transpose_b, policy=policy)
                T.copy(c, C)

        return gemm

    def inputs(random: torch.Generator, trips: int) -> list[torch.Tensor]:
        k, type_ = max(step * trips - odd, 0), getattr(torch, held)
        a = normal(random, *((k, m) if transpose_a else (m, k)), dtype=type_)
        return [a, normal(random, *((n, k) if transpose_b else (k, n)), dtype=type_)]

    def meaning(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        out = getattr(torch, accumulator)
        wide = out if out in (torch.int32, torch.float64) else torch.float32
        if dtype == "tfloat32":
            a, b = rounded(a), rounded(b)
        return [((a.T if transpose_a else a).to(wide) @ (b.T if transpose_b else b).to(wide)).to(out)]

    return Case(make, inputs, meaning, stages, terms=lambda trips: max(step * trips, 1), arch=arch, quick=quick)


def rounded(x: torch.Tensor) -> torch.Tensor:
    """fp32 to the ten bits of mantissa that tf32 keeps, ties to even."""
    bits = x.view(torch.int32)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)


def with_epilogue() -> Case:
    """fp16 out, with bias and relu on the accumulator."""

    def make() -> Any:
        K = T.dynamic("k")

        @T.prim_func
        def epilogue(
            A: T.Tensor((32, K), "float16"),
            B: T.Tensor((K, 32), "float16"),
            bias: T.Tensor((32,), "float16"),
            C: T.Tensor((32, 32), "float16"),
        ):
            with T.Kernel(1, threads=64) as _:
                a = T.alloc_shared((32, 16), "float16")
                b = T.alloc_shared((16, 32), "float16")
                c = T.alloc_fragment((32, 32), "float32")
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(K, 16), num_stages=3):
                    T.copy(A[0, k * 16], a)
                    T.copy(B[k * 16, 0], b)
                    T.gemm(a, b, c)
                for i, j in T.Parallel(32, 32):
                    c[i, j] = T.max(c[i, j] + T.cast(bias[j], "float32"), 0.0)
                T.copy(c, C)

        return epilogue

    return Case(
        make,
        lambda random, trips: [
            normal(random, *shape, dtype=torch.float16) for shape in ((32, 16 * trips), (16 * trips, 32), (32,))
        ],
        lambda a, b, bias: [(a.float() @ b.float() + bias.float()).clamp(min=0).half()],
        3,
        terms=lambda trips: 16 * trips + 1,
    )


def shared_operand() -> Case:
    """Two products of one A: both accumulators are read after one loop."""

    def make() -> Any:
        K = T.dynamic("k")

        @T.prim_func
        def both(
            A: T.Tensor((32, K), "float16"),
            B: T.Tensor((K, 32), "float16"),
            D: T.Tensor((K, 32), "float16"),
            C: T.Tensor((32, 32), "float32"),
            E: T.Tensor((32, 32), "float32"),
        ):
            with T.Kernel(1, threads=64) as _:
                a = T.alloc_shared((32, 16), "float16")
                b = T.alloc_shared((16, 32), "float16")
                d = T.alloc_shared((16, 32), "float16")
                c = T.alloc_fragment((32, 32), "float32")
                e = T.alloc_fragment((32, 32), "float32")
                T.clear(c)
                T.clear(e)
                for k in T.Pipelined(T.ceildiv(K, 16), num_stages=2):
                    T.copy(A[0, k * 16], a)
                    T.copy(B[k * 16, 0], b)
                    T.copy(D[k * 16, 0], d)
                    T.gemm(a, b, c)
                    T.gemm(a, d, e)
                T.copy(c, C)
                T.copy(e, E)

        return both

    return Case(
        make,
        lambda random, trips: [
            normal(random, *shape, dtype=torch.float16)
            for shape in ((32, 16 * trips), (16 * trips, 32), (16 * trips, 32))
        ],
        lambda a, b, d: [a.float() @ b.float(), a.float() @ d.float()],
        2,
        terms=lambda trips: max(16 * trips, 1),
    )


def split() -> Case:
    """K in two halves, a block each, which add to C."""

    def make() -> Any:
        K = T.dynamic("k")

        @T.prim_func
        def split(A: T.Tensor((32, K), "float16"), B: T.Tensor((K, 32), "float16"), C: T.Tensor((32, 32), "float32")):
            with T.Kernel(2, threads=64) as part:
                a = T.alloc_shared((32, 16), "float16")
                b = T.alloc_shared((16, 32), "float16")
                c = T.alloc_fragment((32, 32), "float32")
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
                    T.copy(A[0, (2 * k + part) * 16], a)
                    T.copy(B[(2 * k + part) * 16, 0], b)
                    T.gemm(a, b, c)
                for i, j in T.Parallel(32, 32):
                    T.atomic_add(C[i, j], c[i, j])

        return split

    return Case(
        make,
        lambda random, trips: [
            normal(random, *shape, dtype=torch.float16) for shape in ((32, 32 * trips), (32 * trips, 32))
        ],
        lambda a, b: [a.float() @ b.float()],
        2,
        terms=lambda trips: max(32 * trips, 1),
        start=0,
    )


def batched() -> Case:
    def make() -> Any:
        K = T.dynamic("k")

        @T.prim_func
        def batched(
            A: T.Tensor((3, 32, K), "float16"), B: T.Tensor((3, K, 32), "float16"), C: T.Tensor((3, 32, 32), "float32")
        ):
            with T.Kernel(1, 3, threads=32) as (_, batch):
                a = T.alloc_shared((32, 16), "float16")
                b = T.alloc_shared((16, 32), "float16")
                c = T.alloc_fragment((32, 32), "float32")
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(K, 16), num_stages=2):
                    T.copy(A[batch, 0:32, k * 16 : k * 16 + 16], a)
                    T.copy(B[batch, k * 16 : k * 16 + 16, 0:32], b)
                    T.gemm(a, b, c)
                T.copy(c, C[batch, 0:32, 0:32])

        return batched

    return Case(
        make,
        lambda random, trips: [
            normal(random, *shape, dtype=torch.float16) for shape in ((3, 32, 16 * trips), (3, 16 * trips, 32))
        ],
        lambda a, b: [a.float() @ b.float()],
        2,
        terms=lambda trips: max(16 * trips, 1),
    )


def many_blocks() -> Case:
    """A grid of blocks whose last ones reach over the edges."""

    def make() -> Any:
        K = T.dynamic("k")

        @T.prim_func
        def edges(A: T.Tensor((40, K), "float16"), B: T.Tensor((K, 48), "float16"), C: T.Tensor((40, 48), "float32")):
            with T.Kernel(T.ceildiv(48, 32), T.ceildiv(40, 32), threads=64) as (bx, by):
                a = T.alloc_shared((32, 16), "float16")
                b = T.alloc_shared((16, 32), "float16")
                c = T.alloc_fragment((32, 32), "float32")
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(K, 16), num_stages=2):
                    T.copy(A[by * 32, k * 16], a)
                    T.copy(B[k * 16, bx * 32], b)
                    T.gemm(a, b, c)
                T.copy(c, C[by * 32, bx * 32])

        return edges

    return Case(
        make,
        lambda random, trips: [
            normal(random, *shape, dtype=torch.float16) for shape in ((40, 16 * trips), (16 * trips, 48))
        ],
        lambda a, b: [a.float() @ b.float()],
        2,
        terms=lambda trips: max(16 * trips, 1),
    )


def staged_by_hand() -> Case:
    """Stages and order as the user wrote them."""

    def make() -> Any:
        K = T.dynamic("k")

        @T.prim_func
        def ordered(A: T.Tensor((32, K), "float16"), B: T.Tensor((K, 32), "float16"), C: T.Tensor((32, 32), "float32")):
            with T.Kernel(1, threads=64) as _:
                a = T.alloc_shared((32, 16), "float16")
                b = T.alloc_shared((16, 32), "float16")
                c = T.alloc_fragment((32, 32), "float32")
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(K, 16), order=[1, 2, 0], stage=[0, 0, 2]):
                    T.copy(A[0, k * 16], a)
                    T.copy(B[k * 16, 0], b)
                    T.gemm(a, b, c)
                T.copy(c, C)

        return ordered

    return Case(
        make,
        lambda random, trips: [
            normal(random, *shape, dtype=torch.float16) for shape in ((32, 16 * trips), (16 * trips, 32))
        ],
        lambda a, b: [a.float() @ b.float()],
        3,
        terms=lambda trips: max(16 * trips, 1),
    )


def dequantized() -> Case:
    """int8 weights times a scale of their column, made fp16 on chip."""

    def make() -> Any:
        K = T.dynamic("k")

        @T.prim_func
        def dequantized(
            A: T.Tensor((32, K), "float16"),
            B: T.Tensor((K, 32), "int8"),
            scale: T.Tensor((32,), "float16"),
            C: T.Tensor((32, 32), "float32"),
        ):
            with T.Kernel(1, threads=64) as _:
                a = T.alloc_shared((32, 16), "float16")
                b = T.alloc_shared((16, 32), "int8")
                wide = T.alloc_shared((16, 32), "float16")
                c = T.alloc_fragment((32, 32), "float32")
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(K, 16), num_stages=2):
                    T.copy(A[0, k * 16], a)
                    T.copy(B[k * 16, 0], b)
                    for i, j in T.Parallel(16, 32):
                        wide[i, j] = T.cast(b[i, j], "float16") * scale[j]
                    T.gemm(a, wide, c)
                T.copy(c, C)

        return dequantized

    return Case(
        make,
        lambda random, trips: [
            normal(random, 32, 16 * trips, dtype=torch.float16),
            normal(random, 16 * trips, 32, dtype=torch.int8),
            normal(random, 32, dtype=torch.float16),
        ],
        lambda a, b, scale: [a.float() @ (b.half() * scale).float()],
        2,
        terms=lambda trips: max(16 * trips, 1),
    )


def two_pipelines() -> Case:
    """C = A B + D E: one loop after the other through the same shared tiles."""

    def make() -> Any:
        K = T.dynamic("k")

        @T.prim_func
        def sums(
            A: T.Tensor((32, K), "float16"),
            B: T.Tensor((K, 32), "float16"),
            D: T.Tensor((32, K), "float16"),
            E: T.Tensor((K, 32), "float16"),
            C: T.Tensor((32, 32), "float32"),
        ):
            with T.Kernel(1, threads=64) as _:
                a = T.alloc_shared((32, 16), "float16")
                b = T.alloc_shared((16, 32), "float16")
                c = T.alloc_fragment((32, 32), "float32")
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(K, 16), num_stages=3):
                    T.copy(A[0, k * 16], a)
                    T.copy(B[k * 16, 0], b)
                    T.gemm(a, b, c)
                for k in T.Pipelined(T.ceildiv(K, 16), num_stages=2):
                    T.copy(D[0, k * 16], a)
                    T.copy(E[k * 16, 0], b)
                    T.gemm(a, b, c)
                T.copy(c, C)

        return sums

    return Case(
        make,
        lambda random, trips: [
            normal(random, *shape, dtype=torch.float16) for shape in ((32, 16 * trips), (16 * trips, 32)) * 2
        ],
        lambda a, b, d, e: [a.float() @ b.float() + d.float() @ e.float()],
        3,
        terms=lambda trips: max(32 * trips, 1),
    )


def conditional_copy() -> Case:
    """Rows of B from `first` on count only; a tile before them is left out of the loop's work by a condition."""

    def make() -> Any:
        K = T.dynamic("k")

        @T.prim_func
        def conditional(
            A: T.Tensor((32, K), "float16"),
            B: T.Tensor((K, 32), "float16"),
            first: T.Tensor((1,), "int32"),
            C: T.Tensor((32, 32), "float32"),
        ):
            with T.Kernel(1, threads=64) as _:
                a = T.alloc_shared((32, 16), "float16")
                b = T.alloc_shared((16, 32), "float16")
                c = T.alloc_fragment((32, 32), "float32")
                T.clear(c)
                T.clear(b)
                for k in T.Pipelined(T.ceildiv(K, 16), num_stages=2):
                    T.copy(A[0, k * 16], a)
                    for i, j in T.Parallel(16, 32):
                        b[i, j] = T.if_then_else(k * 16 + i >= first[0], B[k * 16 + i, j], T.float16(0))
                    T.gemm(a, b, c)
                T.copy(c, C)

        return conditional

    def meaning(a: torch.Tensor, b: torch.Tensor, first: torch.Tensor) -> list[torch.Tensor]:
        counted = torch.arange(len(b))[:, None] >= first
        return [a.float() @ (b.float() * counted)]

    return Case(
        make,
        lambda random, trips: [
            normal(random, 32, 16 * trips, dtype=torch.float16),
            normal(random, 16 * trips, 32, dtype=torch.float16),
            torch.tensor([11], dtype=torch.int32),
        ],
        meaning,
        2,
        terms=lambda trips: max(16 * trips, 1),
    )


def parts_of_registers(operand: str) -> Case:
    """Products with halves of a tile in registers: of A along K, of B along K, of the sums along N."""

    def make() -> Any:
        K = T.dynamic("k")

        @T.prim_func
        def halves(A: T.Tensor((32, K), "float16"), B: T.Tensor((K, 32), "float16"), C: T.Tensor((32, 32), "float32")):
            with T.Kernel(1, threads=64) as _:
                a = T.alloc_shared((32, 32), "float16")
                b = T.alloc_shared((32, 32), "float16")
                held = T.alloc_fragment((32, 32), "float16")
                c = T.alloc_fragment((32, 32), "float32")
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
                    T.copy(A[0, k * 32], a)
                    T.copy(B[k * 32, 0], b)
                    if operand == "a":
                        T.copy(a, held)
                        T.gemm(held[:, 0:16], b[0:16, :], c, policy=T.GemmWarpPolicy.FullRow)
                        T.gemm(held[:, 16:32], b[16:32, :], c, policy=T.GemmWarpPolicy.FullRow)
                    elif operand == "b":
                        T.copy(b, held)
                        T.gemm(a[:, 0:16], held[0:16, :], c, policy=T.GemmWarpPolicy.FullCol)
                        T.gemm(a[:, 16:32], held[16:32, :], c, policy=T.GemmWarpPolicy.FullCol)
                    else:
                        T.gemm(a, b[:, 0:16], c[:, 0:16], policy=T.GemmWarpPolicy.FullRow)
                        T.gemm(a, b[:, 16:32], c[:, 16:32], policy=T.GemmWarpPolicy.FullRow)
                T.copy(c, C)

        return halves

    return Case(
        make,
        lambda random, trips: [
            normal(random, *shape, dtype=torch.float16) for shape in ((32, 32 * trips), (32 * trips, 32))
        ],
        lambda a, b: [a.float() @ b.float()],
        2,
        terms=lambda trips: max(32 * trips, 1),
    )


def transposed(name: str, **how: Any) -> dict[str, Case]:
    """The products of one element type with A, B and both transposed, and with neither."""
    flags = {"nn": (False, False), "nt": (False, True), "tn": (True, False), "tt": (True, True)}
    return {f"{name}_{key}": product(transpose_a=a, transpose_b=b, **how) for key, (a, b) in flags.items()}


KERNELS = {
    "gemm_fp16": product(stages=3, quick=True),
    "gemm_fp16_one_warp": product((32, 32, 16), threads=32),
    "gemm_fp16_four_warps": product((64, 64, 32), threads=128, stages=4),
    "gemm_fp16_odd_depth": product((32, 32, 16), odd=5),
    "gemm_fp16_accumulator": product(accumulator="float16"),
    "gemm_bf16": product(dtype="bfloat16", stages=3),
    "gemm_tf32": product(dtype="tfloat32", storage="float32"),
    "gemm_fp32": product(dtype="float32"),
    **transposed("gemm_bf16", dtype="bfloat16"),
    **transposed("gemm_tf32", dtype="tfloat32", storage="float32"),
    **transposed("gemm_fp64", dtype="float64", accumulator="float64"),
    **transposed("gemm_int8", tile=(32, 32, 32), dtype="int8", accumulator="int32"),
    **transposed("gemm_sm75", arch="sm_75"),
    **transposed("gemm_fp8", tile=(32, 32, 32), dtype="float8_e4m3fn", arch="sm_89"),
    "gemm_fp64_full_row": product((32, 32, 16), "float64", "float64", policy=T.GemmWarpPolicy.FullRow),
    "gemm_fp64_full_column": product((32, 32, 16), "float64", "float64", policy=T.GemmWarpPolicy.FullCol),
    "gemm_fp16_short_steps": product((32, 32, 8), stages=3),
    "gemm_fp16_uneven_steps": product((32, 32, 24)),
    "gemm_uint8": product((32, 32, 16), "uint8", "int32", transpose_b=True),
    "gemm_part_of_a": parts_of_registers("a"),
    "gemm_part_of_b": parts_of_registers("b"),
    "gemm_part_of_c": parts_of_registers("c"),
    "gemm_int8": product((32, 32, 32), "int8", "int32", transpose_b=True, quick=True),
    "gemm_fp8_e4m3": product((32, 32, 32), "float8_e4m3fn", transpose_b=True, arch="sm_89"),
    "gemm_fp8_e5m2": product((32, 32, 32), "float8_e5m2", transpose_b=True, arch="sm_89"),
    "gemm_transposed_a": product(transpose_a=True),
    "gemm_transposed_b": product(transpose_b=True),
    "gemm_transposed_both": product(transpose_a=True, transpose_b=True),
    "gemm_square": product((64, 32, 16), threads=128, policy=T.GemmWarpPolicy.Square),
    "gemm_full_row": product((64, 32, 16), threads=128, policy=T.GemmWarpPolicy.FullRow),
    "gemm_full_column": product((32, 64, 16), threads=128, policy=T.GemmWarpPolicy.FullCol),
    "gemm_bias_relu": with_epilogue(),
    "gemm_two_accumulators": shared_operand(),
    "gemm_split_k": split(),
    "gemm_batched": batched(),
    "gemm_edges": many_blocks(),
    "gemm_staged_by_hand": staged_by_hand(),
    "gemm_dequantized": dequantized(),
    "gemm_two_pipelines": two_pipelines(),
    "gemm_conditional_copy": conditional_copy(),
}
