"""A function survives the way to another process, also where nodes refuse assignment."""

import os
import pickle
import subprocess
import sys

import pytest

PROGRAM = """
import pickle, sys
import tile_core.language as T
from tile_core.ir import Buffer, structural_equal, walk
from tile_core.source import Span

@T.prim_func
def copy(A: T.Tensor((8, 8), "float16"), n: T.int32):
    with T.Kernel(2, threads=32) as part:
        a = T.alloc_shared((4, 8), "float16")
        T.copy(A[part * 4, 0], a)
        T.copy(a, A[part * 4, n])

again = pickle.loads(pickle.dumps(copy))
assert again is not copy and structural_equal(again, copy) and again.script() == copy.script()
assert repr(again.span) == repr(copy.span)
loads = [node.buffer for node in walk(again.body) if hasattr(node, "buffer")]
assert {id(b) for b in loads if b.name == "A"} == {id(again.params[0])}
print(sum(1 for _ in walk(again.body)))
"""


@pytest.mark.parametrize("debug", ["0", "1"])
def test_a_pickled_function_is_the_same(debug, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    words = [sys.executable, str(tmp_path / "program.py")]
    run = subprocess.run(words, env={**os.environ, "TILE_DEBUG_IR": debug}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) > 10


def test_a_scope_is_sent_by_its_name():
    from tile_core.ir import find_scope

    assert pickle.loads(pickle.dumps(find_scope("shared"))) is find_scope("shared")
