"""The eager style: a function over tensors that declares its shapes in its body and returns what it allocates.

    def matmul(A, B, block: int = 64):
        M, N, K = T.const("M, N, K")
        A: T.Tensor[[M, K], T.float16]
        B: T.Tensor[[K, N], T.float16]
        C = T.empty((M, N), T.float16)
        with T.Kernel(...) as (bx, by):
            ...
        return C

Names from T.const are unknown at first. When a declaration meets the tensor's real shape and tells some of them, the
trace starts again with their values, so that the trace that goes through sees integers everywhere. Each restart knows
more, and ends at a declaration: it costs microseconds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..dtypes import DType, as_dtype
from ..errors import ArgumentError, CompileError, TileError, declare_codes
from ..ir import Buffer, Expr, IntImm, PrimFunc, SizeVar, Var
from ..ir.host import ArgumentRules
from ..source import Span
from .builder import Builder, current_builder, require_builder
from .function import finish, run, signature_of
from .placeholder import Placeholder
from .regions import linear_terms
from .signature import PointerType, TensorType, annotations_of, is_bare_pointer, make_parameter
from .staging import function_span, parameter_spans, staged

__all__ = [
    "EagerFunction",
    "EagerParameter",
    "Specialisation",
    "TensorSpec",
    "const",
    "empty",
]

declare_codes(
    {
        "E-CONST": "T.const outside a function in the eager style, or with names that are none",
        "E-CONST-UNSOLVED": "a T.const name that no tensor's shape tells",
        "E-EAGER-ARGUMENT": "an argument of a kind that its parameter does not take",
        "E-EAGER-DECLARE": "a tensor parameter without a declaration, or a declaration that says no tensor",
        "E-EAGER-DTYPE": "a tensor whose element type is not the declared one",
        "E-EAGER-EMPTY": "T.empty where no output can be made, or an output that is not returned",
        "E-EAGER-RETURN": "a function in the eager style returns something else than its outputs",
        "E-EAGER-SHAPE": "a tensor whose shape does not fit its declaration",
    }
)


@dataclass(frozen=True)
class TensorSpec:
    """A tensor argument as the front end sees it: sizes and element type. Strides are in elements, None for
    contiguous."""

    shape: tuple[int, ...]
    dtype: DType | str
    strides: tuple[int, ...] | None = None


@dataclass(frozen=True)
class EagerParameter:
    """A parameter of an eager function.

    Args:
        kind: tensor, scalar (a value when the kernel runs), constant (a Python value while tracing), or open: a
            tensor when a tensor is given, else constant.
    """

    name: str
    kind: str


@dataclass(frozen=True)
class Specialisation:
    """An eager function traced for some shapes and constants.

    Args:
        prim_func: inputs in the order of the signature, then outputs; attr out_idx names the returned ones.
        arguments: for each input, its position among the function's values.
        static: (position among the values, dimension) of each extent that was baked in.
        returns: none, one or many.
    """

    prim_func: PrimFunc
    arguments: tuple[int, ...]
    static: tuple[tuple[int, int], ...]
    returns: str


RulesOf = Callable[[Mapping[Any, Any]], ArgumentRules]


class EagerFunction:
    """A function in the eager style. `specialise` traces it; the runtime keeps what comes out."""

    is_eager = True

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = function.__name__
        self.signature = signature_of(function)
        self.annotations = annotations_of(function)
        self._twin = staged(function)
        self.parameters = tuple(
            [EagerParameter(name, _kind(self.annotations.get(name))) for name in self.signature.parameters]
        )

    def __repr__(self) -> str:
        return f"<eager kernel {self.name}{self.signature}>"

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The values in the order of the signature, defaults filled in.

        Raises:
            ArgumentError: missing, surplus or unknown arguments (E-EAGER-ARGUMENT).
        """
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(
                "E-EAGER-ARGUMENT",
                f"{self.name}: {error}",
                facts=[
                    f"it takes {self.signature}",
                    f"given: {len(args)} positional, {', '.join(kwargs) or 'no'} keyword",
                ],
                help="pass the tensors and constants that the signature names",
            ) from None
        bound.apply_defaults()
        return list(bound.arguments.values())

    def bind_sizes(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, int]]:
        """The values in the order of the signature, and the T.const names that the call gives by keyword in place of
        tensors: parameters without a default that it leaves out are None, tensors that only the sizes describe.

        Raises:
            ArgumentError: surplus arguments, a size that is no integer of at least 0, or no size and something missing.
        """
        sizes = {name: value for name, value in kwargs.items() if name not in self.signature.parameters}
        if not sizes:
            return self.bind(args, kwargs), {}
        known = {name: value for name, value in kwargs.items() if name not in sizes}
        try:
            given = self.signature.bind_partial(*args, **known).arguments
        except TypeError:
            return self.bind(args, known), {}  # says what is wrong
        absent = {
            parameter.name: None
            for parameter in self.signature.parameters.values()
            if parameter.default is inspect.Parameter.empty and parameter.name not in given
        }
        for name, value in sizes.items():
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ArgumentError(
                    "E-EAGER-ARGUMENT",
                    f"{self.name}: {name} is no parameter, and {value!r} is no size",
                    facts=[f"it takes {self.signature}"],
                    help="give parameters by their names, and sizes of T.const as integers",
                )
        return self.bind(args, {**known, **absent}), sizes

    def specialise(
        self, values: Sequence[Any], constants: Mapping[str, int] | None = None, rules: RulesOf | None = None
    ) -> Specialisation:
        """Traces the function.

        Args:
            values: in the order of the signature: a `TensorSpec` for each tensor (or None when `constants` tells the
                shapes), anything for scalars, the Python value for constants.
            constants: values of T.const names that are known beforehand.
            rules: what calls let pass, given the pass options that the function states itself; by default nothing
                besides the declarations.

        Raises:
            ArgumentError: a tensor does not fit its declaration (E-EAGER-SHAPE, E-EAGER-DTYPE), a value is of the
                wrong kind (E-EAGER-ARGUMENT).
            CompileError: anything wrong in the function, with its line.
        """
        trace = _EagerTrace(self, values, dict(constants or {}))
        while True:
            builder = Builder(self.name)
            builder.eager = trace
            arguments = trace.begin()
            try:
                result = run(builder, lambda: self._twin(*arguments))  # noqa: B023
            except _Restart:
                continue
            except TileError:
                trace.require_fit(builder, rules)  # a tensor that does not fit is said first
                raise
            trace.require_fit(builder, rules)
            trace.require_named(constants or {})
            return trace.specialisation(builder, result)


def const(name: str, dtype: Any = "int32") -> Any:
    """Sizes that are told by the tensors' shapes when the kernel is compiled: one for ``"M"``, a tuple for ``"M,
    N"``. Eager style only.

    Args:
        name: names, apart by commas or spaces.
        dtype: integer type.
    """
    names = [part.strip() for part in name.replace(",", " ").split()] if isinstance(name, str) else []
    builder = current_builder()
    if builder is None or builder.eager is None:
        raise CompileError(
            "E-CONST",
            "T.const is for functions in the eager style",
            help="in the lazy style take sizes as arguments of the factory, or use T.dynamic",
        )
    if not names or not all(part.isidentifier() for part in names) or not as_dtype(dtype).is_int:
        raise CompileError("E-CONST", f"T.const({name!r}) names no size", help="give names such as 'M' or 'M, N'")
    found = tuple([builder.eager.constant(part) for part in names])
    return found[0] if len(found) == 1 else found


def empty(*shape: Any, dtype: Any = None) -> Buffer:
    """An output tensor of the eager style, ``T.empty((M, N), dtype)``: allocated by the call, given back by
    ``return``.

    Args:
        shape: extents, one by one or as one tuple: numbers, sizes, expressions of them.
        dtype: element type; it may also stand last.

    Raises:
        CompileError: outside the eager style, or inside a kernel (E-EAGER-EMPTY).
    """
    builder = require_builder("T.empty")
    if builder.eager is None or builder.kernel is not None:
        raise CompileError(
            "E-EAGER-EMPTY",
            "T.empty is for outputs of functions in the eager style, before the kernel"
            if builder.eager is None
            else "T.empty inside `with T.Kernel`",
            help="take the output as a parameter in the lazy style"
            if builder.eager is None
            else "make outputs before the kernel; inside use T.alloc_shared, T.alloc_fragment or T.alloc_local",
        )
    if dtype is None and len(shape) == 2 and isinstance(shape[0], (tuple, list)):
        shape, dtype = shape[:1], shape[1]
    elif dtype is None and len(shape) > 1 and isinstance(shape[-1], (DType, str)):
        shape, dtype = shape[:-1], shape[-1]
    extents = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    return builder.eager.output(builder, TensorType(extents, "float32" if dtype is None else dtype))


class _Restart(BaseException):
    """Ends a trace at a declaration that told the value of a T.const name; no `except Exception` of a kernel catches
    it."""


class _Undeclared(Placeholder):
    """A tensor parameter before its declaration."""

    __slots__ = ("_trace", "spec")

    def __init__(self, trace: _EagerTrace, name: str, spec: TensorSpec | None) -> None:
        super().__init__(name)
        self._trace = trace
        self.spec = spec

    @property
    def dtype(self) -> DType:
        """Element type of the tensor that was given; the kernel is compiled for it anyway."""
        return as_dtype(self._given().dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the tensor that was given; asking makes the kernel one for these sizes."""
        given = self._given()
        self._trace.fix_sizes(self.name, len(given.shape))
        return given.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions of the tensor that was given."""
        return len(self._given().shape)

    def _given(self) -> TensorSpec:
        if self.spec is None:
            raise self.error()
        return self.spec

    def error(self, span: Span | None = None) -> CompileError:
        """What a use raises."""
        return CompileError(
            "E-EAGER-DECLARE",
            f"the tensor {self.name} is not declared",
            span=span,
            facts=[] if self.spec is None else [f"given: {as_dtype(self.spec.dtype)}{list(self.spec.shape)}"],
            help=f"declare it before use: {self.name}: T.Tensor[[M, N], dtype], with M, N = T.const('M, N')",
        )


@dataclass(frozen=True)
class _Misfit:
    """A tensor that is not what it is declared as; `declared` and `given` where it is the element type."""

    error: ArgumentError
    declared: DType | None = None
    given: str = ""

    def passes(self, rules: ArgumentRules) -> bool:
        """Whether a call may have it."""
        return not rules.tensors or (self.declared is not None and self.given in rules.carriers(self.declared))


class _EagerTrace:
    """What one specialisation knows: constants so far, and what the running trace has declared."""

    def __init__(self, owner: EagerFunction, values: Sequence[Any], constants: dict[str, int]) -> None:
        self.owner = owner
        self.values = list(values)
        self.constants = constants
        self.spans = parameter_spans(owner.function)
        self.declared: dict[str, Buffer | Var] = {}
        self.unsolved: dict[str, SizeVar] = {}
        self.static: list[tuple[int, int]] = []
        self.outputs: list[Buffer] = []
        self.misfits: list[_Misfit] = []
        self.named: list[str] = []

    def begin(self) -> list[Any]:
        """The arguments for the next trace."""
        self.declared, self.unsolved, self.static, self.outputs, self.misfits = {}, {}, [], [], []
        return [self._argument(i, p, v) for i, (p, v) in enumerate(zip(self.owner.parameters, self.values))]

    def _argument(self, position: int, parameter: EagerParameter, value: Any) -> Any:
        name, kind = parameter.name, parameter.kind
        annotation = self.owner.annotations.get(name)
        tensor = isinstance(value, TensorSpec)
        if isinstance(annotation, TensorType) and (tensor or value is None):
            return self._declare(name, annotation, value)
        if kind == "scalar" and not tensor:
            found = make_parameter(name, annotation, self.spans.get(name))
            self.declared[name] = found
            return found
        if kind == "open" and tensor:
            return _Undeclared(self, name, value)
        if (
            kind == "open"
            and value is None
            and self.owner.signature.parameters[name].default is inspect.Parameter.empty
        ):
            return _Undeclared(self, name, None)
        if kind in ("constant", "open") and not tensor:
            return value
        raise ArgumentError(
            "E-EAGER-ARGUMENT",
            f"{self.owner.name}: {name} takes a {kind}, not {'a tensor' if tensor else repr(value)}",
            span=self.spans.get(name),
            facts=[f"annotation: {annotation!r}"],
            help="pass a tensor" if kind == "tensor" else "pass a Python value",
        )

    def constant(self, name: str) -> Any:
        """The value of a T.const name, or a variable while it is not known."""
        if name not in self.named:
            self.named.append(name)
        if name in self.constants:
            return self.constants[name]
        return self.unsolved.setdefault(name, SizeVar(name))

    def declare(self, name: str, annotation: Any, value: Any) -> Any:
        """``name: annotation`` in the body."""
        if not isinstance(annotation, TensorType):
            return value
        if not isinstance(value, _Undeclared):
            if name in self.declared:
                raise CompileError("E-EAGER-DECLARE", f"{name} is declared twice", help="declare each tensor once")
            raise CompileError(
                "E-EAGER-DECLARE",
                f"{name} is declared as a tensor, but the argument is none",
                facts=[f"given: {value!r}"],
                help="pass a tensor, or leave the declaration out",
            )
        return self._declare(name, annotation, value.spec)

    def _declare(self, name: str, annotation: TensorType, spec: TensorSpec | None) -> Buffer:
        position = [p.name for p in self.owner.parameters].index(name)
        if spec is not None:
            self._match(name, annotation, spec, position)
        builder = current_builder()
        span = builder.span if builder is not None and builder.span is not None else self.spans.get(name)
        buffer = annotation.buffer(name, span)
        self.declared[name] = buffer
        return buffer

    def _match(self, name: str, annotation: TensorType, spec: TensorSpec, position: int) -> None:
        given = str(spec.dtype).removeprefix("torch.")
        carriers = ArgumentRules().carriers(annotation.dtype)
        facts = [f"declared: {annotation!r}", f"given: {given}{list(spec.shape)}"]
        if given not in carriers and (given == "float4_e2m1fn_x2" or str(as_dtype(spec.dtype)) not in carriers):
            error = ArgumentError(
                "E-EAGER-DTYPE",
                f"{self.owner.name}: {name} must be {annotation.dtype}, got {given}",
                span=self.spans.get(name),
                facts=facts,
                help=f"convert the tensor with .to({annotation.dtype}), or declare another element type"
                if str(annotation.dtype) in carriers
                else f"pass {' or '.join(carriers)} with the bits of {annotation.dtype}",
            )
            self.misfits.append(_Misfit(error, annotation.dtype, given))
        if len(spec.shape) != len(annotation.shape):
            raise self._shape_error(name, f"must have {len(annotation.shape)} dimensions, got {len(spec.shape)}", facts)
        told = False
        for axis, (extent, size) in enumerate(zip(annotation.shape, spec.shape)):
            if annotation.dtype.is_packed and axis == len(spec.shape) - 1:
                size *= 2
            if annotation.dtype.lanes > 1 and axis == len(spec.shape) - 1:
                if size % annotation.dtype.lanes:
                    found = (
                        f"must have a multiple of {annotation.dtype.lanes} numbers in its last dimension, got {size}"
                    )
                    raise self._shape_error(name, found, facts)
                size //= annotation.dtype.lanes
            if isinstance(extent, IntImm):
                if (position, axis) not in self.static:
                    self.static.append((position, axis))
                if extent.value != size:
                    found = f"must have extent {extent.value} in dimension {axis}, got {size}"
                    self.misfits.append(_Misfit(self._shape_error(name, found, facts)))
            elif self._solve(name, axis, extent, size, facts):
                told = True
        if told:
            raise _Restart

    def _solve(self, name: str, axis: int, extent: Expr, size: int, facts: list[str]) -> bool:
        """Learns the T.const name in an extent; false when the extent has none (it is dynamic)."""
        constant, terms = linear_terms(extent, {})
        mine = {id(var): key for key, var in self.unsolved.items()}
        if len(terms) != 1 or next(iter(terms)) not in mine:
            return False
        ((key, factor),) = terms.items()
        value, rest = divmod(size - constant, factor)
        if rest or value < 0:
            raise self._shape_error(
                name, f"has extent {size} in dimension {axis}, which is not {extent!r} for any {mine[key]}", facts
            )
        self.constants[mine[key]] = value
        return True

    def require_fit(self, builder: Builder, rules: RulesOf | None) -> None:
        """Refuses tensors that are not what they are declared as, unless the options let them pass: the function may
        state options anywhere, so they are known when it has run."""
        if self.misfits:
            allowed = ArgumentRules() if rules is None else rules(dict(builder.attrs.get("pass_configs", ())))
            for misfit in self.misfits:
                if not misfit.passes(allowed):
                    raise misfit.error

    def _shape_error(self, name: str, what: str, facts: list[str]) -> ArgumentError:
        told = [f"{key} = {value}" for key, value in self.constants.items()]
        return ArgumentError(
            "E-EAGER-SHAPE",
            f"{self.owner.name}: {name} {what}",
            span=self.spans.get(name),
            facts=[*facts, *([f"known from other tensors: {', '.join(told)}"] if told else [])],
            help="pass tensors whose shapes agree with the declarations",
        )

    def fix_sizes(self, name: str, ndim: int) -> None:
        """The trace depends on every size of a tensor."""
        position = [p.name for p in self.owner.parameters].index(name)
        self.static += [(position, axis) for axis in range(ndim) if (position, axis) not in self.static]

    def require_named(self, constants: Mapping[str, int]) -> None:
        """Refuses sizes given for names that the function does not have."""
        for name in constants:
            if name not in self.named:
                raise ArgumentError(
                    "E-EAGER-ARGUMENT",
                    f"{self.owner.name}: {name} is neither a parameter nor a name of T.const",
                    facts=[f"it takes {self.owner.signature}", f"T.const: {', '.join(self.named) or 'none'}"],
                    help="give what the signature and T.const name",
                )

    def require_solved(self, builder: Builder) -> None:
        """Refuses to go on while a T.const name has no value."""
        for name in self.unsolved:
            raise CompileError(
                "E-CONST-UNSOLVED",
                f"the value of {name} is not known",
                span=builder.span,
                facts=[f"declared tensors: {', '.join(map(repr, self.declared.values())) or 'none'}"],
                help=f"use {name} alone as an extent of a declared tensor, X: T.Tensor[[{name}, …], dtype]; without"
                f" tensors give it by name, compile({name}=…)",
            )

    def output(self, builder: Builder, kind: TensorType) -> Buffer:
        """A new output."""
        self.require_solved(builder)
        buffer = kind.buffer(builder.take_hint("output"), builder.span)
        self.outputs.append(buffer)
        return buffer

    def specialisation(self, builder: Builder, result: Any) -> Specialisation:
        """The finished trace."""
        inputs, arguments = [], []
        for position, (parameter, value) in enumerate(zip(self.owner.parameters, self.values)):
            if parameter.name in self.declared:
                inputs.append(self.declared[parameter.name])
                arguments.append(position)
            elif isinstance(value, TensorSpec):
                raise _Undeclared(self, parameter.name, value).error(self.spans.get(parameter.name))
        returned = list(result) if isinstance(result, (tuple, list)) else [] if result is None else [result]
        order = []
        for item in returned:
            index = next((i for i, output in enumerate(self.outputs) if output is item), None)
            if index is None:
                raise self._return_error(item)
            order.append(len(inputs) + index)
        for index, output in enumerate(self.outputs):
            if len(inputs) + index not in order:
                raise CompileError(
                    "E-EAGER-EMPTY",
                    f"the output {output.name} is never returned",
                    span=output.span,
                    help=f"return {output.name}, or take it as a parameter",
                )
        prim_func = finish(builder, self.owner.function, (*inputs, *self.outputs), tuple(order))
        returns = "many" if isinstance(result, (tuple, list)) else "one" if returned else "none"
        return Specialisation(prim_func, tuple(arguments), tuple(self.static), returns)

    def _return_error(self, item: Any) -> CompileError:
        return CompileError(
            "E-EAGER-RETURN",
            f"{self.owner.name} returns something else than an output",
            span=function_span(self.owner.function),
            facts=[f"returned: {item!r}", f"outputs: {', '.join(o.name for o in self.outputs) or 'none'}"],
            help="return what T.empty made",
        )


def _kind(annotation: Any) -> str:
    if isinstance(annotation, TensorType):
        return "tensor"
    if isinstance(annotation, (DType, PointerType)) or is_bare_pointer(annotation):
        return "scalar"
    return "open" if annotation is None else "constant"
