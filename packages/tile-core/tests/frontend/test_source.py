"""Where source comes from, and what is kept of it."""

import importlib.util
import sys

import pytest

import tile_core.language as T
from tile_core.errors import CompileError
from tile_core.frontend import from_source, jit_function
from tile_core.ir import Block, Seq, walk

KERNEL = """
@T.prim_func
def main(A: T.Tensor((16,), "float32")):
    with T.Kernel(1) as bx:
        for i in T.serial(16):
            A[i] = A[i] * 2.0 + T.exp(A[i])
        s = T.alloc_shared((4,), "float32")
        T.copy(A[0:4], s)
"""


def test_every_node_has_a_place(trace):
    function = trace(KERNEL)
    for node in walk(function):
        assert node.span is not None, node
        assert node.span.line > 1
    for block in (n for n in walk(function) if isinstance(n, Block)):
        assert all(buffer.span is not None for buffer in block.allocations)


def test_columns_are_those_of_the_source(trace):
    function = trace(KERNEL)
    exp = next(n for n in walk(function) if getattr(n, "op", None) == "mul")
    line = KERNEL.split("\n")[exp.span.line - 1]
    assert line[exp.span.column : exp.span.end_column] == "A[i] * 2.0"


def test_exec_without_source_names_from_source():
    scope = {"T": T}
    with pytest.raises(CompileError) as caught:
        exec(KERNEL, scope)
    assert caught.value.code == "E-SOURCE"
    assert "tile.from_source" in caught.value.help


def test_from_source_returns_the_last_definition_or_the_named_one():
    text = "def first():\n    return 1\ndef second():\n    return 2\n"
    assert from_source(text)() == 2
    assert from_source(text, name="first")() == 1


def test_from_source_of_nothing_is_refused():
    for text, name in (("x = 1\n", None), ("def f():\n    return 1\n", "g")):
        with pytest.raises(CompileError) as caught:
            from_source(text, name=name)
        assert caught.value.code == "E-SOURCE-EMPTY"


def test_an_indented_function_with_ragged_strings_and_comments():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        """A docstring
        that is less indented.
        """
        with T.Kernel(1) as bx:
            # a comment
            A[bx] = 1.0

    assert "A[bx] = 1.0" in main.script()


def test_closures_are_constants_of_each_instance():
    def make(size, value):
        @T.prim_func
        def main(A: T.Tensor((size,), "float32")):
            with T.Kernel(1) as bx:
                A[bx] = value

        return main

    assert "(4,)" in make(4, 1.0).script() and "= 1.0" in make(4, 1.0).script()
    assert "(8,)" in make(8, 2.0).script() and "= 2.0" in make(8, 2.0).script()


def test_future_annotations_see_the_enclosing_function(tmp_path):
    path = tmp_path / "future_kernels.py"
    path.write_text(
        "from __future__ import annotations\n"
        "import tile_core.language as T\n"
        "def make(size, dtype):\n"
        "    @T.prim_func\n"
        "    def main(A: T.Tensor((size,), dtype), n: T.int32):\n"
        "        with T.Kernel(1) as bx:\n"
        "            A[bx] = 1.0\n"
        "    return main\n"
    )
    spec = importlib.util.spec_from_file_location("future_kernels", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["future_kernels"] = module
    try:
        spec.loader.exec_module(module)
        assert "T.Buffer((8,), T.float16)" in module.make(8, "float16").script()
    finally:
        del sys.modules["future_kernels"]


def two_scopes_out(tmp_path, call):
    path = tmp_path / "nested_kernels.py"
    path.write_text(
        "from __future__ import annotations\n"
        "import tile_core.language as T\n"
        "def outer(size):\n"
        "    def factory(dtype):\n"
        "        @T.prim_func\n"
        "        def main(A: T.Tensor((size,), dtype)):\n"
        "            with T.Kernel(1) as bx:\n"
        "                A[bx] = 1.0\n"
        "        return main\n"
        f"    return {call}\n"
    )
    spec = importlib.util.spec_from_file_location("nested_kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.outer(8)


def test_future_annotations_see_scopes_further_out_while_they_run(tmp_path):
    assert "T.Buffer((8,), T.float16)" in two_scopes_out(tmp_path, "factory('float16')").script()


def test_a_scope_further_out_that_has_ended_is_named_with_the_way_out(tmp_path):
    factory = two_scopes_out(tmp_path, "factory")
    with pytest.raises(CompileError, match="E-PARAM-ANNOTATION") as caught:
        factory("float16")
    assert "mention size there" in str(caught.value)


def test_a_changed_file_is_noticed(tmp_path):
    path = tmp_path / "changed_kernels.py"
    path.write_text("import tile_core.language as T\n\n\ndef kernel(A: T.Tensor((4,), 'float32')):\n    return None\n")
    spec = importlib.util.spec_from_file_location("changed_kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    path.write_text("x = 1\n" * 10)
    with pytest.raises(CompileError) as caught:
        T.prim_func(module.kernel)
    assert caught.value.code == "E-SOURCE-CHANGED"


async def waiting(A):
    pass


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (len, "<built-in function len> is not a Python function"),
        (lambda A: A, "a lambda cannot be a kernel"),
        (waiting, "waiting is an async function, which cannot be a kernel"),
    ],
)
def test_what_is_no_plain_function_is_said(given, text):
    with pytest.raises(CompileError, match="E-SOURCE") as caught:
        jit_function(given)
    assert caught.value.summary == text


def test_tracing_twice_gives_equal_functions():
    from tile_core.ir.structural import structural_equal

    def make(block):
        @T.prim_func
        def main(
            A: T.Tensor((1024, 1024), "float16"),
            B: T.Tensor((1024, 1024), "float16"),
            C: T.Tensor((1024, 1024), "float32"),
        ):
            with T.Kernel(8, 8, threads=128) as (bx, by):
                a, b = T.alloc_shared((block, 32), "float16"), T.alloc_shared((32, block), "float16")
                c = T.alloc_fragment((block, block), "float32")
                T.clear(c)
                for k in T.Pipelined(32, num_stages=3):
                    T.copy(A[by * block, k * 32], a)
                    T.copy(B[k * 32, bx * block], b)
                    T.gemm(a, b, c)
                T.copy(c, C[by * block, bx * block])

        return main

    first, second = make(128), make(128)
    assert structural_equal(first, second) and first is not second


def test_one_statement_does_not_make_a_sequence(trace):
    function = trace(
        "@T.prim_func\ndef main(A: T.Tensor((4,), 'float32')):\n    with T.Kernel(1) as bx:\n        A[0] = 1.0\n"
    )
    assert not any(isinstance(node, Seq) for node in walk(function))


def test_threads_trace_side_by_side():
    from concurrent.futures import ThreadPoolExecutor

    def make(size):
        @T.prim_func
        def main(A: T.Tensor((size,), "float32")):
            with T.Kernel(size) as bx:
                for k in list(range(size % 7)):
                    A[bx] = A[bx] + k

        return main.script()

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(make, range(1, 60)))
    assert found == [make(size) for size in range(1, 60)]


def test_nested_functions_may_rebind_names_of_the_kernel(trace):
    function = trace("""
@T.prim_func
def main(A: T.Tensor((4,), "float32")):
    with T.Kernel(1) as bx:
        count = 0

        def put(value):
            nonlocal count
            A[count] = value
            count += 1

        put(1.0)
        put(2.0)
""")
    assert "A[0] = 1.0" in function.script() and "A[1] = 2.0" in function.script()
