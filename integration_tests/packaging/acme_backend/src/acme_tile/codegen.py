"""Scalar C++: core's C printer with storage, a grid loop and math functions."""

from __future__ import annotations

import math

from tile_core.codegen import CPrinter, abi_prelude, print_host
from tile_core.dtypes import DType
from tile_core.errors import CompileError, declare_codes
from tile_core.ir import Buffer, BufferLoad, BufferStore, Call, IRModule, KernelLaunch, PrimFunc
from tile_core.target import Target

__all__ = ["generate"]

declare_codes(
    {
        "E-ACME-DTYPE": "a dtype that acme lacks",
        "E-ACME-FUNCTION": "a function that acme lacks",
        "E-ACME-SHAPE": "a tile without a constant size",
    }
)

_SUPPORT = """\
#include <cmath>
namespace {
template <class T> T tile_min(T a, T b) { return b < a ? b : a; }
template <class T> T tile_max(T a, T b) { return a < b ? b : a; }
template <class T> T tile_floordiv(T a, T b) { T q = a / b; return q * b != a && (a < 0) != (b < 0) ? q - 1 : q; }
template <class T> T tile_floormod(T a, T b) { return a - tile_floordiv(a, b) * b; }
"""

_MATH = {name: f"std::{name}" for name in ("exp", "exp2", "log", "log2", "sqrt", "tanh", "fabs", "floor", "ceil")}


def generate(module: IRModule, target: Target) -> dict[str, str]:
    """``acme.cpp``: kernels and the packed host stubs.

    Raises:
        CompileError: the kernel calls a function, or uses a dtype, that the simulator lacks.
    """
    kernels = {f.name: f for f in module.functions if f.attr("calling_convention") == "device"}
    hosts = [f for f in module.functions if f.attr("calling_convention") == "packed"]

    def launch(printer: CPrinter, call: Call) -> str:
        kernel = kernels[call.args[0].value]
        values = [printer.expr(a) for a in call.args[8:]]
        types = [f"({_Printer().type_name(p.dtype)}*)" if isinstance(p, Buffer) else "" for p in kernel.params]
        return f"{kernel.name}({', '.join(t + v for t, v in zip(types, values, strict=True))})"

    parts = [
        *(_SUPPORT, *(_Printer().function(k) for k in kernels.values()), "}  // namespace"),
        *('extern "C" {', *(print_host(h, launch) for h in hosts), '}  // extern "C"'),
    ]
    return {"acme.cpp": "\n".join([abi_prelude(), *parts])}


class _Printer(CPrinter):
    def type_name(self, dtype: DType) -> str:
        if dtype.name not in self.TYPES:
            raise CompileError(
                "E-ACME-DTYPE",
                f"acme has no {dtype}",
                facts=[f"it has: {', '.join(self.TYPES)}"],
                help="cast in the kernel, or compile for another target",
            )
        return super().type_name(dtype)

    def function(self, function: PrimFunc) -> str:
        self._taken.add(function.name)
        params = [
            f"{self.type_name(p.dtype)}{'*' if isinstance(p, Buffer) else ''} {self.name(p)}" for p in function.params
        ]
        self.open(f"int {function.name}({', '.join(params)}) {{")
        self.stmt(function.body)
        self.line("return 0;")
        self.close()
        return self.text()

    def print_KernelLaunch(self, node: KernelLaunch) -> None:
        for var, extent in reversed(list(zip(node.grid_vars, node.grid, strict=True))):
            name = self.name(var)
            self.open(f"for (int {name} = 0; {name} < {self.expr(extent)}; ++{name}) {{", node.span)
        self.stmt(node.body)
        for _ in node.grid_vars:
            self.close()

    def allocate(self, buffer: Buffer) -> None:
        shape = buffer.static_shape()
        if shape is None:
            raise CompileError(
                "E-ACME-SHAPE",
                f"{buffer.name} has no constant size",
                span=buffer.span,
                help="on-chip tiles need constant extents",
            )
        self.line(f"static thread_local {self.type_name(buffer.dtype)} {self.name(buffer)}[{math.prod(shape)}];")

    def _place(self, buffer: Buffer) -> str:
        """The address of a buffer's first element; a view prints as a cast of what it views."""
        if buffer.data is None or buffer in self._names:
            return self.name(buffer)
        offset = "" if buffer.offset is None else f" + {self.expr(buffer.offset)}"
        return f"(({self.type_name(buffer.dtype)}*)({self._place(buffer.data)}{offset}))"

    def expr_BufferLoad(self, node: BufferLoad) -> str:
        loaded = f"{self._place(node.buffer)}[{self.expr(node.indices[0])}]"
        if node.predicate is None:
            return loaded
        return f"({self.expr(node.predicate)} ? {loaded} : {self.type_name(node.dtype)}(0))"

    def print_BufferStore(self, node: BufferStore) -> None:
        store = f"{self._place(node.buffer)}[{self.expr(node.indices[0])}] = {self.expr(node.value)};"
        self.line(store if node.predicate is None else f"if ({self.expr(node.predicate)}) {store}", node.span)

    def intrinsic(self, node: Call) -> str:
        if node.op not in _MATH:
            raise CompileError(
                "E-ACME-FUNCTION",
                f"acme has no {node.op}",
                span=node.span,
                facts=[f"it has: {', '.join(_MATH)}"],
                help="use one of these, or compile for another target",
            )
        return f"{_MATH[node.op]}({', '.join(self.expr(a) for a in node.args)})"
