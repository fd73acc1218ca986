"""Element types: one interned `DType` for each (code, bits, lanes).

The table below is the whole truth about scalar types; vector types are the same with lanes. Nothing here needs numpy
or torch: conversions
take names and objects and look at their `__name__` or string form.
"""

from __future__ import annotations

from typing import Any, ClassVar

from .errors import CompileError, declare_codes

__all__ = ["DType", "SCALAR_NAMES", "as_dtype", "carrier_names", "promote"]

declare_codes({"E-DTYPE": "a name or value that is not an element type"})

# name: (kind, bits). Kinds: b bool, i int, u uint, f IEEE-like float of any width, h handle, v void.
_SCALARS: dict[str, tuple[str, int]] = {
    "bool": ("b", 8),
    "int4": ("i", 4),
    "int8": ("i", 8),
    "int16": ("i", 16),
    "int32": ("i", 32),
    "int64": ("i", 64),
    "uint4": ("u", 4),
    "uint8": ("u", 8),
    "uint16": ("u", 16),
    "uint32": ("u", 32),
    "uint64": ("u", 64),
    "float16": ("f", 16),
    "bfloat16": ("f", 16),
    "float32": ("f", 32),
    "tfloat32": ("f", 32),
    "float64": ("f", 64),
    "float8_e3m4": ("f", 8),
    "float8_e4m3": ("f", 8),
    "float8_e4m3b11fnuz": ("f", 8),
    "float8_e4m3fn": ("f", 8),
    "float8_e4m3fnuz": ("f", 8),
    "float8_e5m2": ("f", 8),
    "float8_e5m2fnuz": ("f", 8),
    "float8_e8m0fnu": ("f", 8),
    "float6_e2m3fn": ("f", 6),
    "float6_e3m2fn": ("f", 6),
    "float4_e2m1fn": ("f", 4),
    "handle": ("h", 64),
    "void": ("v", 0),
}
SCALAR_NAMES = tuple(_SCALARS)
_ALIASES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "int": "int32",
    "uint": "uint32",
    "short": "int16",
    "long": "int64",
    "boolean": "bool",
    "int_": "int64",
    "bool_": "bool",
    "str": "handle",
}


class DType(str):
    """An element type. Interned: two equal types are the same object, so `is` and `==` agree.

    It is the text of its name too, as in TileLang: ``getattr(torch, T.float16)``, ``torch.dtype`` tables by name.

    Calling one converts: ``T.float16(x)`` casts an expression or makes a constant; the language room installs that
        behaviour.
    """

    __slots__ = ("bits", "kind", "lanes", "name", "scalar")
    _interned: ClassVar[dict[tuple[str, int], DType]] = {}
    convert: ClassVar[Any] = None

    name: str
    kind: str
    bits: int
    lanes: int
    scalar: DType

    def __new__(cls, name: str, lanes: int = 1) -> DType:
        found = cls._interned.get((name, lanes))
        if found is not None:
            return found
        kind, bits = _SCALARS[name]
        self = str.__new__(cls, name if lanes == 1 else f"{name}x{lanes}")
        self.kind, self.bits, self.lanes = kind, bits, lanes
        self.scalar = self if lanes == 1 else DType(name)
        self.name = str.__str__(self)
        return cls._interned.setdefault((name, lanes), self)

    def __reduce__(self):
        return DType, (self.scalar.name, self.lanes)

    def __repr__(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        """Equal to itself and to whatever names it: ``T.float16 == "float16"``."""
        return self is other or (isinstance(other, str) and _parse(other) is self)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.name)

    def __call__(self, value: Any = None, *more: Any) -> Any:
        if DType.convert is None:
            raise RuntimeError("import tile_core.language before converting with an element type")
        return DType.convert(self, value, *more)

    def with_lanes(self, lanes: int) -> DType:
        """The vector type with `lanes` elements of this scalar type."""
        return DType(self.scalar.name, lanes)

    @property
    def bytes(self) -> int:
        """Storage size in bytes of one value, rounded up (a bool takes one byte)."""
        return (self.bits * self.lanes + 7) // 8

    @property
    def storage_bits(self) -> int:
        """Bits that one value takes in memory: four-bit types lie two a byte (the first in the low half), six-bit types
        take a byte."""
        return (self.bits if self.bits in (4, 8) else (self.bits + 7) // 8 * 8) * self.lanes

    @property
    def is_packed(self) -> bool:
        """Whether elements, or the lanes of one, share bytes in memory."""
        return self.bits == 4

    def storage_bytes(self, count: int) -> int:
        """Bytes that `count` values take in memory."""
        return (self.storage_bits * count + 7) // 8

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    def is_float4_e2m1fn(self) -> bool:
        """Whether this is float4_e2m1fn, or a vector of them."""
        return self.scalar.name == "float4_e2m1fn"

    def is_float4(self) -> bool:
        """Whether this is a four-bit float, or a vector of them."""
        return self.kind == "f" and self.bits == 4

    def as_torch(self) -> Any:
        """The torch dtype of tensors with elements of this type: its own, or the bytes that carry it (see
        docs/language.md). A vector's is that of its lanes.

        Raises:
            CompileError: no tensor has such elements (handle, void), or torch is too old to know it.
        """
        import torch

        if self.kind in "biuf":
            for name in carrier_names(self):
                found = getattr(torch, name, None)
                if found is not None:
                    return found
        raise CompileError("E-DTYPE", f"no torch dtype carries {self}", help="use a number type")

    @property
    def is_int(self) -> bool:
        """Signed or unsigned integer, not bool."""
        return self.kind in "iu"

    @property
    def is_signed(self) -> bool:
        return self.kind in "if"

    @property
    def is_bool(self) -> bool:
        return self.kind == "b"

    @property
    def min_value(self) -> int:
        """Smallest value of an integer type."""
        return -(1 << (self.bits - 1)) if self.kind == "i" else 0

    @property
    def max_value(self) -> int:
        """Largest value of an integer type (1 for bool)."""
        if self.kind == "b":
            return 1
        return (1 << (self.bits - 1)) - 1 if self.kind == "i" else (1 << self.bits) - 1


# torch dtypes that tensors of a type have, where they are not the type itself.
_CARRIERS = {
    "int4": "int8",
    "uint4": "uint8",
    "float8_e3m4": "uint8",
    "float8_e4m3": "uint8",
    "float8_e4m3b11fnuz": "uint8",
    "float6_e2m3fn": "uint8",
    "float6_e3m2fn": "uint8",
    "float4_e2m1fn": "float4_e2m1fn_x2",
    "tfloat32": "float32",
}


def carrier_names(dtype: DType) -> tuple[str, ...]:
    """The torch dtypes of tensors that carry elements of a type; the first is what outputs are.

    A type of eight bits or fewer that is no plain integer may come as the bytes that hold it, in uint8. Four-bit types
    come two a byte, in int8, uint8 or (float4_e2m1fn) in pairs of their own. Vectors lie side by side in the last
    dimension.
    """
    scalar = dtype.scalar
    names = [_CARRIERS.get(scalar.name, scalar.name)]
    if scalar.bits == 4 or (scalar.is_float and scalar.bits <= 8):
        names.append("uint8")
    if scalar.is_float and scalar.bits in (6, 8):
        names.append(scalar.name)
    if scalar.bits == 4:
        names.append("int8")
    return tuple(dict.fromkeys(names))


def _parse(name: str) -> DType | None:
    name = _ALIASES.get(name, name)
    if name in _SCALARS:
        return DType(name)
    base, mark, lanes = name.rpartition("x")
    base = _ALIASES.get(base, base)
    if mark and lanes.isdecimal() and base in _SCALARS and int(lanes) > 1:
        return DType(base, int(lanes))
    return None


def as_dtype(value: Any) -> DType:
    """The element type that `value` names: a `DType`, a string, a torch or numpy dtype, or a Python type (int →
    int32, float → float32).

    Raises:
        CompileError: `value` names no element type.
    """
    if isinstance(value, DType):
        return value
    if value is float:
        return DType("float32")
    if value is int:
        return DType("int32")
    if value is bool:
        return DType("bool")
    name = (
        value
        if isinstance(value, str)
        else getattr(value, "name", None) or getattr(value, "__name__", None) or str(value)
    )
    found = _parse(str(name).removeprefix("torch."))
    if found is None:
        raise CompileError(
            "E-DTYPE",
            f"{value!r} is not an element type",
            help="use a name such as 'float16', a T.* type, a torch dtype or a numpy dtype",
        )
    return found


def promote(a: DType, b: DType) -> DType:
    """The type of `a op b`: float over int, then the wider, signed over unsigned at equal width. Two floats of which
    neither type holds the other's values (bfloat16 with float16, two types of eight bits or fewer, float8_e8m0fnu with
    float16) give float32."""
    if a is b:
        return a
    lanes = max(a.lanes, b.lanes)
    x, y = a.scalar, b.scalar
    if x is y:
        result = x
    elif x.is_float != y.is_float:
        result = x if x.is_float else y
    elif x.is_bool or y.is_bool:
        result = y if x.is_bool else x
    elif x.is_float and max(x.bits, y.bits) <= 16 and "float8_e8m0fnu" in (x.name, y.name):
        # Powers of two up to 2^127: of the narrow types only bfloat16 holds them.
        result = DType("bfloat16") if "bfloat16" in (x.name, y.name) else DType("float32")
    elif x.is_float and max(x.bits, y.bits) <= 8:
        result = DType("float32")
    elif x.bits != y.bits:
        result = x if x.bits > y.bits else y
    elif x.is_float:
        result = DType("float32") if x.bits <= 16 else (x if x.name == "float32" else y)
    else:
        result = x if x.kind == "i" else y
    return result.with_lanes(lanes)
