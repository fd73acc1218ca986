"""What the examples share: check a kernel against torch and time both, round by round."""

import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch

from tile_core.testing.compare import assert_close, to_numpy

# An example gives (label, ours, torch's, inputs, length of the longest sum behind an element).
Example = tuple[str, Callable[..., Any], Callable[..., Any], tuple, int]
_TYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


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


def device() -> str:
    """The best device of the machine, as torch calls it."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def tensors(results: Any) -> list[torch.Tensor]:
    """One tensor or several, as a list."""
    return list(results) if isinstance(results, (tuple, list)) else [results]


def check(name: str, case: Example) -> float:
    """The largest difference between ours and torch's.

    Raises:
        AssertionError: the results differ by more than the tolerance of the narrowest type among what goes in and out.
    """
    label, kernel, reference, inputs, terms = case
    ours, theirs = tensors(kernel(*inputs)), tensors(reference(*inputs))
    given = [x for x in inputs if isinstance(x, torch.Tensor)]
    kinds = [x.dtype for x in (*given, *ours) if x.dtype in _TYPES]
    narrowest = str(max(kinds, key=_TYPES.index, default=torch.float32)).removeprefix("torch.")
    error = 0.0
    assert len(ours) == len(theirs), f"{name} {label}: {len(ours)} results, torch has {len(theirs)}"
    for one, other in zip(ours, theirs):
        dtype = narrowest if one.dtype in _TYPES else None
        scale = max(float(other.double().abs().nan_to_num(posinf=0).max()), 1e-3) if other.numel() else 1.0
        assert_close(one, other.to(one.dtype), dtype, reduction=terms, scale=scale, label=f"{name} {label}")
        if other.numel():
            error = max(error, float(abs(to_numpy(one).astype("float64") - to_numpy(other).astype("float64")).max()))
    return error


def measure(name: str, case: Example, rounds: int = 20) -> Row:
    """Checks one case of an example and times it: one call of ours, then one of torch, for `rounds` rounds.

    Raises:
        AssertionError: the results differ by more than the tolerance of their type.
    """
    label, kernel, reference, inputs, _ = case
    error = check(name, case)
    samples: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for call, times in ((kernel, samples[0]), (reference, samples[1])):
            times.append(milliseconds(call, inputs))
    return Row(name, label, error, *(statistics.median(s) for s in samples), backend=backend_of(kernel, inputs))


def milliseconds(call: Callable[..., Any], inputs: tuple) -> float:
    """Time of one call; on a GPU until it has finished."""
    wait = torch.cuda.synchronize if device() == "cuda" else _nothing
    wait()
    started = time.perf_counter()
    call(*inputs)
    wait()
    return (time.perf_counter() - started) * 1e3


def backend_of(kernel: Callable, inputs: tuple) -> str:
    """The kind of target that ran the kernel; of a function that calls kernels, the device of its inputs."""
    if hasattr(kernel, "target"):
        return kernel.target.kind
    if hasattr(kernel, "compile"):
        return kernel.compile(*inputs).target.kind
    return next(x.device.type for x in inputs if isinstance(x, torch.Tensor))


def show(rows: Iterable[Row]) -> list[Row]:
    """Prints rows as they come, under a heading; returns them."""
    print(f"{'kernel':<24} {'size':<32} {'max error':>10} {'ours ms':>9} {'torch ms':>9} {'ratio':>6}  backend")
    shown = []
    for row in rows:
        print(
            f"{row.kernel:<24} {row.size:<32} {row.error:10.1e} {row.ours:9.3f} {row.torch:9.3f} {row.ratio:6.2f}"
            f"  {row.backend}",
            flush=True,
        )
        shown.append(row)
    return shown


def run(name: str, cases: Callable[[], Iterable[Example]]) -> list[Row]:
    """Measures and shows the cases of one example, on the machine's best device."""
    torch.manual_seed(0)
    with torch.device(device()):
        return show(measure(name, case) for case in cases())


def _nothing() -> None:
    """A CPU has finished when it returns."""
