"""What tuning gives: a trial for each configuration, and the best of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tile_core.errors import UserError, declare_codes

from ..kernel import Kernel

__all__ = ["STATES", "AutotuneResult", "Trial", "TuneError", "table"]

declare_codes({"E-TUNE": "no configuration of a kernel works"})

STATES = {
    "ok": "measured",
    "slow": "given up early: slower than the best by the early-stop factor at first sight",
    "pruned": "left out without compiling",
    "failed": "the kernel could not be traced, compiled or launched",
    "wrong": "its results differ from the reference's",
    "timeout": "took longer than it may",
    "crashed": "ended the process that measured it",
}
"""States of a trial, and what they mean."""


class TuneError(UserError):
    """No configuration works; the facts say what happened to each."""


@dataclass
class Trial:
    """One configuration.

    Args:
        config: what was tried.
        state: a key of `STATES`; "" while it is not known.
        latency: milliseconds a call, median; None where it was not measured.
        spread: quantiles 0.2 and 0.8.
        reason: why it has no latency.
        origin: ``measured``, or ``disk`` where an earlier run measured it.
        build_seconds: what compiling took.
    """

    config: dict[str, Any]
    state: str = ""
    latency: float | None = None
    spread: tuple[float, float] | None = None
    reason: str = ""
    origin: str = "measured"
    build_seconds: float | None = None

    def settle(self, state: str, reason: str = "") -> None:
        """Says how it ended."""
        self.state, self.reason = state, reason

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass
class AutotuneResult:
    """The best configuration.

    Args:
        latency: milliseconds a call.
        config: its values.
        ref_latency: of the reference, milliseconds; None without one.
        libcode: the generated device source.
        func: the traced function.
        kernel: compiled.
        trials: every configuration, in the order given.
    """

    latency: float | None = None
    config: dict[str, Any] | None = None
    ref_latency: float | None = None
    libcode: str | None = None
    func: Any = None
    kernel: Kernel | None = None
    trials: list[Trial] = field(default_factory=list)

    def report(self) -> str:
        """A table of all trials, fastest first."""
        return table(self.trials, self.ref_latency)


def table(trials: Sequence[Trial], ref_latency: float | None = None) -> str:
    """Rank, milliseconds, how much slower than the best, configuration; then what has no latency, with the reason."""
    measured = sorted((t for t in trials if t.state == "ok"), key=lambda t: t.latency or 0.0)
    rest = [t for t in trials if t.state != "ok"]
    lines = [f"{'#':>3}  {'ms':>9}  {'20 … 80 %':>19}  {'× best':>6}  configuration"]
    for rank, trial in enumerate(measured, 1):
        assert trial.latency is not None and measured[0].latency is not None
        low, high = trial.spread or (trial.latency, trial.latency)
        lines.append(
            f"{rank:>3}  {trial.latency:9.4f}  {low:9.4f} {high:9.4f}  {trial.latency / measured[0].latency:6.2f}  "
            f"{shown(trial.config)}{'  (kept)' if trial.origin == 'disk' else ''}"
        )
    if ref_latency is not None:
        lines.append(f"     {ref_latency:9.4f}  {'':>19}  {'':>6}  the reference")
    for trial in rest:
        lines.append(f"  –  {trial.state:<9}  {shown(trial.config)}: {trial.reason}")
    return "\n".join(lines)


def shown(config: Mapping[str, Any]) -> str:
    """A configuration on one line."""
    return ", ".join(f"{name}={value!r}" for name, value in config.items()) or "no values"
