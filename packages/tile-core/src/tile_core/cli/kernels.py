"""Finds the kernels in a Python file and traces them."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from ..dtypes import as_dtype
from ..errors import CompileError, TileError, UserError, declare_codes
from ..frontend import EagerFunction, LazyFunction, TensorSpec, jit_function
from ..frontend.staging import function_tree
from ..ir import PrimFunc
from ..source import Span

__all__ = ["FileKernel", "add_arguments", "kernels_of"]

declare_codes(
    {
        "E-CLI-FILE": "a file given to the tile program that cannot be read or run",
        "E-CLI-KERNEL": "a file given to the tile program holds no such kernel",
        "E-CLI-ARGUMENT": "values for a kernel's parameters that are missing or cannot be read",
    }
)


@dataclass
class FileKernel:
    """A kernel of a file: its name there, how it is traced, and the options of its decorator."""

    name: str
    trace: Callable[[Mapping[str, Any]], PrimFunc]
    parameters: tuple[inspect.Parameter, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)

    def missing(self, given: Mapping[str, Any]) -> list[str]:
        """Parameters without a value."""
        return [p.name for p in self.parameters if p.default is inspect.Parameter.empty and p.name not in given]

    def traced(self, given: Mapping[str, Any]) -> PrimFunc:
        """The traced function for values by parameter name (others than its own are left out)."""
        names = [p.name for p in self.parameters]
        function = self.trace({k: v for k, v in given.items() if k in names})
        out_idx = self.options.get("out_idx")
        if out_idx is None:
            return function
        places = (out_idx,) if isinstance(out_idx, int) else tuple(out_idx)
        return function.with_attr("out_idx", tuple(p + len(function.params) if p < 0 else p for p in places))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds FILE, --kernel, --arg and --target."""
    parser.add_argument("file", metavar="FILE", type=Path, help="a Python file with kernels at module level")
    parser.add_argument("--kernel", metavar="NAME", help="only this kernel of the file")
    parser.add_argument(
        "--arg",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a value for a kernel's parameter: a Python literal, or a tensor such as A=float32[128,64]",
    )
    parser.add_argument("--target", help='such as cpu or "cuda -arch=sm_90a" (default: TILE_DEFAULT_TARGET, else auto)')


def kernels_of(words: argparse.Namespace) -> list[tuple[FileKernel, PrimFunc]]:
    """The traced kernels that a command line asks for, in the order of the file.

    Without --kernel, kernels whose parameters have no values are left out with a note on stderr.

    Raises:
        UserError: the file cannot be run or holds no such kernel, a value is missing, or a kernel is wrong.
    """
    given = dict(_argument(text) for text in words.arg)
    found = list(_kernels(_load(words.file)))
    if words.kernel is not None:
        found = [k for k in found if k.name == words.kernel] or _no_kernel(words, found)
    elif not found:
        _no_kernel(words, found)
    for name in given:
        if not any(p.name == name for k in found for p in k.parameters):
            raise UserError(
                "E-CLI-ARGUMENT",
                f"--arg {name}=…: no kernel has a parameter {name!r}",
                facts=[f"{k.name} takes {', '.join(p.name for p in k.parameters) or 'no values'}" for k in found],
            )
    ready = [k for k in found if not k.missing(given)]
    for kernel in found:
        missing = kernel.missing(given)
        if missing and (words.kernel is not None or not ready):
            raise UserError(
                "E-CLI-ARGUMENT",
                f"kernel {kernel.name} needs values for {', '.join(missing)}",
                facts=[f"its parameters: {', '.join(map(str, kernel.parameters))}"],
                help=" ".join(f"--arg {name}=…" for name in missing),
            )
        if missing:
            print(f"tile: {kernel.name} is left out: it needs --arg {', '.join(missing)}", file=sys.stderr)
    return [(kernel, kernel.traced(given)) for kernel in ready]


def _no_kernel(words: argparse.Namespace, found: Sequence[FileKernel]) -> list[FileKernel]:
    names = ", ".join(k.name for k in found) or "none"
    what = "no kernel" if words.kernel is None else f"no kernel {words.kernel!r}"
    raise UserError(
        "E-CLI-KERNEL",
        f"{words.file} holds {what} at module level",
        facts=[f"kernels found: {names}"],
        help="a kernel is a @T.prim_func, a @tile.jit function, or a function that returns a prim_func",
    )


def _load(path: Path) -> ModuleType:
    if not path.is_file():
        raise UserError("E-CLI-FILE", f"{path} is not a file", help="give the path of a Python file")
    name = re.sub(r"\W", "_", path.stem)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError("E-CLI-FILE", f"{path} is not a Python file", help="its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    # Where the file imports its neighbours, as if it were run.
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except TileError:
        raise
    except (Exception, SystemExit) as error:
        raise CompileError(
            "E-CLI-FILE",
            f"running {path} raised {type(error).__name__}: {error}",
            span=_place(error, path),
            help='a file is run as if imported; keep work under if __name__ == "__main__"',
        ) from error
    return module


def _place(error: BaseException, path: Path) -> Span | None:
    if isinstance(error, SyntaxError):
        return Span(str(path), error.lineno or 1, max(0, (error.offset or 1) - 1))
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    return Span(str(path), own[-1].lineno or 1) if own else None


def _kernels(module: ModuleType) -> Iterator[FileKernel]:
    for name, value in vars(module).items():
        if name.startswith("_"):
            continue
        if isinstance(value, PrimFunc):
            yield FileKernel(name, lambda given, value=value: value)
            continue
        options = getattr(value, "options", None)
        function = getattr(value, "function", None)
        if options is not None and inspect.isfunction(function) and hasattr(value, "trace"):
            yield _from_function(name, function, {k: getattr(options, k, None) for k in ("out_idx", "target")})
        elif inspect.isfunction(value) and value.__module__ == module.__name__ and _makes_kernels(value):
            yield _from_function(name, value, {})


def _makes_kernels(function: Callable[..., Any]) -> bool:
    """Whether a plain function launches a kernel itself or defines a prim_func inside."""
    try:
        tree, _ = function_tree(function)
    except TileError:
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node is not tree:
            if any("prim_func" in ast.unparse(d) for d in node.decorator_list):
                return True
        if isinstance(node, ast.withitem) and ast.unparse(node.context_expr).startswith("T.Kernel("):
            return True
    return False


def _from_function(name: str, function: Callable[..., Any], options: dict[str, Any]) -> FileKernel:
    traced: EagerFunction | LazyFunction = jit_function(function)
    parameters = tuple(inspect.signature(function).parameters.values())
    if isinstance(traced, LazyFunction):
        return FileKernel(name, lambda given: traced.trace(**given), parameters, options)
    return FileKernel(name, lambda given: traced.specialise(traced.bind((), given)).prim_func, parameters, options)


_TENSOR = re.compile(r"(\w+)\[([\d,\s]*)\]")


def _argument(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UserError("E-CLI-ARGUMENT", f"--arg {text!r} is not NAME=VALUE", help="write --arg M=1024")
    tensor = _TENSOR.fullmatch(value.strip())
    if tensor is not None:
        extents = tuple(int(part) for part in tensor[2].split(",") if part.strip())
        return name, TensorSpec(extents, as_dtype(tensor[1]).name)
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value
