"""Forms: what the IR looks like at each stage of lowering.

    TILE       tile ops on regions; thread indices only where the user wrote them
    CHOSEN     every tile op has its candidate
    LAID_OUT   every on-chip buffer has a layout, every parallel loop a place
    PIPED      pipelined loops have logical pipes; versions are known
    THREAD     no tile ops, no parallel or pipelined loops; explicit executors and intrinsics
    FLAT       one-dimensional buffers with typed indices
    SPLIT      host functions and device functions
    PACKED     the host function has the packed signature

Each form is a predicate here: `check_form(module, form)` raises an InternalError that names the first node that does
    not belong. A pass
says which form it needs and leaves; a pipeline is checked against that when it is defined, the forms themselves
between passes in debug mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..errors import InternalError, declare_codes
from .expr import BufferLoad, Call
from .function import IRModule, PrimFunc
from .intrinsics import intrinsics
from .stmt import Block, BufferStore, For, KernelLaunch, TileOpStmt
from .visit import walk

__all__ = ["FORMS", "check_form", "form_index"]

declare_codes({"E-FORM": "a pass left the IR in a form that it must not have"})

FORMS = ("TILE", "CHOSEN", "LAID_OUT", "PIPED", "THREAD", "FLAT", "SPLIT", "PACKED")


def form_index(form: str) -> int:
    """Position of a form in the way down."""
    return FORMS.index(form)


def check_form(module: IRModule, form: str) -> None:
    """Raises where the module is not in `form`.

    Raises:
        InternalError: with the function, the node and the rule.
    """
    for function in module.functions:
        for node in _nodes(function):
            for reason in _violations(function, node, form):
                raise InternalError(
                    "E-FORM",
                    f"{function.name}: {reason} in form {form}",
                    span=node.span,
                    facts=[f"node: {type(node).__name__}"],
                )
    if form in ("SPLIT", "PACKED"):
        conventions = [f.attr("calling_convention") for f in module.functions]
        if "device" not in conventions or ("host" not in conventions and "packed" not in conventions):
            raise InternalError(
                "E-FORM", f"form {form} needs a host and a device function", facts=[f"found {conventions}"]
            )


def _nodes(function: PrimFunc) -> Iterator[Any]:
    return walk(function.body)


def _violations(function: PrimFunc, node: Any, form: str) -> Iterator[str]:
    level = form_index(form)
    for low, high, rule in _RULES:
        if low <= level <= high:
            reason = rule(function, node)
            if reason:
                yield reason


def _known_intrinsic(function: PrimFunc, node: Any) -> str | None:
    if isinstance(node, Call) and node.op not in intrinsics():
        return f"call of {node.op!r}, which declares no effects,"
    return None


def _index_count(function: PrimFunc, node: Any) -> str | None:
    if isinstance(node, (BufferLoad, BufferStore)) and len(node.indices) != node.buffer.ndim:
        return f"{node.buffer.name} has {node.buffer.ndim} dimensions and is indexed with {len(node.indices)}"
    return None


def _no_choice_yet(function: PrimFunc, node: Any) -> str | None:
    if isinstance(node, TileOpStmt) and node.candidate is not None:
        return "a tile op with a chosen candidate"
    return None


def _chosen(function: PrimFunc, node: Any) -> str | None:
    if isinstance(node, TileOpStmt) and node.candidate is None:
        return "a tile op without a candidate"
    return None


def _laid_out(function: PrimFunc, node: Any) -> str | None:
    if isinstance(node, Block):
        laid = {pair[0] for pair in node.annotation("layouts", ())}
        for buffer in node.allocations:
            if buffer.scope in ("shared", "fragment") and buffer not in laid:
                return f"{buffer.name} without a layout"
    return None


def _no_tile_ops(function: PrimFunc, node: Any) -> str | None:
    if isinstance(node, TileOpStmt):
        return "a tile op"
    if isinstance(node, For) and node.kind in ("parallel", "pipelined", "persistent"):
        return f"a {node.kind} loop"
    return None


def _flat(function: PrimFunc, node: Any) -> str | None:
    if isinstance(node, (BufferLoad, BufferStore)) and node.buffer.ndim != 1:
        return f"an access to {node.buffer.name}, which has {node.buffer.ndim} dimensions,"
    return None


def _split(function: PrimFunc, node: Any) -> str | None:
    if isinstance(node, KernelLaunch) and function.attr("calling_convention") != "device":
        return "a kernel body outside a device function"
    return None


_LAST = len(FORMS) - 1
_RULES: tuple[tuple[int, int, Callable[[PrimFunc, Any], str | None]], ...] = (
    (0, _LAST, _known_intrinsic),
    (0, _LAST, _index_count),
    (0, 0, _no_choice_yet),
    (1, 3, _chosen),
    (2, 3, _laid_out),
    (4, _LAST, _no_tile_ops),
    (5, _LAST, _flat),
    (6, _LAST, _split),
)
