"""Names: bound once, or memory; what holds after loops and branches."""

import textwrap


def check(found, expected):
    assert found == textwrap.dedent(expected).strip("\n")


def test_an_assignment_binds_the_value_at_that_time(body):
    check(
        body("x = A[0, 0] + 1.0\nA[0, 0] = 5.0\nB[0, 0] = x"),
        "x: T.float32 = A[0, 0] + 1.0\nA[0, 0] = 5.0\nB[0, 0] = x",
    )


def test_binding_a_name_again_makes_a_new_value(body):
    check(
        body("x = A[0, 0]\ny = x\nx = x * 2.0\nB[0, 0] = x + y"),
        "x: T.float32 = A[0, 0]\nx_1: T.float32 = x * 2.0\nB[0, 0] = x_1 + x",
    )


def test_python_values_are_not_bound(body):
    check(body("k = 3\nk += 1\nB[k, 0] = float(k)"), "B[4, 0] = 4.0")


def test_assigning_to_a_variable_stores(body):
    check(
        body("x = T.alloc_var('int32')\nx = n + 1\nx -= 2\ny = x\nx = 0\nB[y, x] = 1.0"),
        """
        x = T.alloc_buffer((1,), T.int32, scope="var")
        x[0] = n + 1
        x[0] = x[0] - 2
        y: T.int32 = x[0]
        x[0] = 0
        B[y, x[0]] = 1.0
        """,
    )


def test_a_variable_is_also_indexed_with_0(body):
    check(
        body("x = T.alloc_var('float32', init=1.0)\nx[0] += A[0, 0]\nB[0, 0] = x[0]"),
        """
        x = T.alloc_buffer((1,), T.float32, scope="var")
        x[0] = 1.0
        x[0] = x[0] + A[0, 0]
        B[0, 0] = x[0]
        """,
    )


def test_elements_swap_with_the_old_values(body):
    check(
        body("B[0, 0], B[0, 1] = B[0, 1], B[0, 0]"),
        "value: T.float32 = B[0, 1]\nvalue_1: T.float32 = B[0, 0]\nB[0, 0] = value\nB[0, 1] = value_1",
    )


def test_variables_swap_with_the_old_values(body):
    check(
        body("x, y = T.alloc_var('int32', 1), T.alloc_var('int32', 2)\nx, y = y, x"),
        """
        x = T.alloc_buffer((1,), T.int32, scope="var")
        y = T.alloc_buffer((1,), T.int32, scope="var")
        x[0] = 1
        y[0] = 2
        x_1: T.int32 = y[0]
        y_1: T.int32 = x[0]
        x[0] = x_1
        y[0] = y_1
        """,
    )


def test_names_swap_without_a_copy(body):
    check(
        body("x = A[0, 0]\ny = A[0, 1]\nx, y = y, x\nB[0, 0] = x - y"),
        "x: T.float32 = A[0, 0]\ny: T.float32 = A[0, 1]\nB[0, 0] = y - x",
    )


def test_chained_assignment_evaluates_once(body):
    check(body("x = y = A[0, 0]\nB[0, 0] = x + y"), "x: T.float32 = A[0, 0]\nB[0, 0] = x + x")


def test_an_annotation_converts(body):
    check(
        body("x: T.float16 = A[0, 0]\nB[0, 0] = x"),
        "x: T.float16 = T.cast(A[0, 0], T.float16)\nB[0, 0] = T.cast(x, T.float32)",
    )


def test_buffers_take_the_names_that_they_are_assigned_to(body):
    assert "tile = T.alloc_buffer" in body("tile = T.alloc_shared((4, 4), 'float32')\nT.clear(tile)")
    text = body("p, q = T.alloc_shared((4,), 'float32'), T.alloc_local((2,), 'int32')\nT.clear(p)\nT.clear(q)")
    assert "p = T.alloc_buffer" in text and "q = T.alloc_buffer" in text


def test_a_name_that_a_branch_did_not_change_keeps_its_value(body):
    check(
        body("k = 1\nif bx == 0:\n    if FLAG:\n        k = 2\n    B[k, 0] = 1.0\nB[k, 1] = 1.0", FLAG=False),
        "if bx == 0:\n    B[1, 0] = 1.0\nB[1, 1] = 1.0",
    )


def test_the_else_branch_sees_the_value_from_before(body):
    check(
        body("k = 1\nif bx == 0:\n    k = 2\n    B[k, 0] = 1.0\nelse:\n    B[k, 1] = 1.0"),
        "if bx == 0:\n    B[2, 0] = 1.0\nelse:\n    B[1, 1] = 1.0",
    )


def test_a_name_may_be_used_again_in_the_next_loop(body):
    check(
        body(
            "for i in range(2):\n    x = A[i, 0]\n    B[i, 0] = x\nfor i in range(3):\n    x = A[i, 1]\n    B[i, 1] = x"
        ),
        """
        for i in T.serial(2):
            x: T.float32 = A[i, 0]
            B[i, 0] = x
        for i_1 in T.serial(3):
            x_1: T.float32 = A[i_1, 1]
            B[i_1, 1] = x_1
        """,
    )


def test_a_variable_changed_in_a_branch_keeps_its_meaning_after(body):
    check(
        body("x = T.alloc_var('int32', init=0)\nif bx == 1:\n    x = 1\nB[x, 0] = 1.0"),
        """
        x = T.alloc_buffer((1,), T.int32, scope="var")
        x[0] = 0
        if bx == 1:
            x[0] = 1
        B[x[0], 0] = 1.0
        """,
    )


def test_a_list_element_keeps_the_value_at_that_time(body):
    check(
        body("xs = [0]\nxs[0] = A[0, 0]\nA[0, 0] = 1.0\nB[0, 0] = xs[0]"),
        "value: T.float32 = A[0, 0]\nA[0, 0] = 1.0\nB[0, 0] = value",
    )


def test_python_containers_and_parameters_hold_values(body):
    check(
        body("xs = []\nxs.append(A[0, 0] + 1.0)\nA[0, 0] = 2.0\nB[0, 0] = xs[0]"),
        "value: T.float32 = A[0, 0] + 1.0\nA[0, 0] = 2.0\nB[0, 0] = value",
    )
    check(
        body("pair = (A[0, 0], 1)\nA[0, 0] = 2.0\nB[0, 0] = pair[0]"),
        "pair: T.float32 = A[0, 0]\nA[0, 0] = 2.0\nB[0, 0] = pair",
    )
    check(
        body("d = {'x': A[0, 0]}\nA[0, 0] = 2.0\nB[0, 0] = d['x']"),
        "value: T.float32 = A[0, 0]\nA[0, 0] = 2.0\nB[0, 0] = value",
    )
    check(
        body("def put(v):\n    A[0, 0] = 2.0\n    B[0, 0] = v\nput(A[0, 0])"),
        "v: T.float32 = A[0, 0]\nA[0, 0] = 2.0\nB[0, 0] = v",
    )


def test_an_index_that_the_op_overwrites_is_evaluated_before(body):
    text = body(
        "s = T.alloc_shared((4,), 'int32')\nt = T.alloc_local((2,), 'int32')\nT.fill(s, 0)\nT.atomic_add(s[s[0]], t)"
    )
    assert text.endswith("index: T.int32 = s[0]\nT.atomic_update(s[index:index + 2], t)")


def test_an_allocation_in_a_loop_belongs_to_its_body(body):
    check(
        body("for i in range(4):\n    t = T.alloc_local((2,), 'float32')\n    t[0] = A[i, 0]\n    B[i, 0] = t[0]"),
        """
        for i in T.serial(4):
            t = T.alloc_buffer((2,), T.float32, scope="local")
            t[0] = A[i, 0]
            B[i, 0] = t[0]
        """,
    )
