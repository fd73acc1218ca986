"""Targets: what a kernel is compiled for.

A target is a kind and a set of features, written ``"cuda -arch=sm_90a"``, ``"cpu"`` or as a dict with key ``kind``.
Which kinds, keys and values
there are is each backend's to say; this module only holds the value and its text form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import TargetError, declare_codes

__all__ = ["Target", "parse_target"]

declare_codes(
    {
        "E-TARGET-SYNTAX": "a target description that cannot be read",
        "E-TARGET-UNKNOWN": "no backend knows this kind of target",
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
