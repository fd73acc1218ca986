"""Names of ``T`` that no module holds: vector types, dialects of backends, and the error for the rest."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from ..dtypes import SCALAR_NAMES, DType
from ..errors import CompileError, PluginError, declare_codes
from ..frontend.outside import placed
from ..plugin import registry
from .absent import ABSENT

__all__ = ["LanguageNameError", "missing_name"]

declare_codes({"E-LANGUAGE-NAME": "a name that this version of the language does not have"})

_LANES = (2, 4, 8, 16, 32, 64)


class LanguageNameError(CompileError, AttributeError):
    """The language has no such name; an AttributeError, so that `hasattr` and `getattr` with a default work."""


@placed
def missing_name(name: str, known: Sequence[str]) -> Any:
    """The value of ``T.<name>`` where the module has none: a vector type, a dialect, a name of a dialect.

    Raises:
        LanguageNameError: there is none.
    """
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(f"module 'tile_core.language' has no attribute {name!r}")
    base, mark, lanes = name.rpartition("x")
    if mark and lanes.isdecimal() and int(lanes) in _LANES and base in SCALAR_NAMES:
        return DType(base, int(lanes))
    dialects = registry.dialects()
    if name in dialects:
        return registry.dialect(name)
    found = _from_cuda(name, dialects)
    if found is not None:
        return found
    if name in ABSENT:
        belongs, instead = ABSENT[name]
        raise LanguageNameError(
            "E-LANGUAGE-NAME",
            f"T.{name} is not available in this version",
            facts=[f"it belongs to {belongs}"],
            help=instead,
        )
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    same = [k for k in known if k.lower() == name.lower()]
    near = [*same, *(n for n in near if n not in same)]
    raise LanguageNameError(
        "E-LANGUAGE-NAME",
        f"T.{name} is not available in this version",
        facts=[f"dialects installed: {', '.join(dialects) or 'none'}"],
        help=f"use {' or '.join('T.' + n for n in near)}" if near else "dir(T) lists the names that there are",
    )


def _from_cuda(name: str, dialects: Sequence[str]) -> Any:
    """A name of the CUDA dialect, which TileLang code writes without a prefix; None when it has no such name."""
    if "cuda" not in dialects:
        return None
    try:
        dialect = registry.dialect("cuda")
    except PluginError:
        return None
    return getattr(dialect, name) if name in getattr(dialect, "__all__", ()) else None
