// Scalar types: fp16, bf16 and smaller ones as structs of their bits, so that one text serves NVRTC without any header and g++. Arithmetic
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

// fp32 rounded to the ten mantissa bits that tf32 matrix instructions read.
TILE_FN float to_tf32(float x) {
  // Nearest even by hand: cvt.rna rounds ties away from zero.
  uint32_t u = bit_cast<uint32_t>(x);
  if ((u & 0x7f800000u) == 0x7f800000u) return x;
  return bit_cast<float>((u + 0xfffu + ((u >> 13) & 1u)) & 0xffffe000u);
}

#define TILE_RINT ::rint
#define TILE_RINTF ::rintf
#define TILE_CEIL ::ceil
#define TILE_CEILF ::ceilf
#define TILE_FLOOR ::floor
#define TILE_FLOORF ::floorf
#ifndef TILE_EMULATE
#define TILE_SATURATING_CONVERSIONS 1
#endif
// Half a byte of memory that other threads write to.
TILE_FN void store_nibble(uint8_t* byte, int shift, uint8_t nibble) {
#ifndef TILE_EMULATE
  // The smallest word that a compare-and-swap takes; whatever else changes in it makes another round.
  const int at = int((unsigned long long)byte & 3) * 8 + shift;
  unsigned int* word = (unsigned int*)((unsigned long long)byte & ~3ull);
  unsigned int seen = *(volatile unsigned int*)word, old;
  do {
    old = seen;
    seen = atomicCAS(word, old, (old & ~(15u << at)) | (unsigned int)(nibble) << at);
  } while (seen != old);
#else
  emu::atomic_update(byte, [=](uint8_t old) { return uint8_t((old & (0xf0 >> shift)) | (nibble << shift)); });
#endif
}
// The byte of half a byte: another thread may write the other half meanwhile, which to the emulator is no race then.
TILE_FN uint8_t load_nibbles(const uint8_t* byte) {
#ifndef TILE_EMULATE
  return *byte;
#else
  return emu::load_whole(byte);
#endif
}

//@numbers

#if !defined(TILE_EMULATE) && TILE_ARCH >= 89
template <>
TILE_MEMBER uint8_t encode_nearest<e4m3_format, true>(float x) {
  uint16_t h;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(h) : "f"(0.0f), "f"(x));
  return uint8_t(h);
}
template <>
TILE_MEMBER uint8_t encode_nearest<e5m2_format, true>(float x) {
  uint16_t h;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(h) : "f"(0.0f), "f"(x));
  return uint8_t(h);
}
#endif
// e5m2 is fp16 without its low byte; e4m3 is moved there by one place and scaled, exactly.
template <>
TILE_MEMBER float decode<e5m2_format>(uint8_t bits) {
  return fp16_value(uint16_t(bits << 8));
}
template <>
TILE_MEMBER float decode<e4m3_format>(uint8_t bits) {
  if ((bits & 0x7fu) == 0x7fu) return bit_cast<float>(0x7fffffffu);
  return fp16_value(uint16_t((bits & 0x80u) << 8 | (bits & 0x7fu) << 7)) * 256.0f;
}

// An integer → fp32 so that rounding again to fewer bits is rounding once.
template <class I>
TILE_FN float round_integer(I x) {
  if constexpr (sizeof(I) < 4) return float(x);
  else if constexpr (sizeof(I) == 4) return round_to_odd(double(x));
  else {
    const bool wide = integer_range<I>::is_signed ? x >= I(1) << 53 || x <= -(I(1) << 53) : x >= I(1) << 53;
    return round_to_odd(wide ? double((x >> 12) | I((x & 0xfff) != 0)) * 4096.0 : double(x));
  }
}

#define TILE_SMALL_FLOAT(NAME, STORAGE)                                   \
  struct NAME {                                                           \
    STORAGE bits;                                                         \
    NAME() = default;                                                     \
    TILE_MEMBER explicit NAME(float x) : bits(NAME##_bits(x)) {}          \
    TILE_MEMBER explicit NAME(double x) : NAME(round_to_odd(x)) {}        \
    template <class Integer>                                              \
    TILE_MEMBER explicit NAME(Integer x) : NAME(round_integer(x)) {}      \
    TILE_MEMBER operator float() const { return NAME##_value(bits); }     \
  };                                                                      \
  TILE_FN NAME operator+(NAME a, NAME b) { return NAME(float(a) + float(b)); } \
  TILE_FN NAME operator-(NAME a, NAME b) { return NAME(float(a) - float(b)); } \
  TILE_FN NAME operator*(NAME a, NAME b) { return NAME(float(a) * float(b)); } \
  TILE_FN NAME operator/(NAME a, NAME b) { return NAME(float(a) / float(b)); } \
  TILE_FN NAME operator-(NAME a) { return NAME(-float(a)); }
TILE_SMALL_FLOAT(fp16, uint16_t)
TILE_SMALL_FLOAT(bf16, uint16_t)
#undef TILE_SMALL_FLOAT

template <class T> constexpr bool is_nibble = same<T, i4> || same<T, u4>;
template <class T> constexpr bool is_small_float = same<T, fp16> || same<T, bf16> || small_float_of<T>::is;
template <class T> constexpr bool is_float = same<T, float> || same<T, double> || is_small_float<T>;
template <class T> constexpr bool is_signed = is_float<T> || T(-1) < T(0);

// convert<To>(x) by the default rules: to nearest even; float → integer truncates and clamps; integers wrap.
template <class To, class From>
TILE_FN To convert(From x) {
  if constexpr (same<To, From>) return x;
  else if constexpr (same<To, bool>) {
    if constexpr (is_small_float<From>) return float(x) != 0.0f;
    else if constexpr (is_nibble<From>) return x.value != 0;
    else return x != From(0);
  } else if constexpr (is_nibble<From>) return convert<To>(int32_t(x.value));
  else if constexpr (is_nibble<To>) {
    if constexpr (is_float<From>) {
      constexpr int low = same<To, i4> ? -8 : 0, high = low + 15;
      const int whole = convert<int32_t>(x);
      return To(whole < low ? low : whole > high ? high : whole);
    } else return To(x);
  } else if constexpr (is_small_float<From>) return convert<To>(float(x));
  else if constexpr (!is_float<To> && is_float<From>) return to_integer<To, rounding::zero>(x);
  else return To(x);
}

//@formats
template <class T> constexpr bool is_number_integer = !same<T, tf32> && !is_float<T> && !is_nibble<T>;

// The same with a rounding mode, saturation or not, and random bits.
template <class To, rounding R, bool Saturate, class From>
TILE_FN auto convert_by(From x, uint32_t random = 0) {
  if constexpr (is_small_float<From>) return convert_by<To, R, Saturate>(float(x), random);
  else if constexpr (is_nibble<From>) return convert_by<To, R, Saturate>(int64_t(x.value), random);
  else if constexpr (is_nibble<To>) return convert<To>(float(convert_by<int8_t, R, Saturate>(x, random)));
  else if constexpr (is_number_integer<To>) return to_integer<To, R>(x);
  else {
    using F = typename format_of<To>::type;
    if constexpr (R == rounding::nearest && F::bits <= 8 && same<From, float>) return from_bits<To>(encode_nearest<F, Saturate>(x));
    else if constexpr (is_float<From>) return from_bits<To>(encode<F, R, Saturate>(x, random));
    else if constexpr (From(-1) < From(0)) return from_bits<To>(encode<F, R, Saturate>(int64_t(x), random));
    else return from_bits<To>(encode<F, R, Saturate>(uint64_t(x), random));
  }
}

}  // namespace tile
