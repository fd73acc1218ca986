"""What the examples share: check a kernel against torch and time both, round by round."""

import statistics
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch

from tile_core.testing.compare import assert_close, to_numpy


class Row(NamedTuple):
    """One line of the table: times in milliseconds, medians of the rounds."""

    kernel: str
    size: str
    error: float
    ours: float
    torch: float
    backend: str

    @property
    def ratio(self) -> float:
        """How many times faster than torch."""
        return self.torch / self.ours


def measure(name: str, case: tuple, rounds: int = 20) -> Row:
    """Checks one case of an example and times it: one call of ours, then one of torch, for `rounds` rounds.

    Raises:
        AssertionError: the results differ by more than the tolerance of their type.
    """
    label, kernel, reference, inputs, terms = case
    ours, theirs = kernel(*inputs), reference(*inputs)
    assert_close(ours, theirs, reduction=terms, scale=float(theirs.abs().max()), label=f"{name} {label}")
    error = float(abs(to_numpy(ours) - to_numpy(theirs)).max())
    samples: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for call, times in ((kernel, samples[0]), (reference, samples[1])):
            started = time.perf_counter()
            call(*inputs)
            times.append((time.perf_counter() - started) * 1e3)
    return Row(name, label, error, *(statistics.median(s) for s in samples), backend=backend_of(kernel, inputs))


def backend_of(kernel: Callable, inputs: tuple) -> str:
    """The kind of target that ran the kernel; an eager function is asked for the kernel of these inputs."""
    compiled = kernel if hasattr(kernel, "target") else kernel.compile(*inputs)
    return compiled.target.kind


def show(rows: Iterable[Row]) -> list[Row]:
    """Prints rows as they come, under a heading; returns them."""
    print(f"{'kernel':<16} {'size':<32} {'max error':>10} {'ours ms':>9} {'torch ms':>9} {'ratio':>6}  backend")
    shown = []
    for row in rows:
        print(
            f"{row.kernel:<16} {row.size:<32} {row.error:10.1e} {row.ours:9.3f} {row.torch:9.3f} {row.ratio:6.2f}"
            f"  {row.backend}",
            flush=True,
        )
        shown.append(row)
    return shown


def run(name: str, cases: Iterable[tuple]) -> list[Row]:
    """Measures and shows the cases of one example."""
    torch.manual_seed(0)
    return show(measure(name, case) for case in cases)
