"""Intrinsics of single threads: atomic updates with a result, shuffles and votes of warps, meetings of some threads.

Every backend carries them out, or a pass lowers them: they have no prefix. A row that ends in ``_sync`` or has a
`Collective` effect is something that the lanes of a warp do together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .effects import Collective, Rendezvous
from .expr import Call, Var
from .intrinsics import Intrinsic, find_intrinsic, intrinsics, register_intrinsic
from .node import Node
from .visit import walk

__all__ = [
    "SIDE_BY_SIDE",
    "VOTES",
    "WARP_REDUCTIONS",
    "WARP_SIZE",
    "has_named_barrier",
    "has_thread_code",
    "is_thread_call",
    "shuffles",
]

WARP_SIZE = 32
# The key of an Attr whose body's statements are parts of a block's threads that go on while others wait at named
# barriers; for targets that run a block on one thread.
SIDE_BY_SIDE = "side_by_side"
shuffles = ("shfl", "shfl_up", "shfl_down", "shfl_xor")
VOTES = ("ballot", "any_sync", "all_sync", "match_any", "match_all", "activemask")
WARP_REDUCTIONS = ("sum", "max", "min", "bitand", "bitor")
_TOGETHER = (Collective("warp"),)

for _kind in ("add", "max", "min", "and", "or", "xor"):
    register_intrinsic(
        Intrinsic(
            f"atomic_{_kind}", 3, "void", False, doc=f"(address, value, StringImm memory order): {_kind}, indivisibly"
        )
    )
    register_intrinsic(
        Intrinsic(
            f"atomic_fetch_{_kind}",
            3,
            "given",
            False,
            doc=f"(address, value, StringImm memory order): {_kind}, indivisibly; the value before",
        )
    )
for _name in shuffles:
    register_intrinsic(
        Intrinsic(
            _name,
            4,
            "same",
            False,
            doc="(value, lane or distance, width, mask): another lane's value, the own one where there is none",
            effects=_TOGETHER,
        )
    )
for _kind in WARP_REDUCTIONS:
    register_intrinsic(
        Intrinsic(
            f"warp_reduce_{_kind}",
            1,
            "same",
            False,
            doc=f"{_kind} over the warp, for every lane",
            effects=_TOGETHER,
        )
    )
for _row in (
    Intrinsic(
        "philox", 3, "given", doc="(seed, sequence, place), uint64 each: the uint32 that Philox4x32-10 has there"
    ),
    Intrinsic("device_print", None, "void", False, doc="(texts and values, in order): prints a line"),
    Intrinsic("device_assert", None, "void", False, doc="(condition, texts and values, in order): ends a kernel"),
    Intrinsic("reducer_update", 3, "void", False, doc="(element, value, StringImm kind): lets a value take part"),
    Intrinsic("atomic_load", 2, "given", False, doc="(address, StringImm memory order): one element, indivisibly"),
    Intrinsic(
        "atomic_store", 3, "void", False, doc="(address, value, StringImm memory order): one element, indivisibly"
    ),
    Intrinsic("ballot", 2, "uint32", False, doc="(predicate, mask): lanes where it holds, as bits", effects=_TOGETHER),
    Intrinsic("any_sync", 2, "bool", False, doc="(predicate, mask): whether it holds in a lane", effects=_TOGETHER),
    Intrinsic("all_sync", 2, "bool", False, doc="(predicate, mask): whether it holds in all lanes", effects=_TOGETHER),
    Intrinsic(
        "match_any", 2, "uint32", False, doc="(value, mask): lanes with the same value, a bit each", effects=_TOGETHER
    ),
    Intrinsic(
        "match_all",
        2,
        "uint32",
        False,
        doc="(value, mask): the lanes where all have one value, else 0",
        effects=_TOGETHER,
    ),
    Intrinsic("activemask", 0, "uint32", False, doc="lanes that execute together, a bit each", effects=_TOGETHER),
    Intrinsic(
        "sync_warp",
        1,
        "void",
        False,
        effect="sync",
        doc="(mask): lanes of a warp meet",
        effects=(Rendezvous("warp", count=0),),
    ),
    Intrinsic(
        "sync_named",
        2,
        "void",
        False,
        effect="sync",
        doc="(barrier, threads): that many threads meet at a numbered barrier",
        effects=(Rendezvous("named", 0, 1),),
    ),
    Intrinsic(
        "arrive_named",
        2,
        "void",
        False,
        effect="sync",
        doc="(barrier, threads): arrives at a numbered barrier without waiting",
        effects=(Rendezvous("named", 0, 1, waits=False),),
    ),
    Intrinsic(
        "sync_part",
        3,
        "void",
        False,
        effect="sync",
        doc="(barrier, threads, here): one of the parts side by side, of `here` threads, waits at a numbered barrier",
        effects=(Rendezvous("block"),),
    ),
    Intrinsic(
        "arrive_part",
        3,
        "void",
        False,
        effect="sync",
        doc="(barrier, threads, here): one of the parts side by side, of `here` threads, arrives without waiting",
        effects=(Rendezvous("block"),),
    ),
    Intrinsic(
        "sync_grid",
        0,
        "void",
        False,
        effect="sync",
        doc="all threads of all blocks meet",
        effects=(Rendezvous("block"),),
    ),
    *(
        Intrinsic(
            f"sync_threads_{_what}",
            1,
            "int32",
            False,
            effect="sync",
            doc=f"(predicate): all threads of the block meet; {_doc}",
            effects=(Rendezvous("block"),),
        )
        for _what, _doc in (
            ("count", "the number of those where it holds"),
            ("and", "1 where it holds in all, else 0"),
            ("or", "1 where it holds in one, else 0"),
        )
    ),
):
    register_intrinsic(_row)


def is_thread_call(call: Call) -> bool:
    """Whether a call is something that single threads do, so that each of a block's threads does it."""
    row = intrinsics().get(call.op)
    if row is None or "." in call.op:
        return False
    return any(
        isinstance(e, Collective) or (isinstance(e, Rendezvous) and e.unit != "block") for e in row.effects
    ) or call.op.startswith("sync_threads_")


def has_thread_code(body: Any, thread_vars: Iterable[Var]) -> bool:
    """Whether a kernel's body means something else for each thread: it mentions a thread index, or lanes work
    together."""
    variables = set(thread_vars)
    for node in walk(body):
        if (isinstance(node, Var) and node in variables) or (isinstance(node, Call) and is_thread_call(node)):
            return True
    return False


def has_named_barrier(node: Node) -> bool:
    """Whether a statement holds a meeting of some of the block's threads: its branches go on side by side."""
    return any(isinstance(n, Call) and n.op in ("sync_named", "arrive_named") for n in walk(node))


def collective_calls(node: Node) -> list[Call]:
    """The calls in which threads work together that a statement makes, those of statements inside it included."""
    return [n for n in walk(node) if isinstance(n, Call) and find_intrinsic(n.op).effects and is_thread_call(n)]
