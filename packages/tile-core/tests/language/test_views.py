"""Views, tensors over addresses and workspaces: the IR that they make, and what they refuse."""

import pytest

from tile_core.ir import Attr, Buffer, BufferLoad, PrimFunc, walk
from tile_core.ir.parser import parse
from tile_core.ir.structural import structural_equal

TILES = """
s = T.alloc_shared((64, 32), "float16")
v = T.alloc_var("float32")
"""


@pytest.mark.parametrize(
    ("made", "shape", "dtype"),
    [
        ("T.reshape(s, (32, 64))", "[32, 64]", "float16"),
        ("T.reshape(s, 2048)", "[2048]", "float16"),
        ("T.view(s)", "[64, 32]", "float16"),
        ("T.view(s, dtype='int32')", "[64, 16]", "int32"),
        ("T.view(s, dtype='uint8')", "[64, 64]", "uint8"),
        ("T.view(s, (8, 64), 'float64')", "[8, 64]", "float64"),
        ("T.reshape(T.view(s, dtype='int32'), (1024,))", "[1024]", "int32"),
    ],
)
def test_a_view_has_the_shape_and_type_that_it_was_asked_for(body, made, shape, dtype):
    seen = []
    body(TILES + f"w = {made}\nseen.append(w)", seen=seen)
    (view,) = seen
    assert isinstance(view, Buffer)
    assert (str(list(view.shape)), str(view.dtype), view.scope) == (shape, dtype, "shared")
    assert view.data is not None


@pytest.mark.parametrize(
    ("made", "code", "part"),
    [
        ("T.reshape(s, (32, 63))", "E-VIEW-SIZE", "of another size"),
        ("T.view(s, (64, 32), 'int32')", "E-VIEW-SIZE", "of another size"),
        ("T.reshape(s, (n, 64))", "E-VIEW-SIZE", "not known to be of its size"),
        ("T.view(A, (64, 32), strides=(33, 1))", "E-VIEW-SIZE", "of another size"),
        ("T.view(A, (64, 32), strides=(32,))", "E-SHAPE", "1 strides for 2 dimensions"),
        ("T.view(s, (64, 32), strides=(32, 1))", "E-VIEW", "device memory"),
        ("T.view(v)", "E-VIEW", "the variable v"),
        ("T.view(s[0:32, :], (1024,))", "E-VIEW", "a part of s"),
        ("T.view(s[0, 0])", "E-VIEW", "a part of s"),
        ("T.view(3)", "E-VIEW", "a int"),
        ("T.view(s, dtype='handle')", "E-VIEW-TYPE", "as handle"),
        ("T.view(T.view(A, (32, 32), strides=(64, 1)), (1024,))", "E-VIEW", "need not lie side by side"),
        ("T.make_tensor(3.5, (4,))", "E-ADDRESS", "a float"),
        ("T.make_tensor(n, (4,))", "E-ADDRESS", "which is int32"),
        ("T.make_tensor_from_addr(T.cast(n, 'int64'), (4,), strides=(1, 1))", "E-SHAPE", "2 strides for 1"),
        ("T.make_tensor_from_addr(T.cast(n, 'int64'), (4,), storage_scope='shared')", "E-ADDRESS", "storage_scope"),
        ("T.make_tensor(T.cast(n, 'int64'), (-4,))", "E-SHAPE", "-4"),
        ("T.alloc_global((bx, 4), 'float32')", "E-ALLOC-SHAPE", "before the kernel starts"),
        ("T.alloc_global((A[0, 0].astype('int32'),), 'float32')", "E-ALLOC-SHAPE", "before the kernel starts"),
        ("T.alloc_global((4,), 'float32', 'shared')", "E-ALLOC-SCOPE", "'shared'"),
    ],
)
def test_what_cannot_be_seen_so_says_why(body, message, made, code, part):
    text = message(body, TILES + f"w = {made}")
    assert f"error[{code}]" in text
    assert part in text
    assert "kernel.py" in text


def test_rows_that_are_no_whole_number_of_the_wider_type(trace, message):
    text = message(
        trace,
        """
@T.prim_func
def main(A: T.Tensor((64, 3), "float16")):
    with T.Kernel(1):
        w = T.view(A, dtype="int32")
""",
    )
    assert "error[E-VIEW-SIZE]" in text
    assert "no whole number of int32" in text


def test_a_view_does_not_outlive_what_it_shows(body, message):
    text = message(
        body,
        "for i in T.serial(2):\n    s = T.alloc_shared((4,), 'float32')\n    w = T.view(s)\n    keep.append(w)\n"
        "B[0, 0] = keep[0][0]",
        keep=[],
    )
    assert "error[E-NAME-ENDED]" in text


def test_addresses_in_memory_are_read_inside_the_kernel(trace, message):
    text = message(
        trace,
        """
@T.prim_func
def main(table: T.Tensor((4,), "int64"), B: T.Tensor((4,), "float32")):
    A = T.make_tensor(table[0], (4,))
    with T.Kernel(1):
        B[0] = A[0]
""",
    )
    assert "error[E-KERNEL-OUTSIDE]" in text


POINTER = """
@T.prim_func
def main(p: T.ptr, m: T.int32, B: T.Tensor((4,), "float32")):
    A = T.make_tensor(p, (m, 4))
    W = T.alloc_global((m,), "float32")
    with T.Kernel(1):
        W[0] = A[0, 0]
        V = T.reshape(A, (m * 4,))
        B[0] = V[1] + W[0]
"""


def test_a_tensor_over_a_pointer_is_declared_around_what_uses_it(trace):
    function = trace(POINTER)
    (attr,) = [n for n in walk(function.body) if isinstance(n, Attr)]
    assert attr.key == "address"
    assert attr.value is function.params[0]
    loads = [n.buffer for n in walk(function.body) if isinstance(n, BufferLoad)]
    assert attr.subject in loads
    assert any(b.data is attr.subject for b in loads)


def test_views_addresses_and_workspaces_are_kept_by_the_text(trace):
    function = trace(POINTER)
    again = parse(function.script())
    assert isinstance(again, PrimFunc)
    assert structural_equal(again, function)


def test_an_assumption_without_a_condition_states_nothing(body):
    assert body("T.assume()\nB[0, 0] = 0.0") == "B[0, 0] = 0.0"
