"""What statements as calls and annotations of a launch refuse."""

import pytest

from tile_core.ir import Attr, walk
from tile_core.ir.parser import parse
from tile_core.ir.structural import structural_equal


@pytest.mark.parametrize(
    ("statements", "code", "part"),
    [
        ("with T.If(n > 0):\n    B[0, 0] = 0.0", "E-BRANCH", "without T.Then"),
        ("with T.Then():\n    B[0, 0] = 0.0", "E-BRANCH", "outside a T.If"),
        ("with T.If(n > 0):\n    with T.Else():\n        B[0, 0] = 0.0", "E-BRANCH", "before T.Then"),
        ("with T.attr(3, 'key', 1):\n    B[0, 0] = 0.0", "E-ATTR", "of 3"),
        ("with T.attr(None, 'address', 1):\n    B[0, 0] = 0.0", "E-ATTR", "'address'"),
        ("w = T.alloc_buffer((4,), scope='shared', annotations={'a': 1})", "E-ATTR", "no annotations"),
        ("w = T.alloc_buffer((4,), scope='warp')", "E-SCOPE", "'warp'"),
        ("w = T.decl_buffer((4,), strides=(1,))", "E-ATTR", "strides without data"),
        ("w = T.decl_buffer((4,), elem_offset=3)", "E-ATTR", "elem_offset"),
        ("tx = T.thread_binding(0, 64, thread='threadIdx.x')", "E-THREAD-NAME", "threads: 32"),
        ("tx = T.thread_binding(32, thread='threadIdx.y')", "E-THREAD-NAME", "threadIdx.y"),
        ("tx = T.thread_binding(32, thread='vthread')", "E-THREAD-NAME", "'vthread'"),
        ("tx = T.thread_binding(32, thread='threadIdx.x', annotations={'a': 1})", "E-ATTR", "annotations"),
        ("tx = T.launch_thread('threadIdx.x', 16)", "E-THREAD-NAME", "16"),
        ("tx = T.launch_thread('blockIdx.y', 4)", "E-THREAD-NAME", "blockIdx.y"),
        ("with T.CUDASourceCodeKernel(1, threads=32):\n    pass", "E-SOURCE-KERNEL", "needs a source"),
        ("T.annotate_min_blocks_per_sm(0)", "E-ANNOTATE", "0"),
        ("T.annotate_min_blocks_per_sm(n)", "E-ANNOTATE", "1 to 32"),
        ("T.annotate_restrict_buffers(3)", "E-ANNOTATE", "found 3"),
        ("T.annotate_restrict_buffers(T.alloc_shared((4,), 'int32'))", "E-ANNOTATE", "device memory"),
        ("T.annotate_layout({A: lambda i, j: (j, i)})", "E-ANNOTATE", "leave it out in every kernel"),
        ("B[0, 0] = T.Tensor((64,), 'float32', A.data)[3]", "E-PARAM-ANNOTATION", "T.reshape"),
        ("T.annotate_l2_hit_ratio({A: 1.5})", "E-ANNOTATE", "1.5"),
        ("T.annotate_l2_hit_ratio(A)", "E-ANNOTATE", "buffers as keys"),
    ],
)
def test_what_is_refused(body, message, statements, code, part):
    text = message(body, statements)
    assert f"error[{code}]" in text
    assert part in text
    assert "kernel.py" in text


def test_an_index_by_name_is_the_kernels(body):
    assert body("tx = T.thread_binding(0, 32, thread='threadIdx.x')\nB[tx, 0] = 0.0").endswith("B[tx, 0] = 0.0")
    assert "if tx < 8:" in body("for i in T.thread_binding(8, thread='threadIdx.x'):\n    B[i, 0] = 0.0")


def test_branches_keep_their_bodies(body):
    text = body(
        "with T.If(n > 0):\n    with T.Then():\n        B[0, 0] = 1.0\n    with T.Else():\n        B[0, 0] = 2.0"
    )
    assert text == "if n > 0:\n    B[0, 0] = 1.0\nelse:\n    B[0, 0] = 2.0"


@pytest.mark.parametrize(
    ("groups", "part"),
    [
        ("", "nothing"),
        ("2", "warp groups: 2"),
        ("0, 2", "0, 2"),
        ("-1", "-1"),
        ("n", "does not take"),
        ("True", "True"),
    ],
)
def test_warp_groups_that_a_block_does_not_have(body, message, groups, part):
    text = message(body, f"with T.ws({groups}):\n    B[0, 0] = 1.0", "threads=256")
    assert "error[E-WARP-GROUP]" in text
    assert part in text


def test_warp_groups_need_threads_and_do_not_nest(body, message):
    assert "left to the target" in message(body, "with T.ws(0):\n    B[0, 0] = 1.0", "")
    nested = "with T.ws(0):\n    with T.ws(1):\n        B[0, 0] = 1.0"
    assert "T.ws inside T.ws" in message(body, nested, "threads=256")


def test_warp_groups_are_kept_by_the_text(trace):
    function = trace("""
@T.prim_func
def main(B: T.Tensor((4,), "float32")):
    with T.Kernel(1, threads=384):
        with T.ws(2, 1):
            B[0] = 1.0
""")
    (part,) = [n for n in walk(function.body) if isinstance(n, Attr)]
    assert (part.key, part.subject) == ("executors", (128, 256))
    assert structural_equal(parse(function.script()), function)


def test_names_assigned_under_a_with_statement_in_a_loop(body):
    text = body("for i in range(0, 2):\n    with T.ws(0):\n        x = A[i, 0]\n        B[i, 0] = x", "threads=256")
    assert "x: T.float32 = A[i, 0]" in text
