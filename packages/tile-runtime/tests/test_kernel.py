"""The kernel object: calls by name, sources, exports, explanations."""

import io
from types import SimpleNamespace

import pytest

from tile_core.dtypes import DType
from tile_core.errors import ArgumentError, OptionError
from tile_core.ir import Buffer, Evaluate, IntImm, IRModule, PrimFunc, Var
from tile_core.plugin.api import Artifact
from tile_core.source import Span
from tile_core.target import Target
from tile_runtime.kernel import Kernel

FLOAT32 = DType("float32")
FUNCTION = PrimFunc(
    "scale",
    (Buffer("A", (IntImm(4),), FLOAT32), Var("s", FLOAT32), Buffer("C", (IntImm(4),), FLOAT32)),
    Evaluate(IntImm(0)),
    (("out_idx", (2,)),),
)
SOURCES = {"kernel.cpp": "void scale_kernel() {}", "host.c": "int scale() {}"}


def make(sources=SOURCES, binaries=None, choices=(), notes=None, entry=lambda *args: args):
    artifact = Artifact(
        Target("cpu", {"isa": "avx2"}),
        "scale",
        FUNCTION,
        IRModule((FUNCTION,)),
        dict(sources),
        dict({"kernel.so": b"library"} if binaries is None else binaries),
        "scale",
        list(choices),
        dict(notes or {}),
    )
    return Kernel(artifact, entry, "tvm_ffi", "ab" * 32, "compiled")


def test_it_says_what_it_is():
    kernel = make()
    assert repr(kernel) == "<Kernel scale(A: float32[4], s: float32, C: float32[4]) for cpu through tvm_ffi>"
    assert kernel.out_idx == (2,) and [param.name for param in kernel.params] == ["A", "s", "C"]
    assert kernel.prim_func is FUNCTION and kernel.script() == FUNCTION.script()


def test_arguments_go_in_order_or_by_name():
    kernel = make()
    assert kernel("a", 2) == kernel("a", s=2) == kernel(s=2, A="a") == ("a", 2)


@pytest.mark.parametrize(
    ("args", "named", "problem"),
    [
        (("a",), {"A": 1, "s": 2}, "A is given twice"),
        (("a", 2), {"x": 1}, "there is no input x"),
        ((), {"A": 1}, "s not given"),
        (("a", 2, 3), {"s": 2}, "s is given twice"),
        (("a", 2), {"C": 1}, "there is no input C"),
    ],
)
def test_wrong_names_are_told(args, named, problem):
    with pytest.raises(ArgumentError) as caught:
        make()(*args, **named)
    assert str(caught.value) == f"error[E-ARG-COUNT]: scale: {problem}\n   inputs:   A: float32[4], s: float32"


def test_sources_are_shown_and_exported(tmp_path):
    kernel = make()
    assert kernel.get_kernel_source() == kernel.kernel_source == SOURCES["kernel.cpp"]
    assert kernel.get_host_source() == kernel.host_source == SOURCES["host.c"]
    shown = io.StringIO()
    kernel.show_source("both", shown)
    assert shown.getvalue() == "void scale_kernel() {}\nint scale() {}\n"
    kernel.export_sources(tmp_path / "new" / "k.cpp", tmp_path / "h.c")
    assert (tmp_path / "new" / "k.cpp").read_text() == SOURCES["kernel.cpp"]
    assert (tmp_path / "h.c").read_text() == SOURCES["host.c"]
    kernel.export_library(tmp_path / "out" / "scale.so")
    assert (tmp_path / "out" / "scale.so").read_bytes() == b"library"


def test_one_file_for_both_is_shown_once():
    kernel = make({"kernel.cpp": "both"})
    assert kernel.get_host_source() == kernel.get_kernel_source() == "both"
    shown = io.StringIO()
    kernel.show_source("both", shown)
    assert shown.getvalue() == "both\n"


def test_a_library_kept_as_a_path_is_exported(tmp_path):
    (tmp_path / "kernel.so").write_bytes(b"kept")
    make(binaries={"kernel.so": tmp_path / "kernel.so"}).export_library(tmp_path / "copy.so")
    assert (tmp_path / "copy.so").read_bytes() == b"kept"


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (
            lambda k: k.show_source("all"),
            "error[E-KERNEL-SOURCE]: show_source: which='all'\n   allowed: kernel, host, both",
        ),
        (
            lambda k: k.export_sources(),
            "error[E-KERNEL-SOURCE]: export_sources: no path given\n  help: pass kernel_path, host_path or both",
        ),
        (
            lambda k: k.get_host_source(),
            "error[E-KERNEL-SOURCE]: scale: there is no host source for cpu -isa=avx2\n   sources: kernel.a, kernel.b",
        ),
        (
            lambda k: k.export_library("x"),
            "error[E-KERNEL-SOURCE]: scale: there is no library for cpu -isa=avx2\n   binaries: none",
        ),
    ],
)
def test_what_is_not_there_is_told(act, text):
    with pytest.raises(OptionError) as caught:
        act(make({"kernel.a": "a", "kernel.b": "b"}, binaries={}))
    assert str(caught.value) == text


def test_explain_lists_choices_inert_options_and_notes():
    choice = SimpleNamespace(
        op=SimpleNamespace(name="gemm"),
        span=Span("<k>", 7, 4),
        taken="packed",
        cost=12.0,
        considered=[("tensor_core", "no such unit"), ("packed", "legal")],
    )
    kernel = make(choices=[choice, "T.copy: vector (cost 1)"], notes={"inert_options": ["tl.x"], "diagnostics": ["d"]})
    assert kernel.explain() == (
        "scale for cpu -isa=avx2 through tvm_ffi\n"
        "T.gemm at <k>:7:5: packed (cost 12)\n"
        "    tensor_core: no such unit\n"
        "T.copy: vector (cost 1)\n"
        "options without effect here: tl.x\n"
        "note: d"
    )
    assert make().explain().endswith("no tile operation had a choice")


def test_an_artifact_survives_the_disk(tmp_path):
    from tile_runtime.cache import DiskCache
    from tile_runtime.cache.artifact import artifact_files, artifact_from_entry

    kernel = make(choices=["T.copy: vector (cost 1)"], notes={"diagnostics": ["d"], "seconds": {"x": 1.0}})
    entry = DiskCache(tmp_path, "1").publish("ab" * 32, artifact_files(kernel.artifact))
    again = Kernel(artifact_from_entry(entry, FUNCTION, kernel.target), lambda: None, "tvm_ffi", "ab" * 32, "disk")
    assert again.explain() == kernel.explain()
    assert again.artifact.sources == SOURCES and again.artifact.entry == "scale"
    again.export_library(tmp_path / "lib.so")
    assert (tmp_path / "lib.so").read_bytes() == b"library"
