"""What copies refuse."""

import pytest

TILES = """
s = T.alloc_shared((16, 32), "float32")
t = T.alloc_shared((32, 16), "float32")
f = T.alloc_fragment((16, 32), "float32")
g = T.alloc_shared((16, 32), "float16")
"""


@pytest.mark.parametrize(
    ("statement", "code", "part"),
    [
        ("T.im2col(A, s, 0, 0, 3, 1, 1, 1)", "E-IM2COL", "no tensor (N, H, W, C)"),
        ("T.im2col(s, s, 0, 0, 3, 1, 1, 1)", "E-IM2COL", "no tensor (N, H, W, C)"),
        ("T.im2col(I, A, 0, 0, 3, 1, 1, 1)", "E-IM2COL", "on chip"),
        ("T.im2col(I, s[0, :], 0, 0, 3, 1, 1, 1)", "E-IM2COL", "no tile (rows, columns)"),
        ("T.im2col(I, s, 0, 0, 0, 1, 1, 1)", "E-IM2COL", "kernel=0"),
        ("T.im2col(I, s, 0, 0, 3, n, 1, 1)", "E-IM2COL", "stride="),
        ("T.im2col(I, s, 0, 0, 3, 1, 1, -1)", "E-IM2COL", "pad=-1"),
        ("T.im2col(I, s, 0.5, 0, 3, 1, 1, 1)", "E-LOOP-BOUND", "nhw_step"),
        ("T.im2col(I, s, 0, 0, 3, 1, 1, 1, eviction_policy='never')", "E-OPERAND-OPTION", "'never'"),
        ("T.c2d_im2col(A, s, 0, 0, 3, 1, 1, 1)", "E-IM2COL", "T.im2col"),
        ("T.transpose(s, s)", "E-TRANSPOSE", "not each other's"),
        ("T.transpose(s[:, 0:16], s[:, 16:32])", "E-TRANSPOSE", "reads and writes s"),
        ("T.transpose(s, T.reshape(s, (32, 16)))", "E-TRANSPOSE", "reads and writes s"),
        ("T.transpose(s[0, :], t)", "E-TRANSPOSE", "not each other's"),
        ("T.copy(T.reshape(s, (32, 16)), T.reshape(s, (2, 16, 16)))", "E-COPY-SHAPE", "shapes differ"),
        ("T.copy(T.reshape(s, (512,)), T.view(s, (512,)))", "E-COPY-OVERLAP", "overlapping"),
        ("T.async_copy(s, t)", "E-ASYNC", "global to shared"),
        ("T.async_copy(A[0:16, :], f)", "E-ASYNC", "global to shared"),
        ("T.async_copy(A[0:16, :], s, coalesced_width=0)", "E-OPERAND-OPTION", "coalesced_width=0"),
        ("T.ptx_cp_async(s, A, 4)", "E-ASYNC", "two pointers"),
        ("T.ptx_cp_async(T.address_of(A[0, 0]), T.address_of(s[0, 0]), 4)", "E-ASYNC", "global to shared"),
        ("T.ptx_cp_async(T.address_of(g[0, 0]), T.address_of(A[0, 0]), 4)", "E-ASYNC", "one type"),
        ("T.ptx_cp_async(T.address_of(s[0, 0]), T.address_of(A[0, 0]), 3)", "E-ASYNC", "1 or 2 or 4 elements"),
        ("T.ptx_cp_async(T.address_of(s[0, 0]), T.address_of(A[0, 0]), n)", "E-ASYNC", "num_elems="),
        ("T.copy(A[0:16, :], s, loop_layout=3)", "E-OPERAND-OPTION", "loop_layout=3"),
        ("T.copy(A[0:16, :], s, loop_layout=T.Fragment((16, 16), lambda i, j: (i, j)))", "E-OPERAND-OPTION", "not fit"),
        (
            "for i in T.Parallel(64, loop_layout=T.Fragment((64,), lambda i: (i, 0))):\n    I[0, 0, 0, 0] = 1.0",
            "E-OPERAND-OPTION",
            "threads of a block: 32",
        ),
        ("T.ptx_wait_group(n)", "E-ASYNC", "T.ptx_wait_group"),
        ("T.ptx_wait_group(-1)", "E-ASYNC", "-1"),
    ],
)
def test_what_a_copy_refuses(trace, message, statement, code, part):
    lines = "".join(f"        {line}\n" for line in (TILES + statement).strip().split("\n"))
    text = message(
        trace,
        "@T.prim_func\n"
        'def main(A: T.Tensor((64, 32), "float32"), I: T.Tensor((1, 8, 8, 4), "float32"), n: T.int32):\n'
        f"    with T.Kernel(4, threads=32) as bx:\n{lines}",
    )
    assert f"error[{code}]" in text
    assert part in text
    assert "kernel.py" in text
