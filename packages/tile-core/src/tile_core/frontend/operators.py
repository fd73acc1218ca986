"""What Python's operators and built-in functions mean in a kernel.

Rewritten code calls these in place of the operators that Python would not let an expression define (`and`, `or`,
`not`, chained comparisons, the
ternary) and of those whose nodes should know their columns. On plain Python values all of them do what Python does.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from typing import Any

from ..errors import CompileError, declare_codes
from ..ir import Call, Expr, StringImm, as_expr, binary, select, unary
from ..ir.buffer import Buffer
from ..source import Span
from . import regions
from .builder import ScalarRef, known
from .placeholder import Placeholder

__all__ = ["BUILTIN_NAMES", "Operators", "as_condition", "is_expression"]

declare_codes(
    {
        "E-CONDITION": "a text in place of a condition",
        "E-TRACE-VALUE": "Python needs the value of an expression while the kernel is traced",
    }
)

_PLAIN: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "floormod": operator.mod,
    "bitand": operator.and_,
    "bitor": operator.or_,
    "bitxor": operator.xor,
    "shl": operator.lshift,
    "shr": operator.rshift,
    "pow": operator.pow,
    "matmul": operator.matmul,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}
_IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.iadd,
    "sub": operator.isub,
    "mul": operator.imul,
    "div": operator.itruediv,
    "floordiv": operator.ifloordiv,
    "floormod": operator.imod,
    "bitand": operator.iand,
    "bitor": operator.ior,
    "bitxor": operator.ixor,
    "shl": operator.ilshift,
    "shr": operator.irshift,
    "pow": operator.ipow,
    "matmul": operator.imatmul,
}
_PLAIN_UNARY: dict[str, Callable[[Any], Any]] = {"neg": operator.neg, "bitnot": operator.invert, "pos": operator.pos}


def is_expression(value: Any) -> bool:
    """Whether `value` is known only when the kernel runs."""
    return isinstance(value, (Expr, ScalarRef))


class Operators:
    """The operators, as methods so that rewritten code reaches them through one name; `place` adds the macro chain to
    a span."""

    def place(self, span: Span | None) -> Span | None:
        """Overridden by the tracer."""
        return span

    def binary(self, op: str, a: Any, b: Any, span: Span | None) -> Any:
        """``a op b``."""
        if isinstance(a, (Expr, ScalarRef)) or isinstance(b, (Expr, ScalarRef)):
            return self._expression(op, a, b, span)
        for side in (a, b):
            if isinstance(side, Placeholder):
                raise side.error(self.place(span))
            if isinstance(side, Buffer) and op not in ("eq", "ne"):
                raise _whole_buffer(side, self.place(span))
        return _PLAIN[op](a, b)

    def _expression(self, op: str, a: Any, b: Any, span: Span | None) -> Any:
        if op in ("pow", "matmul"):
            raise CompileError(
                "E-EXPR-TYPE",
                f"{'**' if op == 'pow' else '@'} does not apply to expressions",
                span=self.place(span),
                facts=[f"left: {a!r}", f"right: {b!r}"],
                help="use T.pow(x, y), or write the product out" if op == "pow" else "use T.gemm on tiles",
            )
        place = self.place(span)
        if isinstance(a, ScalarRef):
            a = a.__tile_expr__()
        if isinstance(b, ScalarRef):
            b = b.__tile_expr__()
        for side in (a, b):
            if isinstance(side, Buffer):
                raise _whole_buffer(side, place)
        if op == "div" or (op in ("bitand", "bitor") and (_is_bool(a) or _is_bool(b))):
            # The operators of Expr know about true division and about `&` of conditions.
            result = _PLAIN[op](a if isinstance(a, Expr) or isinstance(b, Expr) else as_expr(a), b)
            if result.span is None:
                result = result.with_(span=place)
            return result
        return binary(op, a, b, place)

    def chain(self, ops: tuple[str, ...], values: tuple[Any, ...], span: Span | None) -> Any:
        """``a op b op c …`` from left to right, for chains too long to nest."""
        result = values[0]
        for op, value in zip(ops, values[1:]):
            result = self.binary(op, result, value, span)
        return result

    def unary(self, op: str, a: Any, span: Span | None) -> Any:
        """``op a`` for -, ~ and +."""
        if isinstance(a, (Expr, ScalarRef)):
            value = as_expr(a)
            if op == "pos":
                return value
            if op == "bitnot" and value.dtype.is_bool:
                op = "not"
            return unary(op, value, self.place(span))
        if isinstance(a, Placeholder):
            raise a.error(self.place(span))
        return _PLAIN_UNARY[op](a)

    def augment(self, op: str, a: Any, b: Any, span: Span | None) -> Any:
        """The new value of ``a op= b``."""
        if is_expression(a) or is_expression(b):
            return self._expression(op, a, b, span)
        for side in (a, b):
            if isinstance(side, Placeholder):
                raise side.error(self.place(span))
        return _IN_PLACE[op](a, b)

    def compare(self, ops: tuple[str, ...], values: tuple[Any, ...], span: Span | None) -> Any:
        """``a < b <= c``: all pairs, each operand evaluated once."""
        result: Any = True
        for i, op in enumerate(ops):
            pair = self.binary(op, values[i], values[i + 1], span)
            if not is_expression(pair):
                if not pair:
                    return pair
                result = pair if not is_expression(result) else result
            else:
                result = binary("and", result, pair, self.place(span)) if is_expression(result) else pair
        return result

    def not_(self, a: Any, span: Span | None) -> Any:
        """``not a``."""
        if is_expression(a):
            return unary("not", a, self.place(span))
        return not a

    def all_(self, operands: tuple[Callable[[], Any], ...], span: Span | None) -> Any:
        """``a and b and …``: Python's short circuit while operands are Python values, a condition from the first
        expression on."""
        return self._junction("and", operands, span)

    def any_(self, operands: tuple[Callable[[], Any], ...], span: Span | None) -> Any:
        """``a or b or …``."""
        return self._junction("or", operands, span)

    def _junction(self, op: str, operands: tuple[Callable[[], Any], ...], span: Span | None) -> Any:
        condition: Expr | None = None
        value: Any = None
        for operand in operands:
            value = operand()
            if is_expression(value):
                value = as_condition(value, self.place(span))
                condition = value if condition is None else binary(op, condition, value, self.place(span))
                continue
            decided = bool(value) is (op == "or")
            if condition is None and decided:
                return value
            if decided:
                # `x and False`: the expression has no effect, so the whole is what Python would give for any x.
                return binary(op, condition, bool(value), self.place(span))
        return value if condition is None else condition

    def ternary(self, condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any], span: Span | None) -> Any:
        """``then if condition else otherwise``; only the branch taken is evaluated."""
        if not is_expression(condition):
            return then() if condition else otherwise()
        a, b = then(), otherwise()
        for value in (a, b):
            if not is_expression(value) and not isinstance(value, (bool, int, float)):
                raise CompileError(
                    "E-EXPR-VALUE",
                    f"{value!r} cannot be chosen when the kernel runs",
                    span=self.place(span),
                    facts=[f"it is a {type(value).__name__}", f"the condition is {as_expr(condition)!r}"],
                    help="choose between numbers or expressions; otherwise use an `if` statement",
                )
        return select(as_expr(condition), a, b, lazy=True, span=self.place(span))

    def item(self, container: Any, index: Any, span: Span | None) -> Any:
        """``container[index]``."""
        if isinstance(container, Buffer):
            return regions.item(container, index, self.place(span))
        if isinstance(container, Placeholder):
            raise container.error(self.place(span))
        if isinstance(container, ScalarRef):
            load = container[index]
            return load.with_(span=self.place(span))
        index = known(index)
        if is_expression(index) and isinstance(container, (list, tuple, dict, str, range)):
            raise CompileError(
                "E-TRACE-VALUE",
                f"a Python {type(container).__name__} is indexed with a value known only when the kernel runs",
                span=self.place(span),
                facts=[f"index: {as_expr(index)!r}"],
                help="loop over the Python sequence itself (`for x in values`) or over list(range(n)): these unroll",
            )
        return container[index]

    def slice(self, start: Any, stop: Any, step: Any) -> slice:
        """``start:stop:step`` inside brackets."""
        return slice(start, stop, step)

    def builtin(self, function: Any, span: Span | None) -> Any:
        """A call's function: Python's own min, max, abs, … are replaced by versions that take expressions or say what
        to use."""
        try:
            special = _BUILTINS.get(function)
        except TypeError:  # not hashable
            return function
        if special is None:
            return function

        def call(*args: Any, **kwargs: Any) -> Any:
            args = tuple(map(known, args))
            if any(map(is_expression, args)) or (len(args) == 1 and isinstance(args[0], Buffer)):
                return special(args, self.place(span))
            return function(*args, **kwargs)

        return call


def _whole_buffer(buffer: Buffer, span: Span | None) -> CompileError:
    return CompileError(
        "E-EXPR-VALUE",
        f"{buffer.name} is a whole buffer, not a value",
        span=span,
        facts=[repr(buffer)],
        help="use an element such as A[i, j] in a T.Parallel loop",
    )


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, Expr) and value.dtype.is_bool)


def as_condition(value: Any, span: Span | None = None) -> Expr:
    """A value as a bool expression: numbers are compared with 0."""
    expr = as_expr(value)
    if isinstance(expr, StringImm):
        raise CompileError(
            "E-CONDITION",
            f"the text {expr.value!r} is no condition",
            span=span,
            help="compare values, such as x > 0",
        )
    return expr if expr.dtype.is_bool else binary("ne", expr, 0, span)


def _extreme(op: str) -> Callable[[tuple[Any, ...], Span | None], Expr]:
    def call(args: tuple[Any, ...], span: Span | None) -> Expr:
        if any(isinstance(a, Buffer) for a in args):
            raise _no_value(op)(args, span)
        result = args[0]
        for arg in args[1:]:
            result = binary(op, result, arg, span)
        return as_expr(result)

    return call


def _absolute(args: tuple[Any, ...], span: Span | None) -> Expr:
    value = as_expr(args[0])
    return Call("abs", (value,), value.dtype, span=span)


_INSTEAD = {
    "int": "T.cast(x, 'int32')",
    "float": "T.cast(x, 'float32')",
    "bool": "a comparison such as x != 0",
    "round": "T.round(x)",
    "len": "A.shape[0]",
    "range": "T.serial(n)",
    "min": "T.reduce_min",
    "max": "T.reduce_max",
    "sum": "T.reduce_sum",
    "pow": "T.pow(x, y)",
    "divmod": "x // y and x % y",
}


def _no_value(name: str) -> Callable[[tuple[Any, ...], Span | None], CompileError]:
    def call(args: tuple[Any, ...], span: Span | None) -> CompileError:
        found = next(a for a in args if is_expression(a) or isinstance(a, Buffer))
        what = (
            "a value that is known only when the kernel runs" if is_expression(found) else "Python values, not a buffer"
        )
        return CompileError(
            "E-TRACE-VALUE",
            f"Python's {name}() needs {what}" if isinstance(found, Buffer) else f"Python's {name}() cannot take {what}",
            span=span,
            facts=[f"found {found!r}"],
            help=f"use {_INSTEAD[name]}",
        )

    return call


def _refuse(name: str) -> Callable[[tuple[Any, ...], Span | None], Any]:
    make = _no_value(name)

    def call(args: tuple[Any, ...], span: Span | None) -> Any:
        raise make(args, span)

    return call


_BUILTINS: dict[Any, Callable[[tuple[Any, ...], Span | None], Any]] = {
    builtins.min: _extreme("min"),
    builtins.max: _extreme("max"),
    builtins.abs: _absolute,
    **{
        getattr(builtins, name): _refuse(name)
        for name in ("int", "float", "bool", "round", "len", "range", "sum", "pow", "divmod")
    },
}
BUILTIN_NAMES = frozenset(f.__name__ for f in _BUILTINS)
