"""Whether this machine's processor executes code for a target: what named processors have, in the words of cpuinfo."""

from __future__ import annotations

import platform

from tile_core.plugin import Ok, Reason
from tile_core.target import Target

from .target import processor_words

__all__ = ["runnable"]

_V2 = frozenset({"cx16", "popcnt", "sse4_1", "sse4_2", "ssse3"})
_V3 = _V2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_ICELAKE = _V4 | {"avx512_vnni", "avx512vbmi", "avx512_vbmi2", "avx512_bitalg", "gfni", "vaes", "vpclmulqdq"}

# What -march=NAME may use beyond the architecture's base.
_X86: dict[str, frozenset[str]] = {
    "x86-64": frozenset(),
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": _V4,
    "haswell": _V3,
    "skylake": _V3 | {"adx", "rdseed"},
    "skylake-avx512": _V4 | {"adx", "rdseed", "clwb"},
    "icelake-server": _ICELAKE,
    "sapphirerapids": _ICELAKE | {"amx_tile", "amx_int8", "amx_bf16", "avx512_bf16", "avx512_fp16", "avx_vnni"},
    "znver2": _V3 | {"sse4a", "clwb", "rdseed"},
    "znver3": _V3 | {"sse4a", "clwb", "vaes", "vpclmulqdq"},
    "znver4": _ICELAKE | {"sse4a", "avx512_bf16"},
}
_ARM: dict[str, frozenset[str]] = {
    "armv8-a": frozenset({"asimd"}),
    "armv8.2-a": frozenset({"asimd", "atomics", "asimdrdm"}),
    "neoverse-n1": frozenset({"asimd", "atomics", "asimdrdm", "asimdhp", "asimddp"}),
    "neoverse-v1": frozenset({"asimd", "atomics", "asimdrdm", "asimdhp", "asimddp", "sve", "bf16", "i8mm"}),
}
_MACHINES = {"x86_64": "x86", "amd64": "x86", "arm64": "arm", "aarch64": "arm"}


def runnable(target: Target) -> Ok | Reason:
    """Whether code for the target runs here."""
    name = str(target.get("mcpu", "native"))
    if name == "native":
        return _same_features(target)
    family = "x86" if name in _X86 else "arm"
    machine = platform.machine().lower()
    if _MACHINES.get(machine, machine) != family:
        return Reason(f"{name} is another kind of processor than this machine's {machine}", _HELP)
    words = processor_words()
    if not words:
        return Ok("this system does not tell what its processor can do")
    missing = sorted({**_X86, **_ARM}[name] - words)
    if missing:
        return Reason(f"this machine's processor lacks {', '.join(missing)}, which code for {name} may use", _HELP)
    return Ok(f"{name} runs on this machine")


_HELP = "compile for cpu, which is this machine, or run the kernel on a machine that has them"


def _same_features(target: Target) -> Ok | Reason:
    """A target resolved as native: here, or on another machine whose artifact came along."""
    words = processor_words()
    wanted = {word for word in str(target.get("features", "")).split("+") if word}
    missing = sorted(wanted - words) if words else []
    if missing:
        return Reason(f"it was compiled on a machine whose processor has {', '.join(missing)}; this one has not", _HELP)
    return Ok("compiled for this machine")
