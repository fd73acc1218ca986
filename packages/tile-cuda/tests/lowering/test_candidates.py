from __future__ import annotations

import pytest

import tile_core as tile
import tile_core.language as T
from tile_core.errors import CompileError
from tile_cuda.testing import tiles


def choices(function, arch="sm_80"):
    """(op, what was taken, {candidate: why not}) of each op."""
    artifact = tile.lower(function, target=f"cuda -arch={arch}")
    return [(c.op.name, c.taken, dict(c.considered)) for c in artifact.choices]


def taken(function, op, arch="sm_80"):
    return [(name, why) for name_, name, why in choices(function, arch) if name_ == op]


def test_half_precision_takes_matrix_instructions_and_asynchronous_copies():
    function = tiles.tiled_gemm(64, 64, 64, (64, 64, 32))
    assert [name for name, _ in taken(function, "gemm")] == ["mma"]
    assert [name for name, _ in taken(function, "copy")] == ["cp_async", "cp_async", "threads"]


@pytest.mark.parametrize(
    ("function", "arch", "reason"),
    [
        (tiles.tiled_gemm(32, 32, 32, (32, 32, 16), "float64", "float64", "float64"), "sm_75",
         "sm_75 has no mma.sync of float64 by float64 into float64; sm_80 and later have"),
        (tiles.tiled_gemm(32, 32, 32, (32, 32, 16), "bfloat16"), "sm_75",
         "sm_75 has no mma.sync of bfloat16 by bfloat16 into float32; sm_80 and later have"),
        (tiles.tiled_gemm(32, 32, 32, (32, 32, 16), threads=100), "sm_80",
         "mma.sync works on whole warps, and the block has 100 threads"),
        (tiles.tiled_gemm(32, 32, 12, (32, 32, 12)), "sm_80", "K is 12, no multiple of the instruction's 8"),
        (tiles.tiled_gemm(16, 16, 16, (16, 16, 16)), "sm_80",
         "M=16, N=16 cannot be covered by 4 warps (policy Square): each owns a multiple of 16 rows and 8 columns; "
         "adjust threads or the tile"),
    ],
)  # fmt: skip
def test_a_gemm_that_matrix_instructions_decline_goes_to_the_threads(function, arch, reason):
    ((name, considered),) = taken(function, "gemm", arch)
    assert (name, considered["mma"]) == ("threads", reason)


@pytest.mark.parametrize(
    ("dtype", "accumulator", "depth", "arch"),
    [("float16", "float32", 32, "sm_80"), ("bfloat16", "float32", 32, "sm_80"), ("tfloat32", "float32", 16, "sm_80"),
     ("int8", "int32", 64, "sm_80"), ("uint8", "int32", 64, "sm_80"), ("float8_e5m2", "float32", 64, "sm_89")],
)  # fmt: skip
def test_a_sparse_a_takes_sparse_instructions(dtype, accumulator, depth, arch):
    function = tiles.sparse_gemm(32, 32, 2 * depth, (32, 32, depth), dtype, accumulator)
    assert [name for name, _ in taken(function, "gemm_sp", arch)] == ["mma_sp"]


def test_places_are_copied_asynchronously_where_rows_of_them_are_whole_words():
    function = tiles.sparse_gemm(64, 64, 256, (64, 64, 64))
    assert [name for name, _ in taken(function, "copy")] == ["cp_async", "cp_async", "cp_async", "threads"]
    source = tile.lower(function, target="cuda -arch=sm_80").sources["kernel.cu"]
    assert "tile::cp_async<8>" in source


@pytest.mark.parametrize(
    ("function", "arch", "reason"),
    [
        (tiles.sparse_gemm(32, 32, 32, (32, 32, 16)), "sm_80", "K is 16, no multiple of the instruction's 32"),
        (tiles.sparse_gemm(32, 32, 64, (32, 32, 32)), "sm_75",
         "sm_75 has no mma.sp of float16 by float16 into float32; sm_80 and later have"),
        (tiles.sparse_gemm(32, 32, 64, (32, 32, 64), "float8_e4m3fn"), "sm_80",
         "sm_80 has no mma.sp of float8_e4m3fn by float8_e4m3fn into float32; sm_89 and later have"),
        (tiles.sparse_gemm(32, 32, 64, (32, 32, 32), "float32"), "sm_80",
         "sm_80 has no mma.sp of float32 by float32 into float32"),
        (tiles.sparse_gemm(32, 32, 64, (32, 32, 32), scope="fragment"), "sm_80",
         "e is in fragment memory; all lanes read their places in it"),
        (tiles.sparse_gemm(32, 32, 64, (32, 32, 32), threads=80), "sm_80",
         "mma.sp works on whole warps, and the block has 80 threads"),
    ],
)  # fmt: skip
def test_what_sparse_instructions_decline_goes_to_the_threads(function, arch, reason):
    ((name, considered),) = taken(function, "gemm_sp", arch)
    assert (name, considered["mma_sp"]) == ("threads", reason)


def test_sparse_instructions_that_are_asked_for_by_name_are_there_or_refused_with_the_architectures_that_have_them():
    @T.prim_func
    def product(
        A: T.Tensor((32, 32), "float8_e4m3fn"),
        E: T.Tensor((32, 4), "int16"),
        B: T.Tensor((64, 32), "float8_e4m3fn"),
        C: T.Tensor((32, 32), "float32"),
    ):
        with T.Kernel(1, threads=64):
            a, e = T.alloc_shared((32, 32), "float8_e4m3fn"), T.alloc_shared((32, 4), "int16")
            b, c = T.alloc_shared((64, 32), "float8_e4m3fn"), T.alloc_fragment((32, 32), "float32")
            T.copy(A, a)
            T.copy(E, e)
            T.copy(B, b)
            T.gemm_sp(a, e, b, c, clear_accum=True, annotations={"prefer_instruction": "mma_sp"})
            T.copy(c, C)

    assert taken(product, "gemm_sp", "sm_89")[0][0] == "mma_sp"
    with pytest.raises(CompileError, match=r"sm_80 has no mma\.sp of .*; sm_89 and later have") as caught:
        choices(product, "sm_80")
    assert caught.value.code == "E-CANDIDATE-DECLINED"


@pytest.mark.parametrize(
    ("function", "arch", "reason"),
    [
        (tiles.tiled_gemm(32, 32, 32, (32, 32, 32)), "sm_75", "cp.async needs sm_80, the target is cuda -arch=sm_75"),
        (tiles.tiled_gemm(32, 33, 31, (32, 32, 32)), "sm_80",
         "rows of A are not known to begin and end at multiples of 4 bytes, contiguously"),
    ],
)  # fmt: skip
def test_a_copy_that_cannot_be_asynchronous_says_why(function, arch, reason):
    name, considered = taken(function, "copy", arch)[0]
    assert (name, considered["cp_async"]) == ("threads", reason)


def test_a_reduction_between_registers_takes_shuffles():
    assert [name for name, _ in taken(tiles.softmax(32, 64, 16), "reduce")] == ["shuffle", "shuffle"]
    source = tile.lower(tiles.softmax(32, 64, 16), target="cuda -arch=sm_80").sources["kernel.cu"]
    assert "shfl_xor" in source and "exchange" not in source


def test_chained_gemms_keep_their_product_in_registers():
    source = tile.lower(tiles.attention(128, 32, 64, 32), target="cuda -arch=sm_80").sources["kernel.cu"]
    assert "exchange" not in source
    assert source.count("ldmatrix") > 0 and "weights" in source


def test_one_barrier_a_step_of_a_pipelined_gemm():
    source = tile.lower(tiles.tiled_gemm(128, 128, 512, (64, 64, 32)), target="cuda -arch=sm_80").sources["kernel.cu"]
    loop = source[source.index("#pragma unroll 1") : source.index("cp_async_commit();\n    TILE_LOCAL")]
    assert loop.count("sync_threads") == 1
    assert "tile::cp_async<16>" in loop


def test_elementwise_kernels_use_vectors():
    source = tile.lower(tiles.elementwise(1024, 1024, 32, 64), target="cuda -arch=sm_80").sources["kernel.cu"]
    assert "tile::load<fp16, 8>" in source


@pytest.mark.parametrize(
    ("arch", "stages", "advice"),
    [
        ("sm_75", 5, "take 98304 bytes away; 3 less in num_stages fits: 65536 bytes with 2 instead of 5 versions of "),
        ("sm_86", 4, "take 29696 bytes away; 1 less in num_stages fits: 98304 bytes with 3 instead of 4 versions of "),
        ("sm_80", 5, None),
    ],
)
def test_too_much_shared_memory_names_the_tiles_and_what_would_fit(arch, stages, advice):
    @T.prim_func
    def main(
        A: T.Tensor((128, 1024), "float16"), B: T.Tensor((1024, 128), "float16"), C: T.Tensor((128, 128), "float32")
    ):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 128), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(16, num_stages=stages):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    if advice is None:
        tile.lower(main, target=f"cuda -arch={arch}")
        return
    with pytest.raises(CompileError) as caught:
        tile.lower(main, target=f"cuda -arch={arch}")
    assert caught.value.code == "E-SHARED-MEMORY" and caught.value.help == advice + "a, b"
    assert caught.value.facts[0].startswith(f"a: float16[{stages * 8192}], {stages * 16384} bytes at ")


def test_tiles_that_no_number_of_stages_makes_fit():
    @T.prim_func
    def main(A: T.Tensor((128, 512), "float32"), B: T.Tensor((128, 512), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 512), "float32")
            T.copy(A, a)
            T.copy(a, B)

    with pytest.raises(CompileError) as caught:
        tile.lower(main, target="cuda -arch=sm_80")
    assert caught.value.code == "E-SHARED-MEMORY" and "make tiles smaller" in caught.value.help
