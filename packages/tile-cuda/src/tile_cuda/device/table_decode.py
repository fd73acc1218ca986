"""Device functions that decode packed small numbers into pairs of fp16 or bf16, without a conversion an element.

Each takes the numbers in the low bits of both halves of a word, the first in the low half. A logic instruction puts an
integer's bits into the mantissa of a constant (1024, or 128 in bf16) which is then subtracted; a float's bits are moved
to where they mean the same but for a power of two.
"""

from __future__ import annotations

from .row import device_function

__all__ = ["DECODERS"]

_MASK = {"fp16": ("0x64006400u", "0x00080008u", "0x64086408u"), "bf16": ("0x43004300u", "0x00080008u", "0x43084308u")}
_MULTIPLY = {
    "fp16": 'asm("mul.f16x2 %0, %1, %2;" : "=r"(r) : "r"({value}), "r"({factor}));',
    "bf16": 'asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"({value}), "r"({factor}), "r"(0x80008000u));',
}
_PAIR = "return uint32_t({0}({1}).bits) | uint32_t({0}({2}).bits) << 16;"
DECODERS = ("nibbles_fp16", "nibbles_bf16", "e2m1_fp16", "e2m1_bf16", "e4m3_fp16", "e5m2_fp16")

for _to in ("fp16", "bf16"):
    _base, _bias, _moved = _MASK[_to]
    _subtract = (
        'asm("sub.f16x2 %0, %1, %2;" : "=r"(r) : "r"(held), "r"(zero));'
        if _to == "fp16"
        else 'asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(held), "r"(0x3f803f80u), "r"(zero ^ 0x80008000u));'
    )
    device_function(
        f"nibbles_{_to}",
        f"template <bool Signed> uint32_t nibbles_{_to}(uint32_t word)",
        ["word"],
        template=("signed",),
        result="uint32",
        pure=True,
        minimum=75 if _to == "fp16" else 80,
        ptx=f"""
uint32_t held, r;
// (word & mask) ^ constant in one instruction; a signed number's highest bit is flipped on the way.
const uint32_t constant = {_base} ^ (Signed ? {_bias} : 0u), zero = Signed ? {_moved} : {_base};
asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(held) : "r"(word), "r"(0x000f000fu), "r"(constant));
{_subtract}
return r;
""",
        emulation=f"""
int low = int(word & 15), high = int(word >> 16 & 15);
if (Signed) low = (low ^ 8) - 8, high = (high ^ 8) - 8;
{_PAIR.format(_to, "low", "high")}
""",
        doc=f"two four-bit integers as {_to}",
    )

for _to, _shift, _factor in (("fp16", 9, "0x74007400u"), ("bf16", 6, "0x7e807e80u")):
    _value = f"((word & 0x00080008u) << 12) | ((word & 0x00070007u) << {_shift})"
    device_function(
        f"e2m1_{_to}",
        f"uint32_t e2m1_{_to}(uint32_t word)",
        ["word"],
        result="uint32",
        pure=True,
        minimum=75 if _to == "fp16" else 80,
        ptx="uint32_t r;\n" + _MULTIPLY[_to].format(value=_value, factor=_factor) + "\nreturn r;",
        emulation=_PAIR.format(_to, "float(e2m1::from(int(word & 15)))", "float(e2m1::from(int(word >> 16 & 15)))"),
        doc=f"two float4_e2m1fn as {_to}",
    )

device_function(
    "e4m3_fp16",
    "uint32_t e4m3_fp16(uint32_t word)",
    ["word"],
    result="uint32",
    pure=True,
    ptx="""
uint32_t r;
#if TILE_ARCH >= 89
asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(uint16_t((word & 0xff) | (word >> 8 & 0xff00))));
return r;
#else
const uint32_t magnitude = word & 0x007f007fu;
asm("mul.f16x2 %0, %1, %2;" : "=r"(r) : "r"(((word & 0x00800080u) << 8) | (magnitude << 7)), "r"(0x5c005c00u));
// All ones is NaN: the sum carries into the highest bit, which becomes an exponent of ones.
const uint32_t carry = (magnitude + 0x00010001u) & 0x00800080u;
return r | ((carry << 8) - carry);
#endif
""",
    emulation=_PAIR.format("fp16", "decode<e4m3_format>(uint8_t(word))", "decode<e4m3_format>(uint8_t(word >> 16))"),
    doc="two float8_e4m3fn as fp16",
)
device_function(
    "e5m2_fp16",
    "uint32_t e5m2_fp16(uint32_t word)",
    ["word"],
    result="uint32",
    pure=True,
    ptx="return (word & 0x00ff00ffu) << 8;",
    emulation="return (word & 0x00ff00ffu) << 8;",
    doc="two float8_e5m2 as fp16",
)
