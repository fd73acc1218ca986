"""The C++ text about element types that device headers share: formats from the table, then conversions by its rules."""

from __future__ import annotations

from pathlib import Path

from ..casts import FORMATS, FloatFormat
from ..dtypes import DType
from ..errors import CompileError, InternalError, declare_codes
from ..ir import Binary, Buffer, Call, Cast, Expr, IntImm, StringImm, Unary, cast, find_intrinsic

__all__ = [
    "CPP_NUMBERS",
    "SHARED_TEXTS",
    "computed_wider",
    "conversion",
    "holds_nibbles",
    "nibble_pointer",
    "shared_text",
    "to_tf32",
    "view_pointer",
]

declare_codes({"E-VIEW-NIBBLES": "a view of four-bit elements in registers as another width"})

# Types without arithmetic of their own, and where it is done; the result is brought back by a conversion.
_COMPUTED_AS = {"int4": DType("int32"), "uint4": DType("int32"), "tfloat32": DType("float32")}
_ROUNDING_NAMES = {"rn": "nearest", "rz": "zero", "rp": "up", "rm": "down", "rs": "stochastic"}

# Parts of the device headers of several backends.
SHARED_TEXTS = ("numbers", "formats", "functions")

# The C++ type of each element type, in namespace tile where it is none of the language's own.
CPP_NUMBERS = {
    "bool": "bool",
    "int4": "i4",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint4": "u4",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "float16": "fp16",
    "bfloat16": "bf16",
    "tfloat32": "float",
    "float32": "float",
    "float64": "double",
    "float8_e3m4": "e3m4",
    "float8_e4m3": "e4m3ieee",
    "float8_e4m3b11fnuz": "e4m3b11",
    "float8_e4m3fn": "e4m3",
    "float8_e4m3fnuz": "e4m3fnuz",
    "float8_e5m2": "e5m2",
    "float8_e5m2fnuz": "e5m2fnuz",
    "float8_e8m0fnu": "e8m0",
    "float6_e2m3fn": "e2m3",
    "float6_e3m2fn": "e3m2",
    "float4_e2m1fn": "e2m1",
}
_FORMAT_NAMES = {"float32": "fp32", "float64": "fp64", "tfloat32": "tf32"}


def shared_text(name: str) -> str:
    """One of `SHARED_TEXTS`, without the namespace around it: `numbers` (formats, conversions, the types of a byte or
    less), `formats` (the format of each type), `functions` (of scalars)."""
    text = (Path(__file__).parent / f"{name}.h").read_text(encoding="utf-8")
    if name != "numbers":
        return text
    formats = [_format(_FORMAT_NAMES.get(dtype, CPP_NUMBERS[dtype]), form) for dtype, form in FORMATS.items()]
    names = [CPP_NUMBERS[dtype] for dtype, form in FORMATS.items() if form.bits <= 8]
    small = [f"using {dtype} = small_float<{dtype}_format>;" for dtype in names]
    return "\n".join([*formats, "", text, *small]) + "\n"


def computed_wider(node: Expr) -> Expr | None:
    """An operation on int4, uint4 or tfloat32 as one on a wider type between conversions; None for other nodes."""
    if isinstance(node, Binary) and node.a.dtype.scalar.name in _COMPUTED_AS:
        a = node.a.dtype
        wide = _COMPUTED_AS[a.scalar.name].with_lanes(a.lanes)
        result = Binary(node.op, cast(node.a, wide), cast(node.b, wide), span=node.span)
        return result if node.dtype.is_bool else Cast(node.dtype, result, span=node.span)
    if isinstance(node, Unary) and node.dtype.scalar.name in _COMPUTED_AS:
        wide = _COMPUTED_AS[node.dtype.scalar.name].with_lanes(node.dtype.lanes)
        return Cast(node.dtype, Unary(node.op, cast(node.a, wide), span=node.span), span=node.span)
    if not isinstance(node, Call) or not node.args or node.op in ("reinterpret", "likely", "convert"):
        return None
    first = node.args[0].dtype
    if first.scalar.name not in _COMPUTED_AS or "." in node.op or not find_intrinsic(node.op).pure:
        return None
    wide = _COMPUTED_AS[first.scalar.name].with_lanes(first.lanes)
    arguments = [cast(a, wide) if a.dtype.scalar.name in _COMPUTED_AS else a for a in node.args]
    if node.op in ("popcount", "clz"):
        # Only the low four bits are the value's.
        arguments = [Binary("bitand", a, cast(IntImm(15), wide)) for a in arguments]
    if not (node.dtype.is_bool or node.dtype.scalar is first.scalar):
        return node.with_(args=tuple(arguments))
    result: Expr = node.with_(args=tuple(arguments), dtype=node.dtype if node.dtype.is_bool else wide)
    if node.op == "clz":
        result = Binary("sub", result, cast(IntImm(28), wide))
    return result if node.dtype.is_bool else Cast(node.dtype, result, span=node.span)


def holds_nibbles(buffer: Buffer) -> bool:
    """Whether a buffer's elements of four bits lie two a byte: in global and shared memory. In registers each has a
    byte."""
    root = buffer
    while root.data is not None:
        root = root.data
    return buffer.dtype.scalar.bits == 4 and root.scope not in ("fragment", "local", "var")


def nibble_pointer(type_name: str, visible: bool) -> str:
    """The C++ type that stands for a pointer to elements of four bits; `visible` where other threads write them."""
    return f"tile::nibbles<{type_name}, {str(visible).lower()}>"


def view_pointer(buffer: Buffer, base: str, type_name: str, visible: bool) -> str:
    """A view's address, made of the address `base` in the buffer that it is a view of.

    Raises:
        CompileError: elements of four bits in registers are seen as another width (E-VIEW-NIBBLES).
    """
    source = buffer.data
    assert source is not None
    if source.dtype.scalar is buffer.dtype.scalar:
        return base
    target = holds_nibbles(buffer)
    if (source.dtype.scalar.bits == 4 or buffer.dtype.scalar.bits == 4) and not (target or holds_nibbles(source)):
        raise CompileError(
            "E-VIEW-NIBBLES",
            f"{buffer.name} sees {source.dtype} elements in registers as {buffer.dtype}",
            span=buffer.span,
            facts=["elements of four bits take a byte each in registers, two a byte in shared and global memory"],
            help="view a shared tile, or T.reinterpret vectors of the elements",
        )
    address = f"{base}.bytes()" if holds_nibbles(source) else base
    return f"{nibble_pointer(type_name, visible)}({address})" if target else f"(({type_name}*){address})"


def conversion(node: Call, type_name: str, value: str, random: str | None) -> str:
    """A ``convert`` call as C++: a mode, and whether it saturates."""
    mode = node.args[0]
    if not isinstance(mode, StringImm):
        raise InternalError("E-INTERNAL", "convert takes its mode as a constant", span=node.span)
    rounding, _, flag = mode.value.partition("-")
    saturate = "false" if flag else "true"
    to = "tile::tf32" if node.dtype.scalar.name == "tfloat32" else type_name
    tail = f", {random}" if random is not None else ""
    return f"tile::convert_by<{to}, tile::rounding::{_ROUNDING_NAMES[rounding]}, {saturate}>({value}{tail})"


def to_tf32(source: DType, value: str) -> str:
    """A value of type `source` as tfloat32, in C++."""
    exact = source.scalar.bits <= 16 or source.scalar.name == "float32"
    if exact:
        return f"tile::to_tf32({value if source.scalar.name == 'float32' else f'tile::convert<float>({value})'})"
    return f"tile::convert_by<tile::tf32, tile::rounding::nearest, true>({value})"


def _format(name: str, form: FloatFormat) -> str:
    def bits(value: int | None) -> str:
        return "-1" if value is None else f"{value:#x}" + ("ll" if value > 0x7FFFFFFF else "")

    beyond = form.infinity if form.infinity is not None else form.nan if form.nan is not None else form.largest
    return (
        f"struct {name}_format {{\n"
        f"  static constexpr int bits = {form.bits}, exponent = {form.exponent}, mantissa = {form.mantissa}, "
        f"bias = {form.bias};\n"
        f"  static constexpr long long largest = {bits(form.largest)}, infinity = {bits(form.infinity)}, "
        f"nan = {bits(form.nan)}, beyond = {bits(beyond)};\n"
        f"  static constexpr bool is_signed = {str(form.signed).lower()}, "
        f"negative_zero = {str(form.specials not in ('fnuz', 'scale')).lower()}, "
        f"specials_fn = {str(form.specials == 'fn').lower()};\n"
        "};"
    )
