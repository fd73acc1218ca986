"""Control flow: what becomes IR, what stays Python."""

import textwrap

import pytest

import tile_core as tile
import tile_core.language as T
from tile_core.errors import CompileError


def check(found, expected):
    assert found == textwrap.dedent(expected).strip("\n")


def test_a_range_in_a_kernel_is_a_serial_loop(body):
    check(
        body("for i in range(8):\n    B[bx, i] = A[bx, i]"),
        """
        for i in T.serial(8):
            B[bx, i] = A[bx, i]
        """,
    )


def test_a_range_with_start_and_step_counts_its_trips(body):
    check(
        body("for i in range(2, n, 3):\n    B[i, 0] = 1.0"),
        """
        for i in T.serial((n - 2 + 2) // 3, min=2, step=3):
            B[i, 0] = 1.0
        """,
    )


def test_bounds_are_evaluated_once(body):
    check(
        body("x = T.alloc_var('int32', init=4)\nfor i in range(x):\n    x = 9\n    B[i, 0] = 1.0"),
        """
        x = T.alloc_buffer((1,), T.int32, scope="var")
        x[0] = 4
        bound: T.int32 = x[0]
        for i in T.serial(bound):
            x[0] = 9
            B[i, 0] = 1.0
        """,
    )


def test_a_downward_range_counts_its_trips(body):
    check(
        body("for i in range(7, -1, -1):\n    B[i, 0] = 1.0"),
        """
        for i in T.serial(8, min=7, step=-1):
            B[i, 0] = 1.0
        """,
    )


def test_a_python_iterable_unrolls_while_tracing(body):
    check(body("for k, v in enumerate([0.5, 1.5]):\n    B[k, 0] = v"), "B[0, 0] = 0.5\nB[1, 0] = 1.5")


def test_python_break_and_continue_work_in_unrolled_loops(body):
    check(
        body(
            "for k in [0, 1, 2, 3]:\n    if k == 1:\n        continue\n    if k == 3:\n        break\n    B[k, 0] = 1.0"
        ),
        "B[0, 0] = 1.0\nB[2, 0] = 1.0",
    )


def test_break_and_continue_in_a_serial_loop_are_statements(body):
    check(
        body(
            """
for i in T.serial(n):
    if A[i, 0] > 1.0:
        break
    if i == 3:
        continue
    B[i, 0] = 1.0
"""
        ),
        """
        for i in T.serial(n):
            if A[i, 0] > 1.0:
                break
            if i == 3:
                continue
            B[i, 0] = 1.0
        """,
    )


def test_an_if_on_python_values_is_decided_while_tracing(body):
    check(body("if FLAG:\n    B[0, 0] = 1.0\nelse:\n    B[0, 0] = 2.0", FLAG=False), "B[0, 0] = 2.0")


def test_an_if_on_static_shapes_is_decided_while_tracing(body):
    check(body("if A.shape[0] == 64:\n    B[0, 0] = 1.0\nelse:\n    B[0, 0] = 2.0"), "B[0, 0] = 1.0")


def test_elif_nests(body):
    check(
        body("if bx == 0:\n    B[0, 0] = 1.0\nelif bx == 1:\n    B[0, 0] = 2.0\nelse:\n    B[0, 0] = 3.0"),
        """
        if bx == 0:
            B[0, 0] = 1.0
        elif bx == 1:
            B[0, 0] = 2.0
        else:
            B[0, 0] = 3.0
        """,
    )


def test_a_number_as_condition_is_compared_with_0(body):
    check(body("if bx:\n    B[0, 0] = 1.0"), "if bx != 0:\n    B[0, 0] = 1.0")


def test_a_while_on_an_expression_is_a_loop(body):
    check(
        body("x = T.alloc_var('int32', init=0)\nwhile x < n and x != 5:\n    x += 1"),
        """
        x = T.alloc_buffer((1,), T.int32, scope="var")
        x[0] = 0
        while x[0] < n and x[0] != 5:
            x[0] = x[0] + 1
        """,
    )


def test_while_true_with_break_is_a_loop(body):
    check(
        body("while True:\n    if A[0, 0] > 1.0:\n        break"),
        """
        while True:
            if A[0, 0] > 1.0:
                break
        """,
    )


def test_a_while_on_python_values_runs_while_tracing(body):
    check(
        body("k = 4\nwhile k > 1:\n    B[k, 0] = 1.0\n    k //= 2\nB[k, 1] = 0.0"),
        "B[4, 0] = 1.0\nB[2, 0] = 1.0\nB[1, 1] = 0.0",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 <= n < 8", "0 <= n and n < 8"),
        ("n > 1 or bx > 1", "n > 1 or bx > 1"),
        ("not n > 1", "not n > 1"),
        ("True and n > 1", "n > 1"),
        ("n > 1 and 3 < 4", "n > 1"),
        ("n > 1 and bx > 2 and n < 9", "n > 1 and bx > 2 and n < 9"),
        ("(n & 1) == 0", "n & 1 == 0"),
    ],
)
def test_conditions_combine(body, text, expected):
    check(body(f"if {text}:\n    B[0, 0] = 1.0"), f"if {expected}:\n    B[0, 0] = 1.0")


def test_the_second_operand_of_and_is_not_evaluated_when_python_decides(body):
    check(
        body("if C is not None and C[0, 0] > 0.0:\n    B[0, 0] = 1.0\nelse:\n    B[0, 0] = 2.0", C=None),
        "B[0, 0] = 2.0",
    )


def test_a_ternary_on_an_expression_chooses_lazily(body):
    check(
        body("B[0, 0] = A[0, 0] if n > 2 else 0.0"),
        "B[0, 0] = T.if_then_else(n > 2, A[0, 0], 0.0)",
    )


def test_a_ternary_on_a_python_value_evaluates_one_branch(body):
    check(body("B[0, 0] = A[0, 0] if C is None else C[0]", C=None), "B[0, 0] = A[0, 0]")


def test_python_min_and_max_take_expressions(body):
    check(body("B[min(n, 3), max(1, 2)] = 1.0"), "B[T.min(n, 3), 2] = 1.0")


def test_comprehensions_run_while_tracing(body):
    check(
        body("xs = [A[0, j] for j in range(3)]\nB[0, 0] = xs[0] + xs[2]"),
        "value: T.float32 = A[0, 0]\nvalue_1: T.float32 = A[0, 1]\n"
        "value_2: T.float32 = A[0, 2]\nB[0, 0] = value + value_2",
    )


def test_static_sizes_are_python_values(body):
    text = "xs = [A[0, j] for j in range(A.shape[1] - 30)]\nB[min(A.shape[0], 3), 0] = xs[A.shape[0] - 63]"
    check(body(text), "value: T.float32 = A[0, 0]\nvalue_1: T.float32 = A[0, 1]\nB[3, 0] = value_1")


def test_an_ordinary_helper_function_builds_expressions(body):
    def twice(x):
        return x + x

    check(body("B[0, 0] = twice(A[0, 1])", twice=twice), "B[0, 0] = A[0, 1] + A[0, 1]")


def test_a_nested_function_is_traced_where_it_is_called(body):
    check(
        body(
            """
def put(k):
    if k == bx:
        B[k, 0] = 1.0
put(1)
put(2)
"""
        ),
        """
        if 1 == bx:
            B[1, 0] = 1.0
        if 2 == bx:
            B[2, 0] = 1.0
        """,
    )


def test_try_runs_as_python_and_leaves_no_open_frame(body):
    check(
        body(
            """
try:
    for i in T.serial(4):
        B[i, 0] = missing
except NameError:
    B[0, 0] = 1.0
"""
        ),
        "B[0, 0] = 1.0",
    )


def test_loops_can_be_iterated_by_plain_python(body, trace):
    helper = trace("def helper(B):\n    for i in T.serial(4):\n        B[i, 0] = 0.0\n")
    check(body("helper(B)", helper=helper), "for i in T.serial(4):\n    B[i, 0] = 0.0")


def test_match_on_python_values(body):
    check(
        body("match MODE:\n    case 'a':\n        B[0, 0] = 1.0\n    case _:\n        B[0, 0] = 2.0", MODE="a"),
        "B[0, 0] = 1.0",
    )


def test_a_thousand_statements_and_a_long_sum_trace(body):
    text = body(
        "\n".join(f"B[0, {i % 32}] = A[0, 0]" for i in range(1000)) + "\nB[0, 0] = " + " + ".join(["A[0, 1]"] * 600)
    )
    assert text.count("\n") == 1000


def test_the_indices_of_a_block_of_several_axes_are_no_number():
    with pytest.raises(CompileError, match="E-KERNEL-INDICES") as caught:
        tile.from_source(
            """@T.prim_func
def main(A: T.Tensor((4, 4), "float32")):
    with T.Kernel(4, 4, threads=32) as b:
        A[b] = 1.0
        A[b[0], b[1] * 1] = 1.0
        A[b * 2, 0] = 1.0
""",
            {"T": T},
        )
    assert list(caught.value.facts) == ["T.Kernel has 2 grid axes: bx, by"]
    assert caught.value.help == "name each: with T.Kernel(…) as (bx, by)"
    assert caught.value.span.line == 6
