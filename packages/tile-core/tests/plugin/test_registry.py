"""The registry on fake distributions: every state, every conflict, every sentence."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from tile_core.errors import OptionError, PluginError, TargetError
from tile_core.plugin import PLUGIN_API, registry
from tile_core.plugin.registry import Registry
from tile_core.settings import settings
from tile_core.target import Target

MAJOR, MINOR = PLUGIN_API

BACKEND = """
from tile_core.plugin import PLUGIN_API, Backend, Ok, Reason
from tile_core.errors import TargetError, declare_codes

def resolve_target(target):
    return target.with_attrs(resolved="yes")

def present():
    return Ok("one device")

def absent():
    return Reason("no device of mine", "buy one")

def failing():
    raise OSError("driver exploded")

def backend(name, *, api=PLUGIN_API, kinds=None, detect="present", priority=0, replaces=(), executions=("run",)):
    here = __name__
    return Backend(
        name=name, api=api, kinds=kinds or (name,), resolve_target=here + ":resolve_target",
        detect=here + ":" + detect, pipeline=here + ":p", candidates=here + ":c", codegen=here + ":g", toolchain=None,
        execution_backends=executions, priority=priority, replaces=replaces,
    )
"""

count = iter(range(10_000))


class World:
    """A folder of fake distributions."""

    def __init__(self, folder) -> None:
        self.folder = folder

    def add(self, distribution: str, body: str, *points: str, version: str = "1.2", prelude: str = BACKEND) -> str:
        """A distribution with one module; each point is ``group name object``. Returns the module's name."""
        module = f"fake_plugin_{next(count)}"
        (self.folder / f"{module}.py").write_text(prelude + textwrap.dedent(body))
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        groups: dict[str, list[str]] = {}
        for point in points:
            group, name, attribute = point.split()
            groups.setdefault(group, []).append(f"{name} = {module}:{attribute}")
        text = "\n".join(f"[{group}]\n" + "\n".join(lines) for group, lines in groups.items())
        (info / "entry_points.txt").write_text(text + "\n")
        return module

    def registry(self, **kwargs) -> Registry:
        return Registry(lambda: registry.entry_points_under(str(self.folder)), **kwargs)


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    return World(tmp_path)


def one(plugins: Registry, name: str, group: str = "tile.backends"):
    (record,) = [r for r in plugins.records(group, loaded=True) if r.name == name]
    return record


def test_listing_imports_nothing(world):
    module = world.add("acme-tile", "B = backend('acme')", "tile.backends acme B")
    (record,) = world.registry().records()
    assert (record.state, record.name, record.distribution, record.version) == ("listed", "acme", "acme-tile", "1.2")
    assert module not in sys.modules


def test_a_good_backend_is_ready_and_resolves_targets(world):
    world.add("acme-tile", "B = backend('acme')", "tile.backends acme B")
    plugins = world.registry()
    backend, target = plugins.resolve_target("acme -x=1")
    assert backend.name == "acme"
    assert str(target) == "acme -resolved=yes -x=1"
    assert one(plugins, "acme").state == "ready"


def test_using_one_plugin_imports_no_other(world):
    world.add("acme-tile", "X = backend('x')", "tile.execution_backends x X", "tile.runtime default X")
    other = world.add("other-tile", "B = backend('y')", "tile.commands y B")
    with pytest.raises(PluginError):
        world.registry().execution_backend("x")
    assert other not in sys.modules


@pytest.mark.parametrize(
    ("body", "point", "reason"),
    [
        ("raise RuntimeError('no vendor library')", "tile.backends acme B",
         "importing it raised RuntimeError: no vendor library"),
        ("import no_such_module_at_all", "tile.backends acme B",
         "importing it raised ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        ("raise SystemExit(3)", "tile.backends acme B", "importing it raised SystemExit: 3"),
        ("B = 7", "tile.backends acme B", "it names 7, which is not a Backend instance"),
        ("B = backend('other')", "tile.backends acme B",
         "its entry point is called 'acme' and its spec 'other'"),
        ("B = backend('acme', api=(1, 0, 0))", "tile.backends acme B",
         "importing it raised ValueError: backend acme: api must be (major, minor)"),
        ("B = backend('acme')", "tile.execution_backends acme B", "which is not an ExecutionBackend instance"),
    ],
)  # fmt: skip
def test_a_broken_plugin_keeps_its_reason_and_raises_it_on_use(world, body, point, reason):
    world.add("acme-tile", body, point)
    world.add("good-tile", "B = backend('good')", "tile.backends good B")
    plugins = world.registry()
    group = point.split()[0]
    record = one(plugins, "acme", group)
    assert record.state == "broken" and reason in record.reason
    assert one(plugins, "good").state == "ready"
    with pytest.raises(PluginError) as caught:
        plugins.get(group, "acme")
    assert caught.value.code == "E-PLUGIN-BROKEN"
    assert caught.value.__cause__ is record.cause
    assert "acme-tile 1.2 (fake_plugin_" in caught.value.summary and reason in caught.value.summary
    assert caught.value.help == "repair or uninstall acme-tile"


def test_keyboard_interrupt_passes_through(world):
    world.add("acme-tile", "raise KeyboardInterrupt", "tile.backends acme B")
    with pytest.raises(KeyboardInterrupt):
        world.registry().backends()


@pytest.mark.parametrize(
    ("api", "reason"),
    [
        ((MAJOR + 1, 0), f"{MAJOR + 1}.0, this tile-core provides {MAJOR}.{MINOR}: upgrade tile-core"),
        ((MAJOR, MINOR + 1), f"{MAJOR}.{MINOR + 1}, this tile-core provides {MAJOR}.{MINOR}: upgrade tile-core"),
        ((MAJOR - 1, 9), f"{MAJOR - 1}.9, this tile-core provides {MAJOR}.{MINOR}: upgrade acme-tile"),
    ],
)  # fmt: skip
def test_another_api_version_says_who_must_move(world, api, reason):
    world.add("acme-tile", f"B = backend('acme', api={api})", "tile.backends acme B")
    plugins = world.registry()
    assert one(plugins, "acme").state == "incompatible"
    with pytest.raises(PluginError) as caught:
        plugins.backend_for("acme")
    assert caught.value.code == "E-PLUGIN-INCOMPATIBLE"
    assert caught.value.summary.endswith("cannot be used: it was built for plugin API " + reason)


def two(world, **kwargs):
    world.add("tile-acme", "B = backend('acme', priority=1)", "tile.backends acme B")
    world.add("vendor-tile-acme", f"B = backend('acme', priority=2, replaces={kwargs.pop('replaces', ())})",
              "tile.backends acme B", version="9")  # fmt: skip
    return world.registry(**kwargs)


def test_two_distributions_with_one_name_are_in_conflict(world):
    plugins = two(world)
    with pytest.raises(PluginError) as caught:
        plugins.backend_for("acme")
    assert caught.value.code == "E-PLUGIN-CONFLICT"
    assert caught.value.summary == "backend 'acme' is claimed by 2 distributions"
    assert caught.value.help == "uninstall one of them, or choose with TILE_BACKENDS=acme=<distribution>"
    assert [fact.partition(" (")[0] for fact in caught.value.facts] == ["tile-acme 1.2", "vendor-tile-acme 9"]
    assert {r.state for r in plugins.records()} == {"conflict"}


def test_one_may_say_that_it_replaces_the_other(world):
    plugins = two(world, replaces=("Tile_Acme",))
    assert plugins.backend_for("acme").priority == 2
    assert {r.distribution: (r.state, r.reason) for r in plugins.records()} == {
        "tile-acme": ("disabled", "vendor-tile-acme 9 replaces it"),
        "vendor-tile-acme": ("ready", ""),
    }


def test_a_setting_chooses_between_them(world, monkeypatch):
    monkeypatch.setenv("TILE_BACKENDS", "acme=tile-acme")
    plugins = two(world)
    assert plugins.backend_for("acme").priority == 1
    reasons = {r.distribution: r.reason for r in plugins.records()}
    assert reasons["vendor-tile-acme"] == "TILE_BACKENDS chooses tile-acme for acme"


def test_a_broken_rival_does_not_break_the_good_one(world):
    world.add("tile-acme", "B = backend('acme')", "tile.backends acme B")
    world.add("vendor-tile-acme", "raise ImportError('x')", "tile.backends acme B")
    assert world.registry().backend_for("acme").name == "acme"


def test_two_backends_for_one_kind_ask_for_a_choice(world):
    world.add("tile-acme", "B = backend('acme', kinds=('k',))", "tile.backends acme B")
    world.add("tile-other", "B = backend('other', kinds=('k',))", "tile.backends other B")
    with pytest.raises(PluginError) as caught:
        world.registry().backend_for("k")
    assert caught.value.summary == "target kind 'k' is claimed by backends acme and other"
    assert world.registry(choices={"k": "tile-other"}).backend_for("k").name == "other"


@pytest.mark.parametrize("words", [["acme"], ["acme-tile"], ["ACME_tile"], ["all"]])
def test_disabled_plugins_are_listed_and_never_imported(world, words):
    module = world.add("acme-tile", "B = backend('acme')", "tile.backends acme B")
    plugins = world.registry(disabled=words)
    assert plugins.backends() == []
    assert one(plugins, "acme").state == "disabled"
    assert module not in sys.modules
    with pytest.raises(PluginError) as caught:
        plugins.backend_for("acme")
    assert caught.value.code == "E-PLUGIN-DISABLED"
    assert "TILE_DISABLE_PLUGINS" in str(caught.value)


def test_a_missing_backend_says_what_to_install(world):
    with pytest.raises(PluginError) as caught:
        world.registry().resolve_target("cuda -arch=sm_90a")
    assert str(caught.value) == (
        "error[E-PLUGIN-MISSING]: no installed distribution brings backend 'cuda'\n"
        "   installed: none\n"
        "  help: install tile-cuda"
    )
    with pytest.raises(PluginError) as caught:
        world.registry().runtime()
    assert caught.value.help == "install tile-runtime"


def test_an_unknown_kind_shows_the_known_ones(world):
    world.add("acme-tile", "B = backend('acme')", "tile.backends acme B")
    world.add("sad-tile", "raise ImportError('gone')", "tile.backends sad B")
    with pytest.raises(TargetError) as caught:
        world.registry().resolve_target("acne")
    assert str(caught.value) == (
        "error[E-TARGET-UNKNOWN]: no backend knows target kind 'acne'\n"
        "   known kinds: acme, auto\n"
        "   sad: broken, importing it raised ImportError: gone\n"
        "  help: did you mean 'acme'?"
    )


def test_auto_takes_the_highest_priority_with_a_device_and_says_so(world, capsys):
    world.add("a", "B = backend('low')", "tile.backends low B")
    world.add("b", "B = backend('high', priority=9, detect='absent')", "tile.backends high B")
    world.add("c", "B = backend('odd', priority=8, detect='failing')", "tile.backends odd B")
    world.add("d", "B = backend('mid', priority=5)", "tile.backends mid B")
    with settings.scope(verbose=True):
        backend, target = world.registry().resolve_target("auto")
    assert backend.name == "mid" and target == Target("mid", {"resolved": "yes"})
    assert capsys.readouterr().err == (
        "tile: target auto is mid -resolved=yes (high: no device of mine; "
        "odd: asking for a device raised OSError: driver exploded)\n"
    )


def test_auto_without_any_device_lists_why(world):
    world.add("b", "B = backend('high', detect='absent')", "tile.backends high B")
    world.add("e", "raise ImportError('x')", "tile.backends sad B")
    with pytest.raises(TargetError) as caught:
        world.registry().resolve_target("auto")
    assert caught.value.facts == ("high: no device of mine", "sad: broken, importing it raised ImportError: x")
    with pytest.raises(TargetError, match="takes no options"):
        world.registry().resolve_target("auto -x=1")


EXECUTION = """
from tile_core.plugin import PLUGIN_API, ExecutionBackend, Ok, Reason
def yes(): return Ok()
def no(): return Reason("no driver", "install the driver")
def make(name, available="yes", targets=("acme",)):
    return ExecutionBackend(name, PLUGIN_API, targets, __name__ + ":" + available, __name__ + ":build", ())
"""


def executions(world):
    world.add("acme-tile", "B = backend('acme', executions=('first', 'second'))", "tile.backends acme B")
    world.add("acme-run", "A = make('first', 'no'); B = make('second'); C = make('third', targets=('z',))",
              "tile.execution_backends first A", "tile.execution_backends second B",
              "tile.execution_backends third C", prelude=EXECUTION)  # fmt: skip
    plugins = world.registry()
    return plugins, *plugins.resolve_target("acme")


def test_auto_takes_the_first_execution_backend_that_works(world):
    plugins, backend, target = executions(world)
    assert plugins.resolve_execution_backend("auto", backend, target).name == "second"
    assert plugins.resolve_execution_backend("second", backend, target).name == "second"


def test_an_execution_backend_that_cannot_be_had_says_why(world):
    plugins, backend, target = executions(world)
    with pytest.raises(PluginError) as unavailable:
        plugins.resolve_execution_backend("first", backend, target)
    assert unavailable.value.summary == "execution backend 'first' cannot work here: no driver"
    assert unavailable.value.help == "install the driver"
    with pytest.raises(OptionError) as wrong:
        plugins.resolve_execution_backend("third", backend, target)
    assert wrong.value.summary == "execution backend 'third' does not serve target acme"
    with pytest.raises(OptionError) as unknown:
        plugins.resolve_execution_backend("thrid", backend, target)
    assert unknown.value.facts == ("installed: first, second, third", "for acme: first, second")


def test_no_working_execution_backend_lists_all_reasons(world):
    world.add("acme-tile", "B = backend('acme', executions=('tvm_ffi', 'gone'))", "tile.backends acme B")
    plugins = world.registry()
    with pytest.raises(PluginError) as caught:
        plugins.resolve_execution_backend("auto", *plugins.resolve_target("acme"))
    assert caught.value.summary == "no execution backend for target acme works here"
    assert caught.value.facts == (
        "tvm_ffi: no installed distribution brings execution backend 'tvm_ffi' (install tile-runtime)",
        "gone: no installed distribution brings execution backend 'gone' (`tile info` lists what is installed)",
    )
    assert caught.value.help == "install tile-runtime"


def test_scopes_of_a_backend_are_known_once_it_is_used(world):
    world.add("acme-tile", """
        from dataclasses import replace
        from tile_core.ir import MemoryScope
        B = replace(backend('acme'), scopes=(MemoryScope('shared.acme_test', 'block'),))
        """, "tile.backends acme B")  # fmt: skip
    world.add("bad-tile", """
        from dataclasses import replace
        from tile_core.ir import MemoryScope
        B = replace(backend('bad'), scopes=(MemoryScope('shared', 'thread'),))
        """, "tile.backends bad B")  # fmt: skip
    plugins = world.registry()
    assert [b.name for b in plugins.backends()] == ["acme"]
    from tile_core.ir import find_scope

    assert find_scope("shared.acme_test").level == "block"
    assert one(plugins, "bad").reason.startswith("its scopes do not fit: scope shared is registered with level block")


def test_third_party_passes_take_their_place_in_a_pipeline(world):
    module = world.add("acme-tile", """
        from tile_core.plugin import PLUGIN_API, PassExtension
        class Base:
            def __init__(self, name, passes, start="TILE"):
                self.name, self.passes, self.start = name, tuple(passes), start
        class First: name = "First"
        class Last: name = "Last"
        class Mine: name = "Mine"
        def p(target, options): return Base("acme", [First(), Last()])
        B = backend('acme')
        P = PassExtension("mine", PLUGIN_API, "First", __name__ + ":Mine")
        Q = PassExtension("elsewhere", PLUGIN_API, "First", __name__ + ":Mine", kinds=("cuda",))
        R = PassExtension("nowhere", PLUGIN_API, "NoSuchPass", __name__ + ":Mine")
        """, "tile.backends acme B", "tile.passes mine P", "tile.passes elsewhere Q",
        "tile.passes nowhere R")  # fmt: skip
    plugins = world.registry()
    pipeline = plugins.pipeline(*plugins.resolve_target("acme"), None)
    assert [p.name for p in pipeline.passes] == ["First", "Mine", "Last"]
    assert type(pipeline).__module__ == module


def test_instruments_that_want_nothing_are_left_out(world):
    world.add("acme-tile", """
        from tile_core.plugin import PLUGIN_API, InstrumentSpec
        def wanted(): return "watcher"
        def unwanted(): return None
        A = InstrumentSpec("a", PLUGIN_API, __name__ + ":wanted")
        B = InstrumentSpec("b", PLUGIN_API, __name__ + ":unwanted")
        """, "tile.instruments a A", "tile.instruments b B")  # fmt: skip
    assert world.registry().instruments() == ("watcher",)


def test_the_functions_ask_the_registry_in_use(world):
    world.add("acme-tile", "B = backend('acme')", "tile.backends acme B")
    before = registry.current()
    with registry.use(world.registry()):
        assert [b.name for b in registry.backends()] == ["acme"]
        assert registry.backend_for("acme").name == "acme"
    assert registry.current() is before


def test_importing_tile_core_scans_nothing():
    program = "import sys, tile_core, tile_core.plugin.registry; print('importlib_metadata' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


SURFACE = """
Artifact Backend BinaryStore Command ExecutionBackend InstrumentSpec Ok PLUGIN_API PassExtension Reason Runtime
Toolchain resolve
"""


def test_the_surface_for_plugins_changes_only_on_purpose():
    """A name added here raises PLUGIN_API's minor, a name taken away its major."""
    import tile_core.plugin

    assert sorted(tile_core.plugin.__all__) == SURFACE.split()
    assert PLUGIN_API == (1, 1)


def test_the_whole_text_of_what_users_see(world):
    """A person reads these; a change is a decision."""
    module = world.add("acme-tile", "raise RuntimeError('no vendor library')", "tile.backends acme B")
    late = world.add("late-tile", f"B = backend('late', api=({MAJOR}, {MINOR + 1}))", "tile.backends late B")
    ours = world.add("tile-twin", "B = backend('twin')", "tile.backends twin B")
    theirs = world.add("vendor-twin", "B = backend('twin')", "tile.backends twin B", version="9")
    off = world.add("off-tile", "B = backend('off')", "tile.backends off B")
    plugins = world.registry(disabled=("off",), choices={})
    texts = {
        "acme": f"""
            error[E-PLUGIN-BROKEN]: backend 'acme' of acme-tile 1.2 ({module}:B) cannot be used: importing it raised \\
            RuntimeError: no vendor library
              help: repair or uninstall acme-tile""",
        "late": f"""
            error[E-PLUGIN-INCOMPATIBLE]: backend 'late' of late-tile 1.2 ({late}:B) cannot be used: it was built for \\
            plugin API {MAJOR}.{MINOR + 1}, this tile-core provides {MAJOR}.{MINOR}: upgrade tile-core""",
        "twin": f"""
            error[E-PLUGIN-CONFLICT]: backend 'twin' is claimed by 2 distributions
               tile-twin 1.2 ({ours}:B)
               vendor-twin 9 ({theirs}:B)
              help: uninstall one of them, or choose with TILE_BACKENDS=twin=<distribution>""",
        "off": f"""
            error[E-PLUGIN-DISABLED]: backend 'off' of off-tile 1.2 ({off}:B) cannot be used: TILE_DISABLE_PLUGINS \\
            names it
              help: take it out of TILE_DISABLE_PLUGINS or TILE_BACKENDS""",
    }
    for name, text in texts.items():
        with pytest.raises(PluginError) as caught:
            plugins.resolve_target(name)
        assert str(caught.value) == textwrap.dedent(text).replace("\\\n", "").strip()
