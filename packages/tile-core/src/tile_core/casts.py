"""What a conversion between element types does: the float formats, and the rules, as data.

The interpreter reads the tables here; the device headers of the C++ backends are made from them (codegen.numbers), and
so is the page docs/reference/casts.md. A conversion takes the exact value of the source and rounds once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from .dtypes import SCALAR_NAMES, DType
from .errors import CompileError, declare_codes

__all__ = [
    "FORMATS",
    "ROUNDINGS",
    "CastRule",
    "FloatFormat",
    "cast_rule",
    "check_cast",
    "constant_bits",
    "number_types",
    "round_constant",
]

declare_codes({"E-CAST": "a conversion with a rounding mode or an option that its types do not have"})


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A float type's bits: sign, then `exponent` bits with `bias`, then `mantissa` bits.

    Args:
        specials: which encodings are no numbers. ``ieee``: the highest exponent holds infinities and NaN. ``fn``: no
            infinities; all ones is NaN. ``fnuz``: no infinities, no negative zero, whose encoding is NaN. ``finite``:
            none. ``scale``: a power of two without sign and without zero; all ones is NaN.
    """

    exponent: int
    mantissa: int
    bias: int
    specials: str

    @property
    def signed(self) -> bool:
        """Whether there is a sign bit."""
        return self.specials != "scale"

    @property
    def bits(self) -> int:
        """Bits with the sign."""
        return self.signed + self.exponent + self.mantissa

    @property
    def largest(self) -> int:
        """Magnitude bits of the largest finite value."""
        ones = (1 << (self.exponent + self.mantissa)) - 1
        if self.specials == "ieee":
            return ones - (1 << self.mantissa)
        return ones - 1 if self.specials in ("fn", "scale") else ones

    @property
    def infinity(self) -> int | None:
        """Magnitude bits of infinity."""
        return self.largest + 1 if self.specials == "ieee" else None

    @property
    def nan(self) -> int | None:
        """All bits of the NaN that conversions give."""
        ones = (1 << (self.exponent + self.mantissa)) - 1
        if self.specials == "fnuz":
            return 1 << (self.bits - 1)
        return None if self.specials == "finite" else ones

    @property
    def largest_value(self) -> float:
        """The largest finite value."""
        return self.value(self.largest)

    @property
    def least_exponent(self) -> int:
        """The exponent of the smallest normal value."""
        return (0 if self.specials == "scale" else 1) - self.bias

    def value(self, magnitude: int) -> float:
        """The value of finite magnitude bits."""
        field, fraction = magnitude >> self.mantissa, magnitude & ((1 << self.mantissa) - 1)
        if self.specials == "scale":
            return 2.0 ** (field - self.bias)
        hidden = 1 << self.mantissa if field else 0
        return (hidden + fraction) * 2.0 ** (max(field, 1) - self.bias - self.mantissa)


FORMATS: dict[str, FloatFormat] = {
    "float16": FloatFormat(5, 10, 15, "ieee"),
    "bfloat16": FloatFormat(8, 7, 127, "ieee"),
    "tfloat32": FloatFormat(8, 10, 127, "ieee"),
    "float32": FloatFormat(8, 23, 127, "ieee"),
    "float64": FloatFormat(11, 52, 1023, "ieee"),
    "float8_e3m4": FloatFormat(3, 4, 3, "ieee"),
    "float8_e4m3": FloatFormat(4, 3, 7, "ieee"),
    "float8_e4m3b11fnuz": FloatFormat(4, 3, 11, "fnuz"),
    "float8_e4m3fn": FloatFormat(4, 3, 7, "fn"),
    "float8_e4m3fnuz": FloatFormat(4, 3, 8, "fnuz"),
    "float8_e5m2": FloatFormat(5, 2, 15, "ieee"),
    "float8_e5m2fnuz": FloatFormat(5, 2, 16, "fnuz"),
    "float8_e8m0fnu": FloatFormat(8, 0, 127, "scale"),
    "float6_e2m3fn": FloatFormat(2, 3, 1, "finite"),
    "float6_e3m2fn": FloatFormat(3, 2, 3, "finite"),
    "float4_e2m1fn": FloatFormat(2, 1, 1, "finite"),
}

# What T.cast(round=…) takes.
ROUNDINGS: dict[str, str] = {
    "rn": "to nearest, ties to even",
    "rz": "towards zero",
    "rp": "towards plus infinity",
    "rm": "towards minus infinity",
    "rs": "stochastically: away from zero when the dropped fraction, as 32 bits, plus rbits reaches 2^32",
}


@dataclass(frozen=True, slots=True)
class CastRule:
    """The conversion from one scalar type to another.

    Args:
        roundings: the modes that it takes, the default first; empty where every value is exact or bits are kept.
        outside: what becomes of a value beyond the target's range. ``wraps`` (integers keep their low bits), ``clamps``
            (the nearest value of the integer type), ``infinity``, ``saturates`` (the largest finite value; with
            sat=False infinity, else NaN, else the largest again, by what the type has), ``truth`` (bool: not zero).
        nan: what NaN becomes: ``nan``, ``0``, ``largest`` (types without NaN), ``true``, or ``none`` where the source
            has no NaN.
    """

    source: DType
    target: DType
    roundings: tuple[str, ...]
    outside: str
    nan: str

    @property
    def takes_saturation(self) -> bool:
        """Whether sat=False means something."""
        return self.outside == "saturates"


def cast_rule(source: DType, target: DType) -> CastRule:
    """The rule for converting `source` to `target` (their scalar types count).

    Raises:
        CompileError: one of them is no number (E-CAST).
    """
    source, target = source.scalar, target.scalar
    for dtype in (source, target):
        if dtype.kind not in "biuf":
            raise CompileError(
                "E-CAST",
                f"{source} cannot be converted to {target}",
                facts=[f"{dtype} is no number"],
                help="convert numbers; T.reinterpret sees the bits of a value as another type",
            )
    has_nan = source.is_float and FORMATS[source.name].nan is not None
    if target.is_bool:
        return CastRule(source, target, (), "truth", "true" if has_nan else "none")
    if not target.is_float:
        if not source.is_float:
            return CastRule(source, target, (), "wraps", "none")
        return CastRule(source, target, ("rz", "rn", "rp", "rm"), "clamps", "0" if has_nan else "none")
    nan = "none" if not has_nan else "nan" if FORMATS[target.name].nan is not None else "largest"
    return CastRule(source, target, tuple(ROUNDINGS), "saturates" if target.bits <= 8 else "infinity", nan)


def check_cast(source: DType, target: DType, rounding: str, random_bits: bool) -> str:
    """The rounding mode in full ("" means the default).

    Raises:
        CompileError: the rule has no such mode, or random bits are missing or given without use (E-CAST).
    """
    rule = cast_rule(source, target)
    if rounding not in ("", *ROUNDINGS):
        raise CompileError(
            "E-CAST",
            f"T.cast has no rounding mode {rounding!r}",
            facts=[f"allowed: {', '.join(f'{k} ({v})' for k, v in ROUNDINGS.items())}"],
            help="leave out round for the default",
        )
    if rounding and rounding not in rule.roundings:
        allowed = ", ".join(rule.roundings) or "none, it is exact"
        raise CompileError(
            "E-CAST",
            f"{source} to {target} does not round by {rounding!r}",
            facts=[f"allowed: {allowed}"],
            help="leave out round",
        )
    if (rounding == "rs") != random_bits:
        raise CompileError(
            "E-CAST",
            "stochastic rounding and rbits go together",
            facts=[f"found round={rounding!r} {'with' if random_bits else 'without'} rbits"],
            help="write T.cast(value, dtype, round='rs', rbits=T.uint32(…)), or leave out both",
        )
    return rounding or (rule.roundings[0] if rule.roundings else "")


def round_constant(value: float, dtype: DType) -> float:
    """What a number becomes as a constant of a float type: the default conversion, in plain Python."""
    form = FORMATS[dtype.scalar.name]
    if dtype.scalar.name == "float64" or value != value:
        return value if value == value or form.nan is not None else form.largest_value
    if not form.signed and value <= 0:
        return form.value(0)
    size = abs(value)
    if size != math.inf and size != 0:
        place = max(math.frexp(size)[1] - 1, form.least_exponent) - form.mantissa
        # Python rounds ties to even; the scaled number is exact.
        size = math.ldexp(round(math.ldexp(size, -place)), place)
        if not form.signed:
            size = max(size, form.value(0))
    if size > form.largest_value:
        size = form.largest_value if dtype.scalar.bits <= 8 else math.inf
    if size == 0 and form.specials == "fnuz":
        return 0.0
    return math.copysign(size, value)


def constant_bits(value: float, dtype: DType) -> int:
    """The bits of a number as a constant of a float type of 19 bits or fewer."""
    form = FORMATS[dtype.scalar.name]
    rounded = round_constant(value, dtype)
    if rounded != rounded:
        return form.nan or 0
    sign = 1 << (form.exponent + form.mantissa) if form.signed and math.copysign(1.0, rounded) < 0 else 0
    size = abs(rounded)
    if size == math.inf:
        return sign | (form.infinity or 0)
    if not form.signed:
        return math.frexp(size)[1] - 1 + form.bias
    exponent = max(math.frexp(size)[1] - 1, form.least_exponent) if size else form.least_exponent
    whole = int(math.ldexp(size, form.mantissa - exponent))
    return sign | whole + ((exponent - form.least_exponent) << form.mantissa)


def number_types() -> tuple[DType, ...]:
    """Every scalar type that conversions know."""
    return tuple(DType(name) for name in SCALAR_NAMES if DType(name).kind in "biuf")
