"""Macros: inlined, with names of their own and the caller's place behind theirs."""

import textwrap

import pytest

from tile_core.ir import BufferStore, walk


def check(found, expected):
    assert found == textwrap.dedent(expected).strip("\n")


def test_a_macro_is_inlined(trace, body):
    put = trace("@T.macro\ndef put(X, i, value):\n    X[i, 0] = value\n")
    check(
        body("put(B, bx, 1.0)\nput(B, 3, A[0, 0])", put=put),
        "B[bx, 0] = 1.0\nvalue: T.float32 = A[0, 0]\nB[3, 0] = value",
    )


def test_an_argument_is_evaluated_once_before_the_body(trace, body):
    twice = trace("@T.macro\ndef twice(X, v):\n    X[0, 0] = 0.0\n    X[0, 1] = v + v\n")
    check(
        body("twice(B, B[0, 0] * 2.0)", twice=twice),
        "v: T.float32 = B[0, 0] * 2.0\nB[0, 0] = 0.0\nB[0, 1] = v + v",
    )


def test_a_reference_stores_to_the_callers_variable_and_element(trace, body):
    add = trace("@T.macro\ndef add(x: T.Ref, v):\n    x += v\n")
    check(
        body("s = T.alloc_var('float32', init=0.0)\nadd(s, 1.0)\nadd(B[bx, 2], s)", add=add),
        """
        s = T.alloc_buffer((1,), T.float32, scope="var")
        s[0] = 0.0
        s[0] = s[0] + 1.0
        v: T.float32 = s[0]
        B[bx, 2] = B[bx, 2] + v
        """,
    )


def test_a_variable_is_passed_by_value_without_ref(trace, body):
    change = trace("@T.macro\ndef change(x):\n    x = x + 1\n    return x\n")
    check(
        body("s = T.alloc_var('int32', init=0)\ny = change(s)\nB[y, s] = 1.0", change=change),
        """
        s = T.alloc_buffer((1,), T.int32, scope="var")
        s[0] = 0
        x: T.int32 = s[0]
        x_1: T.int32 = x + 1
        B[x_1, s[0]] = 1.0
        """,
    )


def test_what_a_macro_returns_is_read_before_it_ends(trace, body):
    bump = trace("@T.macro\ndef bump(x: T.Ref):\n    x += 1.0\n    return x\n")
    check(
        body("s = T.alloc_var('float32', init=0.0)\nB[0, 0] = bump(s) + bump(s)", bump=bump),
        """
        s = T.alloc_buffer((1,), T.float32, scope="var")
        s[0] = 0.0
        s[0] = s[0] + 1.0
        result: T.float32 = s[0]
        s[0] = s[0] + 1.0
        result_1: T.float32 = s[0]
        B[0, 0] = result + result_1
        """,
    )


def test_names_in_a_macro_are_its_own(trace, body):
    inner = trace("@T.macro\ndef inner(X):\n    t = X[0, 0]\n    X[0, 1] = t\n")
    check(
        body("t = A[5, 5]\ninner(B)\nB[1, 1] = t", inner=inner),
        "t: T.float32 = A[5, 5]\nt_1: T.float32 = B[0, 0]\nB[0, 1] = t_1\nB[1, 1] = t",
    )


def test_a_macro_may_be_nested_in_the_kernel_and_use_its_names(body):
    check(
        body("@T.macro\ndef put(i):\n    B[i, 0] = scale\nscale = A[0, 0]\nput(1)"),
        "scale: T.float32 = A[0, 0]\nB[1, 0] = scale",
    )


def test_a_macro_may_be_a_method(trace, body):
    make = trace("""
class Helper:
    def __init__(self, k):
        self.k = k

    @T.macro
    def put(self, X):
        X[self.k, 0] = 1.0
""")
    check(body("h.put(B)", h=make(7)), "B[7, 0] = 1.0")


def test_a_macro_calls_itself_under_a_python_condition(trace, body):
    fill = trace("@T.macro\ndef fill(X, k):\n    X[k, 0] = 0.0\n    if k > 0:\n        fill(X, k - 1)\n")
    check(body("fill(B, 2)", fill=fill), "B[2, 0] = 0.0\nB[1, 0] = 0.0\nB[0, 0] = 0.0")


def test_a_statement_knows_both_places(trace):
    put = trace("@T.macro\ndef put(X, i):\n    X[i, 0] = 1.0\n")
    function = trace(
        "@T.prim_func\ndef main(B: T.Tensor((4, 4), 'float32')):\n    with T.Kernel(4) as bx:\n        put(B, bx)\n",
        put=put,
    )
    store = next(node for node in walk(function) if isinstance(node, BufferStore))
    assert (store.span.line, store.span.caller.line) == (3, 4)


def test_a_macro_that_never_ends_is_refused(trace, body, message):
    forever = trace("@T.macro\ndef forever(X):\n    forever(X)\n")
    assert "E-MACRO-RECURSION" in message(body, "forever(B)", forever=forever)


@pytest.mark.parametrize("argument", ["1.0", "B", "n + 1"])
def test_a_reference_needs_memory(trace, body, message, argument):
    add = trace("@T.macro\ndef add(x: T.Ref):\n    x += 1.0\n")
    assert "E-MACRO-REF" in message(body, f"add({argument})", add=add)


def test_an_error_shows_the_place_in_the_macro_and_the_calls_that_led_there(trace, body, message):
    macros = trace("""
@T.macro
def inner(tile):
    T.copy(tile, 3)

@T.macro
def outer(tile):
    x = 1
    inner(tile)
""")
    text = message(body, "outer(A)", outer=macros)
    assert "T.copy(tile, 3)" in text
    assert text.count("called from kernel.py:") == 2
