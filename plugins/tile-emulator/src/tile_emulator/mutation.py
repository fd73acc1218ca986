"""Which synchronisation calls of a kernel are needed: each is switched off in turn, and the kernel run again.

A call is needed when some run without it has a finding; a redundant one has passed many random schedules unchanged. For
each needed call a witness is looked for: a schedule in which the outputs differ from those of the whole kernel, or
which does not come to an end. Where the usual schedules give none, one is made from the finding: the access that came
first is held back until nobody else can go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tile_core.errors import OptionError, declare_codes

from .execution import EmulatedKernel
from .report import Finding, Report
from .session import emulation

__all__ = ["Case", "SyncSite", "classify_synchronisations"]

declare_codes({"E-EMU-UNCLEAN": "synchronisations can't be told apart in a kernel that has findings as it is"})

Case = Callable[[], Sequence[Any]]
"""Makes the arguments of a call."""

_ENDS_EARLY = ("deadlock", "livelock", "divergent-collective")


@dataclass
class SyncSite:
    """One synchronisation call of the generated source.

    Args:
        ordinal: its number, ``TILE_SYNC(n)``.
        name: the device function.
        generated_line, file, line: where it is; 0 and "" if unknown.
        reached: times it was reached in the whole kernel's runs.
        findings: what runs without it found.
        witness: a schedule without it whose outputs differ, or "".
        confirmed: of a redundant one, random schedules that passed without it.
    """

    ordinal: int
    name: str = ""
    generated_line: int = 0
    file: str = ""
    line: int = 0
    reached: int = 0
    findings: list[Finding] = field(default_factory=list)
    witness: str = ""
    confirmed: int = 0

    @property
    def needed(self) -> bool:
        """Whether some run without it had a finding."""
        return bool(self.findings)


def classify_synchronisations(
    kernel: EmulatedKernel, cases: Sequence[Case], seeds: int = 8, confirmations: int = 200
) -> list[SyncSite]:
    """All synchronisation calls that some case reaches.

    Args:
        kernel: an emulated kernel.
        cases: each makes the arguments of a call, the same values each time; sizes and trip counts differ from case to
            case, and a call is needed when one case needs it.
        seeds: random schedules of each case in which a call's absence may show.
        confirmations: random schedules, over all cases in turn, that a call has to pass to be called redundant.

    Raises:
        OptionError: the kernel has findings with all its synchronisation.
    """
    sites: dict[int, SyncSite] = {}
    for case in cases:
        whole, wanted = _run(kernel, case, schedule="in_order")
        if not whole.clean:
            raise OptionError(
                "E-EMU-UNCLEAN",
                f"{kernel.name} has findings with all its synchronisation",
                facts=whole.render().splitlines()[:6],
                help="mend these first",
            )
        for ordinal, reached in enumerate(whole.sites):
            if not reached:
                continue
            if ordinal not in sites:
                generated, name = kernel.library.lines.syncs.get(ordinal, (0, ""))
                sites[ordinal] = SyncSite(ordinal, name, *kernel.library.lines.place(generated))
            site = sites[ordinal]
            site.reached += reached
            if not site.witness:
                _mutate(kernel, case, site, wanted, seeds)
    for site in sites.values():
        if not site.needed:
            _confirm(kernel, cases, site, confirmations)
    return [sites[ordinal] for ordinal in sorted(sites)]


def _mutate(kernel: EmulatedKernel, case: Case, site: SyncSite, wanted: list[Any], seeds: int) -> None:
    """One call switched off in one case, in schedule after schedule until there is a witness."""
    found: list[Finding] = []
    for how, options in _schedules(found, seeds):
        report, got = _run(kernel, case, switched_off=(site.ordinal,), **options)
        if not found:
            found += report.findings
        if any(f.kind in _ENDS_EARLY for f in report.findings) or not _same(wanted, got):
            site.witness = how
            break
    site.findings = site.findings or found


def _confirm(kernel: EmulatedKernel, cases: Sequence[Case], site: SyncSite, confirmations: int) -> None:
    """Looks once more for a schedule in which a call that seems redundant is missed."""
    wanted = [_run(kernel, case, schedule="in_order")[1] for case in cases]
    for seed in range(confirmations):
        turn = seed % len(cases)
        options = {"schedule": "random", "seed": 1000 + seed}
        report, got = _run(kernel, cases[turn], switched_off=(site.ordinal,), **options)
        if report.findings or not _same(wanted[turn], got):
            site.findings = report.findings or [Finding("race", "", 0, 0, "the outputs differ", ())]
            site.witness = f"random, seed {1000 + seed}" if not _same(wanted[turn], got) else ""
            return
        site.confirmed += 1


def _schedules(found: list[Finding], seeds: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Usual schedules, then some made from what they found."""
    yield "latest", {"schedule": "latest"}
    yield "in_order", {"schedule": "in_order"}
    for seed in range(2):
        yield f"random, seed {seed}", {"schedule": "random", "seed": seed}
    for finding in found:
        for access in finding.accesses:
            for schedule in ("latest", "in_order"):
                yield f"{schedule}, {access.place} held back", {"schedule": schedule, "delay": access.code}
    for seed in range(2, seeds):
        yield f"random, seed {seed}", {"schedule": "random", "seed": seed}


def _run(kernel: EmulatedKernel, case: Case, **options: Any) -> tuple[Report, list[Any]]:
    given = list(case())
    with emulation(**options, raises=False) as session:
        result = kernel(*given)
    outputs = result if isinstance(result, (list, tuple)) else [result]
    return session.reports[0], [value for value in (*given, *outputs) if hasattr(value, "shape")]


def _same(wanted: list[Any], got: list[Any]) -> bool:
    """Whether two runs left the same bits (a NaN is as good as another)."""
    import torch

    for a, b in zip(wanted, got):
        if a.dtype.is_floating_point:
            a, b = a.float(), b.float()
            if not torch.equal(a.nan_to_num(nan=1e30), b.nan_to_num(nan=1e30)):
                return False
        elif not torch.equal(a, b):
            return False
    return True
