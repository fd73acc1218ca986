from __future__ import annotations

import subprocess
import sys

import pytest

from tile_core.errors import CompileError
from tile_core.ir import (
    BufferLoad,
    For,
    SizeVar,
    Var,
    const,
    parse,
    parse_expr,
    parse_stmt,
    structural_equal,
)
from tile_core.tileop.copy import Copy

HEAD = "@T.prim_func\ndef main(A: T.Buffer((16,), T.float32), n: T.int32):\n    "


def error(statement: str) -> CompileError:
    with pytest.raises(CompileError) as caught:
        parse(HEAD + statement.replace("\n", "\n    ") + "\n", "k.tile")
    return caught.value


@pytest.mark.parametrize(
    ("statement", "code", "summary", "line"),
    [
        ("A[i] = 1.0", "E-PARSE-NAME", "'i' is not declared", 3),
        ("return A", "E-PARSE-SYNTAX", "A is a Buffer, not a value", 3),
        ("n[0] = 1", "E-PARSE-SYNTAX", "n is not a buffer", 3),
        ("x = 3", "E-PARSE-SYNTAX", "x = … is not a statement of the IR", 3),
        ("return 0\nimport os", "E-PARSE-SYNTAX", "Import is not a statement of the IR", 4),
        ("for i in range(4):\n    A[i] = 0.0", "E-PARSE-SYNTAX", "range(4) is not a loop of the IR", 3),
        ("for i, j in T.serial(4):\n    A[i] = 0.0", "E-PARSE-SYNTAX", "1 extents need 1 loop variables", 3),
        ("return n < 3 < 4", "E-PARSE-SYNTAX", "this comparison has no meaning", 3),
        ("return T.expp(n)", "E-PARSE-CALL", "T.expp is not known here", 3),
        ("return T.exp(n, n)", "E-PARSE-CALL", "T.exp takes 1 arguments, not 2", 3),
        ("return T.ramp(n, 1)", "E-PARSE-CALL", "T.ramp(n, 1) does not take these arguments", 3),
        ("return T.cast(n, T.float17)", "E-PARSE-SYNTAX", "T.float17 is not an element type", 3),
        ("T.copy(A, A, speed=3)", "E-PARSE-CALL", "T.copy takes no argument 'speed'", 3),
        ("T.copy(A)", "E-PARSE-CALL", "T.copy(A) does not take these arguments", 3),
        ("T.copy(A[0:4, 0], A)", "E-PARSE-SYNTAX", "A has 1 dimensions and is indexed with 2", 3),
        ("with T.Kernel(4, threads=(32,)) as bx:\n    pass", "E-PARSE-CALL",
         "T.Kernel binds 1 names for 1 grid and 1 thread extents", 3),
        ("with open(n):\n    pass", "E-PARSE-SYNTAX", "with is followed by T.Kernel(…), T.block() or T.attr(…)", 3),
        ("return T.opaque('x')", "E-PARSE-SYNTAX",
         "this value was printed without a text form and cannot be read back", 3),
        ("return n +", "E-PARSE-SYNTAX", "not Python's syntax: invalid syntax", 3),
        ('T.func_attr("key")', "E-PARSE-CALL", "T.func_attr('key'): a key and a value are needed", 3),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_an_error_with_its_line(statement, code, summary, line):
    found = error(statement)
    assert (found.code, found.summary) == (code, summary)
    assert found.span is not None and found.span.line == line
    assert f"--> k.tile:{line}:" in str(found)


def test_the_error_shows_the_line_and_the_way_out():
    assert str(error("A[m] = 1.0")) == (
        "error[E-PARSE-NAME]: 'm' is not declared\n"
        "  --> k.tile:3:7\n"
        "    3 |     A[m] = 1.0\n"
        "      |       ^\n"
        "  help: declare it first: m = T.var(T.int32), T.size_var(T.int32) or T.buffer((…), T.float32)"
    )


def test_a_text_without_function_is_refused():
    with pytest.raises(CompileError, match="the text holds no function"):
        parse("\n")


def test_deep_parentheses_are_an_error_not_a_crash():
    with pytest.raises(CompileError) as caught:
        parse_expr("(" * 5000 + "1" + ")" * 5000)
    assert caught.value.code == "E-PARSE-SYNTAX"


def test_words_of_other_rooms_are_known_without_importing_them():
    program = (
        "from tile_core.ir import parse; "
        'f = parse(\'@T.prim_func\\ndef f(A: T.Buffer((4,), T.int8)):\\n    T.annotate("layouts", '
        "((A, T.Layout(domain=(4,), image=(4,), forward=lambda i: i)),))\\n    T.fill(A, T.int8(0))\\n'); "
        "print(f.body.annotations[0][1][0][1].domain)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("(4,)\n", "")


def test_python_is_never_run(tmp_path):
    target = tmp_path / "made"
    with pytest.raises(CompileError):
        parse_expr(f"open({str(target)!r}, 'w')")
    assert not target.exists()


def test_regions_may_be_written_as_people_do():
    text = HEAD + "B = T.buffer((16,), T.float32)\n    T.copy(A[n:n + 4], B[4:8])\n    T.copy(A[:], B[n:])\n"
    first, second = (s.op for s in parse(text).body.stmts)
    assert isinstance(first, Copy)
    assert structural_equal(first.src.extents[0], const(4, "int32"))
    assert structural_equal(first.dst.extents[0], const(4, "int32"))
    assert structural_equal(second.src.extents[0], const(16, "int32"))
    assert repr(second.dst.extents[0]) == "16 - n"


def test_fragments_take_names_from_outside_or_from_a_maker():
    n = Var("n")
    loop = parse_stmt("  for i in T.serial(n):\n    return i", {"n": n})
    assert isinstance(loop, For) and loop.extent is n
    made = []
    parse_stmt("return a + b", unknown=lambda name: made.append(Var(name)) or made[-1])
    assert [v.name for v in made] == ["a", "b"]


def test_shape_variables_may_be_declared_after_they_are_mentioned():
    function = parse("@T.prim_func\ndef f(A: T.Buffer((M,), T.int8), M: T.size_var(T.int64)):\n    return A[0]\n")
    assert isinstance(function.params[1], SizeVar)
    assert function.params[0].shape[0] is function.params[1]
    assert isinstance(function.body.value, BufferLoad)
