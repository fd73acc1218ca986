"""The packed host functions of an emulated kernel: the artifact's own, for CPU tensors, launching in the engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tile_core.codegen import abi_prelude, print_host
from tile_core.errors import InternalError
from tile_core.ir import (
    Binary,
    Bind,
    Buffer,
    Call,
    Expr,
    If,
    IntImm,
    IRModule,
    PrimFunc,
    Rewriter,
    StringImm,
    Var,
    walk,
)

__all__ = ["device_functions", "host_source"]

_DL_CPU = 1

_SUPPORT = """\
extern "C" {
void tile_emu_add(const char* name, void* data, uint64_t bytes, int fresh);
void* tile_emu_pointer(const void* data);
void tile_emu_finish();
}
namespace {

// From the first byte of a tensor to behind the last; strides may leave holes.
void tile_emu_add_tensor(const char* name, const DLTensor* tensor, int fresh) {
  uint64_t last = 0;
  for (int axis = 0; axis < tensor->ndim; ++axis) {
    if (tensor->shape[axis] == 0) return tile_emu_add(name, tile_data(tensor), 0, fresh);
    uint64_t stride = 1;
    if (tensor->strides)
      stride = (uint64_t)tensor->strides[axis];
    else
      for (int inner = axis + 1; inner < tensor->ndim; ++inner) stride *= (uint64_t)tensor->shape[inner];
    last += (uint64_t)(tensor->shape[axis] - 1) * stride;
  }
  uint64_t bits = (uint64_t)tensor->dtype.bits * tensor->dtype.lanes;
  tile_emu_add(name, tile_data(tensor), ((last + 1) * bits + 7) / 8, fresh);
}

}  // namespace
"""


def device_functions(module: IRModule) -> list[PrimFunc]:
    """The kernels of a module in form PACKED."""
    return [f for f in module.functions if f.attr("calling_convention") == "device"]


def host_source(module: IRModule, lines: str) -> str:
    """C++ text with the packed functions of a module in form PACKED.

    Args:
        module: host and device functions.
        lines: the line map's JSON, which has what shared memory each kernel declares.

    Raises:
        CompileError: a kernel takes a scalar of a type that a parameter array can't hold here.
    """
    kernels = {f.name: f for f in device_functions(module)}
    shared = {row["name"]: int(row["shared_bytes"]) for row in json.loads(lines).get("kernels", ())}
    hosts = [f for f in module.functions if f.attr("calling_convention") == "packed"]
    entries = [
        f'extern "C" int tile_emu_launch_{name}(const uint32_t*, const uint32_t*, uint64_t, void**);'
        for name in kernels
    ]
    stubs = [print_host(_ForCpu().function(f), _Launch(f, kernels, shared)) for f in hosts]
    return "\n".join([abi_prelude(), _SUPPORT, *entries, 'extern "C" {\n', *stubs, '}  // extern "C"\n'])


class _ForCpu(Rewriter):
    """Asks for tensors of the CPU where a host function asks for another device's."""

    def function(self, function: PrimFunc) -> PrimFunc:
        return function.with_(body=self.rewrite(function.body))

    def rewrite_Call(self, node: Call) -> Expr:
        if node.op != "host.check" or not isinstance(node.args[2], StringImm) or node.args[2].value != "device":
            return self.rewrite_children(node)
        ok, argument, what, _, got = node.args
        if not (isinstance(ok, Binary) and isinstance(ok.b, IntImm)):
            return node  # that all tensors share one device
        here = ok.with_(b=IntImm(_DL_CPU, ok.b.dtype))
        return node.with_(args=(here, argument, what, StringImm("cpu"), got))


class _Launch:
    """Prints ``host.launch`` as: tell the engine the tensors, launch, give the bytes back."""

    def __init__(self, host: PrimFunc, kernels: Mapping[str, PrimFunc], shared: Mapping[str, int]) -> None:
        self.kernels = kernels
        self.shared = shared
        self.tensors: dict[Var, Var] = {}  # the variable with a tensor's address → the tensor
        self.outputs: set[Var] = set()
        for node in walk(host.body):
            if not isinstance(node, Bind) or not isinstance(node.value, Call):
                continue
            call = node.value
            if call.op == "host.field" and isinstance(call.args[1], StringImm) and call.args[1].value == "data":
                tensor = call.args[0]
                assert isinstance(tensor, Var)
                self.tensors[node.var] = tensor
            elif call.op == "host.alloc_output":
                self.outputs.add(node.var)
        self.used: dict[int, set[Var]] = {}  # a launch's call → tensors that launches before it on its path were given
        self._follow(host.body, set())

    def _follow(self, node: Any, used: set[Var]) -> None:
        """Walks a path of the host function; `used` are the tensors that its launches were given so far."""
        if isinstance(node, If):
            branches = [set(used), set(used)]
            for branch, body in zip(branches, (node.then_body, node.else_body)):
                if body is not None:
                    self._follow(body, branch)
            used |= branches[0] | branches[1]
            return
        if isinstance(node, Call) and node.op == "host.launch":
            self.used[id(node)] = set(used)
            used |= {self.tensors[a] for a in node.args if isinstance(a, Var) and a in self.tensors}
            return
        for item in node.child_nodes():
            self._follow(item, used)

    def __call__(self, printer: Any, call: Call) -> str:
        symbol = call.args[0]
        assert isinstance(symbol, StringImm)
        kernel = self.kernels[symbol.value]
        sizes = [printer.expr(a) for a in call.args[1:7]]
        wanted = call.args[7]
        shared = max(self.shared.get(kernel.name, 0), wanted.value if isinstance(wanted, IntImm) else 0)
        before: list[str] = []
        values: list[str] = []
        for index, (param, value) in enumerate(zip(kernel.params, call.args[8:])):
            if isinstance(param, Buffer):
                before.append(self._tensor(printer, param, value, self.used.get(id(call), set())))
                values.append(f"void* v{index} = tile_emu_pointer({printer.expr(value)});")
            else:
                values.append(f"{printer.type_name(param.dtype)} v{index} = {printer.expr(value)};")
        slots = ", ".join(f"&v{i}" for i in range(len(values))) or "0"
        return (
            f"({{ {' '.join(before)} {' '.join(values)} void* values[] = {{{slots}}}; "
            f"const uint32_t grid[] = {{{', '.join(f'(uint32_t)({s})' for s in sizes[:3])}}}; "
            f"const uint32_t block[] = {{{', '.join(f'(uint32_t)({s})' for s in sizes[3:])}}}; "
            f"tile_emu_launch_{kernel.name}(grid, block, {shared}, values); tile_emu_finish(); 0; }})"
        )

    def _tensor(self, printer: Any, param: Buffer, value: Expr, used: set[Var]) -> str:
        tensor = self.tensors.get(value) if isinstance(value, Var) else None
        if tensor is None:
            raise InternalError("E-INTERNAL", f"kernel parameter {param.name} is the address of no tensor")
        # What a launch before has written stays written.
        fresh = int(tensor in self.outputs - used)
        return f'tile_emu_add_tensor("{param.name}", {printer.expr(tensor)}, {fresh});'
