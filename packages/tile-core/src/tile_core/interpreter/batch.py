"""Which loop iterations may be tried side by side.

A nest of loops runs as a batch of lanes, one an iteration, when its body only computes and stores. That is a guess:
while it runs, a `Tracker` watches for iterations that depend on each other; then all is undone and the loop runs in
order. So the plan below decides speed, never the result.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir import (
    AccessPtr,
    Attr,
    Bind,
    Block,
    Break,
    Buffer,
    BufferStore,
    Call,
    Continue,
    Expr,
    For,
    KernelLaunch,
    Let,
    Node,
    Return,
    Stmt,
    TileOpStmt,
    Var,
    While,
    find_intrinsic,
    walk,
)

__all__ = ["Plan", "plan_batch"]


@dataclass(frozen=True)
class Plan:
    """How a nest is run.

    Args:
        loops: the loops of the nest, outermost first.
        lanes: those whose iterations run side by side; the others run in order around them.
        body: what the innermost loop does.
        stored: buffers from outside that it writes.
    """

    loops: tuple[For, ...]
    lanes: tuple[For, ...]
    body: Stmt
    stored: tuple[Buffer, ...]


def plan_batch(loop: For) -> Plan | None:
    """The plan for the nest that begins at `loop`, or None where it must run in order."""
    nest = [loop]
    while type(nest[-1].body) is For and _independent(nest[-1].body, nest):
        nest.append(nest[-1].body)  # type: ignore[arg-type]
    body = nest[-1].body
    if not _only_computes(body):
        return None
    own = {root(buffer) for node in walk(body) if type(node) is Block for buffer in node.allocations}
    taints = _taints(body, {l.var for l in nest})
    stored: dict[Buffer, None] = {}
    lanes = {l.var for l in nest}
    for node in walk(body):
        if type(node) is BufferStore and root(node.buffer) not in own:
            stored.setdefault(node.buffer)
            lanes &= set().union(*(_mentions(index, taints) for index in node.indices))
    chosen = tuple(l for l in nest if l.var in lanes)
    return Plan(tuple(nest), chosen, body, tuple(stored)) if stored and chosen else None


def root(buffer: Buffer) -> Buffer:
    """The buffer whose memory `buffer` views."""
    while buffer.data is not None:
        buffer = buffer.data
    return buffer


def _independent(inner: For, nest: list[For]) -> bool:
    variables = {l.var for l in nest}
    bounds = [e for e in (inner.min, inner.extent, inner.step) if e is not None]
    return not any(node in variables for e in bounds for node in walk(e) if isinstance(node, Var))


def _only_computes(body: Stmt) -> bool:
    stack: list[tuple[Node, bool]] = [(body, False)]
    while stack:
        node, inside_loop = stack.pop()
        kind = type(node)
        if kind in (TileOpStmt, KernelLaunch, Return, AccessPtr) or (isinstance(node, Attr) and node.key == "address"):
            return False
        if kind in (Break, Continue) and not inside_loop:
            return False
        if isinstance(node, Call) and not find_intrinsic(node.op).pure:
            return False
        inside_loop = inside_loop or kind in (For, While)
        stack.extend((child, inside_loop) for child in node.child_nodes())
    return True


def _taints(body: Stmt, variables: set[Var]) -> dict[Var, set[Var]]:
    """For each variable that the body binds, the loop variables on which it depends."""
    taints = {v: {v} for v in variables}
    for node in walk(body):
        if isinstance(node, (Bind, Let)):
            taints[node.var] = _mentions(node.value, taints)
        elif type(node) is For:
            taints[node.var] = _mentions(node.min, taints) | _mentions(node.extent, taints)
    return taints


def _mentions(expr: Expr, taints: dict[Var, set[Var]]) -> set[Var]:
    found: set[Var] = set()
    for node in walk(expr):
        if isinstance(node, Var):
            found |= taints.get(node, set())
    return found
