"""The language that kernels are written in: ``import tile_core.language as T``.

A kernel is a Python function over tiles. ``@T.prim_func`` traces one with annotated parameters; functions in the
eager style (`T.const`, `T.empty`, `return`) are
traced by the runtime's ``jit``. Names of a backend's dialect are reached as ``T.cuda.…`` when the backend is installed.

The names are those of the modules' ``__all__``; ``__init__.pyi`` lists them for editors (``tools/make_stubs.py``).
"""

from collections.abc import Sequence as _Sequence
from importlib import import_module as _import_module
from types import ModuleType as _ModuleType
from typing import Any as _Any

from .. import frontend as _frontend
from .. import layout as _layout
from ..frontend.regions import item as _item
from ..frontend.trace import store as _store
from ..ir import Buffer as _IRBuffer
from .names import missing_name as _missing_name

# Name → the module that defines it, relative to this one.
_ORIGINS: dict[str, str] = {}


def _take(module: _ModuleType, path: str, names: _Sequence[str]) -> None:
    for name in names:
        if name in _ORIGINS:
            raise ImportError(f"{name} is a name of {_ORIGINS[name]} and of {path}")
        _ORIGINS[name] = path
        globals()[name] = getattr(module, name)


_take(_frontend, "..frontend", ("Ref", "const", "dynamic", "empty", "macro", "prim_func"))
_take(_layout, "..layout", ("Fragment", "Layout"))
for _room in (
    "allocate",
    "allreduce",
    "annotate",
    "async_copy",
    "atomic",
    "copy",
    "debug",
    "extern",
    "fastmath",
    "fill",
    "gemm",
    "integers",
    "kernel",
    "loop",
    "math",
    "meta",
    "random",
    "rearrange",
    "reduce",
    "reducer",
    "statements",
    "tensor",
    "tvm",
    "types",
    "values",
    "vectors",
    "views",
    "warp",
    "words",
):
    _module = _import_module(f".{_room}", __name__)
    _take(_module, f".{_room}", _module.__all__)

# Python's own names for types; last, as they hide Python's in this module.
for _alias, _name in (("bool", "boolean"), ("int", "int32"), ("float", "float32")):
    globals()[_alias] = globals()[_name]

_IRBuffer.index = staticmethod(_item)
_IRBuffer.store = staticmethod(_store)

_NAMES = sorted([*_ORIGINS, "bool", "float", "int"])
globals()["__all__"] = _NAMES  # computed; the stub has the list that tools read

# The modules that hold the names are none themselves: T.allocate and T.names are not in the language.
for _module in [n for n, v in globals().items() if isinstance(v, _ModuleType) and n[0] != "_"]:
    del globals()[_module]


def __getattr__(name: str) -> _Any:
    """Vector types such as float32x4, dialects such as cuda; a name that does not exist says what to use."""
    return _missing_name(name, _NAMES)
