"""HostCPrinter: a packed host function as C, on nothing but the tvm-ffi C ABI.

The text starts with `tile_abi.h` (argument access, output allocation, errors) and exports ``__tvm_ffi_<name>``; a
launch is printed by the backend
through `launch`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ..dtypes import SCALAR_NAMES, DType
from ..errors import InternalError
from ..ir import Bind, Buffer, Call, Evaluate, Expr, IntImm, PrimFunc, Return, StringImm, Var
from .c_like import CPrinter

__all__ = ["HostCPrinter", "abi_prelude", "print_host"]


@cache
def abi_prelude() -> str:
    """The text of ``tile_abi.h``."""
    return (Path(__file__).parent / "tile_abi.h").read_text(encoding="utf-8")


def print_host(function: PrimFunc, launch: Callable[[Any, Call], str], device: str = "(DLDevice){kDLCPU, 0}") -> str:
    """The exported stub of a packed host function as C text, without the prelude.

    `device` is the C expression for where outputs are allocated when no argument is a tensor.

    `launch(printer, call)` prints one ``host.launch`` as a C expression of type int: 0 for success, else -1 with the
    error raised.
    """
    return HostCPrinter(launch, device).function(function)


class HostCPrinter(CPrinter):
    """Prints host functions; one instance prints one function. Floats that C does not have are held as fp32."""

    TYPES = {
        **{name: "float" for name in SCALAR_NAMES if DType(name).is_float},
        "int4": "int8_t",
        "uint4": "uint8_t",
        **CPrinter.TYPES,
    }

    def __init__(self, launch: Callable[[Any, Call], str], device: str = "(DLDevice){kDLCPU, 0}") -> None:
        super().__init__()
        self.launch = launch
        self.device = device
        self.kernel = ""
        self.outputs: list[str] = []
        # What is given back when the function fails, outputs first: they are allocated before anything else.
        self.held: list[str] = []
        self.tensors: list[str] = []

    def device_id(self) -> str:
        """The number of the device that the tensors are on, as a C expression: the first given tensor's, -1 without
        one."""
        text = "-1"
        for tensor in reversed(self.tensors):
            text = f"({tensor} ? {tensor}->device.device_id : {text})"
        return text

    def function(self, function: PrimFunc) -> str:
        """The stub's text."""
        self.kernel = self.expr(StringImm(function.name))
        for param in function.params:
            if isinstance(param, Buffer):
                self.name(param)
        self.open(
            f"TVM_FFI_DLL_EXPORT int __tvm_ffi_{function.name}"
            "(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {",
            function.span,
        )
        self.line("(void)self; (void)args; (void)result;")
        count = len(function.attr("out_idx", ()))
        if count:
            self.line(f"TVMFFIObjectHandle outputs[{count}];")
        self.stmt(function.body)
        self.close()
        return self.text()

    def print_Bind(self, node: Bind) -> None:
        call = node.value
        if isinstance(call, Call) and call.op == "host.arg_tensor":
            self.line(f"DLTensor* {self.name(node.var)} = tile_tensor(&args[{self._int(call.args[0])}]);", node.span)
            self.tensors.append(self.name(node.var))
        elif isinstance(call, Call) and call.op == "host.alloc_output":
            self._allocate_output(node.var, call)
        elif isinstance(call, Call) and call.op == "host.alloc_workspace":
            self._allocate(node.var, call.args[0], call.args[1], call.args[2:], self._held(node.var))
        else:
            super().print_Bind(node)

    def print_Evaluate(self, node: Evaluate) -> None:
        call = node.value
        if isinstance(call, Call) and call.op == "host.check":
            self._check(call, node)
        elif isinstance(call, Call) and call.op == "host.launch":
            self.line(f"if (TILE_UNLIKELY({self.launch(self, call)} != 0)) {self._fail()}", node.span)
        else:
            super().print_Evaluate(node)

    def print_Return(self, node: Return) -> None:
        for held in self.held[len(self.outputs) :]:
            self.line(f"TVMFFIObjectDecRef({held});", node.span)
        if self.outputs:
            self.line(f"return tile_return(outputs, {len(self.outputs)}, result);", node.span)
        else:
            self.line("return 0;", node.span)

    def _check(self, call: Call, node: Evaluate) -> None:
        ok, argument, field, expected, got = call.args
        name = self.text_of(field)
        head = f"{self.kernel}, {self.expr(argument)}"
        label = self.expr(field)
        if name == "type":
            report = f"tile_bad_type({head}, {self.expr(expected)}, &args[{self._int(got)}])"
        elif name == "dtype":
            report = f"tile_bad_dtype({head}, {self.expr(expected)}, {self.expr(got)})"
        elif name == "device":
            report = f"tile_bad_device({head}, {self.expr(expected)}, {self.expr(got)}->device)"
        elif name == "condition" and not isinstance(got, StringImm):
            report = f"tile_bad_condition({head}, {self.expr(expected)}, {self.expr(got)})"
        elif isinstance(expected, StringImm) and isinstance(got, StringImm):
            report = f'tile_raise("tile.ArgumentError", {head}, {label}, {self.expr(expected)}, {self.expr(got)})'
        elif isinstance(expected, StringImm):
            report = f"tile_bad_range({head}, {label}, {self.expr(expected)}, {self.expr(got)})"
        else:
            report = f"tile_bad_int({head}, {label}, {self.expr(expected)}, {self.expr(got)})"
        self.line(f"if (TILE_UNLIKELY(!{self.expr(ok)})) return {report};", node.span)

    def _allocate_output(self, var: Var, call: Call) -> None:
        position, like, word, *shape = call.args
        held = f"outputs[{self._int(position)}]"
        self._allocate(var, like, word, shape, held)
        self.outputs.append(held)

    def _held(self, var: Var) -> str:
        """A handle for memory that the function gives back itself."""
        name = self.fresh(f"{var.name}_memory")
        self.line(f"TVMFFIObjectHandle {name};")
        return name

    def _allocate(self, var: Var, like: Expr, word: Expr, shape: Sequence[Expr], held: str) -> None:
        code = self._int(word)
        tensor = None if isinstance(like, IntImm) else self.expr(like)
        device = self.device if tensor is None else f"({tensor} ? {tensor}->device : {self.device})"
        extents = self.fresh(f"{var.name}_shape")
        self.line(f"int64_t {extents}[{max(1, len(shape))}] = {{{', '.join(self.expr(s) for s in shape) or '0'}}};")
        dtype = f"(DLDataType){{{code & 255}, {code >> 8 & 255}, {code >> 16}}}"
        self.line(
            f"if (TILE_UNLIKELY(tile_alloc({len(shape)}, {extents}, {dtype}, {device}, &{held}) != 0)) {self._fail()}"
        )
        self.held.append(held)
        self.line(f"DLTensor* {self.name(var)} = tile_tensor_of({held});")
        self.tensors.append(self.name(var))

    def _fail(self) -> str:
        release = " ".join(f"TVMFFIObjectDecRef({o});" for o in self.held)
        return f"{{ {release} return -1; }}" if release else "return -1;"

    def call_host_has_args(self, node: Call) -> str:
        return "(args != NULL)"

    def call_host_num_args(self, node: Call) -> str:
        return "num_args"

    def call_host_arg_is(self, node: Call) -> str:
        argument = f"args[{self._int(node.args[0])}]"
        kind = self.text_of(node.args[1])
        if kind == "tensor":
            return f"(tile_tensor(&{argument}) != NULL)"
        if kind == "none":
            return f"({argument}.type_index == kTVMFFINone)"
        if kind == "float":
            return f"tile_is_float(&{argument})"
        if kind == "handle":
            return f"tile_is_pointer(&{argument})"
        return f"tile_is_int(&{argument})"

    def call_host_arg_scalar(self, node: Call) -> str:
        argument = f"args[{self._int(node.args[0])}]"
        if node.dtype.is_float and node.dtype.name not in CPrinter.TYPES:
            return f"tile_odd_float(tile_float(&{argument}))"
        if node.dtype.is_float:
            return f"(({self.type_name(node.dtype)})tile_float(&{argument}))"
        if node.dtype.name == "handle":
            return f"tile_pointer(&{argument})"
        if node.dtype.is_bool:
            return f"({argument}.v_int64 != 0)"
        return f"(({self.type_name(node.dtype)}){argument}.v_int64)"

    def call_host_field(self, node: Call) -> str:
        tensor, name, axis = self.expr(node.args[0]), self.text_of(node.args[1]), self._int(node.args[2])
        texts = {
            "ndim": f"(int64_t){tensor}->ndim",
            "dtype": f"(int64_t)tile_dtype({tensor})",
            "shape": f"{tensor}->shape[{axis}]",
            "stride": f"tile_stride({tensor}, {axis})",
            "device_type": f"(int64_t){tensor}->device.device_type",
            "device_id": f"(int64_t){tensor}->device.device_id",
            "data": f"tile_data({tensor})",
        }
        return texts[name]

    def call_host_address(self, node: Call) -> str:
        return f"(int64_t){self.expr(node.args[0])}"

    def call_host_same_device(self, node: Call) -> str:
        a, b = (self.expr(x) for x in node.args)
        return f"({a}->device.device_type == {b}->device.device_type && {a}->device.device_id == {b}->device.device_id)"

    def binary_call(self, node: Any) -> str:
        a, b = self.expr(node.a), self.expr(node.b)
        if node.op in ("min", "max"):
            return f"({a} {'<' if node.op == 'min' else '>'} {b} ? {a} : {b})"
        if node.op in ("floordiv", "floormod"):
            return f"tile_{node.op}({a}, {b})"
        return super().binary_call(node)

    @staticmethod
    def text_of(node: Expr) -> str:
        """The text of a string constant."""
        if not isinstance(node, StringImm):
            raise InternalError("E-INTERNAL", f"a host operation needs a string constant, found {node!r}")
        return node.value

    @staticmethod
    def _int(node: Expr) -> int:
        if not isinstance(node, IntImm):
            raise InternalError("E-INTERNAL", f"a host operation needs an integer constant, found {node!r}")
        return node.value
