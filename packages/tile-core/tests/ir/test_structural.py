from __future__ import annotations

import pytest

from tile_core.dtypes import DType
from tile_core.errors import InternalError
from tile_core.ir import (
    Buffer,
    BufferRegion,
    FloatImm,
    For,
    IRModule,
    PrimFunc,
    Seq,
    Var,
    assert_structural_equal,
    const,
    first_mismatch,
    full_region,
    parse,
    parse_stmt,
    structural_equal,
    structural_key,
)

LOOP = """
@T.prim_func
def main(A: T.Buffer((16,), T.float32), n: T.int32):
    for i in T.serial(n):
        A[i] = 1.0
        A[i] = A[i] + {value}
    return {result}
"""


def loop(value="3.0", result="0"):
    return parse(LOOP.format(value=value, result=result))


def test_names_and_spans_take_no_part():
    other = parse(LOOP.format(value="3.0", result="0").replace("A", "Bee").replace("i ", "j ").replace("[i]", "[j]"))
    assert structural_equal(loop(), other)
    assert structural_key(loop()) == structural_key(other)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (LOOP.format(value="4.0", result="0"), "main.body.stmts[0].body.stmts[1].value.b: 3.0 is not 4.0"),
        (LOOP.format(value="3.0", result="n"), "main.body.stmts[1].value: 0 is not n"),
        (LOOP.format(value="A[n]", result="0"), "main.body.stmts[0].body.stmts[1].value.b: 3.0 is not A[n]"),
        (LOOP.format(value="3.0", result="0").replace("A[i] = A[i]", "A[n] = A[i]"),
         "main.body.stmts[0].body.stmts[1].indices[0]: variable i is not variable n"),
        (LOOP.format(value="3.0", result="0").replace("16", "17"), "main.params[0].shape[0]: 16 is not 17"),
        (LOOP.format(value="3.0", result="0").replace("n: T.int32", "n: T.int64"),
         "main.params[1]: n of type int32 is not n of type int64"),
        (LOOP.format(value="3.0", result="0").replace("serial", "unroll"),
         "main.body.stmts[0].kind: 'serial' is not 'unroll'"),
        (LOOP.format(value="3.0", result="0") + "    return 2\n",
         "main.body.stmts: 2 statements are not 3; the first extra one is return 2"),
        (LOOP.format(value="3.0", result="0").replace("main", "other"), "main.name: 'main' is not 'other'"),
        (LOOP.format(value="T.float16(3.0)", result="0"),
         "main.body.stmts[0].body.stmts[1].value.b: 3.0 is not T.float16(3.0)"),
    ],
)  # fmt: skip
def test_the_path_of_the_first_mismatch(text, path):
    other = parse(text)
    assert first_mismatch(loop(), other) == path
    assert not structural_equal(loop(), other)
    assert structural_key(loop()) != structural_key(other)
    with pytest.raises(AssertionError) as caught:
        assert_structural_equal(loop(), other)
    assert str(caught.value) == f"{path}\n--- left\n{loop().script()}\n--- right\n{other.script()}"


def test_constants_of_two_types_are_told_apart():
    assert first_mismatch(const(3, "int32"), const(3, "int64")) == "IntImm: 3 is not T.int64(3)"
    assert first_mismatch(const(1.0, "float32"), const(-1.0, "float32")) == "FloatImm: 1.0 is not -1.0"
    assert not structural_equal(FloatImm(0.0), FloatImm(-0.0))
    assert structural_equal(FloatImm(float("nan")), FloatImm(float("nan")))


def test_free_variables_are_themselves_unless_mapped():
    a, b = Var("a"), Var("a")
    assert first_mismatch(a + 1, b + 1) == "Binary.a: variable a is not another variable of that name"
    assert structural_equal(a + 1, b + 1, map_free_vars=True)
    assert not structural_equal(a + a, a + b, map_free_vars=True)
    assert not structural_equal(a + b, a + a, map_free_vars=True)
    assert structural_key(a + b) == structural_key(b + a)
    assert structural_key(a + b) != structural_key(a + a)


def test_a_loop_variable_is_not_a_free_one():
    a, b = Var("a"), Var("b")
    body = parse_stmt("return x", {"x": a})
    loops = [For(v, const(0, "int32"), const(4, "int32"), "serial", body) for v in (a, b)]
    assert not structural_equal(*loops, map_free_vars=True)


def test_nested_sequences_are_flat():
    x, y, z = (parse_stmt(f"return {n}") for n in range(3))
    nested = Seq((Seq((x,)), Seq((Seq(()), y, Seq((z,))))))
    flat = Seq((x, y, z))
    assert structural_equal(nested, flat)
    assert structural_key(nested) == structural_key(flat)
    assert structural_key(Seq((x,))) == structural_key(x)


def test_squeezed_axes_count_and_their_default_does_not():
    buffer = Buffer("A", (const(4, "int32"),), DType("float32"))
    full = full_region(buffer)
    assert structural_equal(full, full.with_(squeezed=()))
    assert structural_key(full) == structural_key(full.with_(squeezed=()))
    one = BufferRegion(buffer, (const(0, "int32"),), (const(1, "int32"),))
    assert first_mismatch(one, one.with_(squeezed=(True,))) == "BufferRegion: squeezed axes (False,) are not (True,)"


def test_functions_of_a_module_share_no_names():
    f = loop()
    module = IRModule((f, f.with_(name="second")))
    again = parse(module.script())
    assert structural_equal(module, again)
    changed = IRModule((f, loop(result="1").with_(name="second")))
    assert first_mismatch(module, changed) == "second.body.stmts[1].value: 0 is not 1"


def test_a_value_without_a_form_has_no_key():
    with pytest.raises(InternalError, match="has no text form and no key") as caught:
        structural_key(PrimFunc("main", (), Seq(()), (("hook", object()),)))
    assert caught.value.code == "E-TEXT-VALUE"
