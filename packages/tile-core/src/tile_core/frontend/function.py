"""Tracing: a Python function becomes a PrimFunc in form TILE.

`prim_func` is the lazy style's decorator. The eager style is in `eager`; both go through `run`.
"""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ..errors import CompileError, TileError, declare_codes
from ..ir import (
    AccessPtr,
    Buffer,
    Call,
    Evaluate,
    Expr,
    KernelLaunch,
    PrimFunc,
    Rewriter,
    SizeVar,
    Stmt,
    Var,
    binary,
    const,
    walk,
)
from ..source import Span, source_line
from .builder import Builder, _current
from .outside import CALL_ERROR
from .signature import annotations_of, make_parameter
from .staging import function_span, parameter_spans, staged

__all__ = ["error_place", "finish", "prim_func", "run", "trace_prim_func"]

declare_codes(
    {
        "E-CALL": "a function of the language is called with arguments that it does not take",
        "E-NAME-UNKNOWN": "a name or attribute that does not exist where a kernel uses it",
        "E-MATCH-BUFFER": "a parameter that T.match_buffer cannot make a tensor",
        "E-DYNAMIC-UNOWNED": "a shape variable that no parameter's shape mentions",
        "E-KERNEL-NONE": "a kernel function without `with T.Kernel`",
        "E-PARAM-KIND": "a kernel function with *args or **kwargs",
        "E-RETURN-VALUE": "a prim_func that returns a value",
    }
)

_package = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def prim_func(function: Any = None, *, private: bool = False) -> Any:
    """Decorator: traces a function over annotated parameters and returns its PrimFunc.

    The parameters are tensors (``A: T.Tensor((M, N), "float16")``), scalars (``n: T.int32``) or pointers (``p:
    T.ptr``). The body launches at least one ``with T.Kernel``. Values of the enclosing function are constants.

    Args:
        function: the function; left out in ``@T.prim_func()``.
        private: accepted for compatibility; says nothing here.

    Raises:
        CompileError: with the line of the fault.
    """
    if function is None:
        return trace_prim_func
    return trace_prim_func(function)


def trace_prim_func(function: Callable[..., Any]) -> PrimFunc:
    """The PrimFunc of a function in the lazy style."""
    twin = staged(function)
    annotations = annotations_of(function)
    spans = parameter_spans(function)
    parameters = []
    for name in signature_of(function).parameters:
        annotation = annotations.get(name, inspect.Parameter.empty)
        parameters.append(make_parameter(name, annotation, spans.get(name)))
    builder = Builder(function.__name__)
    builder.handles = tuple(p for p in parameters if isinstance(p, Var) and p.dtype.name == "handle")
    result = run(builder, lambda: twin(*parameters))
    if result is not None:
        raise CompileError(
            "E-RETURN-VALUE",
            f"{function.__name__} returns a value; a prim_func writes to its parameters",
            span=function_span(function),
            facts=[f"it returns {result!r}"],
            help="take the output as a parameter, or use the eager style: @tile.jit with T.empty and `return`",
        )
    return finish(builder, function, tuple(parameters))


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature; variadic parameters are refused."""
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise CompileError(
                "E-PARAM-KIND",
                f"{function.__name__} takes {parameter}",
                span=function_span(function),
                help="name every parameter",
            )
    return signature


def run(builder: Builder, call: Callable[[], Any]) -> Any:
    """Calls a rewritten function with `builder` collecting; errors without a place get one."""
    token = _current.set(builder)
    try:
        return call()
    except TileError as error:
        if error.span is None:
            error.span = error_place(builder, error.__traceback__)
        raise
    except TypeError as error:
        if not CALL_ERROR.search(str(error)) or _raised_in_package(error.__traceback__):
            raise
        raise CompileError(
            "E-CALL",
            str(error),
            span=error_place(builder, error.__traceback__),
            help="see the function's signature with help(T.<name>)",
        ) from error
    except (NameError, AttributeError) as error:
        if _raised_in_package(error.__traceback__):
            raise
        raise CompileError(
            "E-NAME-UNKNOWN",
            str(error) if isinstance(error, NameError) else f"{_owner(error)} has no attribute {error.name!r}",
            # An attribute is often missed inside of Python's own library, such as enum.
            span=error_place(builder, error.__traceback__) if isinstance(error, NameError) else builder.span,
            help=_similar(error),
        ) from error
    finally:
        _current.reset(token)


def _raised_in_package(traceback: TracebackType | None) -> bool:
    innermost = _innermost(traceback, package=True)
    return innermost is None or innermost[0].startswith(_package)


def _owner(error: AttributeError) -> str:
    return getattr(error.obj, "__name__", None) or f"a {type(error.obj).__name__}"


def _similar(error: NameError | AttributeError) -> str:
    """What the author may have meant: names that are known where the error happened, or attributes of the object."""
    if isinstance(error, AttributeError):
        known = [n for n in dir(error.obj) if not n.startswith("_")]
    else:
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
        frame = None if traceback is None else traceback.tb_frame
        known = [] if frame is None else [n for n in (*frame.f_locals, *frame.f_globals) if not n.startswith("__")]
    near = difflib.get_close_matches(error.name or "", known, n=3, cutoff=0.6)
    if near:
        return f"write {' or '.join(near)}"
    return "assign it before, or correct the name" if isinstance(error, NameError) else "dir(…) lists what there is"


def finish(
    builder: Builder, function: Callable[..., Any], parameters: tuple[Buffer | Var, ...], outputs: tuple[int, ...] = ()
) -> PrimFunc:
    """The traced function; checks that it launches a kernel and that every shape variable belongs to a parameter.

    Args:
        outputs: positions of parameters that the callee allocates.
    """
    body = builder.frames[0].body()
    if not any(isinstance(node, KernelLaunch) for node in walk(body)):
        raise CompileError(
            "E-KERNEL-NONE",
            f"{function.__name__} launches no kernel",
            span=function_span(function),
            help="put the work into `with T.Kernel(grid, threads=…)`",
        )
    for var, buffer in builder.matched.items():
        if any(node is var for node in walk(body)):
            raise CompileError(
                "E-MATCH-BUFFER",
                f"{var.name} is used as a pointer and made a tensor by T.match_buffer",
                span=buffer.span,
                help="use the tensor that T.match_buffer gives",
            )
    parameters = tuple(builder.matched.get(p, p) if isinstance(p, Var) else p for p in parameters)
    body = _GiveParameters(parameters).rewrite(body)
    attrs = dict(builder.attrs)
    if outputs:
        attrs["out_idx"] = outputs
    result = PrimFunc(function.__name__, parameters, body, tuple(attrs.items()), span=function_span(function))
    owned = _owned_size_vars(parameters)
    for var, span in builder.size_vars.items():
        if var not in owned:
            raise CompileError(
                "E-DYNAMIC-UNOWNED",
                f"the shape variable {var.name} belongs to no parameter",
                span=span,
                facts=[f"parameters: {', '.join(map(repr, parameters)) or 'none'}"],
                help=f"use {var.name} in the shape of a tensor parameter, or pass it: `{var.name}: T.{var.dtype}`",
            )
    return result


class _GiveParameters(Rewriter):
    """Gives kernels in the target's own language the parameters of the function, and its shape variables."""

    def __init__(self, parameters: tuple[Buffer | Var, ...]) -> None:
        super().__init__()
        self.parameters = parameters

    def rewrite_Evaluate(self, node: Evaluate) -> Stmt:
        call = node.value
        if not isinstance(call, Call) or call.op != "source_kernel":
            return node
        args: list[Expr] = list(call.args)
        for parameter in self.parameters:
            if isinstance(parameter, Buffer):
                start = (const(0, "int32"),) * parameter.ndim
                size: Expr = const(1, "int32")
                for extent in parameter.shape:
                    size = binary("mul", size, extent)
                args.append(AccessPtr(parameter, start, size, "rw", span=node.span))
            else:
                args.append(parameter)
        sizes: dict[SizeVar, None] = {}
        for parameter in self.parameters:
            if isinstance(parameter, Buffer):
                for expr in (*parameter.shape, *parameter.strides):
                    sizes.update((n, None) for n in walk(expr) if isinstance(n, SizeVar))
        return node.with_(value=call.with_(args=(*args, *sizes)))


def _owned_size_vars(parameters: tuple[Buffer | Var, ...]) -> set[SizeVar]:
    found: set[SizeVar] = set()
    for parameter in parameters:
        if isinstance(parameter, Buffer):
            for expr in (*parameter.shape, *parameter.strides):
                found.update(node for node in walk(expr) if isinstance(node, SizeVar))
    return found


def error_place(builder: Builder, traceback: TracebackType | None) -> Span | None:
    """The statement that was being traced, or the line of the plain Python function that it called."""
    innermost = _innermost(traceback, package=False)
    if innermost is None or (builder.span is not None and innermost[2]):
        return builder.span
    return _line_span(innermost[0], innermost[1], builder.span)


def _line_span(source: str, line: int, caller: Span | None) -> Span:
    text = source_line(source, line) or ""
    return Span(source, line, len(text) - len(text.lstrip()), len(text), caller)


def _innermost(traceback: TracebackType | None, package: bool) -> tuple[str, int, bool] | None:
    """File, line and whether it is rewritten code of the innermost frame (outside this package unless `package`)."""
    found = None
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if package or not code.co_filename.startswith(_package):
            # A lambda of the rewrite stands for the statement that it is in.
            rewritten = "__scope__" in code.co_varnames or "__spans__" in code.co_freevars
            found = (code.co_filename, traceback.tb_lineno, rewritten)
        traceback = traceback.tb_next
    return found
