"""HostPythonPrinter: a packed host function as Python, for launchers that have no host compiler.

The text defines ``entry(call, args)`` on nothing but the object `call`, which knows tensors and devices:

    call.is_kind(value, kind)                 tensor, none, int, float, bool, handle
    call.scalar(value, dtype)                 an argument as a number
    call.field(tensor, name, axis)            as `tile_core.ir.host` lists them
    call.same_device(a, b)
    call.fail(argument, field, expected, got) the error of a failed check; `got` is an argument or tensor where the
                                              field is type, dtype or device
    call.allocate(like, word, shape)          a new tensor; `word` is the DLPack type as one number
    call.launch(kernel, sizes, arguments, types)   sizes: grid x, y, z, threads x, y, z, bytes of shared memory; types:
                                              names of the arguments' types, `handle` for addresses
    call.truncdiv(a, b), call.truncmod(a, b)  C's division

It returns the list of outputs.
"""

from __future__ import annotations

import keyword
from typing import Any

from ..errors import InternalError
from ..ir import BINARY_OPERATORS, Bind, Buffer, Call, Evaluate, For, IntImm, PrimFunc, StringImm
from .c_like import CPrinter

__all__ = ["HostPythonPrinter", "print_host_python"]

_WORDS = {"and": "and", "or": "or", "floordiv": "//", "floormod": "%", "div": "/"}


def print_host_python(function: PrimFunc) -> str:
    """The text of a packed host function as Python."""
    return HostPythonPrinter().function(function)


class HostPythonPrinter(CPrinter):
    """Prints host functions; one instance prints one function. Indentation is the block structure."""

    def __init__(self) -> None:
        super().__init__()
        self._taken.update(("call", "args", "outputs", "entry", *_PYTHON_WORDS))

    def function(self, function: PrimFunc) -> str:
        """The text."""
        for param in function.params:
            if isinstance(param, Buffer):
                self.name(param)
        self.open("def entry(call, args):", function.span)
        self.line("outputs = []")
        self.stmt(function.body)
        self.indent -= 1
        return self.text()

    # Statements.

    def print_Bind(self, node: Bind) -> None:
        self.line(f"{self.name(node.var)} = {self.expr(node.value)}", node.span)
        if isinstance(node.value, Call) and node.value.op == "host.alloc_output":
            self.line(f"outputs.append({self.name(node.var)})")

    def print_Evaluate(self, node: Evaluate) -> None:
        call = node.value
        if not isinstance(call, Call):
            return
        if call.op == "host.check":
            ok, argument, field, expected, got = call.args
            found = self.expr(got)
            if isinstance(field, StringImm) and field.value == "type":
                found = f"args[{found}]"
            parts = f"{self.expr(argument)}, {self.expr(field)}, {self.expr(expected)}, {found}"
            self.open(f"if not {self.expr(ok)}:", node.span)
            self.line(f"raise call.fail({parts})")
            self.indent -= 1
            return
        self.line(self.expr(call), node.span)

    def print_If(self, node: Any) -> None:
        self.open(f"if {self.expr(node.condition)}:", node.span)
        self._block(node.then_body)
        if node.else_body is not None:
            self.open("else:")
            self._block(node.else_body)

    def print_For(self, node: For) -> None:
        low, step = self.expr(node.min), self.expr(node.step) if node.step is not None else "1"
        stop = f"{low} + {self.expr(node.extent)} * {step}"
        self.open(f"for {self.name(node.var)} in range({low}, {stop}, {step}):", node.span)
        self._block(node.body)

    def print_While(self, node: Any) -> None:
        self.open(f"while {self.expr(node.condition)}:", node.span)
        self._block(node.body)

    def print_Break(self, node: Any) -> None:
        self.line("break", node.span)

    def print_Continue(self, node: Any) -> None:
        self.line("continue", node.span)

    def print_Return(self, node: Any) -> None:
        self.line("return outputs", node.span)

    def print_Block(self, node: Any) -> None:
        if node.allocations:
            raise self._unprintable("allocations on the host", node)
        self.stmt(node.body)

    def _block(self, body: Any) -> None:
        count = len(self.lines)
        self.stmt(body)
        if len(self.lines) == count:
            self.line("pass")
        self.indent -= 1

    # Expressions.

    def expr_IntImm(self, node: IntImm) -> str:
        return (
            str(bool(node.value)) if node.dtype.is_bool else str(node.value) if node.value >= 0 else f"({node.value})"
        )

    def expr_FloatImm(self, node: Any) -> str:
        return f'float("{node.value!r}")'

    def expr_StringImm(self, node: StringImm) -> str:
        return repr(node.value)

    def expr_Binary(self, node: Any) -> str:
        a, b = self.expr(node.a), self.expr(node.b)
        if node.op in ("min", "max"):
            return f"{node.op}({a}, {b})"
        if node.op in ("truncdiv", "truncmod"):
            return f"call.{node.op}({a}, {b})"
        return f"({a} {_WORDS.get(node.op, BINARY_OPERATORS[node.op][0])} {b})"

    def expr_Unary(self, node: Any) -> str:
        return f"({({'neg': '-', 'not': 'not ', 'bitnot': '~'})[node.op]}{self.expr(node.a)})"

    def expr_Cast(self, node: Any) -> str:
        kind = "float" if node.dtype.is_float else "bool" if node.dtype.is_bool else "int"
        return f"{kind}({self.expr(node.value)})"

    def expr_Select(self, node: Any) -> str:
        return f"({self.expr(node.true_value)} if {self.expr(node.condition)} else {self.expr(node.false_value)})"

    def expr_Let(self, node: Any) -> str:
        return f"(lambda {self.name(node.var)}: {self.expr(node.body)})({self.expr(node.value)})"

    def expr_Call(self, node: Call) -> str:
        args = node.args
        if node.op == "host.has_args":
            return "True"
        if node.op == "host.num_args":
            return "len(args)"
        if node.op == "host.arg_is":
            return f"call.is_kind(args[{self.expr(args[0])}], {self.expr(args[1])})"
        if node.op == "host.arg_tensor":
            return f"args[{self.expr(args[0])}]"
        if node.op == "host.arg_scalar":
            return f"call.scalar(args[{self.expr(args[0])}], {node.dtype.name!r})"
        if node.op == "host.address":
            return self.expr(args[0])  # pointers are numbers here
        if node.op in ("host.field", "host.same_device"):
            return f"call.{node.op.removeprefix('host.')}({self._list(args)})"
        if node.op == "host.alloc_output":
            _, like, word, *shape = args
            source = "None" if isinstance(like, IntImm) else self.expr(like)
            return f"call.allocate({source}, {self.expr(word)}, [{self._list(shape)}])"
        if node.op == "host.alloc_workspace":
            like, word, *shape = args
            source = "None" if isinstance(like, IntImm) else self.expr(like)
            return f"call.allocate({source}, {self.expr(word)}, [{self._list(shape)}])"
        if node.op == "host.launch":
            kinds = ", ".join(repr(a.dtype.name) for a in args[8:])
            return f"call.launch({self.expr(args[0])}, [{self._list(args[1:8])}], [{self._list(args[8:])}], [{kinds}])"
        if node.op == "likely":
            return self.expr(args[0])
        raise InternalError("E-INTERNAL", f"no host operation {node.op} in Python", span=node.span)

    def _list(self, args: Any) -> str:
        return ", ".join(self.expr(a) for a in args)


_PYTHON_WORDS = (*keyword.kwlist, "len", "min", "max", "range", "int", "float", "bool")
