"""What the wheels hold and what installing them brings, in clean environments outside the tree."""

from __future__ import annotations

import json
import re

import pytest

from tools import release
from tools.workspace import ROOT, distributions

pytestmark = pytest.mark.slow

(README_KERNEL,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)

INSTALLED = """
import json
from importlib import metadata
installed = {d.metadata["Name"]: d.version for d in metadata.distributions()}
print(json.dumps({name: version for name, version in installed.items() if name.startswith("tile-")}))
"""

ENTRY_POINTS = """
import json
from importlib import metadata
points = [[e.group, e.name, e.value] for d in metadata.distributions() for e in d.entry_points]
print(json.dumps([p for p in points if p[0].startswith("tile.") or p[1] == "tile"]))
"""


@pytest.mark.parametrize("distribution", distributions(), ids=lambda d: d.name)
def test_a_wheel_is_pure_python_with_typing_marker_licence_and_entry_points(wheels, distribution):
    release.check_wheel(wheels[distribution.name], distribution)


def test_core_and_a_backend_bring_the_runtime_from_the_wheel_folder(clean_environment, wheels):
    environment = clean_environment()
    environment.install(wheels["tile-core"], wheels["tile-cuda"], find_links=wheels["tile-core"].parent)
    installed = json.loads(environment.script(INSTALLED).stdout)
    assert installed == {"tile-core": "0.2.0", "tile-runtime": "0.2.0", "tile-cuda": "0.2.0"}


def test_entry_points_of_all_wheels_are_found(clean_environment, wheels):
    environment = clean_environment(*wheels)
    found = {tuple(point) for point in json.loads(environment.script(ENTRY_POINTS).stdout)}
    assert found == set().union(*(d.entry_points for d in distributions()))
    assert {name for group, name, _ in found if group == "tile.backends"} == {"ascend", "cpu", "cuda"}


def test_sibling_ranges_refuse_the_strangers_version(clean_environment, wheels, make_wheel):
    """An unrelated project owns tile-runtime 0.1.0 on the public index; our ranges can't take it."""
    stranger = make_wheel("tile-runtime", {"stranger.py": ""}, {}, version="0.1.0")
    environment = clean_environment()
    done = environment.pip(
        "install", "--no-index", "--find-links", stranger.parent, wheels["tile-core"], wheels["tile-cuda"], check=False
    )
    assert done.returncode != 0
    assert "tile-runtime<0.3,>=0.2" in done.stdout + done.stderr


def test_core_alone_imports_and_names_what_to_install_for_a_compile(clean_environment):
    environment = clean_environment("tile-core")
    printed = environment.script(
        "import tile_core, tile_core.language\nfrom pathlib import Path\nprint(Path(tile_core.__file__).parent)"
    ).stdout
    assert printed.strip() == str(environment.site_packages / "tile_core")
    told = environment.script(README_KERNEL, check=False)
    assert told.returncode != 0 and "install tile-runtime" in told.stderr


def test_the_readmes_kernel_runs_from_wheels_outside_the_tree(clean_environment):
    """Headers and all: what codegen and the toolchain need is in the wheels."""
    environment = clean_environment("tile-core", "tile-runtime", "tile-cpu")
    environment.script(README_KERNEL)
    told = environment.run("tile", "info").stdout
    assert "tile-cpu" in told and "0.2.0" in told


def test_the_system_works_without_the_gpu_and_npu_backends_and_says_how_to_get_them(clean_environment):
    environment = clean_environment("tile-core", "tile-runtime", "tile-cpu")
    told = environment.script(README_KERNEL.replace('target="auto"', 'target="cuda"'), check=False)
    assert told.returncode != 0 and "install tile-cuda" in told.stderr
