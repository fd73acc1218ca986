"""SplitHostDevice: each kernel launch becomes a device function, its place a host launch.

Needs FLAT, leaves SPLIT. A device function takes the global buffers and scalars that its body uses, in the order
of the user's parameters, then shape variables. The host function keeps the user's parameters. A scalar of a float type
that C does not have (fp16, bf16, fp8, …) is passed as fp32 and converted in the kernel.
"""

from __future__ import annotations

from typing import Any

from ..dtypes import DType
from ..errors import CompileError, declare_codes
from ..ir import (
    AccessPtr,
    Attr,
    Bind,
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    Expr,
    IRModule,
    KernelLaunch,
    PrimFunc,
    Rewriter,
    Stmt,
    StringImm,
    Var,
    Visitor,
    binary,
    cast,
    const,
    seq,
    walk,
)
from ..ir.host import host_call
from .base import Pass, PassContext, register_pass

declare_codes({"E-KERNEL-TARGET": "a kernel in a language that its target does not run"})

__all__ = ["SplitHostDevice", "free_symbols"]

FLOAT32, INT32 = DType("float32"), DType("int32")


@register_pass("SplitHostDevice", needs="FLAT", leaves="SPLIT")
class SplitHostDevice(Pass):
    def apply(self, module: IRModule, context: PassContext) -> IRModule:
        functions: list[PrimFunc] = []
        for function in module.functions:
            split = _Split(function)
            body = split.rewrite(function.body)
            host = function.with_(body=body).with_attr("calling_convention", "host")
            functions += [host, *split.kernels]
        return IRModule(tuple(functions), span=module.span)


class _Split(Rewriter):
    def __init__(self, function: PrimFunc) -> None:
        super().__init__()
        self.function = function
        self.kernels: list[PrimFunc] = []
        # Tensors over addresses that are declared around launches, outermost first.
        self.addresses: list[Attr] = []

    def rewrite_Attr(self, node: Attr) -> Stmt | None:
        if node.key != "address":
            return self.rewrite_children(node)
        self.addresses.append(node)
        body = self.rewrite(node.body)
        self.addresses.pop()
        return body

    def rewrite_KernelLaunch(self, node: KernelLaunch) -> Evaluate:
        node = node.with_(body=self._with_addresses(node.body))
        symbols = free_symbols(node)
        order = {_root(p) if isinstance(p, Buffer) else p: i for i, p in enumerate(self.function.params)}
        symbols.sort(key=lambda s: order.get(_root(s) if isinstance(s, Buffer) else s, len(order)))
        held = {s: host_dtype(s.dtype) for s in symbols if isinstance(s, Var)}
        narrow = {s: Var(s.name, wide, span=s.span) for s, wide in held.items() if wide is not s.dtype}
        binds = [Bind(var, cast(passed, var.dtype), span=var.span) for var, passed in narrow.items()]
        count = len(self.kernels)
        name = f"{self.function.name}_kernel" + (f"_{count}" if count else "")
        entry = node.annotation("entry")
        if entry is not None:
            name = entry
            self._check_source(node)
            symbols = list(dict.fromkeys(_SourceArguments.of(node)))
        params: tuple[Any, ...] = tuple([narrow.get(s, s) for s in symbols])
        launch = node.with_(body=seq(*binds, node.body)) if binds else node
        kernel = PrimFunc(name, params, launch, span=node.span).with_attr("calling_convention", "device")
        target = self.function.attr("target")
        if entry is None or all(k.name != entry for k in self.kernels):
            self.kernels.append(kernel.with_attr("target", target))
        arguments: list[Expr] = []
        for symbol in symbols:
            if isinstance(symbol, Buffer):
                zero = tuple(const(0, "int32") for _ in symbol.shape)
                arguments.append(AccessPtr(symbol, zero, const(0, "int32"), "rw"))
            else:
                arguments.append(cast(symbol, narrow[symbol].dtype) if symbol in narrow else symbol)
        for buffer, ratio in node.annotation("l2_hit_ratio", ()):
            places = [i for i, s in enumerate(symbols) if isinstance(s, Buffer) and _root(s) is _root(buffer)]
            if places and self.kernels[-1].name == name:
                # One more argument of the launch, behind the kernel's own: how long the window is.
                self.kernels[-1] = self.kernels[-1].with_attr("l2_window", (places[0], ratio))
                arguments.append(_bytes(_root(buffer)))
        grid = [*node.grid, *[const(1, "int32")] * (3 - len(node.grid))]
        threads = [*node.threads, *[const(1, "int32")] * (3 - len(node.threads))]
        call = host_call("launch", StringImm(name), *grid, *threads, 0, *arguments, dtype=DType("int32"))
        return Evaluate(call, span=node.span)

    def _check_source(self, node: KernelLaunch) -> None:
        target = self.function.attr("target")
        if target is not None and target.kind != "cuda":
            raise CompileError(
                "E-KERNEL-TARGET",
                f"{node.annotation('entry')} is written in CUDA and cannot run on {target.kind}",
                span=node.span,
                help='compile it for target="cuda", or write it in the language',
            )
        for kernel in self.kernels:
            launch = kernel.body
            assert isinstance(launch, KernelLaunch)
            if kernel.name == node.annotation("entry") and launch.annotation("source") != node.annotation("source"):
                raise CompileError(
                    "E-KERNEL-TARGET",
                    f"two sources define {kernel.name}",
                    span=node.span,
                    spans=[("the other one is launched here", launch.span)],
                    help="give the functions different names, and pass entry_name=",
                )

    def _with_addresses(self, body: Stmt) -> Stmt:
        """A kernel's body that declares the tensors over addresses which it uses."""
        used = {_root(n.buffer) for n in walk(body) if isinstance(n, (BufferLoad, BufferStore, AccessPtr))}
        for attr in reversed(self.addresses):
            if attr.subject in used:
                body = attr.with_(body=body)
                used |= {_root(n.buffer) for n in walk(attr.value) if isinstance(n, BufferLoad)}
        return body


def _bytes(buffer: Buffer) -> Expr:
    """How many bytes a tensor without gaps has, int64."""
    bits: Expr = const(buffer.dtype.storage_bits, "int64")
    for extent in buffer.shape:
        bits = binary("mul", bits, cast(extent, "int64"))
    return binary("floordiv", binary("add", bits, 7), 8)


class _SourceArguments(Visitor):
    """The symbols that a kernel in its own language is given, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Any] = []

    @classmethod
    def of(cls, node: KernelLaunch) -> list[Any]:
        """Those of a launch."""
        visitor = cls()
        visitor.visit(node.body)
        return visitor.found

    def visit_Call(self, node: Call) -> None:
        if node.op == "source_kernel":
            self.found += [a.buffer if isinstance(a, AccessPtr) else a for a in node.args[1:]]


def is_narrow(dtype: DType) -> bool:
    """Whether a scalar of a type is a float that C does not have; hosts hold it as fp32."""
    return dtype.is_float and dtype.name not in ("float32", "float64")


def host_dtype(dtype: DType) -> DType:
    """The type that a host passes a scalar in: fp32 for floats and int32 for integers that C does not have."""
    if is_narrow(dtype):
        return FLOAT32
    return INT32 if dtype.is_int and dtype.bits < 8 else dtype


def free_symbols(node: Any) -> list[Any]:
    """The global buffers and variables that a statement uses and does not declare, in order of first use.

    Two buffers that view one parameter count once for each view.
    """
    found = _FreeSymbols()
    found.visit(node)
    return [s for s in found.found if s not in found.bound]


class _FreeSymbols(Visitor):
    def __init__(self) -> None:
        super().__init__()
        self.bound: set[Any] = set()
        self.found: dict[Any, None] = {}

    def visit_Var(self, node: Var) -> None:
        self.found.setdefault(node)

    def visit_Node(self, node: Any) -> None:
        for field in node.FIELDS:
            if field.kind == "binder":
                value = getattr(node, field.name)
                for item in value if isinstance(value, tuple) else (value,):
                    self.bound.add(item)
        if isinstance(node, (BufferLoad, BufferStore, AccessPtr)):
            self._buffer(node.buffer)
        if isinstance(node, Attr) and node.key == "address":
            self.bound.add(node.subject)
            for expr in (*node.subject.shape, *node.subject.strides):
                self.visit(expr)
        if isinstance(node, Block):
            for buffer in node.allocations:
                for extent in buffer.shape:
                    self.visit(extent)
        self.visit_children(node)

    def _buffer(self, buffer: Buffer) -> None:
        if buffer.data is not None and _root(buffer) in self.bound:
            return
        self.found.setdefault(buffer)


def _root(buffer: Buffer) -> Buffer:
    while buffer.data is not None:
        buffer = buffer.data
    return buffer
