"""CppPrinter: IR as C++ over a namespace ``tile`` of device functions.

Operators whose meaning differs from C++'s are functions of that namespace, taking scalars and vectors alike: minimum,
maximum, floordiv, floormod, truncdiv, truncmod, shift_left, shift_right, convert, reinterpret, select. Integers
narrower than 32 bits wrap after every operation, where C++ would widen them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..casts import constant_bits, round_constant
from ..dtypes import DType
from ..errors import InternalError
from ..ir import (
    BINARY_OPERATORS,
    AccessPtr,
    Assert,
    Binary,
    Bind,
    Buffer,
    Call,
    Cast,
    Evaluate,
    Expr,
    FloatImm,
    IntImm,
    Let,
    StringImm,
    Unary,
    is_zero,
)
from .c_like import CPrinter
from .numbers import computed_wider, conversion, holds_nibbles, to_tf32, view_pointer

__all__ = ["CppPrinter", "element_count", "formatted"]

FLOAT32 = DType("float32")
_FUNCTIONS = {
    "min": "minimum",
    "max": "maximum",
    "floordiv": "floordiv",
    "floormod": "floormod",
    "truncdiv": "truncdiv",
    "truncmod": "truncmod",
    "shl": "shift_left",
    "shr": "shift_right",
}


class CppPrinter(CPrinter):
    """Adds pointers, operators and conversions; vectors in memory are the backend's."""

    def vector_type(self, dtype: DType) -> str:
        return "auto"

    # Pointers.

    def pointer(self, buffer: Buffer) -> str:
        """The address of a buffer's first element; a view prints as a cast of what it views."""
        if buffer.data is None or buffer in self._names:
            return self.name(buffer)
        base = self.pointer(buffer.data)
        if buffer.offset is not None and not is_zero(buffer.offset):
            base = f"({base} + {self.expr(buffer.offset)})"
        return view_pointer(buffer, base, self.type_name(buffer.dtype), True)

    def address(self, buffer: Buffer, index: Expr) -> str:
        """The address of an element."""
        base = self.pointer(buffer)
        return base if is_zero(index) else f"{base} + {self.expr(index)}"

    def expr_AccessPtr(self, node: AccessPtr) -> str:
        return f"({self.address(node.buffer, node.indices[0])}){'.bytes()' if holds_nibbles(node.buffer) else ''}"

    # Operators.

    def expr(self, node: Expr) -> str:
        wider = computed_wider(node)
        return super().expr(node if wider is None else wider)

    def expr_Let(self, node: Let) -> str:
        # A lambda keeps the value inside the expression, so that the untaken side of a ternary is not evaluated.
        ctype = "auto" if node.var.dtype.lanes > 1 else self.type_name(node.var.dtype)
        value, name = self.expr(node.value), self.name(node.var)
        return f"[&]({ctype} {name}) {{ return {self.expr(node.body)}; }}({value})"

    def expr_IntImm(self, node: IntImm) -> str:
        # A literal's suffix names `long long`, which is not int64_t everywhere, and templates see the difference.
        text = super().expr_IntImm(node)
        return f"{self.type_name(node.dtype)}({text})" if node.dtype.bits == 64 and node.dtype.is_int else text

    def expr_FloatImm(self, node: FloatImm) -> str:
        # What is no fp32 number would be rounded twice: to fp32 by the literal's suffix, then to its type.
        if node.dtype.bits >= 32 and node.dtype.name != "tfloat32":
            return super().expr_FloatImm(node)
        if node.dtype.name == "tfloat32":
            return super().expr_FloatImm(FloatImm(round_constant(node.value, node.dtype), FLOAT32))
        bits = constant_bits(node.value, node.dtype)
        if bits == constant_bits(round_constant(node.value, FLOAT32), node.dtype):
            return super().expr_FloatImm(node)
        word = "uint16_t" if node.dtype.bits == 16 else "uint8_t"
        return f"tile::bit_cast<{self.type_name(node.dtype)}>({word}({bits:#x}))"

    def _is_infix(self, node: Binary) -> bool:
        if node.op in ("shl", "shr") or (node.dtype.lanes > 1 and node.op in ("and", "or")):
            return False
        if _is_narrow(node.dtype):
            return False
        return super()._is_infix(node)

    def binary_call(self, node: Binary) -> str:
        if node.op in ("floordiv", "floormod") and node.dtype.lanes == 1 and not _is_narrow(node.dtype):
            power = _power_of_two(node.b)
            if power is not None:
                # An arithmetic shift rounds to minus infinity, as floordiv does.
                a = self.expr(node.a)
                return f"({a} >> {power})" if node.op == "floordiv" else f"({a} & {(1 << power) - 1})"
        a, b = self.expr(node.a), self.expr(node.b)
        if node.op in ("and", "or"):
            return f"({a} {'&' if node.op == 'and' else '|'} {b})"
        name = _FUNCTIONS.get(node.op)
        text = f"tile::{name}({a}, {b})" if name else f"({a} {BINARY_OPERATORS[node.op][0]} {b})"
        return f"({self.type_name(node.dtype)}){text}" if _is_narrow(node.dtype) else text

    def expr_Unary(self, node: Unary) -> str:
        text = super().expr_Unary(node)
        return f"({self.type_name(node.dtype)}){text}" if _is_narrow(node.dtype) else text

    def expr_Cast(self, node: Cast) -> str:
        value = self.expr(node.value)
        if node.dtype.scalar.name == "tfloat32":
            return to_tf32(node.value.dtype, value)
        return f"tile::convert<{self.type_name(node.dtype.scalar)}>({value})"

    def call_convert(self, node: Call) -> str:
        value, *random = [self.expr(a) for a in node.args[1:]]
        return conversion(node, self.type_name(node.dtype.scalar), value, random[0] if random else None)

    def intrinsic(self, node: Call) -> str:
        name = node.op.rpartition(".")[2]
        return f"tile::{name}({', '.join(self.expr(a) for a in node.args)})"

    def call_reinterpret(self, node: Call) -> str:
        target = f"{self.type_name(node.dtype.scalar)}, {node.dtype.lanes}"
        return f"tile::reinterpret<{target}>({self.expr(node.args[0])})"

    # Statements.

    def print_Bind(self, node: Bind) -> None:
        value = self.expr(node.value)
        self.line(f"const {self.type_name(node.var.dtype)} {self.name(node.var)} = {value};", node.span)

    def print_Assert(self, node: Assert) -> None:
        self.line(f"tile::check({self.expr(node.condition)}, {self.expr(StringImm(node.message))});", node.span)

    def print_Evaluate(self, node: Evaluate) -> None:
        if isinstance(node.value, Call):
            self.line(f"{self.expr(node.value)};", node.span)


def formatted(pieces: Sequence[Expr], text: Callable[[Expr], str]) -> list[str]:
    """The arguments for C's printf that print texts and values in order, a line: its format, then the values as
    `text` prints them, each cast to what the format says."""
    line, arguments = "", []
    for piece in pieces:
        if isinstance(piece, StringImm):
            line += piece.value.replace("%", "%%")
        elif piece.dtype.is_float:
            line += "%g"
            arguments.append(f"(double){text(piece)}")
        else:
            line += "%llu" if piece.dtype.kind == "u" else "%lld"
            arguments.append(f"({'unsigned ' if piece.dtype.kind == 'u' else ''}long long){text(piece)}")
    return [text(StringImm(line)), *arguments]


def element_count(buffer: Buffer) -> int:
    """Elements of an on-chip buffer.

    Raises:
        InternalError: its size is no constant.
    """
    shape = buffer.static_shape()
    if shape is None:
        raise InternalError("E-INTERNAL", f"block-local buffer {buffer.name} has no constant size", span=buffer.span)
    count = 1
    for extent in shape:
        count *= extent
    return count


def _power_of_two(node: Expr) -> int | None:
    """n when the expression is the constant 2^n of an integer type."""
    if not isinstance(node, IntImm) or not node.dtype.is_int or node.value <= 0 or node.value & (node.value - 1):
        return None
    return node.value.bit_length() - 1


def _is_narrow(dtype: DType) -> bool:
    return dtype.is_int and dtype.bits < 32 and dtype.lanes == 1
