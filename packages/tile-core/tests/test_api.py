"""The front door, on a backend made of two small passes."""

from __future__ import annotations

import platform
import subprocess
import sys
from types import SimpleNamespace

import pytest

import tile_core as tile
from tile_core.errors import OptionError, PluginError, TargetError
from tile_core.ir import PrimFunc, parse
from tile_core.offers import OFFERED
from tile_core.plugin import Backend, Ok, PassExtension, registry
from tile_core.settings import settings
from tile_core.target import Target
from tile_core.transform.base import Pass, register_pass
from tile_core.transform.manager import Pipeline
from tile_core.transform.options import declare_option

declare_option("test.api.read", 0, int, "an option that a pass of this test reads")
declare_option("test.api.inert", 0, int, "an option that no pass of this test reads")


@register_pass("TestApiMark", needs="TILE", leaves="same", options=("test.api.read",))
class Mark(Pass):
    def function(self, function, context):
        context.warn("marked")
        return function.with_attr("marked", context.options["test.api.read"])


@register_pass("TestApiCount", needs="TILE", leaves="CHOSEN")
class Count(Pass):
    """Changes nothing."""


@register_pass("TestApiThird", needs="TILE", leaves="same")
class Third(Pass):
    def function(self, function, context):
        return function.with_attr("third", True)


def resolve_target(target: Target) -> Target:
    return target.with_attrs(speed="fast")


def detect() -> Ok:
    return Ok("always")


def pipeline(target, options) -> Pipeline:
    return Pipeline("toy", [Mark, Count])


def generate(module, target):
    return {"device.c": module.script(), "host.c": f"// for {target}\n"}


HERE = __name__
TOY = Backend(
    name="toy",
    api=(1, 0),
    kinds=("toy",),
    resolve_target=f"{HERE}:resolve_target",
    detect=f"{HERE}:detect",
    pipeline=f"{HERE}:pipeline",
    candidates=f"{HERE}:candidates",
    codegen=f"{HERE}:generate",
    toolchain=None,
    execution_backends=("none",),
)
THIRD = PassExtension("third", (1, 0), "TestApiMark", f"{HERE}:Third")


class ToyRuntime:
    name = "toy"
    api = (1, 0)

    def jit(self, function, options):
        return ("jit", function, dict(options))

    def compile(self, function, options):
        return ("compile", function, dict(options))


def point(group, name, value):
    dist = SimpleNamespace(metadata={"Name": "toy"}, version="1")
    return SimpleNamespace(group=group, name=name, value=f"{HERE}:{name}", dist=dist, load=lambda: value)


POINTS = [
    point("tile.backends", "toy", TOY),
    point("tile.passes", "third", THIRD),
    point("tile.runtime", "default", ToyRuntime()),
]


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    # Tests are imported under a name of pytest's own; the specs name this module by it.
    monkeypatch.setitem(sys.modules, HERE, sys.modules.get(HERE) or sys.modules[__name__])
    with registry.use(registry.Registry(lambda: POINTS, choices={}, disabled=())) as plugins:
        yield plugins


def function() -> PrimFunc:
    found = parse(
        """
        @T.prim_func
        def add(A: T.Buffer((4,), T.float32), n: T.int32, B: T.Buffer((4,), T.float32)):
            B[n] = A[n]
        """
    )
    assert isinstance(found, PrimFunc)
    return found


def test_lower_goes_from_function_to_source():
    with pytest.warns(UserWarning, match="marked"):
        artifact = tile.lower(function(), "toy", out_idx=[-1], pass_configs={"test.api.read": 7, "test.api.inert": 1})
    assert str(artifact.target) == "toy -speed=fast"
    assert artifact.name == artifact.entry == "add"
    lowered = artifact.module["add"]
    assert (lowered.attr("marked"), lowered.attr("third"), lowered.attr("out_idx")) == (7, True, (2,))
    assert artifact.sources["host.c"] == "// for toy -speed=fast\n"
    assert list(artifact.notes["pass_seconds"]) == ["TestApiMark", "TestApiThird", "TestApiCount"]
    assert artifact.notes["inert_options"] == ["test.api.inert"]
    assert artifact.notes["diagnostics"] == ["marked"]


@pytest.mark.filterwarnings("ignore:marked")
def test_options_of_the_function_hold_unless_given():
    marked = function().with_attr("pass_configs", (("test.api.read", 3),))
    assert tile.lower(marked, "toy").module["add"].attr("marked") == 3
    assert tile.lower(marked, "toy", pass_configs={"test.api.read": 4}).module["add"].attr("marked") == 4


@pytest.mark.filterwarnings("ignore:marked")
def test_the_target_comes_from_the_call_then_the_function_then_the_setting():
    assert tile.lower(function().with_attr("target", "toy -a=1"), "toy -a=2").target.get("a") == "2"
    assert tile.lower(function().with_attr("target", "toy -a=1")).target.get("a") == "1"
    with settings.scope(default_target="toy -a=3"):
        assert tile.lower(function()).target.get("a") == "3"


@pytest.mark.filterwarnings("ignore:marked")
def test_a_dump_folder_gets_the_ir_after_each_pass(tmp_path):
    with settings.scope(dump_ir_dir=tmp_path):
        tile.lower(function(), "toy")
    folder = tmp_path / "add"
    assert sorted(p.name for p in folder.iterdir()) == [
        "00-traced.txt",
        "01-TestApiMark.txt",
        "02-TestApiThird.txt",
        "03-TestApiCount.txt",
    ]
    assert parse((folder / "01-TestApiMark.txt").read_text()).functions[0].attr("marked") == 0


@pytest.mark.parametrize(
    ("out_idx", "summary"),
    [
        (3, "out_idx: 3 names no tensor among the 3 parameters of add"),
        (-4, "out_idx: -4 names no tensor among the 3 parameters of add"),
        ([1], "out_idx: 1 names no tensor among the 3 parameters of add"),
        ([2, -1], "out_idx: -1 is given twice among the 3 parameters of add"),
    ],
)
def test_out_idx_that_names_no_output_is_refused(out_idx, summary):
    with pytest.raises(OptionError) as caught:
        tile.lower(function(), "toy", out_idx=out_idx)
    assert (caught.value.code, caught.value.summary) == ("E-OUT-IDX", summary)
    assert caught.value.facts == ("0: A", "1: n", "2: B")


def test_lower_and_compile_take_traced_functions_only():
    with pytest.raises(OptionError) as caught:
        tile.lower(lambda: None, "toy")
    assert caught.value.code == "E-LOWER-FUNCTION"
    assert caught.value.summary == "tile.lower was given a function, not a traced function"
    with pytest.raises(OptionError, match="was given a str"):
        tile.compile("gemm")


def test_jit_and_compile_hand_the_runtime_what_was_given():
    f = function()
    assert tile.compile(f, target="toy", out_idx=0) == ("compile", f, {"target": "toy", "out_idx": 0})
    decorated = tile.jit(test_jit_and_compile_hand_the_runtime_what_was_given)
    assert decorated[0] == "jit" and decorated[2] == {}
    assert tile.jit(out_idx=[-1], verbose=False)(len) == ("jit", len, {"out_idx": [-1], "verbose": False})


MACHINE = platform.machine()
SYSTEM = {"win32": "windows"}.get(sys.platform, sys.platform)


@pytest.mark.parametrize(
    "host", [None, "auto", "c", "cpu", {"kind": "c"}, Target("cpu"), f"c -mtriple={MACHINE}-pc-{SYSTEM}-gnu"]
)
def test_the_host_may_be_said_where_it_is_this_machine(host):
    f = function()
    assert tile.lower(f, "toy", target_host=host).sources == tile.lower(f, "toy").sources
    assert tile.jit(target_host=host, target="toy")(len) == ("jit", len, {"target": "toy"})
    assert tile.compile(f, target_host=host) == ("compile", f, {})


@pytest.mark.parametrize(
    ("host", "summary"),
    [
        ("llvm", "no host function is compiled for llvm"),
        ("cuda -arch=sm_80", "no host function is compiled for cuda"),
        ("c -mcpu=haswell", "-mcpu has no meaning for the host"),
        ("c -mtriple=s390x-linux-gnu", "s390x-linux-gnu is another machine than this one"),
        (f"c -mtriple={MACHINE}-pc-plan9", f"{MACHINE}-pc-plan9 is another machine than this one"),
    ],
)
def test_another_host_is_refused_everywhere(host, summary):
    f = function()
    calls = (
        lambda: tile.lower(f, "toy", target_host=host),
        lambda: tile.jit(target_host=host),
        lambda: tile.compile(f, target_host=host),
        lambda: tile.par_compile([f], target_host=host),
    )
    for call in calls:
        with pytest.raises(TargetError, match="E-TARGET-HOST") as caught:
            call()
        assert summary in caught.value.summary


def test_without_a_runtime_jit_says_what_to_install():
    with registry.use(registry.Registry(list, choices={}, disabled=())), pytest.raises(PluginError) as caught:
        tile.jit(lambda: None)
    assert caught.value.help == "install tile-runtime"


def test_integer_helpers():
    assert [tile.cdiv(a, 4) for a in (0, 1, 4, 5)] == [0, 1, 1, 2]
    assert [tile.next_power_of_2(n) for n in (0, 1, 2, 3, 64, 65)] == [1, 1, 2, 4, 64, 128]


def test_every_public_name_is_there():
    for name in set(tile.__all__) - set(OFFERED):
        assert getattr(tile, name) is not None
    for name in set(tile.__all__) & set(OFFERED) - {"autotune", "op"}:
        with pytest.raises(PluginError, match="the runtime toy has no"):
            getattr(tile, name)
    with pytest.raises(AttributeError, match="module 'tile_core' has no attribute 'jitt'"):
        tile.jitt


FORBIDDEN = ("torch", "tvm_ffi", "z3", "numpy", "subprocess", "importlib_metadata")


@pytest.mark.parametrize("module", ["tile_core", "tile_core.language", "tile_core.api", "tile_core.plugin.registry"])
def test_importing_loads_nothing_heavy(module):
    # How long it takes is measured by benchmarks/run.py.
    program = f"import sys, {module}; print([m for m in {FORBIDDEN!r} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
