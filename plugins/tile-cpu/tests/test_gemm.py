"""Gemm on the CPU: which candidate is taken, how its tiles lie, and what comes out."""

import numpy as np
import pytest

import tile_core as tile
import tile_core.language as T
from tile_core.dtypes import DType
from tile_core.errors import CompileError
from tile_core.interpreter.values import numpy_type
from tile_core.ir import Block, Call, walk
from tile_core.testing.carriers import to_tensor


def gemm(
    b="B_shared", b_shape="(16, 32)", b_slice="ko * 16:ko * 16 + 16, bx * 32:bx * 32 + 32", options="", dtype="float32"
):
    bt = "(N, K)" if b_shape == "(32, 16)" else "(K, N)"
    return f"""
        @T.prim_func
        def main(A: T.Buffer((M, K), T.{dtype}), B: T.Buffer({bt}, T.{dtype}), C: T.Buffer((M, N), T.float32)):
            M = T.size_var(T.int32)
            N = T.size_var(T.int32)
            K = T.size_var(T.int32)
            with T.Kernel((N + 31) // 32, (M + 31) // 32) as (bx, by):
                A_shared = T.alloc_buffer((32, 16), T.{dtype}, scope="shared")
                B_shared = T.alloc_buffer({b_shape}, T.{dtype}, scope="shared")
                C_local = T.alloc_buffer((32, 32), T.float32, scope="fragment")
                T.fill(C_local, value=T.float32(0.0))
                for ko in T.Pipelined((K + 15) // 16, num_stages=2):
                    T.copy(A[by * 32:by * 32 + 32, ko * 16:ko * 16 + 16], A_shared)
                    T.copy(B[{b_slice}], B_shared)
                    T.gemm(A_shared, B_shared, C_local{options})
                T.copy(C_local, C[by * 32:by * 32 + 32, bx * 32:bx * 32 + 32])
    """


TRANSPOSED = {
    "b_shape": "(32, 16)",
    "b_slice": "bx * 32:bx * 32 + 32, ko * 16:ko * 16 + 16",
    "options": ", transpose_b=True",
}


def layouts(lowered):
    found = {}
    for node in walk(lowered.after["LayoutInference"].body):
        if isinstance(node, Block):
            found.update({b.name: layout for b, layout in node.annotation("layouts", ())})
    return found


@pytest.mark.parametrize("options", [{}, TRANSPOSED], ids=["B", "B transposed"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (32, 32, 16), (31, 33, 15), (65, 70, 50)], ids=str)
def test_every_step_computes_the_same_product(lowered, options, sizes):
    lowered(gemm(**options)).check(dict(zip("MNK", sizes)))


def test_the_micro_kernel_is_taken(lowered):
    assert ("gemm", "micro_kernel") in lowered(gemm()).taken


def test_a_transposed_operand_is_stored_transposed(lowered):
    result = lowered(gemm(**TRANSPOSED))
    # Eight steps of K are taken at once.
    assert layouts(result)["B_shared"].image[-2:] == (128, 32)
    calls = [n.op for n in walk(result.after["VectorizeLoop"].body) if isinstance(n, Call)]
    assert "cpu.copy_transposed" in calls


SPARSE = """
        @T.prim_func
        def main(A: T.Buffer((40, 32), T.{dtype}), E: T.Buffer((40, {words}), T.uint16),
                 B: T.Buffer((64, 33), T.{dtype}), C: T.Buffer((40, 33), T.float32)):
            with T.Kernel(2, 2) as (bx, by):
                a = T.alloc_buffer((32, 32), T.{dtype}, scope="shared")
                e = T.alloc_buffer((32, {words}), T.uint16, scope="shared")
                b = T.alloc_buffer((64, 32), T.{dtype}, scope="shared")
                c = T.alloc_buffer((32, 32), T.float32, scope="fragment")
                T.copy(A[by * 32:by * 32 + 32, 0:32], a)
                T.copy(E[by * 32:by * 32 + 32, 0:{words}], e)
                T.copy(B[0:64, bx * 32:bx * 32 + 32], b)
                for i, j in T.Parallel(32, {words}):
                    e[i, j] = T.uint16({code})
                T.gemm_sp(a, e, b, c, clear_accum=True)
                T.copy(c, C[by * 32:by * 32 + 32, bx * 32:bx * 32 + 32])
"""


@pytest.mark.parametrize(
    ("dtype", "name"),
    [("float16", "expanding_micro_kernel"), ("float8_e4m3fn", "expanding_micro_kernel"), ("tfloat32", "loops")],
)
def test_a_sparse_operand_is_expanded_where_the_micro_kernel_takes_its_type(lowered, dtype, name):
    pairs = dtype == "tfloat32"
    result = lowered(SPARSE.format(dtype=dtype, words=8 if pairs else 4, code=0x4EE4 if pairs else 0x4E9C))
    assert ("gemm_sp", name) in result.taken
    result.check({})


def test_a_sparse_operand_of_padded_rows(lowered):
    text = SPARSE.format(dtype="bfloat16", words=3, code=0x4E9C)
    for whole, part in (
        ("(40, 32)", "(40, 24)"),
        ("(32, 32), T.bfloat16", "(32, 24), T.bfloat16"),
        ("0:32], a", "0:24], a"),
    ):
        assert whole in text
        text = text.replace(whole, part, 1)
    text = text.replace("(64, 33)", "(48, 33)").replace("(64, 32)", "(48, 32)").replace("0:64", "0:48")
    result = lowered(text)
    assert ("gemm_sp", "expanding_micro_kernel") in result.taken
    result.check({})


def test_rows_that_would_alias_are_padded(lowered):
    text = gemm().replace("(32, 16), T.float32, scope", "(32, 1024), T.float32, scope")
    text = text.replace("(16, 32), T.float32, scope", "(1024, 32), T.float32, scope").replace("16", "1024")
    assert layouts(lowered(text))["A_shared"].image[-2:] == (32, 1040)


def test_types_that_the_micro_kernel_lacks_run_as_loops(lowered):
    result = lowered(gemm(dtype="tfloat32"))
    choices = [c for c in result.context.choices if c.op.name == "gemm"]
    assert [c.taken for c in choices] == ["loops", "loops"]
    for choice in choices:
        assert dict(choice.considered)["micro_kernel"].startswith("A_shared is tfloat32; the micro-kernel takes")


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_operands_of_a_byte_are_widened_when_they_are_packed(dtype, rng):
    @T.prim_func
    def main(A: T.Tensor((40, 24), dtype), B: T.Tensor((20, 24), dtype), C: T.Tensor((40, 20), "float32")):
        with T.Kernel(1, threads=32) as _:
            a, b = T.alloc_shared((40, 24), dtype), T.alloc_shared((20, 24), dtype)
            c = T.alloc_fragment((40, 20), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            T.copy(c, C)

    kernel = tile.compile(main, target="cpu", out_idx=-1)
    assert "tile::gemm<" in kernel.get_kernel_source()
    given = [rng.normal(size=shape).astype(numpy_type(DType(dtype))) for shape in ((40, 24), (20, 24))]
    found = kernel(*(to_tensor(g, DType(dtype)) for g in given))
    wide = [g.astype(np.float64) for g in given]
    assert np.allclose(found.numpy(), wide[0] @ wide[1].T, rtol=1e-5, atol=1e-4)


def test_half_precision_operands(lowered):
    result = lowered(gemm(dtype="float16"))
    assert ("gemm", "micro_kernel") in result.taken
    result.check({"M": 33, "N": 31, "K": 17}, atol=1e-2)


def test_a_layout_that_the_user_fixes_demotes_the_choice(lowered):
    text = gemm(**TRANSPOSED).replace(
        "                T.fill(C_local",
        '                T.annotate("layouts", ((B_shared, T.Layout((32, 16), lambda i, j: (i, j))),))\n'
        "                T.fill(C_local",
    )
    result = lowered(text)
    [choice] = [c for c in result.context.choices if c.op.name == "gemm"]
    assert choice.taken == "packing_micro_kernel"
    assert choice.considered[0] == (
        "micro_kernel",
        "T.annotate_layout and T.gemm (micro_kernel) need different layouts of B_shared",
    )
    result.check({"M": 33, "N": 31, "K": 17})


def test_one_tile_as_two_operands_keeps_the_dearer_choice(lowered):
    text = """
        @T.prim_func
        def main(A: T.Buffer((32, 32), T.float32), C: T.Buffer((32, 32), T.float32)):
            with T.Kernel(1) as bx:
                S = T.alloc_buffer((32, 32), T.float32, scope="shared")
                C_local = T.alloc_buffer((32, 32), T.float32, scope="fragment")
                T.copy(A, S)
                T.fill(C_local, value=T.float32(0.0))
                T.gemm(S, S, C_local, transpose_b=True)
                T.copy(C_local, C)
    """
    result = lowered(text)
    assert ("gemm", "packing_micro_kernel") in result.taken
    result.check(atol=1e-4)


def test_forcing_an_instruction(lowered):
    forced = gemm(options=', annotations=(("prefer_instruction", "loops"),)')
    assert ("gemm", "loops") in lowered(forced).taken


def test_forcing_what_declines_is_an_error_with_the_reason(lowered):
    with pytest.raises(CompileError) as error:
        lowered(gemm(options=', annotations=(("prefer_instruction", "packing_micro_kernel"),)'))
    assert error.value.code == "E-CANDIDATE-DECLINED"
    assert "reason: B is [K, N], which needs no packing" in str(error.value)
    assert "T.gemm(A_shared, B_shared, C_local" in str(error.value)


def test_forcing_an_unknown_name_lists_the_known(lowered):
    with pytest.raises(CompileError) as error:
        lowered(gemm(options=', annotations=(("prefer_instruction", "wgmma"),)'))
    assert error.value.code == "E-CANDIDATE-NAME"
    assert "known: micro_kernel, packing_micro_kernel, loops" in str(error.value)
