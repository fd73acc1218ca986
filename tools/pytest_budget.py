"""pytest plugin: what each layer of tests costs, in core-minutes, beside what it may cost; over budget fails the run.

A core-minute is processor time of the worker and of the children it waited for, so a busy machine or a wait on a lock
does not count against a suite, and a kernel that runs on every core does. A test's layer is its `layer("name")` marker,
else the row of FOLDERS its path matches. Tests marked `gpu` or `npu` are left out where there is no such device, or
fewer than their mark says (`gpu(2)`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Layer:
    """A row of the table: what its tests show, and the core-minutes they may take together."""

    name: str
    shows: str
    budget: float


LAYERS = {
    layer.name: layer
    for layer in (
        Layer("unit", "behaviour, texts, boundaries", 12),
        Layer("golden", "a pass changes exactly what it should; generated source", 3),
        Layer("interpretation", "each pipeline step computes the same function", 10),
        Layer("conformance", "compiled kernels agree with torch and the interpreter", 14),
        Layer("emulation", "generated CUDA is right and free of races in the emulator", 20),
        Layer("nvrtc", "kernels compile to machine code", 12),
        Layer("packaging", "clean installs, discovery, third-party, broken, skew", 8),
        Layer("docs", "examples and pages run as printed", 5),
        Layer("fuzz", "differential, seeded", 5),
        Layer("gpu", "runs on an NVIDIA GPU", float("inf")),
        Layer("npu", "runs on an Ascend NPU", float("inf")),
    )
}

# First match wins; paths are relative to the root of the repository.
FOLDERS = (
    ("integration_tests/packaging/*", "packaging"),
    ("integration_tests/docs/*", "docs"),
    ("integration_tests/*", "conformance"),
    ("docs/*", "docs"),
    ("*/tests/emulation/*", "emulation"),
    ("plugins/tile-emulator/tests/*", "emulation"),
    ("*/tests/interpretation/*", "interpretation"),
    ("*/tests/conformance/*", "conformance"),
    ("*/tests/fuzz/*", "fuzz"),
    ("*/test_*fuzz*.py", "fuzz"),
    ("*/tests/golden/*", "golden"),
    ("*/tests/transform/*", "golden"),
    ("*/tests/codegen/*", "golden"),
    ("*", "unit"),
)

DEVICES = {"gpu": "nvidia[0-9]*", "npu": "davinci[0-9]*"}  # in /dev

COST = pytest.StashKey["Cost"]()


def layer_of(path: str) -> str:
    """Layer of a test file by its path relative to the root, with forward slashes."""
    return next(layer for pattern, layer in FOLDERS if fnmatch(path, pattern))


def core_seconds() -> float:
    """Processor time of this process and of its children that have ended and were waited for."""
    now = os.times()
    return now.user + now.system + now.children_user + now.children_system


@dataclass
class Cost:
    """What has been spent, kept where the table is printed: the only process, or xdist's controller."""

    seconds: Counter[str] = field(default_factory=Counter)
    tests: Counter[str] = field(default_factory=Counter)
    functions: dict[str, Counter[str]] = field(default_factory=dict)

    def over_budget(self) -> list[Layer]:
        return [LAYERS[name] for name, seconds in self.seconds.items() if seconds / 60 > LAYERS[name].budget]


def pytest_configure(config: pytest.Config) -> None:
    config.stash[COST] = Cost()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    there = {name: len(list(Path("/dev").glob(pattern))) for name, pattern in DEVICES.items()}
    left_out = [item for item in items if any(wanted(item, name) > there[name] for name in there)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def wanted(item: pytest.Item, device: str) -> int:
    """How many such devices a test needs: ``gpu(2)`` is two, ``gpu`` one."""
    return max((mark.args[0] if mark.args else 1 for mark in item.iter_markers(device)), default=0)


class _Clock:
    """Processor time at the end of the last phase of a test; one a process."""

    last = 0.0


def pytest_runtest_logstart() -> None:
    _Clock.last = core_seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    now = core_seconds()
    report.layer, report.core_seconds = (
        _layer_of_item(item),
        now - _Clock.last,
    )  # xdist carries extra attributes to the controller
    _Clock.last = now
    return report


def _layer_of_item(item: pytest.Item) -> str:
    for device in DEVICES:
        if item.get_closest_marker(device):
            return device
    marker = item.get_closest_marker("layer")
    if marker is None:
        return layer_of(item.path.relative_to(item.config.rootpath).as_posix())
    (name,) = marker.args
    if name not in LAYERS:
        raise pytest.UsageError(f"{item.nodeid}: no layer {name!r}; tools/pytest_budget.py has {', '.join(LAYERS)}")
    return name


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(_Collector(session.config), "tile-budget-collector")


class _Collector:
    """Adds up reports and prints; absent in xdist workers, whose reports reach the controller."""

    def __init__(self, config: pytest.Config) -> None:
        self.cost = config.stash[COST]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not hasattr(report, "layer"):  # a worker that crashed reports for itself
            return
        self.cost.seconds[report.layer] += report.core_seconds
        if report.when == "call":
            self.cost.tests[report.layer] += 1
        self.cost.functions.setdefault(report.layer, Counter())[report.nodeid.partition("[")[0]] += report.core_seconds

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.cost.over_budget() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if sum(self.cost.tests.values()) < 2:  # one test: the table says nothing
            return
        terminalreporter.section("budget, core-minutes")
        terminalreporter.write_line(f"{'layer':<16}{'tests':>7}{'spent':>9}{'budget':>9}   shows")
        for name, layer in LAYERS.items():
            if name not in self.cost.seconds:
                continue
            budget = "–" if layer.budget == float("inf") else f"{layer.budget:g}"
            over = "  OVER BUDGET" if layer in self.cost.over_budget() else ""
            spent = f"{self.cost.seconds[name] / 60:.2f}"
            terminalreporter.write_line(
                f"{name:<16}{self.cost.tests[name]:>7}{spent:>9}{budget:>9}   {layer.shows}{over}"
            )
        for layer in self.cost.over_budget():
            terminalreporter.write_line(
                f"layer {layer.name} is over its budget of {layer.budget:g} core-minutes; its most costly tests:",
                red=True,
            )
            for function, seconds in self.cost.functions[layer.name].most_common(10):
                terminalreporter.write_line(f"  {seconds:7.1f} s  {function}")
