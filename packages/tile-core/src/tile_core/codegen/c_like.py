"""CPrinter: IR expressions and statements as C text.

Backends for C-like languages subclass it: they say how types, loads, stores, intrinsics and vectors look. Names come
from the IR in order of
first use and are made legal and unique, so the same IR gives the same bytes. While printing, the line of each
statement's source is
kept: `line_map` pairs output lines with spans.
"""

from __future__ import annotations

import math
import re

from ..dtypes import DType
from ..errors import CompileError, InternalError, declare_codes
from ..ir import (
    BINARY_OPERATORS,
    AccessPtr,
    Assert,
    Attr,
    Binary,
    Bind,
    Block,
    Break,
    Broadcast,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Cast,
    Continue,
    Evaluate,
    Expr,
    FloatImm,
    For,
    If,
    IntImm,
    KernelLaunch,
    Let,
    Node,
    PrimFunc,
    Ramp,
    Return,
    Select,
    Seq,
    Shuffle,
    Stmt,
    StringImm,
    Unary,
    Var,
    While,
    walk,
)
from ..source import Span

__all__ = ["CPrinter"]

declare_codes({"E-CODEGEN-DTYPE": "an element type that the backend does not compute with"})

_KEYWORDS = frozenset(
    """
    alignas alignof and asm auto bool break case catch char class const constexpr continue default delete do double
    else enum explicit export extern false float for friend goto if inline int long mutable namespace new not
    nullptr operator or private protected public register restrict return short signed sizeof static struct switch
    template this throw true try typedef typename union unsigned using virtual void volatile while xor tile args
    result self main
    """.split()  # noqa: SIM905 - a table
)
_INFIX = {name: text for name, (text, _) in BINARY_OPERATORS.items()} | {"and": "&&", "or": "||"}


class CPrinter:
    """Prints one function at a time into `lines`; subclasses override `type_name`, `print_*` and `expr_*` methods."""

    TYPES: dict[str, str] = {
        "bool": "bool",
        "int8": "int8_t",
        "int16": "int16_t",
        "int32": "int32_t",
        "int64": "int64_t",
        "uint8": "uint8_t",
        "uint16": "uint16_t",
        "uint32": "uint32_t",
        "uint64": "uint64_t",
        "float32": "float",
        "float64": "double",
        "handle": "void*",
        "void": "void",
    }

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.line_map: list[tuple[int, Span]] = []
        self.indent = 0
        self._names: dict[Node, str] = {}
        self._taken: set[str] = set()

    def text(self) -> str:
        """Everything printed so far."""
        return "\n".join(self.lines) + "\n"

    # Names and lines.

    def name(self, node: Var | Buffer) -> str:
        """The identifier of a variable or buffer, made on first use."""
        found = self._names.get(node)
        if found is None:
            found = self._names[node] = self.fresh(node.name)
        return found

    def alias(self, node: Var | Buffer, text: str) -> None:
        """Lets a variable or buffer print as `text` from now on."""
        self._names[node] = text

    def fresh(self, hint: str) -> str:
        """An unused identifier that resembles `hint`."""
        base = re.sub(r"\W", "_", hint) or "v"
        if base[0].isdigit() or base.startswith("_") or base in _KEYWORDS:
            base = "v" + base if base.startswith("_") else "v_" + base
        name, count = base, 0
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name

    def line(self, text: str, span: Span | None = None) -> None:
        """Adds a line at the current indentation."""
        if span is not None:
            self.line_map.append((len(self.lines) + 1, span))
        self.lines.append("  " * self.indent + text if text else "")

    def open(self, text: str, span: Span | None = None) -> None:
        """Adds a line that opens a block."""
        self.line(text, span)
        self.indent += 1

    def close(self, text: str = "}") -> None:
        """Ends a block."""
        self.indent -= 1
        self.line(text)

    def _unprintable(self, what: str, node: Node) -> InternalError:
        return InternalError("E-INTERNAL", f"{type(self).__name__} cannot print {what}", span=node.span)

    # Types.

    def type_name(self, dtype: DType) -> str:
        """The C type of a value."""
        if dtype.lanes > 1:
            return self.vector_type(dtype)
        found = self.TYPES.get(dtype.name)
        if found is None:
            raise InternalError("E-INTERNAL", f"{type(self).__name__} has no type for {dtype}")
        return found

    def check_types(self, function: PrimFunc, backend: str) -> None:
        """Raises a CompileError (E-CODEGEN-DTYPE) for the first element type of a function that has no C type."""
        for node in (*function.params, *walk(function.body)):
            own = node.allocations if isinstance(node, Block) else (node,)
            for item in own:
                dtype = item.dtype.scalar if isinstance(item, (Buffer, Expr)) else None
                if dtype is None or dtype.name in self.TYPES:
                    continue
                named = f"{item.name} is" if isinstance(item, (Buffer, Var)) else "a value is"
                raise CompileError(
                    "E-CODEGEN-DTYPE",
                    f"{function.name}: {named} {dtype}, which the {backend} backend does not compute with",
                    span=item.span or function.span,
                    facts=[f"it has: {', '.join(n for n in self.TYPES if n not in ('handle', 'void'))}"],
                    help="store it as uint8 and convert in the kernel, or use one of these types",
                )

    def vector_type(self, dtype: DType) -> str:
        """The C type of a vector value."""
        raise InternalError("E-INTERNAL", f"{type(self).__name__} prints no vectors (found {dtype})")

    # Expressions.

    def expr(self, node: Expr) -> str:
        """An expression, in parentheses where it is not a primary."""
        method = getattr(self, f"expr_{type(node).__name__}", None)
        if method is None:
            for base in type(node).__mro__[1:]:
                method = getattr(self, f"expr_{base.__name__}", None)
                if method is not None:
                    break
            else:
                raise InternalError(
                    "E-INTERNAL", f"{type(self).__name__} cannot print {type(node).__name__}", span=node.span
                )
        return method(node)

    def expr_Var(self, node: Var) -> str:
        return self.name(node)

    def expr_IntImm(self, node: IntImm) -> str:
        if node.dtype.is_bool:
            return "true" if node.value else "false"
        if node.dtype.bits == 64:
            if node.value == node.dtype.min_value and node.dtype.kind == "i":
                return "INT64_MIN"
            return f"{node.value}{'LL' if node.dtype.kind == 'i' else 'ULL'}"
        if node.dtype.name == "int32":
            return "INT32_MIN" if node.value == node.dtype.min_value else str(node.value)
        if node.dtype.name == "uint32":
            return f"{node.value}u"
        if node.dtype.name == "handle":
            return f"(({self.type_name(node.dtype)}){node.value})"
        return (
            f"({self.type_name(node.dtype)}){node.value}"
            if node.value >= 0
            else f"({self.type_name(node.dtype)})({node.value})"
        )

    def expr_FloatImm(self, node: FloatImm) -> str:
        value = node.value
        if math.isinf(value):
            text = "INFINITY" if value > 0 else "-INFINITY"
        elif math.isnan(value):
            text = "NAN"
        else:
            text = repr(value) if "." in repr(value) or "e" in repr(value) else f"{value!r}.0"
            if node.dtype.name != "float64":
                text += "f"
        if node.dtype.name == "float64":
            return f"({text})" if value < 0 or not math.isfinite(value) else text
        if node.dtype.name == "float32":
            return f"({text})" if value < 0 else text
        return f"{self.type_name(node.dtype)}({text})"

    def expr_StringImm(self, node: StringImm) -> str:
        escaped = node.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'

    def expr_Binary(self, node: Binary) -> str:
        chain: list[Binary] = []
        left: Expr = node
        while type(left) is Binary and self._is_infix(left):
            chain.append(left)
            left = left.a
        if not chain:
            return self.binary_call(node)
        text = self.expr(left)
        # Innermost first; one pair of parentheses each keeps C's rules out of it.
        for item in reversed(chain):
            text = f"({text} {_INFIX[item.op]} {self.expr(item.b)})"
        return text

    def _is_infix(self, node: Binary) -> bool:
        return node.op not in ("floordiv", "floormod", "truncdiv", "truncmod", "min", "max")

    def binary_call(self, node: Binary) -> str:
        """An operator that C spells as a function."""
        a, b = self.expr(node.a), self.expr(node.b)
        if node.op == "truncdiv":
            return f"({a} / {b})"
        if node.op == "truncmod":
            return f"({a} % {b})"
        return f"tile_{node.op}({a}, {b})"

    def expr_Unary(self, node: Unary) -> str:
        symbol = {"neg": "-", "not": "!", "bitnot": "~"}[node.op]
        return f"({symbol}{self.expr(node.a)})"

    def expr_Cast(self, node: Cast) -> str:
        return f"(({self.type_name(node.dtype)}){self.expr(node.value)})"

    def expr_Select(self, node: Select) -> str:
        return f"({self.expr(node.condition)} ? {self.expr(node.true_value)} : {self.expr(node.false_value)})"

    def expr_Let(self, node: Let) -> str:
        self.line(f"{self.type_name(node.var.dtype)} {self.name(node.var)} = {self.expr(node.value)};", node.span)
        return self.expr(node.body)

    def expr_Call(self, node: Call) -> str:
        method = getattr(self, "call_" + node.op.replace(".", "_"), None)
        if method is not None:
            return method(node)
        if node.op == "call_extern":
            name, *args = node.args
            return f"{name.value}({', '.join(self.expr(a) for a in args)})"  # type: ignore[attr-defined]
        return self.intrinsic(node)

    def intrinsic(self, node: Call) -> str:
        """A call without a method of its own."""
        return f"tile_{node.op.replace('.', '_')}({', '.join(self.expr(a) for a in node.args)})"

    def call_infinity(self, node: Call) -> str:
        return self.expr(FloatImm(math.inf, node.dtype))

    def call_likely(self, node: Call) -> str:
        return self.expr(node.args[0])

    def expr_BufferLoad(self, node: BufferLoad) -> str:
        return f"{self.name(node.buffer)}[{self.expr(node.indices[0])}]"

    def expr_AccessPtr(self, node: AccessPtr) -> str:
        index = node.indices[0] if node.indices else None
        if index is None or (isinstance(index, IntImm) and index.value == 0):
            return self.name(node.buffer)
        return f"({self.name(node.buffer)} + {self.expr(index)})"

    def expr_Ramp(self, node: Ramp) -> str:
        raise self._unprintable("vectors", node)

    def expr_Broadcast(self, node: Broadcast) -> str:
        raise self._unprintable("vectors", node)

    def expr_Shuffle(self, node: Shuffle) -> str:
        raise self._unprintable("vectors", node)

    # Statements.

    def stmt(self, node: Stmt) -> None:
        """Prints a statement."""
        method = getattr(self, f"print_{type(node).__name__}", None)
        if method is None:
            raise InternalError(
                "E-INTERNAL", f"{type(self).__name__} cannot print {type(node).__name__}", span=node.span
            )
        method(node)

    def print_Seq(self, node: Seq) -> None:
        for stmt in node.stmts:
            self.stmt(stmt)

    def print_Bind(self, node: Bind) -> None:
        value = self.expr(node.value)
        self.line(f"{self.type_name(node.var.dtype)} {self.name(node.var)} = {value};", node.span)

    def print_Evaluate(self, node: Evaluate) -> None:
        if isinstance(node.value, IntImm):
            return
        self.line(f"{self.expr(node.value)};", node.span)

    def print_BufferStore(self, node: BufferStore) -> None:
        index, value = self.expr(node.indices[0]), self.expr(node.value)
        self.line(f"{self.name(node.buffer)}[{index}] = {value};", node.span)

    def print_If(self, node: If) -> None:
        self.open(f"if ({self.expr(node.condition)}) {{", node.span)
        self.stmt(node.then_body)
        if node.else_body is not None:
            self.close("} else {")
            self.indent += 1
            self.stmt(node.else_body)
        self.close()

    def print_For(self, node: For) -> None:
        for pragma in self.loop_pragmas(node):
            self.line(pragma)
        var, ctype = self.name(node.var), self.type_name(node.var.dtype)
        low = self.expr(node.min)
        step = self.expr(node.step) if node.step is not None else "1"
        if (
            isinstance(node.min, IntImm)
            and isinstance(node.extent, IntImm)
            and (node.step is None or isinstance(node.step, IntImm))
        ):
            stride = 1 if node.step is None else node.step.value  # type: ignore[attr-defined]
            high = self.expr(IntImm(node.min.value + node.extent.value * stride, node.var.dtype))
        elif node.step is None and isinstance(node.min, IntImm) and node.min.value == 0:
            high = self.expr(node.extent)
        else:
            high = f"({low} + {self.expr(node.extent)} * {step})"
        advance = f"++{var}" if step == "1" else f"{var} += {step}"
        compare = ">" if isinstance(node.step, IntImm) and node.step.value < 0 else "<"
        self.open(f"for ({ctype} {var} = {low}; {var} {compare} {high}; {advance}) {{", node.span)
        self.stmt(node.body)
        self.close()

    def loop_pragmas(self, node: For) -> list[str]:
        """Lines printed before a loop."""
        factor = node.annotation("unroll_factor")
        return [f"#pragma GCC unroll {factor}"] if factor else []

    def print_While(self, node: While) -> None:
        self.open(f"while ({self.expr(node.condition)}) {{", node.span)
        self.stmt(node.body)
        self.close()

    def print_Break(self, node: Break) -> None:
        self.line("break;", node.span)

    def print_Continue(self, node: Continue) -> None:
        self.line("continue;", node.span)

    def print_Return(self, node: Return) -> None:
        self.line("return;" if node.value is None else f"return {self.expr(node.value)};", node.span)

    def print_Block(self, node: Block) -> None:
        for buffer in node.allocations:
            self.allocate(buffer)
        self.stmt(node.body)

    def allocate(self, buffer: Buffer) -> None:
        """Declares the storage of a buffer."""
        raise InternalError(
            "E-INTERNAL", f"{type(self).__name__} cannot allocate in scope {buffer.scope}", span=buffer.span
        )

    def print_Attr(self, node: Attr) -> None:
        if node.key == "address" and node.value is not None:
            ctype = self.type_name(node.subject.dtype)
            self.line(f"{ctype}* {self.name(node.subject)} = ({ctype}*)({self.expr(node.value)});", node.span)
        self.stmt(node.body)

    def print_Assert(self, node: Assert) -> None:
        self.line(f"tile_assert({self.expr(node.condition)}, {self.expr(StringImm(node.message))});", node.span)

    def print_KernelLaunch(self, node: KernelLaunch) -> None:
        raise self._unprintable("kernels", node)
