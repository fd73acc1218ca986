"""Kernels with one mistake: each is refused with its line and what to do, or is a kernel still."""

import pytest

import tile_core as tile
import tile_core.language as T
from tile_core.errors import CompileError
from tools.fuzz.mutations import KERNELS, complaint, mutants

# Every eleventh of all 1,200, which take half a minute; 11 has no factor in common with how many a place has.
MUTANTS = [
    (f"{name}, {label}", text)
    for name, source in KERNELS.items()
    for number, (label, text) in enumerate(mutants(source))
    if number % 11 == 5 and "1048576" not in label
]


def test_kernels_without_mistakes_compile():
    assert [complaint(source) for source in KERNELS.values()] == ["", "", ""]


@pytest.mark.slow
@pytest.mark.layer("fuzz")
def test_mistakes_are_refused_with_line_and_help():
    assert len(MUTANTS) > 90
    complaints = {label: complaint(text) for label, text in MUTANTS}
    assert {label: text for label, text in complaints.items() if text} == {}


@pytest.mark.parametrize(
    ("right", "wrong", "code", "line", "help"),
    [
        ("T.copy(c, C", "T.copy(c_, C", "E-NAME-UNKNOWN", 15, "write c"),
        ("GemmWarpPolicy.FullRow", "GemmWarpPolicy.FullRo", "E-NAME-UNKNOWN", 12, "write FullRow or FullCol"),
        ("T.Kernel(2,", "T.Kernel(2, 1,", "E-KERNEL-INDICES", 10, "as (bx, by)"),
        ("num_stages=2", "num_stages=1048576", "E-PIPELINED-STAGES", 9, "use 2 or 3"),
        ('(128, 96), "float16"', '(128, 96), "flaot16"', "E-DTYPE", 2, "such as 'float16'"),
        ("T.Tensor((96, 64)", "T.Tensor((96, -64)", "E-SHAPE", 2, "use integers"),
        ("T.Tensor((96, 64)", "T.Tenso((96, 64)", "E-LANGUAGE-NAME", 2, "T.Tensor"),
    ],
)
def test_what_a_mistake_is_answered_with(right, wrong, code, line, help):
    source = KERNELS["product"]
    assert right in source
    with pytest.raises(CompileError) as caught:
        tile.from_source(source.replace(right, wrong), {"T": T}, name="kernel")
    assert (caught.value.code, caught.value.span.line) == (code, line)
    assert help in caught.value.help


@pytest.mark.parametrize(
    ("right", "wrong", "code", "summary"),
    [
        ("twice(v, shared[127 - tx])", "twice(v)", "E-CALL", "missing a required argument: 'y'"),
        ("T.device_assert(v <= 1000)", "T.device_assert(v <= 1000, 3)", "E-OPERAND-OPTION", "does not take msg=3"),
    ],
)
def test_what_a_mistake_in_threads_is_answered_with(right, wrong, code, summary):
    source = KERNELS["threads"]
    assert right in source
    with pytest.raises(CompileError, match=code) as caught:
        function = tile.from_source(source.replace(right, wrong), {"T": T}, name="kernel")
        tile.lower(function, target="cpu")
    assert summary in str(caught.value) and caught.value.span is not None
