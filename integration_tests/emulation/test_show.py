"""``tile show timeline`` and ``tile show memory`` on kernels for sm_80: texts, drawings, what is refused."""

from __future__ import annotations

import textwrap
import xml.etree.ElementTree

import pytest

from tile_core.cli.main import main

pytestmark = pytest.mark.layer("unit")

KERNELS = """
import tile_core.language as T


def gemm(stages=3):
    K = T.dynamic("K")

    @T.prim_func
    def gemm(A: T.Tensor((64, K), "float16"), B: T.Tensor((K, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128) as bx:
            A_shared = T.alloc_shared((64, 32), "float16")
            B_shared = T.alloc_shared((32, 64), "float16")
            C_shared = T.alloc_shared((64, 64), "float32")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=stages):
                T.copy(A[0, k * 32], A_shared)
                T.copy(B[k * 32, 0], B_shared)
                T.gemm(A_shared, B_shared, acc)
            T.copy(acc, C_shared)
            T.copy(C_shared, C)

    return gemm


def doubled(n=64):
    @T.prim_func
    def doubled(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32) as bx:
            for i in T.Parallel(n):
                B[i] = A[i] * 2.0

    return doubled
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(textwrap.dedent(KERNELS), encoding="utf-8")
    return str(path)


def shown(capsys, *words):
    code = main(["show", *words])
    out, err = capsys.readouterr()
    return code, out, err


SM80 = ("--target", "cuda -arch=sm_80")


def test_the_timeline_has_stages_slots_waits_versions_and_an_estimate(file, capsys):
    code, out, _ = shown(capsys, "timeline", file, "--kernel", "gemm", *SM80)
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert ["statement", "line", "stage", "t=0", "t=1", "loop", "t=2…E-1", "t=E", "t=E+1"] in rows
    assert ["0", "T.copy", "A_shared", "17", "0", "0", "1", "t", "·", "·"] in rows
    assert ["2", "T.gemm", "acc", "19", "2", "·", "·", "t-2", "E-2", "E-1"] in rows
    assert "wait at the start of a slot: of the groups of cp.async, the newest 1 may be unfinished" in out
    assert "commit after T.copy B_shared, in every slot" in out
    assert "A_shared: 3 versions, 4096 bytes each; filled by T.copy A_shared (kernels.py:17:" in out
    assert "in use by T.gemm acc (kernels.py:19:" in out
    assert "2→0 anti A_shared +3" in out
    assert "guessed from the work" in out


def test_cycles_that_are_given_are_those_of_the_estimate(file, capsys):
    cycles = [*["--issue", "1", "--latency", "30", "--compute", "20", "--barrier", "8"]]
    _, out, _ = shown(capsys, "timeline", file, "--kernel", "gemm", *SM80, *cycles)
    assert "estimate for 16 trips on 3 versions: issue 1, latency 30, compute 20, barrier 8 cycles\n" in out
    found = {line.split()[0]: int(line.split()[1]) for line in out.splitlines() if line.endswith("steady state")}
    assert found == {"none": 350, "war": 350, "war+raw": 388, "war+raw+consumer": 478, "sync-copy": 628}
    with pytest.raises(SystemExit):
        raise SystemExit(main(["show", "timeline", file, "--latency", "soon"]))


def test_no_stages_are_one(file, capsys):
    _, out, _ = shown(capsys, "timeline", file, "--kernel", "gemm", "--arg", "stages=1", *SM80)
    assert "1 stage\n" in out and "A_shared: 1 version, 4096 bytes each" in out
    assert "wait before T.gemm acc: of the groups of cp.async, the newest 0 may be unfinished" in out


def test_memory_tells_offsets_lives_and_the_budget(file, capsys):
    code, out, _ = shown(capsys, "memory", file, "--kernel", "gemm", *SM80)
    assert code == 0
    assert "gemm: shared memory 24576 bytes of 166912 (15 %); 40960 bytes if no two tiles shared any" in out
    rows = {line.split()[2].rstrip(":"): line.split() for line in out.splitlines() if "shared:" in line}
    assert rows["A_shared"][:2] == ["0", "12288"] and rows["A_shared"][4] == "3"
    assert rows["B_shared"][:2] == ["12288", "12288"]
    assert rows["C_shared"][:2] == ["0", "16384"] and rows["C_shared"][-2:] == ["20", "21"]


def test_too_much_memory_is_shown_and_then_the_error(file, capsys):
    code, out, err = shown(capsys, "memory", file, "--kernel", "gemm", "--arg", "stages=30", *SM80)
    assert code == 1
    assert "245760 bytes of 166912 (147 %), too much" in out
    assert "E-SHARED-MEMORY" in err and "10 less in num_stages fits: 163840 bytes" in err


@pytest.mark.parametrize("what", ["timeline", "memory"])
def test_drawings_are_whole_files_without_anything_from_outside(what, file, tmp_path, capsys):
    svg, html = tmp_path / "out.svg", tmp_path / "out.html"
    code, out, _ = shown(capsys, what, file, "--kernel", "gemm", *SM80, "--svg", str(svg), "--html", str(html))
    assert code == 0 and out.splitlines() == [f"wrote {svg}", f"wrote {html}"]
    drawing = xml.etree.ElementTree.fromstring(svg.read_text(encoding="utf-8"))
    texts = [node.text for node in drawing.iter() if node.tag.endswith("text")]
    assert any("A_shared" in text for text in texts)
    boxes = [node for node in drawing.iter() if node.tag.endswith("rect")][1:]
    width, height = float(drawing.get("width")), float(drawing.get("height"))
    for box in boxes:
        assert float(box.get("x")) + float(box.get("width")) <= width
        assert 0 <= float(box.get("y")) and float(box.get("y")) + float(box.get("height")) <= height
    page = html.read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>") and "A_shared" in page
    assert "src=" not in page and "href=" not in page


@pytest.mark.parametrize(
    ("what", "kernel", "target", "code"),
    [
        ("timeline", "doubled", "cuda -arch=sm_80", "E-SHOW-PIPELINE"),
        ("timeline", "gemm", "cpu", "E-SHOW-PIPELINE"),
        ("memory", "doubled", "cuda -arch=sm_80", "E-SHOW-MEMORY"),
        ("memory", "gemm", "cpu", "E-SHOW-MEMORY"),
    ],
)
def test_a_kernel_without_is_an_error_that_says_what_to_do(what, kernel, target, code, file, capsys):
    status, out, err = shown(capsys, what, file, "--kernel", kernel, "--target", target)
    assert status == 1 and out == ""
    assert f"error[{code}]" in err and "help:" in err and "--target cuda" in err
