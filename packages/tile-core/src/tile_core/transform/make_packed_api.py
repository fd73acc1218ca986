"""MakePackedAPI: the host function checks its arguments, binds sizes, allocates outputs and launches.

Needs SPLIT, leaves PACKED. The order of checks is the order in which they are reported: argument count; the kind of
every argument; the range of every integer; then for each tensor in parameter order ndim, dtype, shape, strides,
device, storage; then assumptions. A shape variable is defined by the first input that mentions it (outputs never
define one); later mentions are checked against it. A tensor that no kernel uses and that defines no size may be None;
where several such tensors have a size that is needed, one of them must be given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dtypes import DType
from ..errors import CompileError, declare_codes
from ..ir import (
    AccessPtr,
    Attr,
    Binary,
    Bind,
    Block,
    Buffer,
    Expr,
    If,
    IntImm,
    IRModule,
    PrimFunc,
    Return,
    Rewriter,
    Select,
    SizeVar,
    Stmt,
    Var,
    binary,
    cast,
    const,
    seq,
    walk,
)
from ..ir.host import ArgumentRules, arg_is, carrier_words, check, dtype_word, field, host_call, past_multiple
from .base import Pass, PassContext, register_pass
from .options import Options, declare_option

__all__ = ["MakePackedAPI", "argument_rules"]

declare_codes(
    {
        "E-ABI-SIZE": "a shape variable that no input defines",
        "E-ABI-NIBBLES": "a tensor of four-bit elements whose rows do not fill whole bytes",
        "E-ABI-SCALAR": "a scalar parameter of a vector type",
        "E-ABI-VECTOR": "a tensor of vectors without a dimension to count them in",
        "E-ABI-ASSUME": "a condition of T.assume that no call can fulfil",
        "E-ABI-OUTPUT": "an output that cannot be allocated by the callee",
    }
)

INT64 = DType("int64")
HANDLE = DType("handle")
DEVICE_TYPES = {"cpu": 1, "cuda": 2}
_SCALAR_KINDS = {"b": "bool", "i": "int", "u": "int", "f": "float", "h": "handle"}


SKIP_VALIDATION = declare_option(
    "tl.disable_tensor_validation",
    False,
    bool,
    "no checks of tensors' shapes, types, strides and devices at the call; what does not fit touches other memory",
)
RELAX_FP8 = declare_option(
    "tl.relax_fp8_dtypes", False, bool, "float8 tensors that split exponent and mantissa alike pass for each other"
)
RELAX_BOOL = declare_option(
    "tl.relax_bool_storage", False, bool, "bool tensors pass for int8 and uint8 ones, and the reverse"
)
_FP8_FAMILIES = (
    ("float8_e4m3", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz"),
    ("float8_e5m2", "float8_e5m2fnuz"),
)
_BOOL_FAMILY = ("bool", "int8", "uint8")


def argument_rules(options: Options) -> ArgumentRules:
    """What these options let pass in a call."""
    families = [
        *(_FP8_FAMILIES if options[RELAX_FP8.key] else ()),
        *((_BOOL_FAMILY,) if options[RELAX_BOOL.key] else ()),
    ]
    return ArgumentRules(tuple(families), not options[SKIP_VALIDATION.key])


@register_pass(
    "MakePackedAPI", needs="SPLIT", leaves="PACKED", options=(SKIP_VALIDATION.key, RELAX_FP8.key, RELAX_BOOL.key)
)
class MakePackedAPI(Pass):
    """Args: device: the kind of device that the tensors must live on, a key of DEVICE_TYPES."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = device

    def apply(self, module: IRModule, context: PassContext) -> IRModule:
        return module.map_functions(lambda f: self._host(f, context) if f.attr("calling_convention") == "host" else f)

    def _host(self, function: PrimFunc, context: PassContext) -> PrimFunc:
        body = _Packer(function, self.device, argument_rules(context.options)).build()
        return function.with_(body=body).with_attr("calling_convention", "packed")


class _Packer:
    def __init__(self, function: PrimFunc, device: str, rules: ArgumentRules) -> None:
        self.function = function
        self.device = device
        self.rules = rules
        self.validate = rules.tensors
        count = len(function.params)
        self.outputs = [i % count for i in function.attr("out_idx", ())]
        self.inputs = [(p, i) for i, p in enumerate(p for k, p in enumerate(function.params) if k not in self.outputs)]
        self.place: dict[Any, int] = dict(self.inputs)
        self.handles: dict[Buffer, Var] = {}
        self.bound: dict[Var, None] = {p: None for p in function.params if isinstance(p, Var)}
        self.later: list[tuple[Buffer, str, int, Expr, Expr]] = []
        self.anchor: Var | None = None
        self.anchor_index: int | None = None
        self.used = _used_buffers(function)

    def build(self) -> Stmt:
        assumptions, body = _peel_assumptions(self.function.body)
        stmts: list[Stmt] = [
            check(
                binary("eq", host_call("num_args"), len(self.inputs)),
                "",
                "argument count",
                len(self.inputs),
                host_call("num_args"),
            )
        ]
        if self.inputs:
            present = host_call("has_args", dtype=DType("bool"))
            stmts.append(check(present, "", "arguments", "an array of arguments", "NULL"))
        optional, carriers = self._optional()
        for param, index in self.inputs:
            stmts.append(self._kind(param, index, param in optional))
        for param, index in self.inputs:
            if isinstance(param, Buffer):
                handle = Var(f"{param.name}_tensor", HANDLE)
                self.handles[param] = handle
                stmts.append(Bind(handle, host_call("arg_tensor", index, dtype=HANDLE), span=param.span))
            else:
                stmts += self._scalar(param, index)
        self._choose_anchor(optional)
        for var, places in carriers.items():
            stmts += self._first_given(var, places)
        for param, index in self.inputs:
            if isinstance(param, Buffer):
                checks = self._tensor(param, may_define=param not in optional)
                stmts += [If(arg_is(index, "tensor"), seq(*checks))] if param in optional else checks
        for buffer, name, axis, expected, got in self.later:
            if all(var in self.bound for var in _vars(expected)):
                checks = self._equal(buffer, name, axis, expected, got)
                stmts += [If(arg_is(self.place[buffer], "tensor"), seq(*checks))] if buffer in optional else checks
        self._all_bound()
        for condition in assumptions:
            self._require_possible(condition)
            stmts.append(check(condition, "", "condition", repr(condition), _value(condition), span=condition.span))
        for position, k in enumerate(self.outputs):
            stmts.append(self._output(position, self.function.params[k]))
        stmts += [self._launches(body), Return(const(0, "int32"))]
        return seq(*stmts)

    def _optional(self) -> tuple[set[Any], dict[Var, list[tuple[Buffer, int, int]]]]:
        """The tensors that may be None; and the sizes that only such tensors have, with (tensor, argument, axis) of
        each place where it stands alone."""
        required_sizes: set[Any] = set()
        for param, _ in self.inputs:
            if isinstance(param, Buffer) and param in self.used:
                required_sizes.update(_sizes(param))
        needed = set(_body_sizes(self.function)) - required_sizes - set(self.bound)
        optional: set[Any] = set()
        unused = [(p, i) for p, i in self.inputs if isinstance(p, Buffer) and p not in self.used]
        carriers: dict[Var, list[tuple[Buffer, int, int]]] = {}
        for var in sorted(needed, key=lambda v: v.name):
            places = [(p, i, axis) for p, i in unused for axis, extent in enumerate(p.shape) if extent is var]
            if len({index for _, index, _ in places}) > 1:
                carriers[var] = places
        needed -= set(carriers)
        for param, _ in unused:
            if needed & set(_sizes(param)):
                needed -= set(_sizes(param))
                continue
            optional.add(param)
        carriers = {var: places for var, places in carriers.items() if all(p in optional for p, _, _ in places)}
        return optional, carriers

    def _choose_anchor(self, optional: set[Any]) -> None:
        """The tensor whose device is everybody's: the first that must be given, else the first."""
        tensors = [(param, index) for param, index in self.inputs if isinstance(param, Buffer)]
        found = next(((p, i) for p, i in tensors if p not in optional), tensors[0] if tensors else None)
        if found is not None:
            self.anchor = self.handles[found[0]]
            self.anchor_index = found[1] if found[0] in optional else None

    def _first_given(self, var: Var, places: list[tuple[Buffer, int, int]]) -> list[Stmt]:
        """`var` from the first of the tensors that is not None."""
        out: list[Stmt] = []
        value: Expr = const(0, INT64)
        given: Expr | None = None
        for buffer, index, axis in reversed(places):
            tensor, is_given = self.handles[buffer], arg_is(index, "tensor")
            ndim = field(tensor, "ndim")
            right = check(binary("eq", ndim, buffer.ndim), buffer.name, "ndim", buffer.ndim, ndim, span=buffer.span)
            out.insert(0, If(is_given, right))
            extent = field(tensor, "shape", axis)
            if buffer.dtype.is_packed and axis == buffer.ndim - 1:
                extent = binary("mul", extent, 2)
            value = Select(is_given, extent, value)
            given = is_given if given is None else binary("or", is_given, given)
        assert given is not None
        first, index, _ = places[0]
        names = " or ".join(dict.fromkeys(buffer.name for buffer, _, _ in places))
        out.append(check(given, first.name, "type", f"a tensor (the size {var.name} needs {names})", IntImm(index)))
        self.bound[var] = None
        return [*out, Bind(var, cast(value, var.dtype), span=first.span)]

    def _require_possible(self, condition: Expr) -> None:
        if isinstance(condition, IntImm) and not condition.value:
            raise CompileError(
                "E-ABI-ASSUME",
                f"{self.function.name} assumes what is never so",
                span=condition.span or self.function.span,
                facts=[f"inputs: {', '.join(repr(p) for p, _ in self.inputs) or 'none'}"],
                help="correct the condition of T.assume, or the shapes that it speaks of",
            )

    def _kind(self, param: Any, index: int, optional: bool) -> Stmt:
        if isinstance(param, Buffer):
            ok: Expr = arg_is(index, "tensor")
            if optional:
                ok = binary("or", ok, arg_is(index, "none"))
            expected = "a tensor or None" if optional else "a tensor"
        elif param.dtype.lanes > 1:
            raise CompileError(
                "E-ABI-SCALAR",
                f"{self.function.name}: the parameter {param.name} is a {param.dtype}; calls pass no vectors",
                span=param.span,
                help=f"pass {param.dtype.lanes} scalars, or a tensor with one element of {param.dtype}",
            )
        else:
            kind = _SCALAR_KINDS[param.dtype.kind]
            ok, expected = arg_is(index, kind), {"handle": "a pointer as int"}.get(kind, kind)
        return check(ok, param.name, "type", expected, IntImm(index), span=param.span)

    def _scalar(self, param: Var, index: int) -> list[Stmt]:
        """A number as its type; one that the type cannot hold is refused, it would come as another one."""
        dtype, checks = param.dtype, []
        if dtype.is_int and not dtype.is_bool and dtype.bits < 64:
            got = host_call("arg_scalar", index, dtype=INT64)
            least, most = dtype.min_value, dtype.max_value
            fits = binary("and", binary("ge", got, const(least, INT64)), binary("le", got, const(most, INT64)))
            checks.append(check(fits, param.name, "range", f"from {least} to {most}", got, span=param.span))
        return [*checks, Bind(param, host_call("arg_scalar", index, dtype=dtype), span=param.span)]

    def _tensor(self, buffer: Buffer, may_define: bool) -> list[Stmt]:
        tensor = self.handles[buffer]
        out: list[Stmt] = []

        def expect(ok: Expr, name: str, expected: Any, got: Any) -> None:
            if not self.validate:
                return
            out.append(check(ok, buffer.name, name, expected, got, span=buffer.span))

        ndim = field(tensor, "ndim")
        expect(binary("eq", ndim, buffer.ndim), "ndim", buffer.ndim, ndim)
        word = field(tensor, "dtype")
        carriers = self.rules.carriers(buffer.dtype)
        known: Expr | None = None
        for one in carriers.values():
            equal = binary("eq", word, one)
            known = equal if known is None else binary("or", known, equal)
        assert known is not None
        expect(known, "dtype", _carrier_text(buffer.dtype, carriers), tensor)
        strides = buffer.strides or _strides(buffer.shape)
        _require_whole_bytes(self.function, buffer)
        lanes = buffer.dtype.lanes
        for axis, extent in enumerate(buffer.shape):
            got = field(tensor, "shape", axis)
            if buffer.dtype.is_packed and axis == buffer.ndim - 1:
                got = binary("mul", got, 2)
            if lanes > 1 and axis == buffer.ndim - 1:
                whole = binary("eq", binary("floormod", got, lanes), 0)
                expect(whole, f"shape[{axis}]", f"a multiple of {lanes}", got)
                got = binary("floordiv", got, lanes)
            out += self._dimension(buffer, "shape", axis, extent, got, may_define)
        for axis, stride in enumerate(strides):
            out += self._stride(buffer, tensor, axis, stride, may_define and bool(buffer.strides))
        device = field(tensor, "device_type")
        expect(binary("eq", device, DEVICE_TYPES[self.device]), "device", self.device, tensor)
        if self.anchor is not None and tensor is not self.anchor:
            same: Expr = host_call("same_device", self.anchor, tensor, dtype=DType("bool"))
            if self.anchor_index is not None:  # it may be None
                same = binary("or", arg_is(self.anchor_index, "none"), same)
            expect(same, "device", "the first tensor's device", tensor)
        empty: Expr | None = None
        for axis in range(buffer.ndim):
            zero = binary("eq", field(tensor, "shape", axis), 0)
            empty = zero if empty is None else binary("or", empty, zero)
        stored = binary("ne", field(tensor, "data"), const(0, HANDLE))
        expect(stored if empty is None else binary("or", stored, empty), "storage", "a tensor with storage", "none")
        if buffer.align > 1:
            past = past_multiple(field(tensor, "data"), buffer.align)
            expect(binary("eq", past, 0), "alignment", f"a multiple of {buffer.align} bytes", past)
        return out

    def _dimension(
        self, buffer: Buffer, name: str, axis: int, expected: Expr, got: Expr, may_define: bool
    ) -> list[Stmt]:
        unbound = [v for v in _vars(expected) if v not in self.bound]
        if not unbound:
            return self._equal(buffer, name, axis, expected, got)
        if not may_define or len(unbound) > 1:
            self.later.append((buffer, name, axis, expected, got))
            return []
        var = unbound[0]
        solved = _solve(expected, var, got)
        if solved is None:
            self.later.append((buffer, name, axis, expected, got))
            return []
        self.bound[var] = None
        out: list[Stmt] = []
        if var.dtype.bits < 64 and self.validate:
            fits = binary("le", got, const(var.dtype.max_value, INT64))
            out.append(check(fits, buffer.name, f"{name}[{axis}]", f"at most {var.dtype.max_value}", got, buffer.span))
        out.append(Bind(var, cast(solved, var.dtype), span=buffer.span))
        if expected is not var:
            out += self._equal(buffer, name, axis, expected, got)
        return out

    def _stride(self, buffer: Buffer, tensor: Var, axis: int, expected: Expr, may_define: bool) -> list[Stmt]:
        got = field(tensor, "stride", axis)
        if buffer.dtype.is_packed and axis != buffer.ndim - 1:
            got = binary("mul", got, 2)
        if buffer.dtype.lanes > 1 and axis != buffer.ndim - 1:
            expected = binary("mul", expected, buffer.dtype.lanes)
        found = self._dimension(buffer, "strides", axis, expected, got, may_define)
        # The stride of an axis with one element is never used, nor are any of an empty tensor; whoever made
        # the tensor may have left anything.
        unused: Expr = binary("le", field(tensor, "shape", axis), 1)
        for other in range(buffer.ndim):
            if other != axis:
                unused = binary("or", unused, binary("eq", field(tensor, "shape", other), 0))
        return [s if isinstance(s, Bind) else _relaxed(s, unused) for s in found]

    def _equal(self, buffer: Buffer, name: str, axis: int, expected: Expr, got: Expr) -> list[Stmt]:
        if not self.validate:
            return []
        wide = _widen(expected)
        return [check(binary("eq", got, wide), buffer.name, f"{name}[{axis}]", wide, got, span=buffer.span)]

    def _all_bound(self) -> None:
        for var in _body_sizes(self.function):
            if var not in self.bound:
                raise CompileError(
                    "E-ABI-SIZE",
                    f"{self.function.name}: no input defines the size {var.name}",
                    span=var.span or self.function.span,
                    facts=[f"inputs: {', '.join(repr(p) for p, _ in self.inputs) or 'none'}"],
                    help=f"give an input a dimension that is {var.name} itself, or pass {var.name} as a scalar",
                )

    def _output(self, position: int, param: Any) -> Stmt:
        if not isinstance(param, Buffer):
            raise CompileError(
                "E-ABI-OUTPUT",
                f"{self.function.name}: out_idx names {param.name}, which is not a tensor",
                span=param.span,
                help="list only positions of tensor parameters in out_idx",
            )
        handle = Var(f"{param.name}_tensor", HANDLE)
        self.handles[param] = handle
        like: Expr = self.anchor if self.anchor is not None else const(0, HANDLE)
        _require_whole_bytes(self.function, param)
        shape = [_widen(e) for e in param.shape]
        if param.dtype.lanes > 1:
            shape[-1] = binary("mul", shape[-1], param.dtype.lanes)
        if param.dtype.is_packed:
            shape[-1] = binary("floordiv", shape[-1], 2)
        word = next(iter(carrier_words(param.dtype).values()))
        call = host_call("alloc_output", position, like, word, *shape, dtype=HANDLE)
        return Bind(handle, call, span=param.span)

    def _launches(self, body: Stmt) -> Stmt:
        """The body with each launch taking the addresses that the tensors hold now."""
        addresses = {b: Var(f"{b.name}_data", HANDLE) for b in self.handles if b in self.used}
        binds = [Bind(var, field(self.handles[b], "data"), span=b.span) for b, var in addresses.items()]
        return seq(*binds, _TakeAddresses(addresses, self._workspace).rewrite(body))

    def _workspace(self, buffer: Buffer) -> tuple[Var, list[Stmt]]:
        """(the address of a workspace, statements that allocate it)."""
        handle, address = Var(f"{buffer.name}_tensor", HANDLE), Var(f"{buffer.name}_data", HANDLE)
        like: Expr = self.anchor if self.anchor is not None else const(0, HANDLE)
        size: Expr = const(1, INT64)
        for extent in buffer.shape:
            size = binary("mul", size, _widen(extent))
        bits = binary("mul", size, const(buffer.dtype.storage_bits, INT64))
        size = binary("floordiv", binary("add", bits, const(7, INT64)), const(8, INT64))
        call = host_call("alloc_workspace", like, dtype_word(DType("uint8")), size, dtype=HANDLE)
        return address, [Bind(handle, call, span=buffer.span), Bind(address, field(handle, "data"), span=buffer.span)]


class _TakeAddresses(Rewriter):
    def __init__(self, addresses: dict[Buffer, Var], workspace: Callable[[Buffer], tuple[Var, list[Stmt]]]) -> None:
        super().__init__()
        self.addresses = addresses
        self.workspace = workspace

    def rewrite_Block(self, node: Block) -> Stmt | None:
        stmts: list[Stmt] = []
        for buffer in node.allocations:
            self.addresses[buffer], allocation = self.workspace(buffer)
            stmts += allocation
        return seq(*stmts, self.rewrite(node.body))

    def rewrite_AccessPtr(self, node: AccessPtr) -> Expr:
        return self.addresses[_root(node.buffer)]


def _carrier_text(dtype: DType, carriers: dict[str, int]) -> str:
    names = " or ".join(carriers)
    if dtype.is_packed and dtype.lanes == 1:
        return f"{names} with two {dtype} in a byte"
    if dtype.lanes > 1:
        return f"{names} with the lanes of {dtype} side by side"
    return names if str(dtype) in carriers else f"{names} with the bits of {dtype}"


def _require_whole_bytes(function: PrimFunc, buffer: Buffer) -> None:
    """Rows of four-bit elements fill whole bytes: torch has no smaller stride."""
    if buffer.dtype.lanes > 1 and not buffer.shape:
        raise CompileError(
            "E-ABI-VECTOR",
            f"{function.name}: {buffer.name} holds {buffer.dtype} and has no dimension",
            span=buffer.span,
            help="give it a last dimension, whose elements are the vectors",
        )
    if not buffer.dtype.is_packed:
        return
    last = buffer.shape[-1] if buffer.shape else None
    stride = buffer.strides[-1] if buffer.strides else None
    odd = last is None or (isinstance(last, IntImm) and last.value * buffer.dtype.lanes % 2)
    if odd or (stride is not None and not (isinstance(stride, IntImm) and stride.value == 1)):
        found = (
            "no dimension" if last is None else f"a last dimension of {last!r}" if odd else f"a stride of {stride!r}"
        )
        raise CompileError(
            "E-ABI-NIBBLES",
            f"{function.name}: {buffer.name} holds {buffer.dtype}, two a byte, and its rows do not fill whole bytes",
            span=buffer.span,
            facts=[f"it has {found}"],
            help="give it a contiguous last dimension of even extent",
        )


def _relaxed(stmt: Stmt, unused: Expr) -> Stmt:
    call = stmt.value  # type: ignore[attr-defined]
    ok, *rest = call.args
    return stmt.with_(value=call.with_(args=(binary("or", ok, unused), *rest)))


def _strides(shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    strides: list[Expr] = []
    running: Expr = const(1, INT64)
    for extent in reversed(shape):
        strides.append(running)
        running = binary("mul", running, _widen(extent))
    return tuple(reversed(strides))


def _widen(expr: Expr) -> Expr:
    """The same value computed in 64 bits, so that products of sizes cannot overflow."""
    if isinstance(expr, IntImm):
        return IntImm(expr.value, INT64, span=expr.span)
    if isinstance(expr, Binary) and expr.dtype.is_int:
        return binary(expr.op, _widen(expr.a), _widen(expr.b), expr.span)
    return cast(expr, INT64) if expr.dtype.is_int else expr


def _solve(expected: Expr, var: Var, got: Expr) -> Expr | None:
    """`var` from `expected == got` when expected is linear in it: v, v·c, c·v, v ± c, c + v, v // c is not; or None."""
    if expected is var:
        return got
    if not isinstance(expected, Binary):
        return None
    a, b = expected.a, expected.b
    inside, constant = (a, b) if var in _vars(a) else (b, a)
    if var in _vars(constant):
        return None
    constant = _widen(constant)
    if expected.op == "mul":
        return _solve(inside, var, binary("floordiv", got, constant))
    if expected.op == "add":
        return _solve(inside, var, binary("sub", got, constant))
    if expected.op == "sub":
        value = binary("add", got, constant) if inside is a else binary("sub", constant, got)
        return _solve(inside, var, value)
    return None


def _vars(expr: Expr) -> list[Var]:
    return [n for n in walk(expr) if isinstance(n, Var)]


def _sizes(buffer: Buffer) -> list[Var]:
    return [v for e in (*buffer.shape, *buffer.strides) for v in _vars(e) if isinstance(v, SizeVar)]


def _root(buffer: Buffer) -> Buffer:
    while buffer.data is not None:
        buffer = buffer.data
    return buffer


def _used_buffers(function: PrimFunc) -> set[Buffer]:
    return {_root(n.buffer) for n in walk(function.body) if isinstance(n, AccessPtr)}


def _body_sizes(function: PrimFunc) -> list[Var]:
    """Shape variables that the body or the outputs' shapes need."""
    outputs = [function.params[i] for i in function.attr("out_idx", ())]
    found = [n for n in walk(function.body) if isinstance(n, SizeVar)]
    for output in outputs:
        if isinstance(output, Buffer):
            found += _sizes(output)
    return list(dict.fromkeys(found))


def _value(condition: Expr) -> Any:
    """What a failed condition shows: the value of the one integer that it speaks of."""
    variables = list(dict.fromkeys(_vars(condition)))
    return _widen(variables[0]) if len(variables) == 1 and variables[0].dtype.is_int else "false"


def _peel_assumptions(body: Stmt) -> tuple[list[Expr], Stmt]:
    conditions: list[Expr] = []
    while isinstance(body, Attr) and body.key == "assume":
        if body.value is not None:
            conditions.append(body.value)
        body = body.body
    return conditions, body
