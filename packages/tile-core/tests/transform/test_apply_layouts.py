"""ApplyLayouts: physical shapes and indices, and the same results."""

import pytest

from tile_core.errors import CompileError
from tile_core.ir import Block, BufferStore, walk
from tile_core.layout import row_major
from tile_core.transform import ApplyLayouts

TEXT = """
    @T.prim_func
    def main(A: T.Buffer((8, 16), T.float32), B: T.Buffer((8, 16), T.float32)):
        with T.Kernel(1) as bx:
            S = T.alloc_buffer((8, 16), T.float32, scope="shared")
            T.annotate("layouts", ((S, {layout}),))
            for i, j in T.Parallel(8, 16):
                S[i, j] = A[i, j] * 2.0
            for i, j in T.Parallel(8, 16):
                B[i, j] = S[i, 15 - j]
"""


@pytest.mark.parametrize(
    ("layout", "shape", "index"),
    [
        ("T.Layout((8, 16), lambda i, j: (j, i))", (16, 8), "[j, i]"),
        ("T.Layout((8, 16), (8, 20), lambda i, j: (i, j))", (8, 20), "[i, j]"),
        ("T.Layout((8, 16), lambda i, j: (j // 4, i, j % 4))", (4, 8, 4), "[j // 4, i, j % 4]"),
    ],
    ids=["transposed", "padded", "panels"],
)
def test_buffers_take_the_shape_of_the_image(check_pass, layout, shape, index):
    changed = check_pass(ApplyLayouts, TEXT.format(layout=layout), None, sizes=[{}])
    store = next(n for n in walk(changed.body) if isinstance(n, BufferStore))
    assert store.buffer.static_shape() == shape
    assert f"[{', '.join(map(repr, store.indices))}]" == index
    [block] = [n for n in walk(changed.body) if isinstance(n, Block)]
    assert block.annotation("layouts") == ((store.buffer, row_major(shape)),)
    assert block.allocations == (store.buffer,)


def test_row_major_tiles_stay_as_they_are(check_pass):
    text = TEXT.format(layout="T.Layout((8, 16), lambda i, j: (i, j))")
    check_pass(ApplyLayouts, text, text)


def test_a_vector_across_a_scattering_layout_is_an_error(apply):
    text = """
        @T.prim_func
        def main(A: T.Buffer((8,), T.float32)):
            with T.Kernel(1) as bx:
                S = T.alloc_buffer((8, 8), T.float32, scope="shared")
                T.annotate("layouts", ((S, T.Layout((8, 8), lambda i, j: (j, i))),))
                S[0, T.ramp(0, 1, 4)] = T.broadcast(1.0, 4)
    """
    with pytest.raises(CompileError, match="E-LAYOUT-VECTOR"):
        apply(text, ApplyLayouts)
