"""What tile ops refuse: the text that the kernel's author reads, and the line."""

import pytest

from tile_core.errors import CompileError
from tile_core.ir.parser import parse
from tile_core.tileop import tile_ops

HEAD = """
@T.prim_func
def f(X: T.Buffer((256, 64), T.float16)):
    A = T.alloc_buffer((128, 64), T.float16, scope="shared")
    B = T.alloc_buffer((128, 64), T.float16, scope="shared")
    C = T.alloc_buffer((128, 128), T.float32, scope="fragment")
    R = T.alloc_buffer((128,), T.float32, scope="fragment")
    I = T.alloc_buffer((128,), T.int32, scope="fragment")
    D = T.alloc_buffer((128, 64), T.float64, scope="shared")
"""


def message(statement: str) -> str:
    with pytest.raises(CompileError) as error:
        parse(HEAD + "    " + statement)
    assert error.value.span is not None and error.value.span.line == 10
    lines = str(error.value).splitlines()
    return "\n".join([lines[0], *(line for line in lines if line.startswith("   ") and "|" not in line), lines[-1]])


CASES = {
    "T.gemm(A, B, C)": """
error[E-GEMM-SHAPE]: T.gemm: the inner dimensions differ
   A = A: float16[128, 64]   K is its dimension 1: 64
   B = B: float16[128, 64]   K is its dimension 0: 128
  help: B is stored as [N, K]; pass transpose_B=True""",
    "T.gemm(A, B[0:64, 0:64], C[0:64, 0:64], transpose_b=True)": """
error[E-GEMM-SHAPE]: T.gemm: the product is [128, 64], but C is [64, 64]
   A = A: float16[128, 64]              M is its dimension 0: 128
   B = B[0:64, 0:64]: float16[64, 64]   N is its dimension 0: 64
   C = C[0:64, 0:64]: float32[64, 64]   [M, N]
  help: allocate C with shape (128, 64)""",
    "T.gemm(A, B[0:128, 0:32], C, transpose_b=True)": """
error[E-GEMM-SHAPE]: T.gemm: the inner dimensions differ
   A = A: float16[128, 64]                K is its dimension 1: 64
   B = B[0:128, 0:32]: float16[128, 32]   K is its dimension 1: 32
  help: give A and B tiles of one K""",
    "T.gemm(X[0:128, 0:64], B, C, transpose_b=True)": """
error[E-GEMM-SCOPE]: T.gemm: X is in global memory; gemm works on tiles on chip
   A = X[0:128, 0:64]: float16[128, 64]
  help: allocate a tile with T.alloc_shared and T.copy into it first""",
    "T.gemm(A, D, C, transpose_b=True)": """
error[E-GEMM-DTYPE]: T.gemm: A of float16 and B of float64 are not multiplied
   A = A: float16[128, 64]
   B = D: float64[128, 64]
   C = C: float32[128, 128]
   with A of float16, B may be float16
  help: give both operands one type; T.copy into a tile of another type converts""",
    'T.gemm(A, B, C, transpose_b=True, policy="Rows")': """
error[E-OP-ATTRIBUTE]: T.gemm: policy 'Rows' is not known
   allowed: Square, FullRow, FullCol
  help: pass one of the allowed values as policy""",
    "T.copy(A, C)": """
error[E-COPY-SHAPE]: T.copy: the shapes differ: [128, 64] and [128, 128], axes of extent 1 aside
   src = A: float16[128, 64]
   dst = C: float32[128, 128]
  help: pass a slice of A that has the extents 128, 128, or its first element A[…] alone""",
    "T.copy(A[0:64, 0:64], A[32:96, 0:64])": """
error[E-COPY-OVERLAP]: T.copy: src and dst are overlapping parts of A
   src = A[0:64, 0:64]: float16[64, 64]
   dst = A[32:96, 0:64]: float16[64, 64]
  help: copy through another buffer: the elements are copied in no particular order""",
    'T.reduce(A, R, kind="max", axis=0)': """
error[E-REDUCE-SHAPE]: T.reduce_max: reducing axis 0 leaves [64], but the destination is [128]
   src = A: float16[128, 64]
   dst = R: float32[128]
  help: pass dim=1""",
    'T.reduce(A, R, kind="sum", axis=2)': """
error[E-OP-AXIS]: T.reduce: A has no axis 2
   src = A: float16[128, 64]
  help: pass dim between -2 and 1""",
    'T.reduce(A, R, kind="bitor", axis=1)': """
error[E-OP-DTYPE]: T.reduce_bitor: bits of floats are not combined
   src = A: float16[128, 64]
   dst = R: float32[128]
  help: reduce integers or bools, or T.reinterpret the values as integers first""",
    'T.reduce(A, I, kind="sum", axis=1)': """
error[E-OP-DTYPE]: T.reduce_sum: float16 values do not reduce into int32
   src = A: float16[128, 64]
   dst = I: int32[128]
  help: give both floats or both integers; T.copy converts""",
    'T.reduce(A, R, kind="mean", axis=1)': """
error[E-OP-ATTRIBUTE]: T.reduce: kind 'mean' is not known
   allowed: sum, max, min, abssum, absmax, bitand, bitor, bitxor
  help: pass one of the allowed values as kind""",
    "T.fill(I, value=1.5)": """
error[E-OP-DTYPE]: T.fill: the value does not fit the elements of I
   value: 1.5 (float32)
   dst = I: int32[128]
  help: pass a value that int32 can hold""",
    'T.scan(R, I, kind="sum", axis=0)': """
error[E-OP-DTYPE]: T.scan: the operands must have one element type
   src = R: float32[128]
   dst = I: int32[128]
  help: convert one of them first; T.copy into a buffer of the other type converts""",
    'T.atomic_update(X[0:1, 0:64], R, kind="add")': """
error[E-ATOMIC-SHAPE]: T.atomic_add: value and destination differ in shape
   dst = X[0:1, 0:64]: float16[1, 64]
   value = R: float32[128]
  help: pass a slice of X that has the value's extents, or a scalar value""",
}


@pytest.mark.parametrize("statement", CASES)
def test_the_text_names_both_operands_and_the_fix(statement):
    assert message(statement) == CASES[statement].strip()


def test_the_core_ops_are_registered():
    assert set(tile_ops()) >= {"copy", "gemm", "reduce", "fill", "scan", "atomic_update"}
