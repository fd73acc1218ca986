"""Pass options: declared where they are used, validated once.

An option is declared with `declare_option` by the module that reads it. An unknown key is an error with the nearest
known ones; a known key that
does not matter for a target is accepted and listed by `explain()`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import OptionError, declare_codes

__all__ = ["Option", "Options", "declare_option", "declared_options"]

declare_codes(
    {
        "E-OPTION-UNKNOWN": "a pass option that nobody declares",
        "E-OPTION-VALUE": "a pass option with a value that it does not take",
    }
)


@dataclass(frozen=True, slots=True)
class Option:
    """A declared pass option.

    Args:
        key: as users write it, such as ``tl.disable_buffer_init_check``.
        default: value when not given.
        accepts: type or tuple of types; bool does not pass for int.
        doc: one line.
        check: returns a reason when a value of the right type is still wrong.
    """

    key: str
    default: Any
    accepts: type | tuple[type, ...]
    doc: str
    check: Callable[[Any], str | None] | None = None


_declared: dict[str, Option] = {}


def declare_option(
    key: str, default: Any, accepts: type | tuple[type, ...], doc: str, check: Callable[[Any], str | None] | None = None
) -> Option:
    """Declares an option; declaring it again must agree."""
    option = Option(key, default, accepts, doc, check)
    known = _declared.setdefault(key, option)
    if (known.default, known.accepts) != (default, accepts):
        raise ValueError(f"option {key} is declared differently elsewhere")
    return known


def declared_options() -> dict[str, Option]:
    """All declared options by key."""
    return dict(sorted(_declared.items()))


class Options:
    """Validated options; reading an undeclared key is a programming error (KeyError)."""

    def __init__(self, given: Mapping[Any, Any] | None = None) -> None:
        self.given: dict[str, Any] = {}
        for raw, value in (given or {}).items():
            key = str(getattr(raw, "value", raw))
            option = _declared.get(key)
            if option is None:
                near = difflib.get_close_matches(key, _declared, n=3, cutoff=0.5)
                raise OptionError(
                    "E-OPTION-UNKNOWN",
                    f"unknown pass option {key!r}",
                    facts=[f"nearest known: {', '.join(near)}"]
                    if near
                    else [f"known options: {', '.join(sorted(_declared))}"],
                    help="remove it or correct its name; docs/reference/options.md lists all",
                )
            types = option.accepts if isinstance(option.accepts, tuple) else (option.accepts,)
            if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
                raise OptionError(
                    "E-OPTION-VALUE",
                    f"pass option {key} does not take {value!r}",
                    facts=[f"found {type(value).__name__}, allowed {' or '.join(t.__name__ for t in types)}"],
                    help=option.doc,
                )
            reason = option.check(value) if option.check else None
            if reason:
                raise OptionError(
                    "E-OPTION-VALUE", f"pass option {key} does not take {value!r}", facts=[reason], help=option.doc
                )
            self.given[key] = value

    def __getitem__(self, key: str) -> Any:
        return self.given.get(key, _declared[key].default)

    def __repr__(self) -> str:
        return f"Options({dict(sorted(self.given.items()))})"
