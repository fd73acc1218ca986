"""Where threads meet between statements that share a tensor in device memory."""

from __future__ import annotations

import pytest

from tile_core.dtypes import DType
from tile_core.ir import Call, Evaluate, IRModule
from tile_core.ir.parser import parse
from tile_core.target import Target
from tile_core.transform import PassContext
from tile_core.transform.device_sync import DeviceSync

MEETING = "T.sync_threads()"
UPDATE = 'T.atomic_add(T.access_ptr(A[{}], "rw", 1), 1.0, "relaxed")'


def placed(body, thread_code=False):
    """The printed statements of a kernel of 32 threads over A and B (float32[64]), with meetings."""
    lines = "".join(f"        {line}\n" for line in body.strip("\n").split("\n"))
    text = (
        "@T.prim_func\n"
        "def main(A: T.Buffer((64,), T.float32), B: T.Buffer((64,), T.float32), n: T.int32):\n"
        f"    with T.Kernel(4, threads=(32,), thread_code={thread_code}) as (bx, tx):\n{lines}"
    )
    block = DeviceSync(lambda: Evaluate(Call("sync_threads", (), DType("void"))))
    module = block.apply(IRModule((parse(text),)), PassContext(Target("cuda")))
    return [line.strip() for line in module.functions[0].script().split("\n")[3:] if line.strip()]


@pytest.mark.parametrize(
    ("body", "before"),
    [
        ("A[tx] = 1.0\nB[tx] = A[31 - tx]", ["B[tx] = A[31 - tx]"]),
        ("B[tx] = A[31 - tx]\nA[tx] = 1.0", ["A[tx] = 1.0"]),
        ("A[tx] = 1.0\nA[31 - tx] = 2.0", ["A[31 - tx] = 2.0"]),
        ("A[tx] = 1.0\nB[tx] = 2.0", []),
        ("B[tx] = A[tx]\nB[tx + 32] = A[tx]", ["B[tx + 32] = A[tx]"]),
        ("A[tx] = A[tx] + 1.0", []),
        ("A[tx] = 1.0\nT.sync_threads()\nB[tx] = A[31 - tx]", []),
        (
            "for i in T.serial(n):\n    A[tx] = B[tx + i]\n    B[tx] = A[31 - tx]",
            ["B[tx] = A[31 - tx]", "A[tx] = B[tx + i]"],
        ),
        ("A[tx] = 1.0\nif n > 3:\n    B[tx] = A[31 - tx]", ["B[tx] = A[31 - tx]"]),
        ("A[tx] = 1.0\nif tx < 3:\n    B[tx] = A[31 - tx]", ["if tx < 3:"]),
        (UPDATE.format(0) + "\nB[tx] = A[0]", ["B[tx] = A[0]"]),
        (
            UPDATE.format(0) + "\n" + UPDATE.format(1),
            [],
        ),
    ],
)
def test_threads_meet_in_front_of_what_must_see_others_writes(body, before):
    lines = placed(body)
    given = [line.strip() for line in body.split("\n")]
    assert sorted(line for line in lines if line != MEETING) == sorted(line for line in given if line != MEETING)
    if MEETING not in given:
        found = [lines[i + 1] for i, line in enumerate(lines) if line == MEETING]
        assert sorted(found) == sorted(before)
    else:
        assert lines == given


def test_code_for_single_threads_places_its_own():
    body = "A[tx] = 1.0\nB[tx] = A[31 - tx]"
    assert MEETING not in placed(body, thread_code=True)
