"""Wheels with broken, incompatible and rival plugins, installed beside ours: what is told, and what goes on working."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.slow

SPEC = """
from tile_core.plugin import Backend

BACKEND = Backend(
    name={name!r},
    api={api!r},
    kinds=({name!r},),
    resolve_target="{module}:resolve_target",
    detect="{module}:detect",
    pipeline="{module}:pipeline",
    candidates="{module}:candidates",
    codegen="{module}:codegen",
    toolchain=None,
    execution_backends=("tvm_ffi",),
    replaces={replaces!r},
)
"""

# States and reasons of all backends, each imported.
STATES = """
import json
from tile_core.plugin import registry

records = registry.records("tile.backends", loaded=True)
print(json.dumps([[r.name, r.distribution, r.state, r.reason] for r in records]))
"""

# The error that asking for a backend raises.
USE = """
import sys
from tile_core.errors import TileError
from tile_core.plugin import registry

try:
    print(registry.backend_for(sys.argv[1] if len(sys.argv) > 1 else {name!r}).name)
except TileError as error:
    print(error.code)
    print(error)
    print("cause:", repr(error.__cause__))
"""


@pytest.fixture
def plugin_wheel(make_wheel):
    """A wheel `distribution` that brings backend `name`; text replaces its module's."""

    def make(distribution: str, name: str, text: str | None = None, api=(1, 0), replaces=()):
        module = distribution.replace("-", "_")
        spec = SPEC.format(name=name, api=api, module=module, replaces=replaces) if text is None else text
        return make_wheel(distribution, {f"{module}.py": spec}, {"tile.backends": {name: f"{module}:BACKEND"}})

    return make


def states(environment, **settings: str) -> dict[tuple[str, str], tuple[str, str]]:
    """(backend, distribution) → (state, reason)."""
    records = json.loads(environment.script(STATES, **settings).stdout)
    return {(name, distribution): (state, reason) for name, distribution, state, reason in records}


def test_a_plugin_that_cannot_be_imported_is_broken_and_others_go_on(clean_environment, plugin_wheel):
    broken = plugin_wheel("acme-broken", "acme", "import a_library_nobody_has\n")
    environment = clean_environment("tile-core", "tile-runtime", "tile-cpu", broken)
    found = states(environment)
    assert found[("cpu", "tile-cpu")] == ("ready", "")
    state, reason = found[("acme", "acme-broken")]
    assert state == "broken" and "No module named 'a_library_nobody_has'" in reason
    told = environment.script(USE.format(name="acme")).stdout
    assert told.startswith("E-PLUGIN-BROKEN\n")
    assert "acme-broken 1.0" in told and "cause: ModuleNotFoundError" in told
    assert environment.script(USE.format(name="cpu")).stdout == "cpu\n"


def test_a_plugin_that_exits_while_imported_is_broken_too(clean_environment, plugin_wheel):
    environment = clean_environment("tile-core", plugin_wheel("acme-exits", "acme", "raise SystemExit('no licence')\n"))
    state, reason = states(environment)[("acme", "acme-exits")]
    assert state == "broken" and "no licence" in reason


def test_a_spec_that_refuses_itself_is_broken_with_its_own_words(clean_environment, plugin_wheel):
    half = SPEC.format(name="acme", api=(1, 0), module="acme_half", replaces=()).replace('kinds=("acme",)', "kinds=()")
    half = half.replace("kinds=('acme',)", "kinds=()")
    environment = clean_environment("tile-core", plugin_wheel("acme-half", "acme", half))
    state, reason = states(environment)[("acme", "acme-half")]
    assert state == "broken" and "declares no target kinds" in reason


@pytest.mark.parametrize(
    ("api", "mover"),
    [((2, 0), "upgrade tile-core"), ((1, 999), "upgrade tile-core"), ((0, 9), "upgrade acme-other")],
    ids=["newer major", "newer minor", "older major"],
)
def test_an_incompatible_plugin_names_who_has_to_move(clean_environment, plugin_wheel, api, mover):
    environment = clean_environment("tile-core", plugin_wheel("acme-other", "acme", api=api))
    state, reason = states(environment)[("acme", "acme-other")]
    assert state == "incompatible"
    assert f"plugin API {api[0]}.{api[1]}" in reason and mover in reason
    assert environment.script(USE.format(name="acme")).stdout.startswith("E-PLUGIN-INCOMPATIBLE\n")


def test_two_distributions_with_one_name_are_in_conflict_until_one_is_chosen(clean_environment, plugin_wheel):
    environment = clean_environment("tile-core", "tile-runtime", "tile-cpu", plugin_wheel("acme-cpu", "cpu"))
    found = states(environment)
    assert [state for state, _ in found.values()] == ["conflict", "conflict"]
    assert all("acme-cpu 1.0" in reason and "tile-cpu 0.2.0" in reason for _, reason in found.values())
    told = environment.script(USE.format(name="cpu")).stdout
    assert told.startswith("E-PLUGIN-CONFLICT\n") and "TILE_BACKENDS=cpu=" in told

    chosen = states(environment, TILE_BACKENDS="cpu=acme-cpu")
    assert chosen[("cpu", "acme-cpu")][0] == "ready"
    state, reason = chosen[("cpu", "tile-cpu")]
    assert state == "disabled" and "TILE_BACKENDS chooses acme-cpu" in reason


def test_a_vendors_release_replaces_ours_when_it_says_so(clean_environment, plugin_wheel):
    vendor = plugin_wheel("acme-cpu", "cpu", replaces=("tile-cpu",))
    found = states(clean_environment("tile-core", "tile-runtime", "tile-cpu", vendor))
    assert found[("cpu", "acme-cpu")] == ("ready", "")
    state, reason = found[("cpu", "tile-cpu")]
    assert state == "disabled" and "acme-cpu 1.0 replaces it" in reason


def test_a_disabled_plugin_is_not_imported(clean_environment, plugin_wheel):
    loud = plugin_wheel("acme-loud", "acme", "print('IMPORTED')\n")
    environment = clean_environment("tile-core", loud)
    done = environment.script(STATES, TILE_DISABLE_PLUGINS="acme-loud")
    assert "IMPORTED" not in done.stdout
    assert json.loads(done.stdout)[0][2] == "disabled"


def test_importing_core_imports_no_plugin(clean_environment, plugin_wheel):
    loud = plugin_wheel("acme-loud", "acme", "print('IMPORTED')\n")
    assert clean_environment("tile-core", loud).script("import tile_core").stdout == ""


def test_a_backend_that_is_not_installed_names_the_distribution_that_brings_it(clean_environment):
    told = clean_environment("tile-core").script(USE.format(name="cuda")).stdout
    assert told.startswith("E-PLUGIN-MISSING\n") and "tile-cuda" in told
