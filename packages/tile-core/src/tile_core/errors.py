"""Errors: what went wrong, where, what was found, what is allowed, and how to mend it.

One code, one meaning. A `TileError` carries its parts separately, so that a test, a tool or an editor can read them;
the text a
person sees is rendered once, here. Codes are never reused; `CODES` is the list that the documentation page is made
from.
"""

from __future__ import annotations

from collections.abc import Iterable

from .source import Span, render_snippet

__all__ = [
    "CODES",
    "ArgumentError",
    "CacheWarning",
    "CompileError",
    "DeviceAssertError",
    "InternalError",
    "OptionError",
    "PluginError",
    "SettingError",
    "TargetError",
    "TileError",
    "TileWarning",
    "ToolchainError",
    "UserError",
    "declare_codes",
]

CODES: dict[str, str] = {}


def declare_codes(codes: dict[str, str]) -> None:
    """Adds codes and their one-line meanings to the catalogue; a code that already has another meaning is refused."""
    for code, meaning in codes.items():
        if not code.startswith("E-"):
            raise ValueError(f"error code {code!r} must start with 'E-'")
        if CODES.setdefault(code, meaning) != meaning:
            raise ValueError(f"error code {code} already means {CODES[code]!r}")


class TileError(Exception):
    """Base of all errors that Tile raises on purpose.

    Args:
        code: a code of the catalogue, such as ``E-GEMM-SHAPE``.
        summary: one sentence: what is wrong.
        span: where in the user's source, if known.
        facts: lines that say what was found (both sides, with their names).
        help: the likely fix, as an instruction.
        spans: further places, each a pair (label, span), such as the other statement of a race.
    """

    def __init__(
        self,
        code: str,
        summary: str,
        *,
        span: Span | None = None,
        facts: Iterable[str] = (),
        help: str | None = None,
        spans: Iterable[tuple[str, Span | None]] = (),
    ) -> None:
        if code not in CODES:
            raise ValueError(f"undeclared error code {code}")
        self.code = code
        self.summary = summary
        self.span = span
        self.facts = tuple(facts)
        self.help = help
        self.spans = tuple(spans)
        super().__init__(code, summary)

    def __str__(self) -> str:
        lines = [f"error[{self.code}]: {self.summary}"]
        if self.span is not None:
            lines += render_snippet(self.span)
        for label, span in self.spans:
            if span is not None:
                lines += [f"  {label}:", *render_snippet(span)]
        lines += [f"   {fact}" for fact in self.facts]
        if self.help:
            lines.append(f"  help: {self.help}")
        return "\n".join(lines)

    def __reduce__(self):
        return _rebuild, (type(self), self.code, self.summary, self.span, self.facts, self.help, self.spans)


def _rebuild(cls, code, summary, span, facts, help, spans):
    return cls(code, summary, span=span, facts=facts, help=help, spans=spans)


class UserError(TileError):
    """The input is wrong: kernel source, arguments, options or the machine's set-up."""


class CompileError(UserError):
    """A kernel's source asks for something that is not allowed."""


class ArgumentError(UserError, ValueError):
    """A compiled kernel was called with arguments that do not fit its signature."""


class DeviceAssertError(UserError, AssertionError):
    """A condition that a kernel checks while it runs, with T.device_assert, does not hold."""


class OptionError(UserError, ValueError):
    """An unknown option, or an option's value outside what it allows."""


class TargetError(UserError, ValueError):
    """An unknown or unavailable target."""


class SettingError(UserError, ValueError):
    """An environment setting (``TILE_*``) has a value that cannot be read."""


class PluginError(UserError, RuntimeError):
    """A backend or another plugin is missing, broken, incompatible or in conflict."""


class ToolchainError(UserError, RuntimeError):
    """A compiler or driver that this step needs is missing or failed."""


class InternalError(TileError):
    """Tile itself is at fault; the text asks for a report and names what was kept."""


class TileWarning(UserWarning):
    """Something worth knowing that does not stop the work."""


class CacheWarning(TileWarning):
    """The kernel cache could not be used or had to be repaired."""


declare_codes({"E-INTERNAL": "a fault of Tile itself"})
