"""Functions of the user's that change generated source before it is compiled.

    @tile.register_cuda_postproc
    def shout(code: str, target: Target) -> str: ...

One function a kind of target at most; registering another replaces it, `unregister_postproc` takes it away. What a
function says is part of a kernel's key (`postproc_key`).
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, TypeVar

from ..errors import CompileError, OptionError, declare_codes
from ..target import Target

__all__ = [
    "postproc_key",
    "postprocess",
    "register_c_postproc",
    "register_cuda_postproc",
    "register_postproc",
    "unregister_postproc",
]

declare_codes(
    {
        "E-POSTPROC": "a postprocessing function is no function, or did not return source text",
    }
)

Postproc = Callable[[str, Target], str]
_F = TypeVar("_F", bound=Postproc)
_functions: dict[str, Postproc] = {}
_PLAIN = (int, float, str, bytes, bool, type(None))


def register_postproc(kind: str, function: _F) -> _F:
    """Has `function(code, target)` change the generated device source of every kernel for targets of `kind`.

    Raises:
        OptionError: `function` cannot be called.
    """
    if not callable(function):
        raise OptionError(
            "E-POSTPROC",
            f"register_postproc({kind!r}, …) was given {function!r}",
            help="pass a function (code, target) -> code",
        )
    _functions[kind] = function
    return function


def register_cuda_postproc(function: _F) -> _F:
    """`register_postproc` for CUDA, as a decorator."""
    return register_postproc("cuda", function)


def register_c_postproc(function: _F) -> _F:
    """`register_postproc` for the CPU, as a decorator."""
    return register_postproc("cpu", function)


def unregister_postproc(kind: str) -> None:
    """Leaves the source of kernels for targets of `kind` as it is again."""
    _functions.pop(kind, None)


def postprocess(sources: Mapping[str, str], target: Target) -> dict[str, str]:
    """The sources with every file of the kernel's language changed by what is registered for the target.

    Raises:
        CompileError: the function returned something else than text.
    """
    function = _functions.get(target.kind)
    if function is None:
        return dict(sources)
    suffixes = {PurePath(name).suffix for name in sources if name.startswith("kernel")}
    changed = dict(sources)
    for name, text in sources.items():
        if PurePath(name).suffix not in suffixes:
            continue
        changed[name] = function(text, target)
        if not isinstance(changed[name], str):
            raise CompileError(
                "E-POSTPROC",
                f"the postprocessing function {_name(function)} returned a {type(changed[name]).__name__}",
                facts=[f"for {name}, target {target}"],
                help="return the source, changed or as it was",
            )
    return changed


def postproc_key(kind: str) -> str | None:
    """A digest of what is registered for `kind`: "" for nothing, None for a function whose text cannot be known."""
    function = _functions.get(kind)
    if function is None:
        return ""
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        return None
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    values: list[Any] = [*cells, *(getattr(function, "__defaults__", None) or ())]
    if not all(isinstance(value, _PLAIN) for value in values):
        return None
    return hashlib.sha256("\0".join([text, *map(repr, values)]).encode()).hexdigest()


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", repr(function))
