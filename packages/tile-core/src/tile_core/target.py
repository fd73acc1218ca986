"""Targets: what a kernel is compiled for.

A target is a kind and a set of features, written ``"cuda -arch=sm_90a"``, ``"cpu"`` or as a dict with key ``kind``.
Which kinds, keys and values
there are is each backend's to say; this module only holds the value and its text form.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from typing import Any

from .errors import TargetError, declare_codes

__all__ = ["Target", "parse_target", "require_this_host"]

declare_codes(
    {
        "E-TARGET-SYNTAX": "a target description that cannot be read",
        "E-TARGET-UNKNOWN": "no backend knows this kind of target",
        "E-TARGET-HOST": "target_host names another machine than this one, or something that compiles no host function",
        "E-TARGET-OPTION": "a target option that the backend does not know, or a value outside what it allows",
    }
)


class Target:
    """A kind with attributes, immutable; `attrs` is sorted by key so that equal targets have equal text."""

    __slots__ = ("_attrs", "kind")

    def __init__(self, kind: str, attrs: Mapping[str, Any] | None = None) -> None:
        self.kind = kind
        self._attrs = tuple(sorted((attrs or {}).items()))

    @property
    def attrs(self) -> dict[str, Any]:
        return dict(self._attrs)

    def get(self, key: str, default: Any = None) -> Any:
        """An attribute."""
        for name, value in self._attrs:
            if name == key:
                return value
        return default

    def with_attrs(self, **attrs: Any) -> Target:
        """A copy with attributes added or changed."""
        return Target(self.kind, {**self.attrs, **attrs})

    def __str__(self) -> str:
        return " ".join([self.kind, *(f"-{k}={_text(v)}" for k, v in self._attrs)])

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self):
        return Target, (self.kind, self.attrs)


def _text(value: Any) -> str:
    return ",".join(str(v) for v in value) if isinstance(value, (tuple, list)) else str(value)


def parse_target(text: Any) -> Target:
    """Reads a `Target`, a string such as ``"cuda -arch=sm_90a"``, or a dict ``{"kind": "cuda", "arch": "sm_90a"}``.

    Raises:
        TargetError: it is none of these, or a word is not ``-key=value``.
    """
    if isinstance(text, Target):
        return text
    if isinstance(text, Mapping):
        if not isinstance(text.get("kind"), str):
            raise TargetError(
                "E-TARGET-SYNTAX", "a target dict needs a string under 'kind'", facts=[f"found {dict(text)!r}"]
            )
        return Target(text["kind"], {k: v for k, v in text.items() if k != "kind"})
    if not isinstance(text, str) or not text.strip():
        raise TargetError(
            "E-TARGET-SYNTAX",
            f"{text!r} is not a target",
            help='use a string such as "cpu", "cuda -arch=sm_90a" or "auto", or a dict with key "kind"',
        )
    kind, *words = text.split()
    attrs: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or not equals or not key:
            raise TargetError(
                "E-TARGET-SYNTAX",
                f"cannot read {word!r} in target {text!r}",
                help="write options as -key=value, such as -arch=sm_90a",
            )
        attrs[key] = value
    return Target(kind, attrs)


def require_this_host(target_host: Any) -> None:
    """Checks what a caller says of the machine that its host functions run on: ``auto``, ``c`` or ``cpu``, with
    ``-mtriple=`` of this machine if need be. A host function is called in the process that compiles it, so there is
    nothing else to say.

    Raises:
        TargetError: E-TARGET-HOST, or a text that cannot be read.
    """
    if target_host is None:
        return
    host = parse_target(target_host)
    machine, system = _machine(platform.machine()), _system(sys.platform)
    wrong = None
    if host.kind not in ("auto", "c", "cpu"):
        wrong = f"no host function is compiled for {host.kind}"
    for key, value in host.attrs.items():
        words = str(value).split("-")
        if key != "mtriple":
            wrong = wrong or f"-{key} has no meaning for the host"
        elif _machine(words[0]) != machine or system not in map(_system, words[1:]):
            wrong = wrong or f"{value} is another machine than this one"
    if wrong is not None:
        raise TargetError(
            "E-TARGET-HOST",
            f"target_host={str(host)!r}: {wrong}",
            facts=[f"allowed: auto, c or cpu, with -mtriple={machine}-{system} if need be"],
            help="leave target_host out: host functions are compiled for the machine that calls them",
        )


def _machine(name: str) -> str:
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name.lower(), name.lower())


def _system(name: str) -> str:
    """The operating system that `sys.platform` or a word of a triple names."""
    known = {"linux": "linux", "darwin": "darwin", "macos": "darwin", "win": "windows"}
    return next((system for start, system in known.items() if name.lower().startswith(start)), name.lower())
