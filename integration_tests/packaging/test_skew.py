"""Version skew: wheels of one release beside a core of another.

There is one release so far, so the other core is this one with another plugin API and version in it.
"""

from __future__ import annotations

import json
import re
import shutil

import pytest

from tools.workspace import ROOT, Distribution

pytestmark = pytest.mark.slow

STATES = """
import json
from tile_core.plugin import registry

print(json.dumps({f"{r.group} {r.name}": [r.state, r.reason] for r in registry.records(loaded=True)}))
"""


@pytest.fixture
def other_core(tmp_path, build_wheel):
    """A core wheel that provides another plugin API."""

    def make(api: tuple[int, int], version: str):
        folder = tmp_path / "other" / "tile-core"
        ignored = shutil.ignore_patterns("__pycache__", "tests")
        shutil.copytree(ROOT / "packages" / "tile-core", folder, ignore=ignored)
        core = Distribution(folder)
        about, specs = core.source / "__about__.py", core.source / "plugin" / "api.py"
        about.write_text(about.read_text().replace(f'"{core.version}"', f'"{version}"'))
        text, count = re.subn(r"^PLUGIN_API = .*$", f"PLUGIN_API = {api}", specs.read_text(), flags=re.MULTILINE)
        assert count == 1
        specs.write_text(text)
        return build_wheel(folder, tmp_path / "other")

    return make


def test_a_newer_minor_of_core_takes_the_wheels_of_before(clean_environment, other_core):
    environment = clean_environment(other_core((1, 9), "0.2.9"), "tile-runtime", "tile-cpu")
    states = json.loads(environment.script(STATES).stdout)
    for name in ("tile.backends cpu", "tile.runtime default", "tile.execution_backends tvm_ffi"):
        assert states[name] == ["ready", ""]


def test_a_newer_major_of_core_refuses_them_and_says_who_must_move(clean_environment, other_core):
    environment = clean_environment(other_core((2, 0), "0.2.9"), "tile-runtime", "tile-cpu")
    states = json.loads(environment.script(STATES).stdout)
    for name, distribution in (("tile.backends cpu", "tile-cpu"), ("tile.runtime default", "tile-runtime")):
        state, reason = states[name]
        assert state == "incompatible"
        assert reason.startswith("it was built for plugin API 1.") and reason.endswith(f"upgrade {distribution}")


def test_an_older_core_is_refused_by_the_ranges_of_new_wheels(clean_environment, other_core, wheels):
    """pip knows before anything runs: our backends name the minor version of core they go with."""
    environment = clean_environment()
    done = environment.pip(
        *("install", "--no-index", "--find-links", wheels["tile-core"].parent),
        *(other_core((1, 0), "0.1.9"), wheels["tile-cpu"]),
        check=False,
    )
    assert done.returncode != 0 and "Cannot install tile-core 0.1.9" in done.stdout + done.stderr
