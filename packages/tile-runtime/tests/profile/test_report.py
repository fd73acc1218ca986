"""`tile profile`: the diagnosis from made-up numbers, the page, and the command on a file."""

import json
import xml.etree.ElementTree as ElementTree

import pytest

from tile_core.analysis.work import Work
from tile_core.cli.main import main
from tile_runtime.profile.devices import Peaks, cpu_peaks, gpu_peaks
from tile_runtime.profile.render import page, pass_table, roofline_svg, text
from tile_runtime.profile.report import KernelReport, diagnose, limits_of

H200 = gpu_peaks("NVIDIA H200")


def report(call=1.0, kernel=0.95, host=0.005, first=1.0, work=None, target="cuda -arch=sm_90a", peaks=H200):
    work = work or Work(gemm={"float16": 4e11}, read=50_000_000, written=25_000_000, asked=1e9, blocks=1000)
    return KernelReport(
        name="gemm<1>",
        target=target,
        device="NVIDIA H200",
        origin="compiled",
        phases={"lowering": 80.0, "compiling": 300.0},
        passes={"Simplify": 5.0, "LowerTileOp": 15.0},
        first_call=first,
        call=call,
        spread=(call, call),
        kernel=kernel,
        host=host,
        work=work,
        limits=limits_of(work, peaks),
        bandwidth=peaks.bandwidth,
        peak=peaks.matrix_peak("float16"),
    )


def test_limits_are_the_longest_first():
    limits = limits_of(Work(gemm={"bfloat16": 989.4e9}, other={"float32": 66.9e9}, read=4_800_000), H200)
    assert [(limit.what, round(limit.milliseconds, 6)) for limit in limits] == [
        ("gemm in bfloat16", 1.0),
        ("arithmetic in float32", 1.0),
        ("memory", 0.001),
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"kernel": 0.5},
            ["Host-bound: 50% of a call is launching, not the kernel (host work 5 µs). Replay a CUDA graph"],
        ),
        ({"kernel": 0.45}, ["Host-bound: 55%"]),
        ({"call": 0.45, "kernel": 0.42}, ["Device-bound by gemm in float16, at 96%"]),
        ({}, ["Device-bound, and at 43% of its limit (gemm in float16).", "Try larger tiles"]),
        ({"first": 500.0}, ["The first call takes 500 ms and a later one 1 ms: warm up", "Device-bound", "Try"]),
        (
            {"work": Work(read=2_000_000_000, asked=8e9, blocks=1000, other={"float32": 1e6})},
            ["Device-bound, and at 44% of its limit (memory).", "Blocks ask for 4.0 × the bytes"],
        ),
        ({"kernel": 0.1, "target": "cpu"}, ["Host-bound: 90% of a call is checking arguments, allocating"]),
    ],
)
def test_a_diagnosis(changes, said):
    found = diagnose(report(**changes))
    assert len(found) >= len(said)
    for line, start in zip(found, said):
        assert line.startswith(start)


def test_a_device_that_is_not_in_the_table_has_no_roofline():
    one = report()
    one.limits = []
    assert diagnose(one) == ["Device-bound; the device's limits are not in the table, so its roofline is not known."]
    assert "roofline" not in text(one) and gpu_peaks("Voodoo 2") is None


def test_types_without_a_rate_use_another_ones():
    t4 = gpu_peaks("Tesla T4")
    assert t4.matrix_peak("bfloat16") == 65e12 and t4.matrix_peak("float32") == 8.1e12
    assert gpu_peaks("NVIDIA A100-SXM4-40GB").bandwidth == 1.555e12
    assert Peaks("x", 1.0).vector_peak("float32") is None


def test_the_page_holds_the_numbers_and_a_plot():
    one = report()
    one.diagnosis = diagnose(one)
    svg = ElementTree.fromstring(roofline_svg(one))
    assert svg.find("polyline") is not None and svg.find("circle") is not None
    made = page([one])
    assert "gemm&lt;1&gt;" in made and "421 Top/s" in made and "LowerTileOp" in made and "http" not in made
    assert text(one).splitlines()[0] == "gemm<1> for cuda -arch=sm_90a on NVIDIA H200"
    assert pass_table(one).splitlines()[0].split() == ["LowerTileOp", "15.000", "ms", "75.0%"]


def test_this_machine_is_measured():
    peaks = cpu_peaks()
    assert peaks.measured and peaks.bandwidth > 1e8 and peaks.matrix_peak("float32") > 1e8


FILE = """
import tile_core as tile
import tile_core.language as T

@tile.jit(target="cpu")
def double(A, factor: int = 2):
    n = T.dynamic("n")
    A: T.Tensor[[n], T.float32]
    B = T.empty((n,), T.float32)
    with T.Kernel(T.ceildiv(n, 256)) as bx:
        for i in T.Parallel(256):
            B[bx * 256 + i] = A[bx * 256 + i] * factor
    return B
"""


@pytest.mark.slow
def test_the_command_profiles_a_file(tmp_path, capsys):
    file = tmp_path / "double.py"
    file.write_text(FILE)
    words = ["profile", str(file), "--arg", "A=float32[64]", "--size", "n=4096", "--rep", "5"]
    assert main([*words, "--html", str(tmp_path / "out.html"), "--passes"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("double for cpu") and "32.8 kB needed" in out and "diagnosis" in out and "Simplify" in out
    assert "<svg" in (tmp_path / "out.html").read_text()
    assert main([*words, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["work"]["bytes"] == 2 * 4 * 4096 and 0 < row["share"] and row["call"] >= row["kernel"] >= 0
    assert main([*words, "--size", "n"]) == 1
    assert "E-CLI-SIZE" in capsys.readouterr().err


@pytest.mark.gpu
def test_a_kernel_on_a_gpu_is_profiled(tmp_path, capsys):
    file = tmp_path / "double.py"
    file.write_text(FILE.replace('target="cpu"', 'target="cuda"').replace("256", "1024"))
    words = ["profile", str(file), "--arg", "A=float32[64]", "--json", "--size"]
    assert main([*words, f"n={1 << 26}"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert 0.3 < row["share"] <= 1.05 and row["limits"][0]["what"] == "memory"
    assert main([*words, "n=1024"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["diagnosis"][-1].startswith("Host-bound")
