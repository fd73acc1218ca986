"""The page that ``tile show ir --html`` writes: passes at the left, the IR or what changed at the right.

One file: no script, style or font from outside.
"""

from __future__ import annotations

import difflib
import html
from collections.abc import Sequence

from ..errors import TileError
from .trace import PassTrace, Step

__all__ = ["page"]

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --add: #2a83; --cut: #d334; --dim: #8889; }
* { box-sizing: border-box; }
body { margin: 0; font: 14px/1.5 system-ui, sans-serif; height: 100vh; }
body { display: grid; grid-template-columns: 17rem 1fr; }
nav { overflow: auto; border-right: 1px solid var(--line); padding: .5rem; }
nav h2 { font-size: 1rem; margin: .5rem; }
nav a { display: flex; gap: .5rem; padding: .1rem .5rem; color: inherit; text-decoration: none; border-radius: 4px; }
nav a:hover, nav a.now { background: var(--line); }
nav a.same { color: var(--dim); }
nav a span:last-child { margin-left: auto; color: var(--dim); white-space: nowrap; }
main { overflow: auto; padding: 0 1rem 2rem; }
section { display: none; } section.now { display: block; }
h1 { font-size: 1.1rem; } h1 small { font-weight: normal; color: var(--dim); }
pre, table { font: 12px/1.45 ui-monospace, monospace; }
pre { margin: 0; white-space: pre; }
pre.fault { border-left: 3px solid #d33; padding: .5rem; overflow: auto; }
table { border-collapse: collapse; width: 100%; table-layout: fixed; }
td { vertical-align: top; white-space: pre-wrap; overflow-wrap: anywhere; padding: 0 .5rem; }
td.n { width: 3.5rem; color: var(--dim); text-align: right; user-select: none; }
td.add { background: var(--add); } td.cut { background: var(--cut); }
tr.gap td { color: var(--dim); text-align: center; border-block: 1px solid var(--line); }
.diff .full { display: none; } .diff .change { display: block; }
.change { display: none; }
"""

_SCRIPT = """
const sections = [...document.querySelectorAll('section')], links = [...document.querySelectorAll('nav a')];
function show(id) {
  const target = document.getElementById(id) || sections[0];
  sections.forEach(s => s.classList.toggle('now', s === target));
  links.forEach(a => a.classList.toggle('now', a.hash === '#' + target.id));
}
addEventListener('hashchange', () => show(location.hash.slice(1)));
const box = document.getElementById('diff');
box.addEventListener('change', () => document.body.classList.toggle('diff', box.checked));
addEventListener('keydown', e => {
  const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[e.key];
  if (!step) return;
  e.preventDefault();
  const now = links.findIndex(a => a.classList.contains('now'));
  const next = links[Math.min(Math.max(now + step, 0), links.length - 1)];
  location.hash = next.hash; next.scrollIntoView({ block: 'nearest' });
});
show(location.hash.slice(1));
"""


def page(traces: Sequence[tuple[str, PassTrace]], failure: TileError | None = None) -> str:
    """The page for the traces of some kernels; `failure` ended the last one."""
    menu: list[str] = []
    body: list[str] = []
    for position, (name, trace) in enumerate(traces):
        menu.append(f"<h2>{html.escape(name)}</h2>")
        for step in trace.steps:
            place = f"k{position}p{step.number}"
            style = "" if step.changed else ' class="same"'
            time = f"{step.seconds * 1e3:.1f} ms" if step.number else step.form
            menu.append(
                f'<a href="#{place}"{style}><span>{step.number:02d} {html.escape(step.name)}</span>'
                f"<span>{time}</span></a>"
            )
            body.append(_section(place, name, step, trace.steps[step.number - 1] if step.number else None))
        if failure is not None and position == len(traces) - 1:
            menu.append('<a href="#failure"><span>stopped here</span></a>')
            body.append(
                f'<section id="failure"><h1>What stopped it</h1><pre class="fault">{html.escape(str(failure))}</pre>'
                "</section>"
            )
    title = html.escape(", ".join(name for name, _ in traces))
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>IR of {title}</title>'
        f'<style>{_STYLE}</style></head>\n<body class="diff"><nav>'
        '<label><input type="checkbox" id="diff" checked> what changed</label>'
        + "\n".join(menu)
        + "</nav>\n<main>"
        + "\n".join(body)
        + f"</main>\n<script>{_SCRIPT}</script></body></html>\n"
    )


def _section(place: str, name: str, step: Step, before: Step | None) -> str:
    note = step.form if step.changed else f"{step.form}, unchanged"
    full = f"<pre>{html.escape(step.text)}</pre>"
    change = _difference(before.text, step.text) if before is not None and step.changed else full
    return (
        f'<section id="{place}"><h1>{html.escape(name)}: {html.escape(step.name)} <small>{note}</small></h1>'
        f'<div class="full">{full}</div><div class="change">{change}</div></section>'
    )


def _difference(before: str, after: str, context: int = 3) -> str:
    """Two columns with the lines that changed and a few around them."""
    a, b = before.splitlines(), after.splitlines()
    rows: list[str] = []
    for group in difflib.SequenceMatcher(None, a, b, autojunk=False).get_grouped_opcodes(context):
        if rows or group[0][1] > 0:
            rows.append('<tr class="gap"><td colspan="4">⋯</td></tr>')
        for kind, i1, i2, j1, j2 in group:
            for offset in range(max(i2 - i1, j2 - j1)):
                left = i1 + offset if i1 + offset < i2 else None
                right = j1 + offset if j1 + offset < j2 else None
                rows.append(f"<tr>{_cell(a, left, kind, 'cut')}{_cell(b, right, kind, 'add')}</tr>")
    return f"<table>{''.join(rows)}</table>"


def _cell(lines: list[str], index: int | None, kind: str, style: str) -> str:
    if index is None:
        return '<td class="n"></td><td></td>'
    marked = "" if kind == "equal" else f' class="{style}"'
    return f'<td class="n">{index + 1}</td><td{marked}>{html.escape(lines[index])}</td>'
