"""The two styles of functions that are compiled when they are called: kernels themselves, or factories of them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

from ..errors import CompileError, declare_codes
from ..ir import PrimFunc
from .eager import EagerFunction
from .staging import function_span, function_tree

__all__ = ["LazyFunction", "jit_function"]

declare_codes({"E-JIT-RESULT": "a kernel factory that returns no kernel"})


class LazyFunction:
    """A factory of kernels: called with its configuration it returns a prim_func."""

    is_eager = False

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = function.__name__
        self.signature = inspect.signature(function)

    def __repr__(self) -> str:
        return f"<kernel factory {self.name}{self.signature}>"

    def trace(self, *args: Any, **kwargs: Any) -> PrimFunc:
        """The kernel for a configuration.

        Raises:
            CompileError: it returns no prim_func (E-JIT-RESULT), or the kernel is wrong.
        """
        result = self.function(*args, **kwargs)
        if isinstance(result, PrimFunc):
            return result
        raise CompileError(
            "E-JIT-RESULT",
            f"{self.name} returns no kernel",
            span=function_span(self.function),
            facts=[f"it returns {'None' if result is None else 'a ' + type(result).__name__}"],
            help="return the function decorated with @T.prim_func, or put T.Kernel into this very function",
        )


def jit_function(function: Callable[..., Any]) -> EagerFunction | LazyFunction:
    """The function in its style, told from its source: eager when its own body launches a kernel or uses T.const or
    T.empty, else lazy."""
    node, _ = function_tree(function)
    return EagerFunction(function) if _is_eager(node) else LazyFunction(function)


def _is_eager(node: ast.FunctionDef) -> bool:
    """Whether the function's own body, nested functions aside, launches a kernel or uses T.const or T.empty."""
    stack: list[ast.AST] = list(node.body)
    found = False
    while stack:
        item = stack.pop()
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if any(_called_name(d) == "prim_func" for d in item.decorator_list):
                return False
            continue
        if isinstance(item, ast.Call) and _called_name(item.func) in (
            "Kernel",
            "CUDASourceCodeKernel",
            "const",
            "empty",
        ):
            found = found or _of_language(item.func)
        stack.extend(ast.iter_child_nodes(item))
    return found


def _called_name(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        return _called_name(node.func)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _of_language(node: ast.AST) -> bool:
    """Whether a call is of the language by the look of it: not ``torch.empty``."""
    owner = node.value if isinstance(node, ast.Attribute) else None
    return not isinstance(owner, ast.Name) or owner.id not in ("torch", "np", "numpy")
