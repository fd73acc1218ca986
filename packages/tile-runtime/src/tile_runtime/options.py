"""What `jit` and `compile` take besides the function, checked in one place."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tile_core.errors import OptionError, declare_codes

__all__ = ["CompileOptions"]

declare_codes({"E-COMPILE-OPTION": "an argument of jit or compile is unknown or of the wrong kind"})


@dataclass(frozen=True)
class CompileOptions:
    """One compile's wishes; None means: not said here, so the function's own attributes or the settings decide.

    Args:
        out_idx: parameters that the kernel allocates and returns, by position (negative from the end).
        target: ``cpu``, ``cuda -arch=sm_90a``, a dict, a `Target`, or ``auto``.
        execution_backend: a name, or ``auto``.
        pass_configs: pass options by key.
        compile_flags: added to the host or device compiler's command.
        verbose: print what happens.
        debug_root_path: a folder to write the generated sources to.
    """

    out_idx: int | Sequence[int] | None = None
    target: Any = None
    execution_backend: str | None = None
    pass_configs: Mapping[Any, Any] = field(default_factory=dict)
    compile_flags: tuple[str, ...] = ()
    verbose: bool | None = None
    debug_root_path: Path | None = None

    def configs(self, own: Mapping[Any, Any]) -> dict[str, Any]:
        """Pass options by key, with those that a function states itself where the caller says nothing."""
        return {str(getattr(k, "value", k)): v for k, v in (*own.items(), *self.pass_configs.items())}

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> CompileOptions:
        """Checks `given` and fills in what is left out.

        Raises:
            OptionError: an unknown name, or a value of the wrong kind.
        """
        known = [entry.name for entry in fields(cls)]
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                raise OptionError(
                    "E-COMPILE-OPTION",
                    f"there is no argument {name!r}",
                    facts=(f"known: {', '.join(known)}",),
                    help=f"did you mean {near[0]}?" if near else None,
                )
        values = {name: value for name, value in given.items() if value is not None}
        for name, (kinds, allowed) in _KINDS.items():
            value = values.get(name)
            if value is not None and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
                raise OptionError(
                    "E-COMPILE-OPTION", f"{name}={value!r} is of the wrong kind", facts=(f"allowed: {allowed}",)
                )
        flags = values.get("compile_flags", ())
        values["compile_flags"] = tuple(shlex.split(flags) if isinstance(flags, str) else map(str, flags))
        if "debug_root_path" in values:
            values["debug_root_path"] = Path(values["debug_root_path"])
        return cls(**values)


_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "out_idx": ((int, list, tuple), "an int, or a list of ints"),
    "execution_backend": ((str,), "a name, or 'auto'"),
    "pass_configs": ((Mapping,), "a dict of pass options"),
    "compile_flags": ((str, list, tuple), "a string, or a list of strings"),
    "verbose": ((bool,), "True or False"),
    "debug_root_path": ((str, Path), "a folder"),
}
