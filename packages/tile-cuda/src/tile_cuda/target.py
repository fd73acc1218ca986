"""CUDA targets: which architectures there are and what each can do, as one table.

``cuda`` means the device of this machine, or sm_80 where there is none; ``cuda -arch=sm_90a`` an architecture by name.
"""

from __future__ import annotations

from dataclasses import dataclass

from tile_core.errors import TargetError, declare_codes
from tile_core.target import Target

__all__ = ["ARCHITECTURES", "Architecture", "architecture", "resolve_target"]

declare_codes(
    {
        "E-CUDA-ARCH": "a CUDA architecture that does not exist or that this version does not compile for",
    }
)


@dataclass(frozen=True)
class Architecture:
    """What passes and candidates ask of an architecture.

    Args:
        name: what ``-arch=`` says.
        number: compute capability times ten.
        block_shared_bytes: shared memory that one block can have (CUDA programming guide, table of technical
            specifications by compute capability).
        multiprocessor_threads: threads resident on a multiprocessor.
        async_copy: ``cp.async``.
        bfloat16: bf16 in ``mma.sync``.
        fp8: e4m3 and e5m2 in ``mma.sync``.
        hopper: TMA, mbarrier transactions, wgmma, clusters, setmaxnreg (the ``a`` variant only).
    """

    name: str
    number: int
    block_shared_bytes: int
    multiprocessor_threads: int
    async_copy: bool = True
    bfloat16: bool = True
    fp8: bool = False
    hopper: bool = False


_KIB = 1024
ARCHITECTURES = {
    a.name: a
    for a in (
        Architecture("sm_75", 75, 64 * _KIB, 1024, async_copy=False, bfloat16=False),
        Architecture("sm_80", 80, 163 * _KIB, 2048),
        Architecture("sm_86", 86, 99 * _KIB, 1536),
        Architecture("sm_87", 87, 163 * _KIB, 1536),
        Architecture("sm_89", 89, 99 * _KIB, 1536, fp8=True),
        Architecture("sm_90", 90, 227 * _KIB, 2048, fp8=True),
        Architecture("sm_90a", 90, 227 * _KIB, 2048, fp8=True, hopper=True),
    )
}
# What code for no particular device is made for: the oldest with cp.async and bf16.
_DEFAULT = "sm_80"


def resolve_target(target: Target) -> Target:
    """The target with its architecture filled in and checked.

    Raises:
        TargetError: an unknown option, or an architecture outside the table.
    """
    for key in target.attrs:
        if key != "arch":
            raise TargetError(
                "E-TARGET-OPTION",
                f"target {target} has an option -{key}, which the CUDA backend does not know",
                facts=["known options: -arch"],
                help="write cuda, or cuda -arch=sm_90a",
            )
    given = target.get("arch")
    name = _device_architecture() if given is None else str(given)
    if name not in ARCHITECTURES:
        raise _refused(target, name)
    return Target(target.kind, {"arch": name})


def architecture(target: Target) -> Architecture:
    """The table's row for a resolved target."""
    return ARCHITECTURES[target.get("arch")]


def _device_architecture() -> str:
    """The newest row that the device of this machine runs, or the default without one."""
    from .driver import device

    found = device()
    if found is None:
        return _DEFAULT
    if found.capability == 90:
        return "sm_90a"
    fitting = [a for a in ARCHITECTURES.values() if a.number <= found.capability and not a.hopper]
    return fitting[-1].name if fitting else f"sm_{found.capability}"


def _refused(target: Target, name: str) -> TargetError:
    known = f"known architectures: {', '.join(ARCHITECTURES)}"
    number = name.removeprefix("sm_").rstrip("af")
    if name.startswith("sm_") and number.isdecimal() and int(number) < 75:
        return TargetError(
            "E-CUDA-ARCH",
            f"target {target}: {name} is too old, NVRTC 13 compiles for sm_75 and newer",
            facts=[known],
            help="use a device of compute capability 7.5 or newer",
        )
    if name.startswith("sm_") and number.isdecimal() and int(number) >= 100:
        return TargetError(
            "E-CUDA-ARCH",
            f"target {target}: {name} is newer than this version of tile-cuda knows",
            facts=[known],
            help="upgrade tile-cuda once a release lists it; code for sm_90a does not run on it",
        )
    bare = f"sm_{name}"
    hint = bare if bare in ARCHITECTURES else "sm_90a" if "90" in name else _DEFAULT
    return TargetError(
        "E-CUDA-ARCH",
        f"target {target}: {name!r} is not a CUDA architecture",
        facts=[known],
        help=f"write -arch={hint}",
    )
