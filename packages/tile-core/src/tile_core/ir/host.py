"""Host operations: the vocabulary of the function that checks arguments and launches kernels.

A host function is ordinary IR over these intrinsics, so that one set of checks serves every printer (C for compiled
stubs, Python for a launcher
without a host compiler). Argument `i` counts the caller's arguments; outputs that the callee allocates are not among
them.

    num_args()                        how many arguments came
    has_args()                        whether there is an array of arguments (a C caller may pass NULL)
    arg_is(i, kind)                   whether argument i is of a kind: tensor, none, int, float, bool, handle
    arg_tensor(i)                     argument i as a tensor handle
    arg_scalar(i)                     argument i converted to the call's type
    field(tensor, name, k)            ndim, dtype (one word), shape k, stride k, device_type, device_id, data;
                                      `stride` of a tensor without strides is
                                      row-major's
    address(pointer)                  a pointer as a number
    same_device(a, b)                 whether two tensors live on one device
    check(ok, argument, field, expected, got)   raises ArgumentError unless ok
    alloc_output(k, like, dtype, shape…)        output k, a new tensor on the device of `like`
    alloc_workspace(like, dtype, shape…)        device memory that is given back when the function returns
    launch(kernel, grid x, y, z, threads x, y, z, shared bytes, args…)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..dtypes import DType, carrier_names
from .expr import Call, Expr, IntImm, StringImm, as_expr, binary, const
from .intrinsics import Intrinsic, register_intrinsic
from .stmt import Evaluate

__all__ = [
    "DTYPE_CODES",
    "FIELDS",
    "HOST_OPS",
    "ArgumentRules",
    "arg_is",
    "carrier_words",
    "check",
    "dtype_word",
    "field",
    "host_call",
    "past_multiple",
]

BOOL = DType("bool")
INT32 = DType("int32")
INT64 = DType("int64")
HANDLE = DType("handle")

FIELDS = ("ndim", "dtype", "shape", "stride", "device_type", "device_id", "data")

# DLPack's DLDataTypeCode.
DTYPE_CODES = {
    "i": 0,
    "u": 1,
    "f": 2,
    "h": 3,
    "bfloat16": 4,
    "b": 6,
    "float8_e3m4": 7,
    "float8_e4m3": 8,
    "float8_e4m3b11fnuz": 9,
    "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11,
    "float8_e5m2": 12,
    "float8_e5m2fnuz": 13,
    "float8_e8m0fnu": 14,
    "float6_e2m3fn": 15,
    "float6_e3m2fn": 16,
    "float4_e2m1fn": 17,
}

HOST_OPS = tuple(
    register_intrinsic(Intrinsic(f"host.{name}", arity, "given", pure, effect, doc))
    for name, arity, pure, effect, doc in (
        ("has_args", 0, True, "none", "whether there is an array of arguments"),
        ("num_args", 0, True, "none", "number of arguments"),
        ("arg_is", 2, True, "none", "whether an argument is of a kind"),
        ("arg_tensor", 1, True, "none", "an argument as a tensor"),
        ("arg_scalar", 1, True, "none", "an argument as a number"),
        ("field", 3, True, "none", "a field of a tensor"),
        ("address", 1, True, "none", "a pointer as a number"),
        ("same_device", 2, True, "none", "whether two tensors share a device"),
        ("check", 5, False, "opaque", "raises unless the condition holds"),
        ("alloc_output", None, False, "opaque", "a new tensor from the caller's allocator"),
        ("alloc_workspace", None, False, "opaque", "device memory for as long as the function runs"),
        ("launch", None, False, "opaque", "runs a kernel"),
    )
)


def dtype_word(dtype: DType) -> int:
    """The DLPack type as one word: code | bits << 8 | lanes << 16."""
    scalar = dtype.scalar
    code = DTYPE_CODES.get(scalar.name, DTYPE_CODES[scalar.kind])
    return code | scalar.bits << 8 | dtype.lanes << 16


def carrier_words(dtype: DType) -> dict[str, int]:
    """The tensors that carry elements of a type, name → DLPack type as one word; the first is what outputs are."""
    pairs = {"float4_e2m1fn_x2": DTYPE_CODES["float4_e2m1fn"] | 4 << 8 | 2 << 16}
    return {name: pairs[name] if name in pairs else dtype_word(DType(name)) for name in carrier_names(dtype)}


@dataclass(frozen=True)
class ArgumentRules:
    """What the checks of a call let pass besides what the signature says.

    Args:
        families: element types that pass for one another, a tuple for each family.
        tensors: whether the types and sizes of tensors are checked at all.
    """

    families: tuple[tuple[str, ...], ...] = ()
    tensors: bool = True

    def carriers(self, dtype: DType) -> dict[str, int]:
        """What tensors of `dtype` may come as, like `carrier_words`."""
        carriers = carrier_words(dtype)
        for family in self.families:
            if dtype.name in family:
                carriers.update({name: dtype_word(DType(name)) for name in family if name not in carriers})
        return carriers


def host_call(op: str, *args: Any, dtype: DType = INT32) -> Call:
    """A call of the host operation `op`."""
    return Call(f"host.{op}", tuple(as_expr(a) for a in args), dtype)


def field(tensor: Expr, name: str, axis: int = 0) -> Call:
    """A field of a tensor; integers are int64, `data` is a handle."""
    if name not in FIELDS:
        raise ValueError(f"tensor field {name!r} is not one of {', '.join(FIELDS)}")
    return host_call("field", tensor, StringImm(name), axis, dtype=HANDLE if name == "data" else INT64)


def arg_is(index: int, kind: str) -> Call:
    """Whether argument `index` is of `kind`."""
    return host_call("arg_is", IntImm(index), StringImm(kind), dtype=BOOL)


def past_multiple(pointer: Expr, unit: int) -> Expr:
    """Bytes that an address lies past a multiple of `unit`."""
    return binary("floormod", host_call("address", pointer, dtype=INT64), const(unit, INT64))


def check(ok: Expr, argument: str, field_name: str, expected: Any, got: Any, span: Any = None) -> Evaluate:
    """Raises ArgumentError for `field_name` of `argument` unless `ok`; expected and got are numbers or texts."""
    call = host_call("check", ok, StringImm(argument), StringImm(field_name), _side(expected), _side(got))
    return Evaluate(call, span=span)


def _side(value: Any) -> Expr:
    return StringImm(value) if isinstance(value, str) else const(value, INT64) if isinstance(value, int) else value
