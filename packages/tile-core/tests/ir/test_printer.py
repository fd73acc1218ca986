from __future__ import annotations

import dataclasses
import enum
import os
import subprocess
import sys
import textwrap

import pytest

from tile_core.dtypes import DType
from tile_core.errors import CompileError
from tile_core.ir import (
    Attr,
    Binary,
    Bind,
    Block,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    Evaluate,
    Executors,
    FloatImm,
    For,
    IndexMap,
    IntImm,
    IRModule,
    KernelLaunch,
    PrimFunc,
    Ramp,
    Select,
    Seq,
    SizeVar,
    TileOpStmt,
    Unary,
    Var,
    assert_structural_equal,
    attr,
    binary,
    cast,
    child,
    children,
    const,
    expr_text,
    full_region,
    node,
    operand,
    parse,
    parse_expr,
    parse_stmt,
    register_value,
    script,
    seq,
    stmt_text,
)
from tile_core.ir.pipe import Pipe
from tile_core.source import Span
from tile_core.tileop import TileOp, register_tile_op
from tile_core.tileop.copy import Copy

I32, I64, F16, F32 = (DType(n) for n in ("int32", "int64", "float16", "float32"))
i, j, k = Var("i"), Var("j"), Var("k")
wide = Var("n", I64)
A = Buffer("A", (const(16, I32),), F32)


def zero():
    return const(0, I32)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (i + j * k, "i + j * k"),
        ((i + j) * k, "(i + j) * k"),
        (i - (j - k), "i - (j - k)"),
        (i - j - k, "i - j - k"),
        (i // 4 % 8, "i // 4 % 8"),
        (-(i + j), "-(i + j)"),
        (-i * j, "-i * j"),
        (Unary("neg", const(1, I32)), "T.neg(1)"),
        ((i < j) & (j < k) | (i >= 3), "i < j and j < k or i >= 3"),
        ((i < j) & ((j < k) | (i >= 3)), "i < j and (j < k or i >= 3)"),
        (Binary("lt", Binary("lt", i, j), Binary("lt", j, k)), "(i < j) < (j < k)"),
        (Unary("not", Binary("eq", i, j)), "not i == j"),
        (Binary("and", Unary("not", i < j), i < k), "not i < j and i < k"),
        (i & 3 | j << 2, "i & 3 | j << 2"),
        (binary("min", i, binary("max", j, 4)), "T.min(i, T.max(j, 4))"),
        (binary("truncdiv", i, 3), "T.truncdiv(i, 3)"),
        (wide * 4 + 1, "n * 4 + 1"),
        (wide + cast(i, I64), "n + T.cast(i, T.int64)"),
        (const(3, I64), "T.int64(3)"),
        (const(1, F16), "T.float16(1.0)"),
        (const(1, F32), "1.0"),
        (FloatImm(float("inf"), F32), 'T.float32("inf")'),
        (FloatImm(float("-inf"), F16), 'T.float16("-inf")'),
        (FloatImm(float("nan"), F32), 'T.float32("nan")'),
        (FloatImm(-0.0, F32), "-0.0"),
        (IntImm(1, DType("bool")), "True"),
        (Ramp(i * 4, const(1, I32), 4), "T.ramp(i * 4, 1, 4)"),
        (Broadcast(const(1.0, F32), 4), "T.broadcast(1.0, 4)"),
        (Call("exp", (const(1.0, F32),), F32), "T.exp(1.0)"),
        (Call("exp", (const(1.0, F32),), F16), "T.exp(1.0, dtype=T.float16)"),
        (Call("unknown.one", (i,), I32), "T.unknown.one(i, dtype=T.int32)"),
        (Call("no identifier", (i,), I32), 'T.call("no identifier", i, dtype=T.int32)'),
        (BufferLoad(A, (i,)), "A[i]"),
        (BufferLoad(A, (i,), i < 4), "T.load(A[i], predicate=i < 4)"),
    ],
)
def test_expressions_print_with_the_fewest_parentheses_and_read_back(expr, text):
    assert expr_text(expr) == text
    names = {"i": i, "j": j, "k": k, "n": wide, "A": A}
    assert_structural_equal(parse_expr(text, names), expr)


def test_a_sum_of_five_thousand_terms_prints_and_reads_back():
    total = i
    for n in range(5000):
        total = Binary("add" if n % 2 else "sub", total, const(n, I32))
    text = expr_text(total)
    assert text.startswith('T.chain(i, "-", 0, "+", 1, "-", 2')
    assert_structural_equal(parse_expr(text, {"i": i}), total)


def test_ten_thousand_statements_print_and_read_back():
    body = Seq(tuple(BufferStore(A, const(float(n), F32), (const(n % 16, I32),)) for n in range(10_000)))
    function = PrimFunc("main", (A,), body)
    assert_structural_equal(parse(function.script()), function)


def kernel() -> PrimFunc:
    m = SizeVar("M")
    src = Buffer("A", (m, const(64, I32)), F16)
    dst = Buffer("A", (m, const(64, I32)), F32)
    tile = Buffer("A_shared", (const(128, I32), const(64, I32)), F16, "shared")
    bx, tx = Var("bx"), Var("tx")
    region = BufferRegion(src, (bx * 128, zero()), (const(128, I32), const(64, I32)), (False, False))
    store = BufferStore(dst, cast(BufferLoad(tile, (i, j)), F32) * 2.0, (bx * 128 + i, j))
    inner = For(j, zero(), const(64, I32), "parallel", store)
    loops = For(i, zero(), const(128, I32), "parallel", inner, None, (("coalesced_width", 4),))
    layout = IndexMap((Var("i"), Var("j")), (i, j))
    map_ = IndexMap(layout.vars, (layout.vars[0] * 8 + layout.vars[1], layout.vars[1] % 8))
    body = Block((tile,), seq(TileOpStmt(Copy(region, full_region(tile))), loops), (("layouts", ((tile, map_),)),))
    launch = KernelLaunch((bx,), ((m + 127) // 128,), (tx,), (const(128, I32),), body)
    return PrimFunc("main", (src, dst), Attr("assume", None, binary("eq", m % 8, 0), launch), (("out_idx", (-1,)),))


GOLDEN = """\
@T.prim_func
def main(A: T.Buffer((M, 64), T.float16), A_1: T.Buffer((M, 64), T.float32)):
    M = T.size_var(T.int32)
    T.func_attr("out_idx", (-1,))
    T.assume(M % 8 == 0)
    with T.Kernel((M + 127) // 128, threads=(128,)) as (bx, tx):
        A_shared = T.alloc_buffer((128, 64), T.float16, scope="shared")
        T.annotate("layouts", ((A_shared, lambda i, j: (i * 8 + j, j % 8)),))
        T.copy(A[bx * 128:bx * 128 + 128, 0:64], A_shared)
        for i, j in T.Parallel(128, 64, coalesced_width=4):
            A_1[bx * 128 + i, j] = T.cast(A_shared[i, j], T.float32) * 2.0
"""


def test_a_kernel_prints_as_it_reads_in_the_manual():
    assert kernel().script() == GOLDEN
    assert_structural_equal(parse(GOLDEN), kernel())


def test_a_module_of_one_function_stays_a_module():
    module = IRModule((kernel(),))
    text = script(module)
    assert text == "@T.module\nclass Module:\n" + textwrap.indent(GOLDEN, "    ")
    assert_structural_equal(parse(text), module)
    assert script(IRModule(())) == "@T.module\nclass Module:\n    pass\n"
    assert_structural_equal(parse(script(IRModule(()))), IRModule(()))


def test_spans_are_comments():
    store = BufferStore(A, const(1.0, F32), (i,), span=Span("/somewhere/gemm.py", 31))
    function = PrimFunc("main", (A, i), store)
    assert "A[i] = 1.0  # gemm.py:31\n" in function.script(spans=True)
    assert "#" not in function.script()
    assert_structural_equal(parse(function.script(spans=True)), function)


def test_a_view_is_declared_before_the_statement_that_first_mentions_it():
    view = Buffer("V", (const(8, I32),), F32, data=A, offset=i * 2)
    loop = For(i, zero(), const(4, I32), "serial", BufferStore(view, const(0.0, F32), (zero(),)))
    assert PrimFunc("main", (A,), loop).script() == textwrap.dedent(
        """\
        @T.prim_func
        def main(A: T.Buffer((16,), T.float32)):
            for i in T.serial(4):
                V = T.buffer((8,), T.float32, data=A, offset=i * 2)
                V[0] = 0.0
        """
    )


def test_blocks_in_the_middle_of_a_suite_keep_their_own_suite():
    first, second = (Buffer(n, (const(4, I32),), F32, "local") for n in "xy")
    body = seq(Block((first,), Evaluate(BufferLoad(first, (zero(),)))), Block((second,), Block((), Seq(()))))
    assert stmt_text(body) == textwrap.dedent(
        """\
        with T.block():
            x = T.alloc_buffer((4,), T.float32, scope="local")
            T.evaluate(x[0])
        y = T.alloc_buffer((4,), T.float32, scope="local")
        with T.block():
            pass"""
    )


def test_binds_of_one_name_get_numbers():
    first, second = Var("broadcast_value", F32), Var("broadcast_value", F32)
    body = seq(Bind(first, const(1.0, F32)), Bind(second, const(1.0, F32)))
    assert stmt_text(body) == "broadcast_value: T.float32 = 1.0\nbroadcast_value_1: T.float32 = 1.0"


def test_text_is_the_same_in_every_process():
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import test_printer as t; "
        "from tile_core.ir import structural_key; "
        "print(t.kernel().script(), structural_key(t.kernel()))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program, os.path.dirname(__file__)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1
    assert seen.pop().startswith(GOLDEN)


def test_what_is_too_deep_to_print_does_not_break_an_error_message():
    deep = i
    for _ in range(5000):
        deep = Select(i < 1, const(0, I32), deep)
    assert repr(deep) == "<nested too deeply to print>"


class _Weight(enum.Enum):
    LIGHT = "l"
    HEAVY = "h"


@dataclasses.dataclass(frozen=True)
class _Plan:
    weight: _Weight
    steps: tuple[int, ...]


register_value(_Weight, "TestWeight")
register_value(_Plan, "TestPlan")


@register_tile_op
@node
class _Blend(TileOp):
    """An op of a third party."""

    name = "test_blend"
    a: BufferRegion = operand("in")
    mask: BufferRegion | None = operand("in", default=None)
    out: BufferRegion = operand("out", default=None)
    weights: tuple = children(default=())
    bias: object = child(default=None)
    plan: object = attr(default=None)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "T.test_blend(x, out=x)"),
        ({"mask": True}, "T.test_blend(x, x, x)"),
        ({"weights": (i + 1, const(2, I32)), "bias": const(0.5, F32)},
         "T.test_blend(x, out=x, weights=(i + 1, T.int32(2)), bias=0.5)"),
        ({"plan": _Plan(_Weight.HEAVY, (1, 2))},
         'T.test_blend(x, out=x, plan=T.TestPlan(weight=T.TestWeight(name="HEAVY"), steps=(1, 2)))'),
    ],
)  # fmt: skip
def test_an_op_of_a_third_party_prints_and_reads_back(fields, text):
    x = Buffer("x", (const(4, I32),), F32)
    region = full_region(x)
    if fields.pop("mask", False):
        fields["mask"] = region
    op = TileOpStmt(_Blend(region, out=region, **fields), "loop")
    printed = stmt_text(op)
    assert printed == text[:-1] + ', candidate="loop")'
    assert_structural_equal(parse_stmt(printed, {"x": x, "i": i}), op)


def test_a_logical_pipe_prints_in_its_loop_and_reads_back():
    pipe = Pipe("loads", 3, (0,), (1,), (A,))
    loop = For(i, zero(), const(4, I32), "pipelined", Seq(()), None, (("num_stages", 3), ("pipes", (pipe,))))
    assert stmt_text(loop).splitlines()[0] == (
        "for i in T.Pipelined(4, num_stages=3, "
        'pipes=(T.Pipe(name="loads", depth=3, producers=(0,), consumers=(1,), buffers=(A,)),)):'
    )
    function = PrimFunc("main", (A,), loop)
    assert_structural_equal(parse(function.script()), function)


def test_executor_sets_print_as_values():
    held = Attr("executors", Executors("warp", 0, 4, i < 2), None, Seq(()))
    assert stmt_text(held).splitlines()[0] == (
        'with T.attr("executors", T.Executors(kind="warp", first=0, count=4, predicate=i < 2), None):'
    )
    assert_structural_equal(parse_stmt(stmt_text(held), {"i": i}), held)


def test_a_value_without_a_form_is_shown_and_refused_when_read():
    function = PrimFunc("main", (), Seq(()), (("hook", object),))
    assert "T.opaque(\"<class 'object'>\")" in function.script()
    with pytest.raises(CompileError, match="cannot be read back"):
        parse(function.script())


def test_every_kind_of_node_has_its_own_text():
    from tile_core.ir import expr, print_expr, printer, stmt

    plain = {"IntImm", "FloatImm", "Var", "SizeVar", "Binary", "Seq"}  # printed by the methods that everything uses
    for module, table in ((expr, print_expr._EXPRESSIONS), (stmt, printer._STATEMENTS)):
        classes = {n for n in module.__all__ if isinstance(getattr(module, n), type) and getattr(module, n).FIELDS}
        assert classes - plain == {cls.__name__ for cls in table}
