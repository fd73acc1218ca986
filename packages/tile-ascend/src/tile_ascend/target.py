"""Ascend targets: chips are rows of a table, never branches.

``ascend -chip=ascend910b`` names one chip; the names under which the same chip is sold are aliases of one canonical id.
``ascend`` alone is the default chip.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tile_core.errors import TargetError, declare_codes
from tile_core.target import Target

__all__ = ["CHIPS", "Chip", "capacity", "chip", "resolve_target"]

declare_codes({"E-ASCEND-CHIP": "an Ascend chip that this version does not know"})


@dataclass(frozen=True)
class Chip:
    """A chip's limits, in bytes and counts; where the vendor's guide advises less than the hardware has, both.

    Args:
        name: canonical id, what ``-chip=`` says.
        aliases: other names of it, in lower case.
        architecture: the vendor compiler's name of the core.
        vectors: vector cores beside each cube core.
        ub, l1, l0a, l0b, l0c: bytes of the on-chip memories of a core.
        flag_ids, advised_flag_ids: event ids of a pair of pipes.
        cross_flag_ids, advised_cross_flag_ids: flag ids between cores.
        l0a_layout: fractal layout of the cube's left operand.
        cube_to_vector: whether the cube's results reach vector memory without a trip through global memory.
    """

    name: str
    aliases: tuple[str, ...]
    architecture: str
    vectors: int
    ub: int
    l1: int
    l0a: int
    l0b: int
    l0c: int
    flag_ids: int
    advised_flag_ids: int
    cross_flag_ids: int
    advised_cross_flag_ids: int
    l0a_layout: str
    cube_to_vector: bool


_KIB = 1024
CHIPS = {
    c.name: c
    for c in (
        Chip(
            name="ascend910b",
            aliases=("a2", "a3", "910b", "910c", "ascend910c", "dav-2201"),
            architecture="dav-2201",
            vectors=2,
            ub=192 * _KIB,
            l1=512 * _KIB,
            l0a=64 * _KIB,
            l0b=64 * _KIB,
            l0c=128 * _KIB,
            flag_ids=8,
            advised_flag_ids=6,
            cross_flag_ids=16,
            advised_cross_flag_ids=11,
            l0a_layout="zz",
            cube_to_vector=False,
        ),
        Chip(
            name="ascend950",
            aliases=("a5", "950", "950pr", "950dt", "ascend950pr", "ascend950dt", "dav-3510"),
            architecture="dav-3510",
            vectors=2,
            ub=256 * _KIB,
            l1=512 * _KIB,
            l0a=64 * _KIB,
            l0b=64 * _KIB,
            l0c=256 * _KIB,
            flag_ids=8,
            advised_flag_ids=6,
            cross_flag_ids=16,
            advised_cross_flag_ids=11,
            l0a_layout="nz",
            cube_to_vector=True,
        ),
    )
}
_DEFAULT = "ascend910b"
_BY_NAME = {name: c for c in CHIPS.values() for name in (c.name, *c.aliases)}


def resolve_target(target: Target) -> Target:
    """The target with its canonical chip id.

    Raises:
        TargetError: an unknown option or chip.
    """
    for key in target.attrs:
        if key != "chip":
            raise TargetError(
                "E-TARGET-OPTION",
                f"target {target} has an option -{key}, which the Ascend backend does not know",
                facts=["known options: -chip"],
                help="write ascend, or ascend -chip=ascend910b",
            )
    given = str(target.get("chip", _DEFAULT))
    found = _BY_NAME.get(given.lower())
    if found is None:
        raise TargetError(
            "E-ASCEND-CHIP",
            f"target {target}: {given!r} is not a chip that this version of tile-ascend knows",
            facts=[f"{c.name}, also called {', '.join(c.aliases)}" for c in CHIPS.values()],
            help=f"write -chip={_DEFAULT}",
        )
    return Target(target.kind, {"chip": found.name})


def chip(target: Target) -> Chip:
    """The table's row for a resolved target."""
    return CHIPS[target.get("chip")]


def capacity(memory: str) -> Callable[[Target], int | None]:
    """A function that says how many bytes of an on-chip memory a target's chip has."""
    return lambda target: getattr(chip(target), memory) if target.kind == "ascend" else None
