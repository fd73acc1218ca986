// Scalar types of generated CPU kernels: macros, fp16 and bf16 storage types, conversions of one value.
//
// fp16 and bf16 are two-byte structs, not _Float16: the same code then compiles for every compiler and ISA, and each
// operation rounds once (through fp32, which is exact enough that a single fp16 operation rounds as hardware would).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

// Generated lambdas and every helper must be inlined: a vector argument that crosses a call goes through memory.
#define TILE_INLINE __attribute__((always_inline))
#define TILE_FN static inline __attribute__((always_inline))
#define TILE_MEMBER TILE_INLINE
#define TILE_RINT __builtin_rint
#define TILE_RINTF __builtin_rintf
#define TILE_CEIL __builtin_ceil
#define TILE_CEILF __builtin_ceilf
#define TILE_FLOOR __builtin_floor
#define TILE_FLOORF __builtin_floorf

#if defined(__clang__)
#define TILE_PRAGMA(x) _Pragma(#x)
#define TILE_UNROLL(n) TILE_PRAGMA(clang loop unroll_count(n))
#else
#define TILE_PRAGMA(x) _Pragma(#x)
#define TILE_UNROLL(n) TILE_PRAGMA(GCC unroll n)
#endif

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define TILE_AVX512 1
#define TILE_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define TILE_AVX512 0
#define TILE_VECTOR_BYTES 32
#else
#define TILE_AVX512 0
#define TILE_VECTOR_BYTES 16
#endif

namespace tile {

template <class To, class From>
TILE_FN To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast between types of one size");
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}

// fp32 → bf16, round to nearest, ties to even; a NaN stays a quiet NaN with its sign.
TILE_FN uint16_t bf16_bits(float x) {
  uint32_t u = bit_cast<uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return uint16_t((u >> 16) | 0x40u);
  return uint16_t((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

TILE_FN float bf16_value(uint16_t bits) { return bit_cast<float>(uint32_t(bits) << 16); }

// fp32 → fp16, round to nearest, ties to even, subnormals kept, overflow to infinity.
TILE_FN uint16_t fp16_bits(float x) {
#if defined(__F16C__)
  return uint16_t(_cvtss_sh(x, 0));
#elif defined(__ARM_FP16_FORMAT_IEEE)
  __fp16 h = __fp16(x);
  return bit_cast<uint16_t>(h);
#else
  uint32_t u = bit_cast<uint32_t>(x);
  uint16_t sign = uint16_t((u >> 16) & 0x8000u);
  u &= 0x7fffffffu;
  if (u > 0x7f800000u) return uint16_t(sign | 0x7e00u | ((u >> 13) & 0x3ffu));
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
#if defined(__F16C__)
  return _cvtsh_ss(bits);
#elif defined(__ARM_FP16_FORMAT_IEEE)
  return float(bit_cast<__fp16>(bits));
#else
  uint32_t sign = uint32_t(bits & 0x8000u) << 16;
  uint32_t u = uint32_t(bits & 0x7fffu) << 13;
  if (u >= 0x0f800000u) return bit_cast<float>(sign | (u + 0x70000000u) | (u > 0x0f800000u ? 0x400000u : 0u));
  // Scaling by 2^112 moves the exponent bias from 15 to 127 and normalises subnormals.
  return bit_cast<float>(sign | bit_cast<uint32_t>(bit_cast<float>(u) * 0x1p112f));
#endif
}

// fp32 rounded to the ten mantissa bits of tf32.
TILE_FN float to_tf32(float x) {
  uint32_t u = bit_cast<uint32_t>(x);
  if ((u & 0x7f800000u) == 0x7f800000u) return x;
  return bit_cast<float>((u + 0xfffu + ((u >> 13) & 1u)) & 0xffffe000u);
}

// fp64 → fp32 rounded to odd: a second rounding to fewer bits then gives the correctly rounded result.
TILE_FN float round_to_odd(double x) {
  float f = float(x);
  if (double(f) == x || x != x) return f;
  uint32_t u = bit_cast<uint32_t>(f);
  if (u & 1u) return f;
  bool above = (double(f) > x) == (x > 0);  // the magnitude was rounded up
  return bit_cast<float>(above ? u - 1u : u + 1u);
}

// Half a byte of memory that other threads write to.
TILE_FN void store_nibble(uint8_t* byte, int shift, uint8_t nibble) {
  uint8_t old = __atomic_load_n(byte, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(byte, &old, uint8_t((old & (0xf0 >> shift)) | (nibble << shift)), true, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
  }
}
// A byte is read whole, whatever happens to its other half meanwhile.
TILE_FN uint8_t load_nibbles(const uint8_t* byte) { return *byte; }

}  // namespace tile

#include "numbers.h"

namespace tile {

// An integer → fp16 or bf16: those of 32 bits and more are no exact floats, and rounding twice is not rounding once.
template <class F, class I>
TILE_FN float round_integer(I x) {
  if constexpr (sizeof(I) < 4) return float(x);
  else if constexpr (sizeof(I) == 4) return round_to_odd(double(x));
  else {
    // Below 2^53 a double holds it; above, its low bits only matter as one.
    const bool wide = integer_range<I>::is_signed ? x >= I(1) << 53 || x <= -(I(1) << 53) : x >= I(1) << 53;
    return round_to_odd(wide ? double((x >> 12) | I((x & 0xfff) != 0)) * 4096.0 : double(x));
  }
}

struct fp16 {
  uint16_t bits;
  fp16() = default;
  TILE_INLINE explicit fp16(float x) : bits(fp16_bits(x)) {}
  TILE_INLINE explicit fp16(double x) : bits(fp16_bits(round_to_odd(x))) {}
  template <class I, std::enable_if_t<std::is_integral<I>::value, int> = 0>
  TILE_INLINE explicit fp16(I x) : bits(fp16_bits(round_integer<fp16_format>(x))) {}
  TILE_INLINE operator float() const { return fp16_value(bits); }
};

struct bf16 {
  uint16_t bits;
  bf16() = default;
  TILE_INLINE explicit bf16(float x) : bits(bf16_bits(x)) {}
  TILE_INLINE explicit bf16(double x) : bits(bf16_bits(round_to_odd(x))) {}
  template <class I, std::enable_if_t<std::is_integral<I>::value, int> = 0>
  TILE_INLINE explicit bf16(I x) : bits(bf16_bits(round_integer<bf16_format>(x))) {}
  TILE_INLINE operator float() const { return bf16_value(bits); }
};

template <class T>
constexpr bool is_nibble = std::is_same<T, i4>::value || std::is_same<T, u4>::value;
// Floats that are stored as bits and computed in fp32.
template <class T>
constexpr bool is_half = std::is_same<T, fp16>::value || std::is_same<T, bf16>::value || small_float_of<T>::is;
template <class T>
constexpr bool is_floating = std::is_floating_point<T>::value || is_half<T>;
template <class T>
constexpr bool is_scalar = std::is_arithmetic<T>::value || is_half<T> || is_nibble<T>;

// Each scalar operation on two halves of one type rounds once; mixed operands fall to float by conversion.
#define TILE_HALF_OPERATORS(H)                                                             \
  TILE_FN H operator+(H a, H b) { return H(float(a) + float(b)); }                         \
  TILE_FN H operator-(H a, H b) { return H(float(a) - float(b)); }                         \
  TILE_FN H operator*(H a, H b) { return H(float(a) * float(b)); }                         \
  TILE_FN H operator/(H a, H b) { return H(float(a) / float(b)); }                         \
  TILE_FN H operator-(H a) {                                                               \
    a.bits ^= 0x8000u;                                                                     \
    return a;                                                                              \
  }                                                                                        \
  TILE_FN H& operator+=(H& a, H b) { return a = a + b; }                                   \
  TILE_FN H& operator-=(H& a, H b) { return a = a - b; }                                   \
  TILE_FN H& operator*=(H& a, H b) { return a = a * b; }                                   \
  TILE_FN H& operator/=(H& a, H b) { return a = a / b; }
TILE_HALF_OPERATORS(fp16)
TILE_HALF_OPERATORS(bf16)
#undef TILE_HALF_OPERATORS

// convert<To>(scalar) by the default rules: to nearest even; float → integer truncates and clamps; integers wrap.
template <class To, class From, std::enable_if_t<is_scalar<From>, int> = 0>
TILE_FN To convert(From x) {
  if constexpr (std::is_same<To, From>::value) {
    return x;
  } else if constexpr (std::is_same<To, bool>::value) {
    if constexpr (is_half<From>) return float(x) != 0.0f;
    else if constexpr (is_nibble<From>) return x.value != 0;
    else return x != From(0);
  } else if constexpr (is_nibble<From>) {
    return convert<To>(int32_t(x.value));
  } else if constexpr (is_nibble<To>) {
    if constexpr (is_floating<From>) {
      constexpr int low = std::is_same<To, i4>::value ? -8 : 0, high = low + 15;
      const int whole = convert<int32_t>(x);
      return To(whole < low ? low : whole > high ? high : whole);
    } else {
      return To(x);
    }
  } else if constexpr (is_half<From>) {
    return convert<To>(float(x));
  } else if constexpr (std::is_integral<To>::value && std::is_floating_point<From>::value) {
    return to_integer<To, rounding::zero>(x);
  } else {
    return To(x);
  }
}

}  // namespace tile

#include "formats.h"

namespace tile {

// The same with a rounding mode, saturation or not, and random bits.
template <class To, rounding R, bool Saturate, class From, std::enable_if_t<is_scalar<From>, int> = 0>
TILE_FN auto convert_by(From x, uint32_t random = 0) {
  if constexpr (is_half<From>) return convert_by<To, R, Saturate>(float(x), random);
  else if constexpr (is_nibble<From>) return convert_by<To, R, Saturate>(int64_t(x.value), random);
  else if constexpr (is_nibble<To>) return convert<To>(convert_by<int8_t, R, Saturate>(x, random) + 0.0f);
  else if constexpr (std::is_integral<To>::value) return to_integer<To, R>(x);
  else if constexpr (R == rounding::nearest && Saturate && std::is_same<To, tf32>::value && std::is_same<From, float>::value) return to_tf32(x);
  else {
    using F = typename format_of<To>::type;
    if constexpr (R == rounding::nearest && F::bits <= 8 && std::is_same<From, float>::value) return from_bits<To>(encode_nearest<F, Saturate>(x));
    else if constexpr (std::is_floating_point<From>::value) return from_bits<To>(encode<F, R, Saturate>(x, random));
    else if constexpr (std::is_signed<From>::value) return from_bits<To>(encode<F, R, Saturate>(int64_t(x), random));
    else return from_bits<To>(encode<F, R, Saturate>(uint64_t(x), random));
  }
}

template <class T>
TILE_FN T select(bool condition, T a, T b) {
  return condition ? a : b;
}

}  // namespace tile
