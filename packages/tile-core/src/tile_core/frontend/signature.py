"""Parameters of kernels: annotations and what they become.

``T.Tensor((M, N), dtype)`` and ``T.Tensor[[M, N], dtype]`` are values of `TensorType`; a parameter annotated with one
is a Buffer, one annotated with an element type a Var.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from ..dtypes import DType, as_dtype
from ..errors import CompileError, declare_codes
from ..ir import Buffer, Expr, IntImm, SizeVar, Var, const
from ..ir.expr import HANDLE
from ..source import Span
from .builder import ScalarRef
from .outside import placed
from .placeholder import refuse_placeholder

__all__ = ["PointerType", "TensorType", "annotations_of", "as_extents", "dynamic", "is_bare_pointer", "make_parameter"]

declare_codes(
    {
        "E-PARAM-ANNOTATION": "a kernel parameter whose annotation says no type",
        "E-SHAPE": "a shape or stride that is no tuple of sizes",
    }
)


class TensorType:
    """The type of a tensor parameter.

    Args:
        shape: extents, ints or shape variables.
        dtype: element type.
        strides: in elements, or None for contiguous.
        scope: memory scope; parameters of kernels are global.
        align: bytes that the start is aligned to, 0 for what the framework gives.
    """

    __slots__ = ("align", "dtype", "scope", "shape", "strides")

    @placed
    def __init__(
        self, shape: Any, dtype: Any = "float32", strides: Any = None, scope: str = "global", align: int = 0
    ) -> None:
        self.shape = as_extents(shape, "shape")
        self.dtype = as_dtype(dtype)
        self.strides = None if strides is None else as_extents(strides, "strides")
        self.scope = scope
        self.align = align
        if self.strides is not None and len(self.strides) != len(self.shape):
            raise CompileError(
                "E-SHAPE",
                f"{len(self.strides)} strides for {len(self.shape)} dimensions",
                facts=[f"shape: {self.shape}", f"strides: {self.strides}"],
                help="give one stride for each dimension, in elements",
            )

    def __repr__(self) -> str:
        strides = "" if self.strides is None else f", strides={list(self.strides)}"
        return f"T.Tensor({list(self.shape)}, {self.dtype}{strides})"

    def __getitem__(self, index: Any) -> NoReturn:
        raise CompileError(
            "E-PARAM-ANNOTATION",
            "T.Tensor gives the type of a parameter, which has no elements",
            facts=[f"found {self!r}, indexed by {index!r}"],
            help="see a tensor in another shape with T.reshape(x, shape), memory at an address with T.make_tensor",
        )

    def buffer(self, name: str, span: Span | None) -> Buffer:
        """The buffer that a parameter of this type is."""
        return Buffer(name, self.shape, self.dtype, "global", self.strides or (), None, None, self.align, span=span)


class PointerType:
    """The type of a raw pointer parameter; `dtype` is what it points to, for people."""

    __slots__ = ("dtype",)

    @placed
    def __init__(self, dtype: Any = None) -> None:
        self.dtype = None if dtype is None else as_dtype(dtype)

    def __repr__(self) -> str:
        return f"T.ptr({self.dtype or ''})"


def as_extents(values: Any, what: str) -> tuple[Expr, ...]:
    """A shape or strides as expressions.

    Raises:
        CompileError: not a sequence of integers and integer expressions, or a negative one (E-SHAPE).
    """
    items = values if isinstance(values, (tuple, list)) else (values,)
    return tuple([_extent(item, values, what) for item in items])


def _extent(item: Any, values: Any, what: str) -> Expr:
    refuse_placeholder(item)
    if isinstance(item, ScalarRef):
        item = item.__tile_expr__()
    if isinstance(item, Expr) and item.dtype.is_int and item.dtype.lanes == 1:
        if not isinstance(item, IntImm) or item.value >= 0:
            return item
    elif isinstance(item, int) and not isinstance(item, bool):
        if item >= 0:
            return const(item, "int32" if item < 2**31 else "int64")
    elif hasattr(item, "__index__") and not isinstance(item, (bool, Expr)):
        return _extent(item.__index__(), values, what)
    found = repr(item) if isinstance(item, (int, IntImm)) else f"{item!r}, a {type(item).__name__}"
    raise CompileError(
        "E-SHAPE",
        f"a {what} holds something that is no size",
        facts=[f"found {found} in {values!r}"],
        help="use integers ≥ 0, or shape variables from T.dynamic or T.const",
    )


@placed
def dynamic(name: str, dtype: Any = "int32") -> Any:
    """Shape variables known only when the kernel is called: one for ``"m"``, a tuple for ``"m, n"``.

    Args:
        name: names, apart by commas or spaces.
        dtype: integer type.

    Raises:
        CompileError: no name, or no integer type (E-SHAPE).
    """
    names = name.replace(",", " ").split() if isinstance(name, str) else []
    dtype = as_dtype(dtype)
    if not names or not all(part.isidentifier() for part in names) or not dtype.is_int:
        raise CompileError(
            "E-SHAPE",
            f"T.dynamic({name!r}, {str(dtype)!r}) names no shape variable",
            help="give names such as 'm' or 'm, n' and an integer type",
        )
    found = tuple([SizeVar(part, dtype) for part in names])
    return found[0] if len(found) == 1 else found


def make_parameter(name: str, annotation: Any, span: Span | None) -> Buffer | Var:
    """The parameter that an annotation stands for.

    Raises:
        CompileError: the annotation says no type (E-PARAM-ANNOTATION).
    """
    if isinstance(annotation, TensorType):
        if annotation.scope == "global":
            return annotation.buffer(name, span)
        found = f"it is a tensor in {annotation.scope} memory"
    elif isinstance(annotation, DType):
        return Var(name, annotation, span=span)
    elif annotation in (int, float, bool):
        return Var(name, as_dtype(annotation), span=span)
    elif isinstance(annotation, PointerType) or is_bare_pointer(annotation):
        return Var(name, HANDLE, span=span)
    elif annotation is inspect.Parameter.empty:
        found = "it has no annotation"
    else:
        found = f"found {annotation!r}"
    raise CompileError(
        "E-PARAM-ANNOTATION",
        f"the type of parameter {name} is not known",
        span=span,
        facts=[found],
        help=f"annotate it: {name}: T.Tensor((M, N), 'float16') for a tensor, {name}: T.int32 for a scalar",
    )


def is_bare_pointer(annotation: Any) -> bool:
    """``p: T.ptr`` without a call."""
    return annotation is PointerType or getattr(annotation, "annotates_pointer", False)


def annotations_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function's parameters; texts (``from __future__ import annotations``) are evaluated with the
    names that the function and the scope that is defining it see."""
    found = {}
    for name, value in getattr(function, "__annotations__", {}).items():
        if name == "return":
            continue
        text = isinstance(value, str) and not isinstance(value, DType)
        found[name] = _evaluate(function, name, value) if text else value
    return found


def _enclosing_locals(function: Any) -> dict[str, Any]:
    """The names that the scopes around a function's definition hold, inner ones first: of the call that is defining it,
    known by the code object among its constants, and of the calls around that one which have not returned."""
    found: dict[str, Any] = {}
    inner = function.__code__
    frame = sys._getframe(1)
    while frame is not None:
        if any(item is inner for item in frame.f_code.co_consts):
            for name, value in frame.f_locals.items():
                found.setdefault(name, value)
            inner = frame.f_code
        frame = frame.f_back
    return found


def _evaluate(function: Any, name: str, text: str) -> Any:
    scope = _enclosing_locals(function)
    for free, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            scope[free] = cell.cell_contents
        except ValueError:
            continue
    try:
        return eval(text, function.__globals__, scope)
    except NameError as error:
        raise CompileError(
            "E-PARAM-ANNOTATION",
            f"the annotation of parameter {name} uses a name that is not known: {error.name}",
            span=Span(function.__code__.co_filename, function.__code__.co_firstlineno),
            facts=[f"annotation: {text}"],
            help=f"define {error.name} before the function; with `from __future__ import annotations` a name from two "
            f"scopes out is only kept when the scope between uses it: mention {error.name} there, or leave the import "
            "out",
        ) from None
