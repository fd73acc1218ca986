"""The budget table, seen by running pytest on small suites in another process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.pytest_budget import layer_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def suite(tmp_path):
    """Run pytest with the plugin on files given as {path: text}; returns the finished process."""

    def run(files: dict[str, str], *arguments: str, budget: str = "") -> subprocess.CompletedProcess[str]:
        (tmp_path / "conftest.py").write_text(
            f"import sys\nsys.path.insert(0, {str(ROOT)!r})\npytest_plugins = ['tools.pytest_budget']\n" + budget
        )
        (tmp_path / "pytest.ini").write_text(
            "[pytest]\naddopts = --import-mode=importlib --strict-markers\n"
            "markers =\n    layer(name): row\n    gpu: device\n    npu: device\n"
        )
        for path, text in files.items():
            file = tmp_path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            str(tmp_path),
            "--rootdir",
            str(tmp_path),
            *arguments,
        ]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)

    return run


SPIN = "import time\ndef test_spin():\n    end = time.process_time() + 0.9\n    while time.process_time() < end: ...\n"
QUICK = "def test_quick(): ...\n"


@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_the_table_has_a_row_for_each_layer_that_ran(suite, arguments):
    done = suite({"p/tests/golden/test_a.py": SPIN, "p/tests/test_b.py": QUICK}, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {
        line.split()[0]: line.split()[1:4] for line in done.stdout.splitlines() if line.startswith(("golden", "unit"))
    }
    assert rows == {"golden": ["1", rows["golden"][1], "3"], "unit": ["1", rows["unit"][1], "12"]}
    assert float(rows["golden"][1]) > 0


@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_a_layer_over_budget_fails_the_run_and_names_its_costly_tests(suite, arguments):
    tight = "from tools.pytest_budget import LAYERS, Layer\nLAYERS['fuzz'] = Layer('fuzz', 'seeded', 0.001)\n"
    done = suite({"p/tests/fuzz/test_a.py": SPIN, "p/tests/test_b.py": QUICK}, *arguments, budget=tight)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "layer fuzz is over its budget of 0.001 core-minutes" in done.stdout
    assert "p/tests/fuzz/test_a.py::test_spin" in done.stdout
    assert "2 passed" in done.stdout


def test_a_marker_says_the_layer_where_the_folder_does_not(suite):
    marked = "import pytest\npytestmark = pytest.mark.layer('interpretation')\ndef test_1(): ...\ndef test_2(): ...\n"
    done = suite({"p/tests/test_a.py": marked})
    assert "interpretation" in done.stdout and "\nunit " not in done.stdout


def test_an_unknown_layer_is_an_error_that_lists_the_known_ones(suite):
    done = suite({"p/tests/test_a.py": "import pytest\n@pytest.mark.layer('smoke')\ndef test_1(): ...\n"})
    assert done.returncode != 0
    assert "no layer 'smoke'" in done.stdout + done.stderr and "interpretation" in done.stdout + done.stderr


def test_device_tests_are_left_out_where_there_is_no_device(suite):
    files = {"p/tests/test_a.py": "import pytest\n@pytest.mark.npu\ndef test_1(): assert False\ndef test_2(): ...\n"}
    done = suite(files, budget="from tools.pytest_budget import DEVICES\nDEVICES['npu'] = 'no-such-device'\n")
    assert "1 passed, 1 deselected" in done.stdout


def test_a_test_of_two_devices_is_left_out_where_there_is_one(suite):
    body = "import pytest\npytestmark = pytest.mark.gpu\ndef test_1(): ...\n"
    body += "@pytest.mark.gpu(2)\ndef test_2(): assert False\n"
    one = "from tools.pytest_budget import DEVICES\nDEVICES['gpu'] = 'null'\n"
    done = suite({"p/tests/test_a.py": body}, budget=one)
    assert "1 passed, 1 deselected" in done.stdout


@pytest.mark.parametrize(
    ("path", "layer"),
    [
        ("packages/tile-core/tests/test_errors.py", "unit"),
        ("packages/tile-core/tests/golden/test_x.py", "golden"),
        ("packages/tile-core/tests/test_layout_fuzz.py", "fuzz"),
        ("integration_tests/packaging/test_install.py", "packaging"),
        ("packages/tile-core/tests/transform/test_simplify.py", "golden"),
        ("packages/tile-core/tests/transform/test_check_fuzz.py", "fuzz"),
        ("integration_tests/test_ops.py", "conformance"),
        ("integration_tests/docs/test_pages.py", "docs"),
        ("docs/examples/test_gemm.py", "docs"),
        ("tools/tests/test_dev.py", "unit"),
    ],
)
def test_the_folder_says_the_layer(path, layer):
    assert layer_of(path) == layer
