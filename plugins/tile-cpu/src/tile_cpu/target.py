"""CPU targets: which instruction set code is made for.

``cpu`` means this machine's processor, with everything that it can do; ``cpu -mcpu=x86-64-v3`` a level or a model by
the compiler's name. Resolving fills in what passes and the cache key need: the vector register's width and whether
multiply-add is one instruction.
"""

from __future__ import annotations

import platform
import subprocess
from dataclasses import dataclass
from functools import cache

from tile_core.errors import TargetError, declare_codes
from tile_core.plugin.api import Ok
from tile_core.target import Target

__all__ = ["detect", "processor_words", "resolve_target"]

declare_codes({"E-TARGET-CPU": "a processor name or feature that the CPU backend does not know"})


@dataclass(frozen=True)
class _Features:
    """Bits of a vector register, fused multiply-add, and the words that tell native machines apart in cache keys."""

    vector_bits: int
    fma: bool
    words: tuple[str, ...] = ()


# Names that -march takes. A name that is missing here can still be had as -mcpu=native on such a machine.
_LEVELS: dict[str, _Features] = {
    "x86-64": _Features(128, False),
    "x86-64-v2": _Features(128, False),
    "x86-64-v3": _Features(256, True),
    "x86-64-v4": _Features(512, True),
    "haswell": _Features(256, True),
    "skylake": _Features(256, True),
    "skylake-avx512": _Features(512, True),
    "icelake-server": _Features(512, True),
    "sapphirerapids": _Features(512, True),
    "znver2": _Features(256, True),
    "znver3": _Features(256, True),
    "znver4": _Features(512, True),
    "armv8-a": _Features(128, True),
    "armv8.2-a": _Features(128, True),
    "neoverse-n1": _Features(128, True),
    "neoverse-v1": _Features(128, True),
}
_OPTIONS = ("mcpu", "vector_bits", "fma", "features")

# Flags of /proc/cpuinfo (or names of predefined macros in lower case) that change what -march=native generates.
_TELLING = (
    *("sse4_2", "avx", "avx2", "fma", "f16c", "bmi2", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"),
    *("avx512_bf16", "avx512_fp16", "amx_tile", "avx_vnni", "asimd", "asimdhp", "asimddp", "bf16", "i8mm", "sve"),
)


def resolve_target(target: Target) -> Target:
    """The target with mcpu, vector_bits, fma and (for native) features filled in.

    Raises:
        TargetError: an option or processor name that is not known, or a value that does not fit.
    """
    for key in target.attrs:
        if key not in _OPTIONS:
            raise TargetError(
                "E-TARGET-OPTION",
                f"target {target} has an option -{key}, which the CPU backend does not know",
                facts=[f"known options: {', '.join('-' + o for o in _OPTIONS)}"],
                help="write cpu, or cpu -mcpu=native, or cpu -mcpu=x86-64-v3",
            )
    name = str(target.get("mcpu", "native"))
    features = _native() if name == "native" else _LEVELS.get(name)
    if features is None:
        raise TargetError(
            "E-TARGET-CPU",
            f"target {target} names a processor {name!r} that the CPU backend does not know",
            facts=[f"known: native, {', '.join(_LEVELS)}"],
            help="take the level that the processor has, such as x86-64-v3 (AVX2) or x86-64-v4 (AVX-512)",
        )
    bits = _number(target, "vector_bits", features.vector_bits)
    attrs: dict[str, object] = {"mcpu": name, "vector_bits": bits, "fma": _number(target, "fma", int(features.fma))}
    if features.words:
        attrs["features"] = "+".join(features.words)
    return Target(target.kind, attrs)


def detect() -> Ok:
    """A CPU is always present."""
    features = _native()
    return Ok(f"{platform.machine() or 'unknown machine'}, {features.vector_bits}-bit vectors")


def _number(target: Target, key: str, default: int) -> int:
    given = target.get(key)
    if given is None:
        return default
    allowed = (0, 1) if key == "fma" else (128, 256, 512)
    text = str(given)
    if not text.isdecimal() or int(text) not in allowed:
        raise TargetError(
            "E-TARGET-OPTION",
            f"target {target}: -{key} does not take {given!r}",
            facts=[f"allowed: {', '.join(map(str, allowed))}"],
            help=f"leave out -{key} to take what the processor has",
        )
    return int(text)


@cache
def _native() -> _Features:
    """What this machine's processor can do."""
    words = processor_words()
    telling = tuple(w for w in _TELLING if w in words)
    if "avx512f" in words:
        return _Features(512, True, telling)
    if "avx2" in words:
        return _Features(256, "fma" in words, telling)
    arm = platform.machine().lower() in ("arm64", "aarch64")
    return _Features(128, arm or "fma" in words, telling or (platform.machine().lower() or "unknown",))


def processor_words() -> frozenset[str]:
    """What this machine's processor can do, in the words of /proc/cpuinfo; empty where the system does not tell."""
    return _words()


@cache
def _words() -> frozenset[str]:
    return frozenset(_cpuinfo_flags() or _compiler_macros())


def _cpuinfo_flags() -> set[str]:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip().lower() in ("flags", "features"):
                    return set(value.split())
    except OSError:
        pass
    return set()


def _compiler_macros() -> set[str]:
    """Where the system has no /proc/cpuinfo, the compiler knows its machine: the macros of -march=native, in
    cpuinfo's words."""
    from .toolchain import find_compiler

    try:
        words = [*find_compiler(), "-march=native", "-dM", "-E", "-x", "c++", "-"]
        run = subprocess.run(words, input="", capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return set()
    names = [line.split()[1] for line in run.stdout.splitlines() if line.startswith("#define __")]
    return {name.strip("_").lower() for name in names}
