"""Each statement of the language and the IR that it makes."""

import textwrap

import pytest

from tile_core.errors import CompileError
from tile_core.ir import For, IntImm, KernelLaunch, walk


def check(found, expected):
    assert found == textwrap.dedent(expected).strip("\n")


TILES = """
a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
c = T.alloc_fragment((64, 64), "float32")
r = T.alloc_fragment((64,), "float32")
s = T.alloc_shared((64,), "int32")
t = T.alloc_shared((64, 8), "int32")
v = T.alloc_var("float32")
"""


@pytest.mark.parametrize(
    ("statement", "printed"),
    [
        ("T.gemm(a, b, c)", "T.gemm(a, b, c)"),
        ("T.gemm(a, b, c, clear_accum=True)", "T.gemm(a, b, c, clear_accum=True)"),
        ("T.gemm(b, a, c, True, True)", "T.gemm(b, a, c, transpose_a=True, transpose_b=True)"),
        (
            "T.gemm(a, b, c, policy=T.GemmWarpPolicy.FullCol)",
            'T.gemm(a, b, c, policy="FullCol")',
        ),
        ("T.gemm(a[0:64, 0:16], b[0:16, :], c)", "T.gemm(a[0:64, 0:16], b[0:16, 0:64], c)"),
        ("T.gemm_sp(a[:, 0:16], t[:, 0:1], b, c)", "T.gemm_sp(a[0:64, 0:16], t[0:64, 0:1], b, c)"),
        (
            "T.gemm_sp(a, t[:, 0:2], a, c[:, 0:32], False, False, False, 'FullRow', True, wg_wait=-1)",
            'T.gemm_sp(a, t[0:64, 0:2], a, c[0:64, 0:32], policy="FullRow", clear_accum=True)',
        ),
        ("T.fill(c, 1)", "T.fill(c, value=1.0)"),
        ("T.fill(c[0:8, :], v)", "T.fill(c[0:8, 0:64], value=v[0])"),
        ("T.fill(c, c[0, 0] + 1.0)", "value: T.float32 = c[0, 0] + 1.0\nT.fill(c, value=value)"),
        ("T.fill(c, -T.infinity('float32'))", 'T.fill(c, value=T.float32("-inf"))'),
        ("T.clear(c)", "T.fill(c, value=0.0)"),
        ("T.clear(s)", "T.fill(s, value=0)"),
        ("T.clear(v)", "v[0] = 0.0"),
        ("T.reduce_sum(c, r)", 'T.reduce(c, r, kind="sum", axis=1)'),
        ("T.reduce_max(c, r, dim=0, clear=False)", 'T.reduce(c, r, kind="max", axis=0, clear=False)'),
        ("T.reduce_min(c, r, -2)", 'T.reduce(c, r, kind="min", axis=0)'),
        (
            "T.reduce_absmax(c, r, nan_propagate=True)",
            'T.reduce(c, r, kind="absmax", axis=1, nan_propagate=True)',
        ),
        ("T.reduce_abssum(c, r, batch=2)", 'T.reduce(c, r, kind="abssum", axis=1, annotations=(("batch", 2),))'),
        ("T.reduce_bitand(t, s)", 'T.reduce(t, s, kind="bitand", axis=1)'),
        ("T.reduce_bitor(t, s)", 'T.reduce(t, s, kind="bitor", axis=1)'),
        ("T.reduce_bitxor(t, s)", 'T.reduce(t, s, kind="bitxor", axis=1)'),
        ("T.reduce(c, r, 'max', 1, True)", 'T.reduce(c, r, kind="max", axis=1)'),
        ("T.cumsum(c)", 'T.scan(c, c, kind="sum", axis=0)'),
        ("T.cummax(c, dim=-1, reverse=True)", 'T.scan(c, c, kind="max", axis=1, reverse=True)'),
        ("T.atomic_add(B[0, 0], 1.0)", 'T.atomic_add(T.access_ptr(B[0, 0], "rw", 1), 1.0, "relaxed")'),
        ("T.atomic_max(B[0:8, 0:8], c[0:8, 0:8])", 'T.atomic_update(B[0:8, 0:8], c[0:8, 0:8], kind="max")'),
        ("T.atomic_min(B[0, 0], r[0:8])", 'T.atomic_update(B[0, 0:8], r[0:8], kind="min")'),
        (
            "T.copy(A, c[:, 0:32], coalesced_width=4, eviction_policy='evict_first')",
            'T.copy(A, c[0:64, 0:32], annotations=(("coalesced_width", 4), ("eviction_policy", "evict_first")))',
        ),
        ("T.copy(A, c[:, 0:32], disable_tma=True)", 'T.copy(A, c[0:64, 0:32], annotations=(("disable_tma", True),))'),
        ("T.sync_threads()", "T.sync_threads()"),
        (
            "T.call_extern('void', 'f', T.access_ptr(s, 'w'), 3)",
            'T.call_extern("f", T.access_ptr(s[0], "w", 64), 3, dtype=T.void)',
        ),
        (
            "B[0, 0] = T.call_extern('float32', 'g', T.access_ptr(A[1, 2], 1, 4, 2, offset=3))",
            'B[0, 0] = T.call_extern("g", T.access_ptr(A[1, 5], "r", 8), dtype=T.float32)',
        ),
        (
            "T.call_extern('void', 'h', T.address_of(t[63, 2]))",
            'T.call_extern("h", T.access_ptr(t[63, 2], "rw", 6), dtype=T.void)',
        ),
        ("B[T.get_thread_binding(), T.get_thread_extent()] = 0.0", "B[tx, 32] = 0.0"),
        ("B[T.get_block_binding(0), T.get_block_extent(0)] = 0.0", "B[bx, 4] = 0.0"),
    ],
)
def test_a_statement(body, statement, printed):
    text = body(TILES + statement)
    assert text.split("\n", 7)[-1] == printed


def test_unfinished_products_are_counted_in_numbers(body):
    call = "T.gemm_sp(a[:, 0:16], t[:, 0:1], b, c, wg_wait=None)"
    with pytest.raises(CompileError, match=r"\[E-OPERAND-OPTION\]: T.gemm_sp: wg_wait must be a number, got None"):
        body(TILES + call)


@pytest.mark.parametrize(
    ("loop", "printed"),
    [
        ("T.serial(4)", "T.serial(4)"),
        ("T.Serial(2, n)", "T.serial(n - 2, min=2)"),
        ("T.unroll(4)", "T.unroll(4)"),
        ("T.unroll(0, 4, explicit=True)", "T.unroll(4, explicit=True)"),
        ("T.Unroll(4, unroll_factor=2)", "T.unroll(4, unroll_factor=2)"),
        ("T.vectorized(4)", "T.vectorized(4)"),
        ("T.Parallel(4)", "T.Parallel(4)"),
        ("T.Parallel(4, coalesced_width=2)", "T.Parallel(4, coalesced_width=2)"),
        ("T.Pipelined(n)", "T.Pipelined(n, num_stages=0)"),
        ("T.Pipelined(1, 4, num_stages=2)", "T.Pipelined(3, min=1, num_stages=2)"),
        ("T.Pipelined(4, num_stages=2, order=[0], stage=[0])", "T.Pipelined(4, num_stages=2, order=(0,), stage=(0,))"),
        ("T.serial(5, 3)", "T.serial(0, min=5)"),
    ],
)
def test_a_loop(body, loop, printed):
    text = body(f"for i in {loop}:\n    B[i, 0] = 1.0")
    assert text.split("\n")[0] == f"for i in {printed}:"


def test_a_grid_is_nested_serial_loops(body):
    check(
        body("for i, j in T.grid(4, 8):\n    B[i, j] = 1.0"),
        """
        for i in T.serial(4):
            for j in T.serial(8):
                B[i, j] = 1.0
        """,
    )


def test_the_options_of_a_parallel_nest_are_on_the_outermost_loop(trace):
    function = trace("""
@T.prim_func
def main(A: T.Tensor((8, 8), "float32")):
    with T.Kernel(1) as bx:
        for i, j in T.Parallel(8, 8, coalesced_width=4, prefer_async=True, annotations={"hint": [1, 2]}):
            A[i, j] = 0.0
""")
    outer, inner = [node for node in walk(function) if isinstance(node, For)]
    assert dict(outer.annotations) == {"coalesced_width": 4, "prefer_async": True, "hint": (1, 2)}
    assert inner.annotations == ()


def test_a_kernel_records_grid_threads_cluster_and_prelude(trace):
    function = trace("""
@T.prim_func
def main(A: T.Tensor((T.dynamic("m"), 8), "float32")):
    with T.Kernel(T.ceildiv(A.shape[0], 8), 2, threads=(32, 4), cluster_dims=(2, 1, 1), prelude="// text") as (i, j):
        A[i, j] = 0.0
    with T.Kernel(4) as k:
        A[k, 0] = 0.0
""")
    first, second = [node for node in walk(function) if isinstance(node, KernelLaunch)]
    assert [v.name for v in first.grid_vars] == ["i", "j"]
    assert [v.name for v in first.thread_vars] == ["tx", "ty"]
    assert [t.value for t in first.threads] == [32, 4]
    assert first.cluster == (2, 1)
    assert first.annotation("prelude") == "// text"
    assert (second.threads, second.thread_vars, second.cluster) == ((), (), ())
    assert isinstance(first.grid[1], IntImm)


def test_a_kernel_without_names_may_query_its_indices(trace):
    function = trace("""
@T.prim_func
def main(A: T.Tensor((8, 8), "float32")):
    with T.Kernel(8, 8, threads=32):
        bx, by = T.get_block_bindings()
        (tx,) = T.get_thread_bindings()
        A[bx, by] = T.cast(tx, "float32")
""")
    assert "A[bx, by] = T.cast(tx, T.float32)" in function.script()


def test_facts_wrap_what_follows(body):
    check(
        body("T.assume(n % 8 == 0)\nB[0, 0] = 1.0\nif n > 8:\n    T.assume(n < 100)\n    B[1, 0] = 1.0"),
        """
        T.assume(n % 8 == 0)
        B[0, 0] = 1.0
        if n > 8:
            T.assume(n < 100)
            B[1, 0] = 1.0
        """,
    )


def test_a_true_assumption_says_nothing(body):
    assert body("T.assume(4 > 3)\nB[0, 0] = 1.0") == "B[0, 0] = 1.0"


def test_annotations_go_to_the_block(body):
    text = body(
        """
tile = T.alloc_shared((8, 8), "float32")
T.annotate_layout({tile: lambda i, j: (j, i)})
T.annotate_safe_value({A: -1})
T.use_swizzle(4, order="column")
T.use_swizzle(9, enable=False)
T.clear(tile)
"""
    )
    assert 'T.annotate("layouts", ((tile, T.Layout(' in text
    assert 'T.annotate("safe_value", ((A, ' in text
    assert 'T.annotate("swizzle", ("column", 4))' in text


def test_flags_and_options_become_attributes_of_the_function(trace):
    function = trace("""
@T.prim_func
def main(A: T.Tensor((8,), "float32")):
    T.annotate_compile_flags("-O3")
    T.annotate_compile_flags(["-g"])
    T.annotate_pass_configs({"tl.some_option": True})
    with T.Kernel(8) as bx:
        A[bx] = 0.0
""")
    assert function.attr("compile_flags") == ("-O3", "-g")
    assert function.attr("pass_configs") == (("tl.some_option", True),)


def test_parameters_of_every_kind(trace):
    function = trace("""
m, k = T.dynamic("m, k")
@T.prim_func
def main(
    A: T.Tensor((m, 8), "float16"),
    B: T.Tensor[[m, 8], T.bfloat16],
    C: T.StridedTensor((m, 8), (k, 1), "float32"),
    D: T.Buffer((8,), T.int8, align=64),
    x: T.float32,
    n: int,
    flag: bool,
    p: T.ptr(T.float32),
    h: T.handle,
):
    with T.Kernel(m) as bx:
        C[bx, 0] = x
""")
    text = function.script()
    for line in (
        "A: T.Buffer((m, 8), T.float16)",
        "B: T.Buffer((m, 8), T.bfloat16)",
        "C: T.Buffer((m, 8), T.float32, strides=(k, 1))",
        "D: T.Buffer((8,), T.int8, align=64)",
        "x: T.float32",
        "n: T.int32",
        "flag: T.bool",
        "p: T.handle",
        "h: T.handle",
    ):
        assert line in text
    assert [v.name for v in function.size_vars()] == ["m", "k"]


def test_text_of_a_traced_kernel_reads_back(trace):
    from tile_core.ir import parse, structural_equal

    function = trace("""
@T.prim_func
def main(A: T.Tensor((64, 32), "float16"), B: T.Tensor((64, 32), "float32")):
    with T.Kernel(4, threads=64) as bx:
        a = T.alloc_shared((16, 32), "float16")
        f = T.alloc_fragment((16, 32), "float32")
        m = T.alloc_fragment((16,), "float32")
        x = T.alloc_var("float32", init=1.0)
        T.copy(A[bx * 16, 0], a)
        T.copy(a, f)
        T.reduce_max(f, m, dim=1)
        for i, j in T.Parallel(16, 32):
            f[i, j] = T.exp2(f[i, j] - m[i]) * x if j > 3 else -T.infinity("float32")
        while x < 4.0:
            x += 1.0
        T.copy(f, B[bx * 16, 0])
""")
    assert structural_equal(parse(function.script()), function)
