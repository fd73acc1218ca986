"""`T.gemm_sp`: what it means, what it refuses, and that its text reads back."""

import itertools

import numpy as np
import pytest

from tile_core.dtypes import as_dtype
from tile_core.errors import CompileError
from tile_core.ir import Buffer, as_shape, full_region, structural_equal
from tile_core.ir.parser import parse
from tile_core.tileop import PLACE_DTYPES, SparseGemm

HEAD = """
@T.prim_func
def f(X: T.Buffer((64, 4), T.int16)):
    A = T.alloc_buffer((64, 32), T.float16, scope="shared")
    E = T.alloc_buffer((64, 4), T.int16, scope="shared")
    B = T.alloc_buffer((64, 32), T.float16, scope="shared")
    C = T.alloc_buffer((64, 32), T.float32, scope="fragment")
    F = T.alloc_buffer((64, 4), T.float16, scope="shared")
    D = T.alloc_buffer((64, 16), T.float64, scope="shared")
    W = T.alloc_buffer((64, 3), T.uint32, scope="shared")
"""
QUADS = [first | second << 2 for first, second in itertools.combinations(range(4), 2)]
CASES = {
    "T.gemm_sp(A, E, B[0:32, 0:32], C)": """
error[E-GEMM-SHAPE]: T.gemm_sp: the inner dimensions differ
   A = A: float16[64, 32]               K is 2 times its dimension 1: 64
   B = B[0:32, 0:32]: float16[32, 32]   K is its dimension 0: 32
  help: give A and B tiles of one K""",
    "T.gemm_sp(A[0:32, 0:24], E[0:32, 0:2], B, C[0:24, 0:32])": """
error[E-GEMM-SHAPE]: T.gemm_sp: the inner dimensions differ
   A = A[0:32, 0:24]: float16[32, 24]   K is 2 times its dimension 1: 48
   B = B: float16[64, 32]               K is its dimension 0: 64
  help: A is stored as [K/2, M]; pass transpose_A=True""",
    "T.gemm_sp(A, E, B, C[0:32, 0:32])": """
error[E-GEMM-SHAPE]: T.gemm_sp: the product is [64, 32], but C is [32, 32]
   A = A: float16[64, 32]               M is its dimension 0: 64
   B = B: float16[64, 32]               N is its dimension 1: 32
   C = C[0:32, 0:32]: float32[32, 32]   [M, N]
  help: allocate C with shape (64, 32)""",
    "T.gemm_sp(A, E[0:4, 0:4], B, C)": """
error[E-GEMM-SHAPE]: T.gemm_sp: E is [4, 4], but the places of A's elements are [64, 4]
   A = A: float16[64, 32]
   E = E[0:4, 0:4]: int16[4, 4]
   K is 64, and int16 holds the places of 16 elements of it
  help: allocate E with shape (64, 4)""",
    "T.gemm_sp(A, E, B, C, transpose_e=True)": """
error[E-GEMM-SHAPE]: T.gemm_sp: E is [64, 4], but the places of A's elements are [4, 64]
   A = A: float16[64, 32]
   E = E: int16[64, 4]
   K is 64, and int16 holds the places of 16 elements of it
  help: leave out transpose_E""",
    "T.gemm_sp(A[0:64, 0:24], W, B[0:48, 0:32], C)": """
error[E-GEMM-SHAPE]: T.gemm_sp: an element of W covers 32 elements of K, which 48 is no multiple of
   A = A[0:64, 0:24]: float16[64, 24]
   E = W: uint32[64, 3]
  help: take a K that is a multiple of 32, or an E of a narrower type""",
    "T.gemm_sp(A, F, B, C)": """
error[E-GEMM-DTYPE]: T.gemm_sp: F, which says where A's elements lie, is float16
   A = A: float16[64, 32]
   E = F: float16[64, 4]
   E may be int8 or uint8 or int16 or uint16 or int32 or uint32
  help: make E with tile_runtime.sparse.compress, as int16 where nothing else is asked""",
    "T.gemm_sp(D[0:64, 0:16], E, B[0:32, 0:32], C)": """
error[E-GEMM-DTYPE]: T.gemm_sp: A of float64 and B of float16 are not multiplied
   A = D: float64[64, 16]
   B = B[0:32, 0:32]: float16[32, 32]
   C = C: float32[64, 32]
   A is never float64
  help: give both operands one type; T.copy into a tile of another type converts""",
    "T.gemm_sp(A, X, B, C)": """
error[E-GEMM-SCOPE]: T.gemm_sp: X is in global memory; gemm_sp works on tiles on chip
   E = X: int16[64, 4]
  help: allocate a tile with T.alloc_shared and T.copy into it first""",
    'T.gemm_sp(A, E, B, C, policy="Rows")': """
error[E-OP-ATTRIBUTE]: T.gemm_sp: policy 'Rows' is not known
   allowed: Square, FullRow, FullCol
  help: pass one of the allowed values as policy""",
}


@pytest.mark.parametrize("statement", CASES)
def test_what_is_refused_is_named_with_the_fix(statement):
    with pytest.raises(CompileError) as error:
        parse(HEAD + "    " + statement)
    assert error.value.span is not None and error.value.span.line == 11
    lines = str(error.value).splitlines()
    kept = [lines[0], *(line for line in lines if line.startswith("   ") and "|" not in line), lines[-1]]
    assert "\n".join(kept) == CASES[statement].strip()


def test_its_text_reads_back():
    call = "T.gemm_sp(A[0:32, 0:32], E[0:32, 0:4], B, C[0:32, 0:32], clear_accum=True)"
    text = parse(HEAD + "    " + call).script()
    assert call in text
    assert structural_equal(parse(text), parse(HEAD + "    " + call))


def region(shape, dtype):
    return full_region(Buffer("t", as_shape(shape), as_dtype(dtype), "shared"))


def product(a, e, b, c, dtype="float32", places="int16", **flags):
    types = {"float32": "float32", "float16": "float32", "int8": "int32"}
    op = SparseGemm(
        region(a.shape, dtype), region(e.shape, places), region(b.shape, dtype), region(c.shape, types[dtype]), **flags
    )
    op.check()
    return op, op.reference({"a": a, "e": e, "b": b, "c": c}, None)["c"]


@pytest.mark.parametrize("places", PLACE_DTYPES)
@pytest.mark.parametrize("turned", [False, True])
def test_bits_say_where_kept_elements_lie(places, turned):
    """Element by element from the definition; all six pairs of places."""
    random = np.random.default_rng(0)
    bits = np.dtype(places).itemsize * 8
    k = 2 * bits if bits < 32 else 64
    nibbles = random.choice(QUADS, (12, k // 4))
    assert set(QUADS) == set(nibbles.ravel().tolist())
    words = (nibbles.reshape(12, -1, bits // 4).astype(np.int64) << np.arange(0, bits, 4)).sum(-1).astype(places)
    a, b = random.integers(-9, 9, (12, k // 2)).astype("float32"), random.integers(-9, 9, (k, 5)).astype("float32")
    whole = np.zeros((12, k), "float32")
    for row in range(12):
        for group in range(k // 4):
            low, high = nibbles[row, group] & 3, nibbles[row, group] >> 2
            whole[row, 4 * group + low], whole[row, 4 * group + high] = a[row, 2 * group : 2 * group + 2]
    c = random.integers(-9, 9, (12, 5)).astype("float32")
    given = (a.T, words.T, b.T) if turned else (a, words, b)
    flags = {"transpose_a": turned, "transpose_e": turned, "transpose_b": turned}
    op, found = product(*given, c, "float16", places, clear_accum=turned, **flags)
    assert (op.m, op.n, op.k, op.covered) == (12, 5, k, bits)
    assert np.array_equal(found, whole @ b + (0 if turned else c))
    assert [effect.kind for effect in op.effects()].count("read") == (3 if turned else 4)


def test_of_32_bit_elements_one_of_a_pair_is_kept():
    a, b = np.array([[2.0, 3.0, 5.0, 7.0]], "float32"), np.arange(8, dtype="float32")[:, None]
    e = np.array([[0b0100_1110_1110_0100]], "uint16")
    op, found = product(a, e, b, np.zeros((1, 1), "float32"), "float32", "uint16")
    assert op.covered == 8 and found.item() == 2 * 0 + 3 * 3 + 5 * 5 + 7 * 6


def test_integers_are_summed_exactly():
    a, b = np.full((1, 8), -128, "int8"), np.full((16, 1), 127, "int8")
    _, found = product(a, np.full((1, 1), 0x4E9C, "int16"), b, np.zeros((1, 1), "int32"), "int8")
    assert found.item() == -128 * 127 * 8
