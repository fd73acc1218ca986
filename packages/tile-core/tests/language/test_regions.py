"""What `A[…]` and the operands of tile ops mean: elements, slices, tiles that begin at an element."""

import textwrap

import pytest

import tile_core.language as T
from tile_core.ir import BufferRegion, IntImm, TileOpStmt, walk


def check(found, expected):
    assert found == textwrap.dedent(expected).strip("\n")


def copies(function):
    return [node.op for node in walk(function) if isinstance(node, TileOpStmt)]


@pytest.mark.parametrize(
    ("src", "printed"),
    [
        ("A[bx * 16, 0]", "A[bx * 16:bx * 16 + 16, 0:32]"),
        ("A[bx * 16 : bx * 16 + 16, 0:32]", "A[bx * 16:bx * 16 + 16, 0:32]"),
        ("A[bx * 16 : (bx + 1) * 16, :]", "A[bx * 16:bx * 16 + 16, 0:32]"),
        ("A[16 * bx : 16 + 16 * bx, ...]", "A[16 * bx:16 * bx + 16, 0:32]"),
        ("A[8:24]", "A[8:24, 0:32]"),
        ("A[-16:]", "A[48:64, 0:32]"),
        ("A[:16, :32]", "A[0:16, 0:32]"),
        ("A[n : n + 16, 0:32]", "A[n:n + 16, 0:32]"),
    ],
)
def test_a_tile_of_a_tensor(body, src, printed):
    text = body(f"t = T.alloc_shared((16, 32), 'float32')\nT.copy({src}, t)\nT.copy(t, {src.replace('A', 'B')})")
    assert f"T.copy({printed}, t)\n" in text
    assert text.endswith(f"T.copy(t, {printed.replace('A', 'B')})")


def test_bounds_are_looked_at_through_names(body):
    text = body("row = bx * 16\nend = row + 16\nt = T.alloc_shared((16, 32), 'float32')\nT.copy(A[row:end, :], t)")
    assert "T.copy(A[row:row + 16, 0:32], t)" in text


def test_extents_of_symbolic_terms_cancel(body):
    text = body("k = n // 3\nt = T.alloc_shared((16, 32), 'float32')\nT.copy(A[n // 3 * 2 + 1 : k * 2 + 17, :], t)")
    assert "+ 16, 0:32], t)" in text


def test_an_element_of_a_larger_rank_takes_the_last_axes(trace):
    function = trace("""
@T.prim_func
def main(Q: T.Tensor((2, 4, 64, 32), "float16")):
    with T.Kernel(2, 4) as (bz, by):
        t = T.alloc_shared((16, 32), "float16")
        T.copy(Q[bz, by, 16, 0], t)
        T.copy(Q[bz, by, 0:16, :], t)
""")
    first, second = copies(function)
    for region in (first.src, second.src):
        assert region.squeezed == (True, True, False, False)
        assert [e.value for e in region.tile_extents()] == [16, 32]


def test_unit_axes_do_not_count(body):
    text = body(
        "t = T.alloc_shared((1, 32), 'float32')\nT.copy(A[3, :], t)\nT.copy(A[4:5, 0:32], t)\nT.copy(A[5, 0], t)"
    )
    assert "T.copy(A[3, 0:32], t)\nT.copy(A[4:5, 0:32], t)\nT.copy(A[5:6, 0:32], t)" in text


def test_a_tile_that_begins_at_an_element_on_chip(body):
    text = body("t = T.alloc_shared((64, 64), 'float32')\nT.copy(A, t[0, 32])")
    assert "T.copy(A, t[0:64, 32:64])" in text


def test_an_index_may_be_a_variable_a_bool_or_a_numpy_integer(body):
    class Index:
        def __index__(self):
            return 3

    text = body("i = T.alloc_var('int32', init=1)\nB[i, bx == 1] = A[K, 0]", K=Index())
    assert "B[i[0], T.cast(bx == 1, T.int32)] = A[3, 0]" in text


def test_shapes_are_constants_while_tracing(body):
    assert body("h = A.shape[0] // 2\nB[h, A.shape[1] - 1] = 0.0") == "B[32, 31] = 0.0"


def test_regions_know_that_their_extents_are_static(trace):
    function = trace("""
@T.prim_func
def main(A: T.Tensor((T.dynamic("m"), 32), "float16")):
    with T.Kernel(T.ceildiv(A.shape[0], 16)) as bx:
        t = T.alloc_shared((16, 32), "float16")
        T.copy(A[bx * 16, 0], t)
        T.copy(t, A[bx * 16 : bx * 16 + 16, :])
""")
    for op in copies(function):
        for region in (op.src, op.dst):
            assert isinstance(region, BufferRegion)
            assert all(isinstance(e, IntImm) for e in region.extents)


def test_symbolic_tensors_are_copied_whole(trace):
    function = trace("""
m = T.dynamic("m")
@T.prim_func
def main(A: T.Tensor((m, 32), "float16"), B: T.Tensor((m, 32), "float16")):
    with T.Kernel(1) as bx:
        T.copy(A, B)
""")
    assert "T.copy(A, B)" in function.script()


def test_a_buffer_cannot_be_iterated_by_plain_python():
    from tile_core.ir import Buffer, IntImm

    with pytest.raises(TypeError):
        iter(Buffer("A", (IntImm(4),), T.float32))
