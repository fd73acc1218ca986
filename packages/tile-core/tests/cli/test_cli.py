"""The tile program, in this process, on a toy backend."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest

from tile_core.cli import compile as compile_command
from tile_core.cli import info as info_command
from tile_core.cli import show as show_command
from tile_core.cli.main import main
from tile_core.errors import CompileError
from tile_core.ir import parse, structural_equal
from tile_core.plugin import Backend, Ok, Reason, registry
from tile_core.target import Target
from tile_core.transform.base import Pass, register_pass
from tile_core.transform.manager import Pipeline

HERE = __name__


@register_pass("TestCliSame", needs="TILE", leaves="same")
class Same(Pass):
    """Changes nothing."""


@register_pass("TestCliMark", needs="TILE", leaves="CHOSEN")
class Mark(Pass):
    def function(self, function, context):
        if function.name == "bad":
            raise CompileError("E-EXPR-TYPE", "this kernel is bad", span=function.body.span)
        return function.with_attr("marked", 1)


def resolve_target(target: Target) -> Target:
    return target.with_attrs(speed="fast")


def present() -> Ok:
    return Ok("one toy")


def absent() -> Reason:
    return Reason("no toy found")


def pipeline(target, options) -> Pipeline:
    return Pipeline("toy", [Same, Mark])


def generate(module, target):
    return {"kernel.toy": f"// {target}\n", "host.toy": "// host\n"}


def toy(name: str, detect: str, priority: int) -> Backend:
    parts = {k: f"{HERE}:{v}" for k, v in (("resolve_target", "resolve_target"), ("detect", detect))}
    parts |= {k: f"{HERE}:{v}" for k, v in (("pipeline", "pipeline"), ("candidates", "x"), ("codegen", "generate"))}
    return Backend(
        name=name, api=(1, 0), kinds=(name,), toolchain=None, execution_backends=("x",), priority=priority, **parts
    )


class ToyRuntime:
    name = "toy"
    api = (1, 0)

    def jit(self, function, options):
        return SimpleNamespace(function=function, trace=function, options=SimpleNamespace(**options))

    def compile(self, function, options):
        notes = {"seconds": {"lowering": 0.25}}
        artifact = SimpleNamespace(notes=notes)
        return SimpleNamespace(target=options.get("target", "auto"), key="ab" * 32, origin="disk", artifact=artifact)


def point(group, name, value, distribution="toy-tile"):
    def load():
        if isinstance(value, Exception):
            raise value
        return value

    dist = SimpleNamespace(metadata={"Name": distribution}, version="1")
    return SimpleNamespace(group=group, name=name, value="toy_tile:SPEC", dist=dist, load=load)


POINTS = [
    point("tile.backends", "toy", toy("toy", "present", 1)),
    point("tile.backends", "far", toy("far", "absent", 9)),
    point("tile.backends", "sad", ImportError("no vendor")),
    point("tile.runtime", "default", ToyRuntime()),
    point("tile.commands", "compile", compile_command.COMMAND, "tile-core"),
    point("tile.commands", "info", info_command.COMMAND, "tile-core"),
    point("tile.commands", "show", show_command.COMMAND, "tile-core"),
    point("tile.commands", "worse", ImportError("gone")),
]


@pytest.fixture(autouse=True)
def plugins():
    assert HERE in sys.modules
    with registry.use(registry.Registry(lambda: POINTS, choices={}, disabled=())) as current:
        yield current


KERNELS = """
    import tile_core as tile
    import tile_core.language as T

    @T.prim_func
    def plain(A: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            A[0] = 1.0

    def factory(M, dtype="float32"):
        @T.prim_func
        def made(A: T.Tensor((M,), dtype)):
            with T.Kernel(1):
                A[0] = A[1]

        return made

    @tile.jit(out_idx=[-1])
    def decorated(M=16):
        return factory(M)

    def eager(A, B):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        B: T.Tensor((N,), "float32")
        with T.Kernel(1):
            B[0] = A[0]

    def helper(x):
        return x + 1
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "kernels.py"
    path.write_text(textwrap.dedent(KERNELS))
    return str(path)


def test_help_lists_commands_and_names_those_that_cannot_be_used(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert "  compile    compile the kernels of a file" in text
    assert "  worse      cannot be used: command 'worse' of toy-tile 1 (toy_tile:SPEC) cannot be used" in text
    assert main([]) == 2


def test_a_wrong_command_or_option_ends_with_2(capsys, file):
    assert main(["compil", file]) == 2
    assert capsys.readouterr().err == "tile: there is no command 'compil'; did you mean `tile compile`?\n"
    assert main(["compile", file, "--shw"]) == 2
    assert "unrecognized arguments: --shw" in capsys.readouterr().err
    assert main(["compile", file, "--show", "ir,asm"]) == 2
    assert "'asm' is not one of ir, device, host, attrs, key" in capsys.readouterr().err
    assert main(["show", "asm", file]) == 2
    assert main(["compile"]) == 2
    assert main(["compile", "--help"]) == 0


def test_a_broken_command_says_why(capsys):
    assert main(["worse"]) == 1
    assert "importing it raised ImportError: gone" in capsys.readouterr().err


def test_compile_shows_what_is_asked_for(capsys, file):
    assert main(["compile", file, "--kernel", "plain", "--target", "toy -x=1", "--show", "ir"]) == 0
    shown = parse(capsys.readouterr().out)
    assert shown.name == "plain"
    assert main(["compile", file, "--kernel", "plain", "--target", "toy -x=1", "--show", "device,host,attrs,key"]) == 0
    assert re.fullmatch(
        r"# --- device\n// toy -speed=fast -x=1\n# --- host\n// host\n# --- attrs\ntarget = toy -speed=fast -x=1\n"
        r"\n?# --- key\nir [0-9a-f]{64}\ncache (abab)+\n",
        capsys.readouterr().out,
    )


def test_compile_compiles_every_kernel_that_has_its_values(capsys, file):
    assert main(["compile", file, "--target", "toy"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "plain: found on disk for toy; lowering 250 ms; key abababababababab…",
        "decorated: found on disk for toy; lowering 250 ms; key abababababababab…",
    ]
    assert err.splitlines() == [
        "tile: factory is left out: it needs --arg M",
        "tile: eager is left out: it needs --arg A, B",
    ]


def test_values_make_factories_and_eager_functions_into_kernels(capsys, file):
    words = ["compile", file, "--show", "ir", "--kernel"]
    assert main([*words, "factory", "--arg", "M=32", "--arg", "dtype=float16"]) == 0
    assert "def made(A: T.Buffer((32,), T.float16)):" in capsys.readouterr().out
    assert main([*words, "eager", "--arg", "A=float32[64]", "--arg", "B=float32[64]"]) == 0
    assert "(64,), T.float32" in capsys.readouterr().out
    assert main([*words, "decorated"]) == 0
    assert parse(capsys.readouterr().out).attr("out_idx") == (0,)


@pytest.mark.parametrize(
    ("words", "code", "summary"),
    [
        (["--kernel", "none"], "E-CLI-KERNEL", "holds no kernel 'none' at module level"),
        (["--kernel", "helper"], "E-CLI-KERNEL", "holds no kernel 'helper' at module level"),
        (["--kernel", "factory"], "E-CLI-ARGUMENT", "kernel factory needs values for M"),
        (["--arg", "Q=3"], "E-CLI-ARGUMENT", "no kernel has a parameter 'Q'"),
        (["--arg", "3"], "E-CLI-ARGUMENT", "--arg '3' is not NAME=VALUE"),
        (["--kernel", "eager", "--arg", "A=float99[3]"], "E-DTYPE", "'float99' is not an element type"),
        (["--target", "tooy"], "E-TARGET-UNKNOWN", "no backend knows target kind 'tooy'"),
    ],
)
def test_wrong_wishes_are_errors_with_code(capsys, file, words, code, summary):
    assert main(["compile", file, "--show", "attrs", *words]) == 1
    text = capsys.readouterr().err
    assert f"error[{code}]" in text and summary in text


def test_a_file_that_cannot_be_run_shows_its_line(capsys, tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("x = 1\ny = x + missing_name\n")
    assert main(["compile", str(path)]) == 1
    assert capsys.readouterr().err.splitlines()[:4] == [
        f"error[E-CLI-FILE]: running {path} raised NameError: name 'missing_name' is not defined",
        "  --> broken.py:2:1",
        "    2 | y = x + missing_name",
        "      | ^^^^^^^^^^^^^^^^^^^^",
    ]
    path.write_text("def (:\n")
    assert main(["compile", str(path)]) == 1
    assert "raised SyntaxError" in capsys.readouterr().err
    assert main(["compile", str(tmp_path / "absent.py")]) == 1
    assert "is not a file" in capsys.readouterr().err
    path.write_text("x = 1\n")
    assert main(["compile", str(path)]) == 1
    assert "holds no kernel at module level" in capsys.readouterr().err


def test_show_ir_prints_each_pass_and_says_what_is_unchanged(capsys, file):
    assert main(["show", "ir", file, "--kernel", "plain", "--target", "toy"]) == 0
    text = capsys.readouterr().out
    titles = [re.sub(r" \d+\.\d+ ms", "", line) for line in text.splitlines() if line.startswith("# =====")]
    assert titles == [
        "# ===== plain: 00 traced [TILE]",
        "# ===== plain: 01 TestCliSame [TILE], unchanged",
        "# ===== plain: 02 TestCliMark [CHOSEN]",
    ]
    pieces = re.split(r"# =====.*\n", text)[1:]
    assert pieces[1] == ""
    before, after = (parse(pieces[i]).functions[0] for i in (0, 2))
    assert structural_equal(before.with_attr("marked", 1), after)


def test_show_ir_can_show_one_pass_or_differences(capsys, file):
    words = ["show", "ir", file, "--kernel", "plain", "--target", "toy"]
    assert main([*words, "--pass", "TestCliMark", "--diff"]) == 0
    changed = [line for line in capsys.readouterr().out.splitlines() if line[0] in "+-"]
    assert changed == ['+        T.func_attr("marked", 1)']
    assert main([*words, "--pass", "NoPass"]) == 1
    assert "passes: traced, TestCliSame, TestCliMark" in capsys.readouterr().err
    assert main([*words, "--spans", "--pass", "traced"]) == 0
    assert "# kernels.py:8" in capsys.readouterr().out


def test_show_ir_writes_one_page_without_outside_files(capsys, file, tmp_path):
    out = tmp_path / "ir.html"
    assert main(["show", "ir", file, "--target", "toy", "--html", str(out)]) == 0
    page = out.read_text()
    assert "http" not in page and "src=" not in page and "<link" not in page
    assert page.count("<section") == 6
    assert '<td class="add">        T.func_attr(&quot;marked&quot;, 1)</td>' in page
    assert "plain: TestCliSame <small>TILE, unchanged</small>" in page


def test_show_ir_shows_the_way_to_a_fault(capsys, tmp_path):
    path = tmp_path / "faulty.py"
    path.write_text(
        textwrap.dedent(
            """
            import tile_core.language as T

            @T.prim_func
            def bad(A: T.Tensor((8,), "float32")):
                with T.Kernel(1):
                    A[0] = 1.0
            """
        )
    )
    out = tmp_path / "ir.html"
    assert main(["show", "ir", str(path), "--target", "toy"]) == 1
    text, err = capsys.readouterr()
    assert "bad: 01 TestCliSame" in text and "TestCliMark" not in text
    assert "error[E-EXPR-TYPE]: this kernel is bad" in err and "--> faulty.py:6" in err
    assert main(["show", "ir", str(path), "--target", "toy", "--html", str(out)]) == 1
    assert "this kernel is bad" in out.read_text()


def test_info_lists_plugins_targets_and_settings(capsys, monkeypatch):
    monkeypatch.setenv("TILE_NUM_THREADS", "none at all")
    monkeypatch.setenv("TILE_CACHEDIR", "/x")
    assert main(["info"]) == 0
    lines = [re.sub(r"  +", "  ", line) for line in capsys.readouterr().out.splitlines()]
    assert "  backend  sad  toy-tile  1  broken  importing it raised ImportError: no vendor" in lines
    assert "  toy (auto)  present: one toy  none" in lines
    assert "  far  absent: no toy found  none" in lines
    assert (
        "  TILE_NUM_THREADS  cannot be read: found: 'none at all'; allowed: a whole number, 1 or more  TILE_NUM_THREADS"
        in [line.replace("found:  ", "found: ") for line in lines]
    )
    assert "  TILE_CACHEDIR is set and means nothing; did you mean TILE_CACHE_DIR?" in lines


def test_info_as_json(capsys):
    assert main(["info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert {p["name"]: p["state"] for p in facts["plugins"] if p["kind"] == "backend"} == {
        "far": "ready",
        "sad": "broken",
        "toy": "ready",
    }
    assert [t["target"] for t in facts["targets"] if t["auto"]] == ["toy"]


def test_info_says_what_is_missing_what_it_costs_and_how_to_get_it(capsys, monkeypatch):
    monkeypatch.setattr(
        "tile_core.cli.missing.importlib.util.find_spec", lambda name: None if name == "tile_runtime" else name
    )
    assert main(["info", "--json"]) == 0
    missing = {row["piece"]: (row["costs"], row["get"]) for row in json.loads(capsys.readouterr().out)["missing"]}
    assert missing["tile-runtime"][0].startswith("no jit, no compile") and missing["tile-runtime"][1] == (
        "pip install tile-runtime"
    )
    assert missing["a device for far"][0] == "kernels for far are lowered and shown only (no toy found)"
    assert missing["sad of toy-tile"][0].startswith("backend sad is broken: importing it raised ImportError")
    assert all(costs and get for costs, get in missing.values())


def test_the_program_runs_as_a_program():
    run = subprocess.run([sys.executable, "-m", "tile_core.cli.main", "--version"], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "") and re.fullmatch(r"tile \d+\.\d+\.\d+\n", run.stdout)


def test_a_reader_that_stops_early_is_no_error(file):
    command = f"{sys.executable} -m tile_core.cli.main info | head -n 1"
    run = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert run.stdout.startswith("tile-core ") and run.stderr == ""
