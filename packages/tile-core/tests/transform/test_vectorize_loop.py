"""VectorizeLoop: whole vectors, a masked rest, and scalar loops where vectors cannot be."""

import pytest

from tile_core.ir import Bind, Broadcast, BufferLoad, BufferStore, For, IRModule, Ramp, Shuffle, walk
from tile_core.target import Target
from tile_core.transform import Options, PassContext, VectorizeLoop


def kernel(body: str, params: str = "A: T.Buffer((64,), T.float32), B: T.Buffer((64,), T.float32)") -> str:
    import textwrap

    inside = textwrap.indent(textwrap.dedent(body).strip(), "        ")
    return f"@T.prim_func\ndef main({params}):\n    with T.Kernel(1) as bx:\n{inside}\n"


def stores(function):
    return [n for n in walk(function.body) if isinstance(n, BufferStore)]


def test_whole_vectors_run_in_a_serial_loop(check_pass):
    check_pass(
        VectorizeLoop,
        kernel("for i in T.vectorized(64):\n    B[i] = A[i] + 1.0"),
        kernel("for i in T.serial(16):\n    B[T.ramp(i * 4, 1, 4)] = A[T.ramp(i * 4, 1, 4)] + T.broadcast(1.0, 4)"),
        sizes=[{}],
    )


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 63, 64])
def test_any_constant_extent(check_pass, count):
    changed = check_pass(
        VectorizeLoop, kernel(f"for i in T.vectorized({count}):\n    B[i] = A[i] * A[63 - i] + T.exp(A[i])"), None
    )
    assert not any(isinstance(n, For) and n.kind == "vectorized" for n in walk(changed.body))


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 31])
def test_a_symbolic_extent_has_a_masked_rest(check_pass, count):
    text = """
        @T.prim_func
        def main(A: T.Buffer((M,), T.float32), B: T.Buffer((40,), T.float32)):
            M = T.size_var(T.int32)
            with T.Kernel(1) as bx:
                for i in T.vectorized(M):
                    B[i + 3] = A[i] * 2.0
    """
    changed = check_pass(VectorizeLoop, text, None, sizes=[{"M": count}])
    assert [s.predicate is None for s in stores(changed)] == [True, False]


def test_a_negative_extent_runs_nothing(check_pass):
    text = """
        @T.prim_func
        def main(A: T.Buffer((M,), T.float32)):
            M = T.size_var(T.int32)
            with T.Kernel(1) as bx:
                for i in T.vectorized(M - 9):
                    A[i] = 2.0
    """
    check_pass(VectorizeLoop, text, None, sizes=[{"M": 3}, {"M": 8}, {"M": 9}, {"M": 14}])


def test_lanes_follow_the_widest_element(apply):
    text = kernel(
        "for i in T.vectorized(64):\n    B[i] = T.cast(A[i], T.float32)",
        "A: T.Buffer((64,), T.float16), B: T.Buffer((64,), T.float32)",
    )
    assert stores(apply(text, VectorizeLoop, vector_bits=512))[0].indices[0].lanes == 16
    half = text.replace("T.cast(A[i], T.float32)", "A[i]").replace("T.float32", "T.float16")
    assert stores(apply(half, VectorizeLoop, vector_bits=512))[0].indices[0].lanes == 32


def test_conditions_become_masks(check_pass):
    changed = check_pass(
        VectorizeLoop,
        kernel(
            """
            for i in T.vectorized(64):
                if A[i] > 0.0:
                    B[i] = A[i]
                else:
                    B[i] = A[i] * 2.0
            """
        ),
        None,
    )
    assert [s.predicate is not None for s in stores(changed)] == [True, True]


def test_a_condition_that_its_branch_changes_stays_scalar(check_pass):
    changed = check_pass(
        VectorizeLoop,
        kernel(
            """
            for i in T.vectorized(64):
                if A[i] > 0.0:
                    A[i] = -1.0
                else:
                    B[i] = A[i] * 2.0
            """
        ),
        None,
    )
    assert all(not isinstance(s.indices[0], Ramp) for s in stores(changed))


def test_lanes_that_are_off_load_nothing(check_pass):
    changed = check_pass(
        VectorizeLoop,
        kernel("for i in T.vectorized(64):\n    B[i] = T.if_then_else(i < 30, A[i + 34], 0.0)"),
        None,
    )
    [load] = [n for n in walk(changed.body) if isinstance(n, BufferLoad)]
    assert load.predicate is not None
    check_pass(
        VectorizeLoop,
        kernel("for i in T.vectorized(64):\n    B[i] = T.if_then_else(i < 30 and A[i + 34] > 0.0, 1.0, 2.0)"),
        None,
    )


def test_a_divisor_of_lanes_that_are_off_is_one(check_pass):
    check_pass(
        VectorizeLoop,
        kernel(
            "for i in T.vectorized(64):\n    B[i] = T.if_then_else(A[i] != 0, 100 // A[i], 0)",
            "A: T.Buffer((64,), T.int32), B: T.Buffer((64,), T.int32)",
        ),
        None,
    )


def test_strided_and_indirect_accesses(check_pass):
    check_pass(
        VectorizeLoop,
        kernel("for i in T.vectorized(20):\n    B[i * 3] = A[63 - i * 2] + A[i // 4] + A[i % 7]"),
        None,
    )


def test_a_load_that_all_lanes_share_is_loaded_once(apply):
    changed = apply(kernel("for i in T.vectorized(64):\n    B[i] = A[bx]"), VectorizeLoop)
    [store] = stores(changed)
    assert isinstance(store.value, Broadcast)


def test_inner_serial_loops_with_common_bounds_run_on_vectors(check_pass):
    changed = check_pass(
        VectorizeLoop,
        kernel(
            """
            for i in T.vectorized(60):
                B[i] = 0.0
                for k in T.serial(4):
                    B[i] = B[i] + A[i + k]
            """
        ),
        None,
    )
    assert all(isinstance(s.indices[0], Ramp) for s in stores(changed))


@pytest.mark.parametrize(
    "body",
    [
        "for i in T.vectorized(64):\n    B[0] = B[0] + A[i]",
        "for i in T.vectorized(8):\n    for k in T.serial(i):\n        B[i] = B[i] + A[k]",
        "for i in T.vectorized(8):\n    while B[i] < 3.0:\n        B[i] = B[i] + 1.0",
    ],
    ids=["shared store", "bounds by lane", "while"],
)
def test_what_cannot_be_a_vector_becomes_a_serial_loop(check_pass, body):
    changed = check_pass(VectorizeLoop, kernel(body), None)
    assert all(not isinstance(s.indices[0], Ramp) for s in stores(changed))


def test_bound_values_become_vectors(check_pass):
    check_pass(
        VectorizeLoop,
        kernel(
            """
            for i in T.vectorized(50):
                x: T.float32 = A[i] * 2.0
                B[i] = x + x
            """
        ),
        None,
    )


def test_the_option_keeps_every_loop_scalar(apply):
    text = kernel("for i in T.vectorized(64):\n    B[i] = A[i] + 1.0")
    changed = apply(text, VectorizeLoop, options=Options({"tirx.disable_vectorize": True}))
    assert all(not isinstance(s.indices[0], Ramp) for s in stores(changed))


def test_sums_of_thousands_of_terms(apply):
    function = apply(kernel("for i in T.vectorized(64):\n    B[i] = A[i]"))
    [loop] = [n for n in walk(function.body) if isinstance(n, For)]
    value = loop.body.value
    for term in range(3000):
        value = value + float(term)
    body = function.body.with_(body=loop.with_(body=loop.body.with_(value=value)))
    context = PassContext(Target("cpu", {"vector_bits": 128}))
    changed = VectorizeLoop().apply(IRModule((function.with_(body=body),)), context)
    [store] = stores(changed.functions[0])
    assert store.value.dtype == "float32x4"


def test_what_all_lanes_share_is_loaded_before_the_loop(check_pass):
    check_pass(
        VectorizeLoop,
        kernel("for i in T.vectorized(64):\n    B[i] = A[i] * A[bx + 3]"),
        kernel(
            "A_1: T.float32 = A[bx + 3]\n"
            "for i in T.serial(16):\n"
            "    B[T.ramp(i * 4, 1, 4)] = A[T.ramp(i * 4, 1, 4)] * T.broadcast(A_1, 4)"
        ),
        sizes=[{}],
    )


@pytest.mark.parametrize(
    "body",
    [
        "for i in T.vectorized(64):\n    A[i] = A[i] * A[3]",
        "for i in T.vectorized(64):\n    B[i] = T.if_then_else(A[i] > 0.0, A[bx + 70], 1.0)",
    ],
    ids=["the loop stores there", "only under a condition"],
)
def test_a_load_that_may_differ_or_fail_stays_in_the_loop(apply, body):
    changed = apply(kernel(body), VectorizeLoop)
    assert not any(isinstance(n, Bind) for n in walk(changed.body))


def _loaded(changed):
    return [n.indices[0] for n in walk(changed.body) if isinstance(n, BufferLoad)]


@pytest.mark.parametrize("index", ["i ^ 4", "i ^ 36", "i | 32", "i & 3", "i & 35", "(i ^ 8) + 0"])
def test_bits_above_the_lanes_leave_a_plain_load(check_pass, index):
    changed = check_pass(VectorizeLoop, kernel(f"for i in T.vectorized(64):\n    B[i] = A[{index}]"), None)
    assert all(isinstance(i, Ramp) for i in _loaded(changed))


@pytest.mark.parametrize("index", ["i ^ 1", "i ^ 7", "63 - (i ^ 2)", "(i ^ 3) - 0", "(i ^ 2) ^ 1"])
def test_lanes_that_change_places_are_one_load_and_a_permutation(check_pass, index):
    changed = check_pass(VectorizeLoop, kernel(f"for i in T.vectorized(64):\n    B[i] = A[{index}]"), None)
    assert all(isinstance(i, Ramp) for i in _loaded(changed))
    assert any(isinstance(n, Shuffle) for n in walk(changed.body))


@pytest.mark.parametrize("index", ["i ^ 1", "i ^ 4"])
def test_a_rest_is_permuted_only_where_all_its_lanes_are_there(check_pass, index):
    text = kernel(f"for i in T.vectorized(6):\n    B[i] = A[{index}]")
    changed = check_pass(VectorizeLoop, text, None)
    assert any(isinstance(n, BufferLoad) and n.predicate is not None for n in walk(changed.body))


def test_lanes_that_fall_together_are_gathered(check_pass):
    for index in ("i & 2", "i | 1", "(i + 1) ^ 1"):
        changed = check_pass(VectorizeLoop, kernel(f"for i in T.vectorized(48):\n    B[i] = A[{index}]"), None)
        assert not any(isinstance(i, Ramp) for i in _loaded(changed)), index


def test_a_name_for_an_index_does_not_hide_neighbours(check_pass):
    text = kernel("for i in T.vectorized(64):\n    at: T.int32 = i + 0 * bx\n    B[at] = A[at] + A[63 - at]")
    changed = check_pass(VectorizeLoop, text, None)
    assert all(isinstance(i, Ramp) for i in _loaded(changed))
    # What reads memory keeps its name: it is read once, before what is stored after it.
    number = "at: T.int32 = T.cast(A[0], T.int32) + i"
    text = kernel(f"for i in T.vectorized(64):\n    {number}\n    B[i] = T.cast(at, T.float32)")
    assert any(isinstance(n, Bind) for n in walk(check_pass(VectorizeLoop, text, None).body))
