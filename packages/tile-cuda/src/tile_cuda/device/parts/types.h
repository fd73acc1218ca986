// Scalar types: fp16, bf16, e4m3 and e5m2 as structs of their bits, so that one text serves NVRTC without any header and g++. Arithmetic
// on them goes through fp32 and rounds once, which for one operation is what the hardware's own instructions give.
namespace tile {

template <class A, class B> constexpr bool same = false;
template <class A> constexpr bool same<A, A> = true;

template <class To, class From>
TILE_FN To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast between types of one size");
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

template <class T>
TILE_FN bool same_bits(const T& a, const T& b) {
  if constexpr (sizeof(T) == 8) return bit_cast<uint64_t>(a) == bit_cast<uint64_t>(b);
  else if constexpr (sizeof(T) == 4) return bit_cast<uint32_t>(a) == bit_cast<uint32_t>(b);
  else if constexpr (sizeof(T) == 2) return bit_cast<uint16_t>(a) == bit_cast<uint16_t>(b);
  else return bit_cast<uint8_t>(a) == bit_cast<uint8_t>(b);
}

// fp64 → fp32 rounded to odd: a second rounding to fewer bits then gives the correctly rounded result.
TILE_FN float round_to_odd(double x) {
  float f = float(x);
  if (double(f) == x || x != x) return f;
  uint32_t u = bit_cast<uint32_t>(f);
  if (u & 1u) return f;
  bool above = (double(f) > x) == (x > 0);
  return bit_cast<float>(above ? u - 1u : u + 1u);
}

TILE_FN uint16_t bf16_bits(float x) {
#if !defined(TILE_EMULATE) && TILE_ARCH >= 80
  uint16_t h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
#else
  uint32_t u = bit_cast<uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return uint16_t(0x7fffu);
  return uint16_t((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
#endif
}
TILE_FN float bf16_value(uint16_t bits) { return bit_cast<float>(uint32_t(bits) << 16); }

TILE_FN uint16_t fp16_bits(float x) {
#ifndef TILE_EMULATE
  uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
#else
  uint32_t u = bit_cast<uint32_t>(x);
  uint16_t sign = uint16_t((u >> 16) & 0x8000u);
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return uint16_t(0x7fffu);
  if (u >= 0x477ff000u) return uint16_t(sign | 0x7c00u);  // 65520 and above round to infinity
  if (u < 0x38800000u) {
    // Below 2^-14: adding 0.5 lets the fp32 adder round at the weight of an fp16 subnormal, 2^-24.
    return uint16_t(sign | (bit_cast<uint32_t>(bit_cast<float>(u) + 0.5f) - 0x3f000000u));
  }
  u += 0xc8000fffu + ((u >> 13) & 1u);
  return uint16_t(sign | (u >> 13));
#endif
}
TILE_FN float fp16_value(uint16_t bits) {
#ifndef TILE_EMULATE
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits));
  return f;
#else
  uint32_t sign = uint32_t(bits & 0x8000u) << 16, u = uint32_t(bits & 0x7fffu) << 13;
  if (u >= 0x0f800000u) return bit_cast<float>(sign | (u + 0x70000000u) | (u > 0x0f800000u ? 0x400000u : 0u));
  // Scaling by 2^112 moves the exponent's bias from 15 to 127 and normalises subnormals.
  return bit_cast<float>(sign | bit_cast<uint32_t>(bit_cast<float>(u) * 0x1p112f));
#endif
}

// fp32 → an 8-bit float with Mantissa bits and exponent bias Bias: nearest even; what is beyond Largest (bits) becomes Largest, as
// cvt.rn.satfinite has it; NaN becomes 0x7f.
template <int Mantissa, int Bias, int Largest>
TILE_FN uint8_t float8_bits(float x) {
  uint32_t u = bit_cast<uint32_t>(x);
  uint32_t sign = (u >> 24) & 0x80u;
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return uint8_t(0x7fu);
  constexpr int drop = 23 - Mantissa;
  constexpr uint32_t smallest_normal = uint32_t(127 - Bias + 1) << 23;
  uint32_t bits;
  if (u < smallest_normal) {
    // The fp32 adder rounds at the weight of the last subnormal bit.
    constexpr uint32_t magic = uint32_t(127 - Bias + 1 + drop) << 23;
    bits = bit_cast<uint32_t>(bit_cast<float>(u) + bit_cast<float>(magic)) - magic;
  } else {
    u += (1u << (drop - 1)) - 1 + ((u >> drop) & 1u);
    bits = (u >> drop) - (uint32_t(127 - Bias) << Mantissa);
  }
  return uint8_t(sign | (bits > Largest ? Largest : bits));
}
TILE_FN uint8_t e4m3_bits(float x) {
#if !defined(TILE_EMULATE) && TILE_ARCH >= 89
  uint16_t h;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(h) : "f"(0.0f), "f"(x));
  return uint8_t(h);
#else
  return float8_bits<3, 7, 0x7e>(x);
#endif
}
TILE_FN uint8_t e5m2_bits(float x) {
#if !defined(TILE_EMULATE) && TILE_ARCH >= 89
  uint16_t h;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(h) : "f"(0.0f), "f"(x));
  return uint8_t(h);
#else
  return float8_bits<2, 15, 0x7b>(x);
#endif
}
// e5m2 is fp16 without its low byte; e4m3 is moved there by one place and scaled, exactly.
TILE_FN float e5m2_value(uint8_t bits) { return fp16_value(uint16_t(bits << 8)); }
TILE_FN float e4m3_value(uint8_t bits) {
  if ((bits & 0x7fu) == 0x7fu) return bit_cast<float>(0x7fffffffu);
  return fp16_value(uint16_t((bits & 0x80u) << 8 | (bits & 0x7fu) << 7)) * 256.0f;
}

#define TILE_SMALL_FLOAT(NAME, STORAGE)                                   \
  struct NAME {                                                           \
    STORAGE bits;                                                         \
    NAME() = default;                                                     \
    TILE_MEMBER explicit NAME(float x) : bits(NAME##_bits(x)) {}          \
    TILE_MEMBER explicit NAME(double x) : NAME(round_to_odd(x)) {}        \
    template <class Integer>                                              \
    TILE_MEMBER explicit NAME(Integer x) : NAME(float(x)) {}              \
    TILE_MEMBER operator float() const { return NAME##_value(bits); }     \
  };                                                                      \
  TILE_FN NAME operator+(NAME a, NAME b) { return NAME(float(a) + float(b)); } \
  TILE_FN NAME operator-(NAME a, NAME b) { return NAME(float(a) - float(b)); } \
  TILE_FN NAME operator*(NAME a, NAME b) { return NAME(float(a) * float(b)); } \
  TILE_FN NAME operator/(NAME a, NAME b) { return NAME(float(a) / float(b)); } \
  TILE_FN NAME operator-(NAME a) { return NAME(-float(a)); }
TILE_SMALL_FLOAT(fp16, uint16_t)
TILE_SMALL_FLOAT(bf16, uint16_t)
TILE_SMALL_FLOAT(e4m3, uint8_t)
TILE_SMALL_FLOAT(e5m2, uint8_t)
#undef TILE_SMALL_FLOAT

template <class T> constexpr bool is_small_float = same<T, fp16> || same<T, bf16> || same<T, e4m3> || same<T, e5m2>;
template <class T> constexpr bool is_float = same<T, float> || same<T, double> || is_small_float<T>;
template <class T> constexpr bool is_signed = is_float<T> || T(-1) < T(0);

// fp32 rounded to the ten mantissa bits that tf32 matrix instructions read.
TILE_FN float to_tf32(float x) {
  // Nearest even by hand: cvt.rna rounds ties away from zero.
  uint32_t u = bit_cast<uint32_t>(x);
  if ((u & 0x7f800000u) == 0x7f800000u) return x;
  return bit_cast<float>((u + 0xfffu + ((u >> 13) & 1u)) & 0xffffe000u);
}

// convert<To>(x): C rules; to bool is "not zero"; float → integer truncates.
template <class To, class From>
TILE_FN To convert(From x) {
  if constexpr (same<To, From>) return x;
  else if constexpr (same<To, bool>) return is_small_float<From> ? float(x) != 0.0f : x != From(0);
  else if constexpr (is_small_float<From>) return To(float(x));
  else return To(x);
}

}  // namespace tile
