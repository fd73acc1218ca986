"""A `KernelReport` as text, and some of them as one HTML page with a roofline plot."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from .report import KernelReport, _ms

__all__ = ["page", "pass_table", "roofline_svg", "text"]


def text(report: KernelReport) -> str:
    """The report for a terminal."""
    work = report.work
    rows = [
        (
            "compile",
            ", ".join(f"{name} {_ms(value)}" for name, value in report.phases.items())
            + (" (from the cache on disk)" if report.origin == "disk" else ""),
        ),
        ("first call", _ms(report.first_call)),
        ("call", f"{_ms(report.call)} (20 %: {_ms(report.spread[0])}, 80 %: {_ms(report.spread[1])})"),
        ("kernel", f"{_ms(report.kernel)} alone"),
        ("launch gap", f"{_ms(report.gap)}, {report.gap / report.call:.0%} of a call; host work {_ms(report.host)}"),
        ("work", _work(report)),
        ("bytes", f"{_si(work.bytes)}B needed, {_si(work.asked)}B asked for by {work.blocks} blocks"),
    ]
    if report.limits:
        limit = report.limits[0]
        source = "measured here" if report.measured_peaks else "data sheet"
        if report.share is not None and report.share > 1.05:
            source += "; more than it gives: what the kernel reads and writes stays in a cache"
        rows.append(
            ("roofline", f"{report.share:.0%} of what {limit.what} allows ({_ms(limit.milliseconds)}; {source})")
        )
    rows += [("not counted", note) for note in work.inexact]
    rows += [("diagnosis", line) for line in report.diagnosis]
    lines = [f"{report.name} for {report.target} on {report.device}"]
    lines += [f"  {name:<11} {value}" for name, value in rows]
    return "\n".join(lines)


def pass_table(report: KernelReport) -> str:
    """Time of each pass, longest first."""
    if not report.passes:
        return "  no pass ran: the kernel was found in the cache"
    total = sum(report.passes.values()) or 1.0
    width = max(map(len, report.passes))
    rows = sorted(report.passes.items(), key=lambda row: -row[1])
    lines = [f"  {name:<{width}}  {value:9.3f} ms  {value / total:5.1%}" for name, value in rows]
    return "\n".join([*lines, f"  {'total':<{width}}  {total:9.3f} ms"])


def page(reports: Sequence[KernelReport]) -> str:
    """One self-contained page: no script, style or font from outside."""
    body = []
    for report in reports:
        body.append(f"<section><h2>{html.escape(report.name)}</h2>")
        body.append(f"<p>{html.escape(report.target)} on {html.escape(report.device)}</p>")
        body += [f"<p class='said'>{html.escape(line)}</p>" for line in report.diagnosis]
        if report.bandwidth and report.peak and report.work.operations:
            body.append(roofline_svg(report))
        body.append(_bars("compiling", report.phases))
        parts = {"kernel": report.kernel, "launch gap": report.gap}
        body.append(_bars("a call", parts))
        if report.passes:
            longest = dict(sorted(report.passes.items(), key=lambda row: -row[1])[:12])
            body.append(_bars("passes (the longest)", longest))
        body.append(f"<pre>{html.escape(text(report))}</pre></section>")
    title = html.escape(", ".join(report.name for report in reports))
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Profile of {title}</title>'
        f"<style>{_STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def roofline_svg(report: KernelReport) -> str:
    """Operations a second against operations a byte, both logarithmic: the device's roof, and the kernel below it."""
    assert report.bandwidth and report.peak
    intensity = max(report.work.intensity, 1e-3)
    reached = report.work.operations / max(report.kernel, 1e-6) * 1e3
    ridge = report.peak / report.bandwidth
    low_x, high_x = _decades(min(intensity, ridge) / 10, max(intensity, ridge) * 10)
    roof = min(report.peak, intensity * report.bandwidth)
    low_y, high_y = _decades(min(reached, roof, 10**low_x * report.bandwidth) / 2, report.peak * 2)
    width, height, left, bottom = 560, 340, 64, 44

    def x(value: float) -> float:
        return left + (math.log10(value) - low_x) / (high_x - low_x) * (width - left - 16)

    def y(value: float) -> float:
        return height - bottom - (math.log10(value) - low_y) / (high_y - low_y) * (height - bottom - 16)

    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="roofline of {html.escape(report.name)}">']
    for power in range(low_x, high_x + 1):
        at = x(10.0**power)
        parts.append(f'<line class="grid" x1="{at:.1f}" y1="16" x2="{at:.1f}" y2="{height - bottom}"/>')
        parts.append(f'<text x="{at:.1f}" y="{height - bottom + 16}" text-anchor="middle">{_power(power)}</text>')
    for power in range(low_y, high_y + 1):
        at = y(10.0**power)
        parts.append(f'<line class="grid" x1="{left}" y1="{at:.1f}" x2="{width - 16}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">{_si(10.0**power)}</text>')
    start = max(10.0**low_x, 10.0**low_y / report.bandwidth)
    parts.append(
        f'<polyline class="roof" points="{x(start):.1f},{y(start * report.bandwidth):.1f} '
        f'{x(ridge):.1f},{y(report.peak):.1f} {x(10.0**high_x):.1f},{y(report.peak):.1f}"/>'
    )
    share = "" if report.share is None else f", {report.share:.0%}"
    anchor = "end" if x(intensity) > width * 0.7 else "start"
    shift = -10 if anchor == "end" else 10
    parts.append(f'<line class="drop" x1="{x(intensity):.1f}" y1="{y(reached):.1f}" '
                 f'x2="{x(intensity):.1f}" y2="{y(roof):.1f}"/>')  # fmt: skip
    parts.append(f'<circle cx="{x(intensity):.1f}" cy="{y(reached):.1f}" r="5"/>')
    parts.append(
        f'<text class="name" text-anchor="{anchor}" x="{x(intensity) + shift:.1f}" y="{y(reached) + 16:.1f}">'
        f"{html.escape(report.name)}: {_si(reached)}op/s{share}</text>"
    )
    parts.append(
        f'<text x="{(left + width) / 2}" y="{height - 8}" text-anchor="middle">operations for each byte needed</text>'
    )
    parts.append(f'<text x="{left}" y="12">op/s</text></svg>')
    return "".join(parts)


def _bars(title: str, values: dict[str, float]) -> str:
    longest = max(values.values(), default=0.0) or 1.0
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{_ms(value)}</td>"
        f'<td class="bar"><div style="width:{100 * value / longest:.1f}%"></div></td></tr>'
        for name, value in values.items()
    )
    return f"<table><caption>{html.escape(title)}</caption>{rows}</table>"


def _work(report: KernelReport) -> str:
    work = report.work
    parts = [f"{_si(count)}op in gemms ({dtype})" for dtype, count in work.gemm.items()]
    parts += [f"{_si(count)}op ({dtype})" for dtype, count in work.other.items()]
    rate = work.operations / report.kernel * 1e3 if report.kernel else 0.0
    speed = f"; {_si(rate)}op/s, {_si(work.bytes / report.kernel * 1e3)}B/s" if report.kernel else ""
    return (", ".join(parts) or "none counted") + speed


def _decades(low: float, high: float) -> tuple[int, int]:
    return math.floor(math.log10(max(low, 1e-12))), math.ceil(math.log10(max(high, 1e-12)))


def _power(power: int) -> str:
    return f"{10.0**power:g}"


def _si(value: float) -> str:
    for factor, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g} {letter}"
    return f"{value:.3g} "


_STYLE = """
:root { color-scheme: light dark; --line: #8884; --ours: #2a7; --roof: #47c; }
body { font: 14px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 1rem auto; padding: 0 1rem; }
section { border-bottom: 1px solid var(--line); padding-bottom: 1rem; }
svg { width: 100%; max-width: 46rem; font-size: 11px; fill: currentColor; }
svg .grid { stroke: var(--line); } svg .roof { fill: none; stroke: var(--roof); stroke-width: 2; }
svg circle { fill: var(--ours); } svg .drop { stroke: var(--ours); stroke-dasharray: 3 3; }
svg .name { font-size: 12px; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0; } caption { text-align: left; font-weight: 600; }
td { padding: .1rem .5rem; white-space: nowrap; } td:nth-child(2) { text-align: right; width: 7rem; }
td.bar { width: 60%; } td.bar div { background: var(--ours); height: .8rem; border-radius: 2px; min-width: 1px; }
pre { overflow: auto; } .said { font-weight: 600; }
"""
