"""A transposing copy whose tile hangs over the edge of a tensor by a constant clears what lies outside."""


def test_rows_outside_by_a_constant_are_cleared(lowered):
    found = lowered("""
        @T.prim_func
        def main(A: T.Buffer((8, 8), T.float32), B: T.Buffer((6, 21), T.float32), C: T.Buffer((8, 8), T.float32)):
            with T.Kernel(1) as (bx,):
                a = T.alloc_buffer((8, 8), T.float32, scope="shared")
                b = T.alloc_buffer((8, 8), T.float32, scope="shared")
                c = T.alloc_buffer((8, 8), T.float32, scope="fragment")
                T.copy(A, a)
                T.copy(B[0:8, bx * 8:bx * 8 + 8], b)
                T.gemm(a, b, c, transpose_b=True, clear_accum=True)
                T.copy(c, C)
    """)
    text = found.after["LowerTileOp"].script()
    assert "copy_transposed" in text
    lines = [line.strip() for line in found.after["ApplyLayouts"].script().splitlines()]
    assert any(line.startswith("b[") and line.endswith("= 0.0") for line in lines)
    found.check()
