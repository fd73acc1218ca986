"""check_pass, golden files, --update."""

import pytest

from tile_core.ir import Binary, For, IntImm, const
from tile_core.testing.passes import Mismatch
from tile_core.testing.update import Edits
from tile_core.transform.base import Pass, Rewriter, register_pass


class _Double(Rewriter):
    def rewrite_Binary(self, node: Binary):
        if node.op == "mul" and isinstance(node.b, IntImm) and node.b.value == 2:
            return Binary("add", self.rewrite(node.a), self.rewrite(node.a))
        return self.rewrite_children(node)


@register_pass("TestDoubleByAdding", needs="TILE..FLAT", leaves="same")
class DoubleByAdding(Pass):
    def function(self, function, context):
        return _Double().rewrite(function)


@register_pass("TestDropLastIteration", needs="TILE..FLAT", leaves="same")
class DropLastIteration(Pass):
    def statement(self, stmt):
        return stmt.with_(extent=const(stmt.extent.value - 1, "int32")) if type(stmt) is For else stmt


def test_a_pass_that_does_what_it_should(check_pass):
    check_pass(
        DoubleByAdding,
        before="""
            for i in T.serial(4):
                A[i * 2] = B[i, n] + 1.0
        """,
        after="""
            for i in T.serial(4):
                A[i + i] = B[i, n] + 1.0
        """,
    )


def test_a_difference_is_shown_with_its_path(check_pass):
    with pytest.raises(Mismatch, match="TestDoubleByAdding: main") as mismatch:
        check_pass(DoubleByAdding, "A[i * 2] = 1.0", "A[i * 2] = 1.0")
    assert mismatch.value.text == "A[i + i] = 1.0"


def test_a_pass_that_changes_the_result_is_found_although_the_text_is_as_expected(check_pass):
    with pytest.raises(AssertionError, match="A after the pass: 1 of 64 elements differ"):
        check_pass(
            DropLastIteration,
            "for i in T.serial(4):\n    A[i] = 7.0",
            "for i in T.serial(3):\n    A[i] = 7.0",
        )


def test_parameters_can_be_declared(check_pass):
    check_pass(
        DoubleByAdding,
        before="A[i * 2] = A[i]",
        after="A[i + i] = A[i]",
        params="A: T.Buffer((100,), T.int8), i: T.int64",
    )


def test_update_rewrites_the_expected_text(tmp_path):
    path = tmp_path / "test_it.py"
    path.write_text(
        'def test_ä(check_pass):\n    check_pass(\n        P,\n        before="x",\n        after="y",\n    )\n'
    )
    edits = Edits()
    assert edits.replace_argument(path, 2, "after", "A[0] = 1.0\nB[0] = 2.0\n")
    assert edits.apply() == [path]
    assert path.read_text() == (
        'def test_ä(check_pass):\n    check_pass(\n        P,\n        before="x",\n        after="""\n'
        '            A[0] = 1.0\n            B[0] = 2.0\n        """,\n    )\n'
    )


def test_a_golden_file_is_compared_and_updated(golden, tmp_path):
    golden.folder = tmp_path
    with pytest.raises(AssertionError, match="there is no golden file"):
        golden("a.txt", "one\n")
    golden.update = True
    golden("a.txt", "one\n")
    golden.update = False
    golden("a.txt", "one")
    with pytest.raises(AssertionError, match=r"-one\n\+two"):
        golden("a.txt", "two\n")
