// Written from the device function table by `python -m tile_cuda.device`: edit the table or the parts.
#pragma once
// What the parts below need of the emulator: emu.h has the launch state, TILE_SYNC, TILE_SHARED and TILE_LOCAL.
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "emu.h"

#define TILE_EMULATE 1
#define TILE_ARCH 90
#define TILE_FN static EMU_INLINE
#define TILE_MEMBER EMU_INLINE
#define TILE_UNROLL

namespace tile {
using site = emu::Site;
// An access through these is one access of their size to the instrumentation.
typedef uint32_t word16 __attribute__((vector_size(16), may_alias));
typedef uint64_t word8 __attribute__((may_alias));
typedef uint32_t word4 __attribute__((may_alias));
typedef uint16_t word2 __attribute__((may_alias));
TILE_FN void check_alignment(const void* address, int bytes) { emu::check_alignment(address, bytes); }
// A tensor of `count` elements over an address that the kernel was given: the emulator learns of its extent.
template <class T>
TILE_FN T* tensor_at(const char* name, uint64_t address, uint64_t count) {
  return (T*)emu::tensor_at(name, (void*)address, count * sizeof(T));
}
[[noreturn]] TILE_FN void trap(const char* what) { emu::trap(what); }
}  // namespace tile
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

struct fp16_format {
  static constexpr int bits = 16, exponent = 5, mantissa = 10, bias = 15;
  static constexpr long long largest = 0x7bff, infinity = 0x7c00, nan = 0x7fff, beyond = 0x7c00;
  static constexpr bool is_signed = true, negative_zero = true, specials_fn = false;
};
struct bf16_format {
  static constexpr int bits = 16, exponent = 8, mantissa = 7, bias = 127;
  static constexpr long long largest = 0x7f7f, infinity = 0x7f80, nan = 0x7fff, beyond = 0x7f80;
  static constexpr bool is_signed = true, negative_zero = true, specials_fn = false;
};
struct tf32_format {
  static constexpr int bits = 19, exponent = 8, mantissa = 10, bias = 127;
  static constexpr long long largest = 0x3fbff, infinity = 0x3fc00, nan = 0x3ffff, beyond = 0x3fc00;
  static constexpr bool is_signed = true, negative_zero = true, specials_fn = false;
};
struct fp32_format {
  static constexpr int bits = 32, exponent = 8, mantissa = 23, bias = 127;
  static constexpr long long largest = 0x7f7fffff, infinity = 0x7f800000, nan = 0x7fffffff, beyond = 0x7f800000;
  static constexpr bool is_signed = true, negative_zero = true, specials_fn = false;
};
struct fp64_format {
  static constexpr int bits = 64, exponent = 11, mantissa = 52, bias = 1023;
  static constexpr long long largest = 0x7fefffffffffffffll, infinity = 0x7ff0000000000000ll, nan = 0x7fffffffffffffffll, beyond = 0x7ff0000000000000ll;
  static constexpr bool is_signed = true, negative_zero = true, specials_fn = false;
};
struct e3m4_format {
  static constexpr int bits = 8, exponent = 3, mantissa = 4, bias = 3;
  static constexpr long long largest = 0x6f, infinity = 0x70, nan = 0x7f, beyond = 0x70;
  static constexpr bool is_signed = true, negative_zero = true, specials_fn = false;
};
struct e4m3ieee_format {
  static constexpr int bits = 8, exponent = 4, mantissa = 3, bias = 7;
  static constexpr long long largest = 0x77, infinity = 0x78, nan = 0x7f, beyond = 0x78;
  static constexpr bool is_signed = true, negative_zero = true, specials_fn = false;
};
struct e4m3b11_format {
  static constexpr int bits = 8, exponent = 4, mantissa = 3, bias = 11;
  static constexpr long long largest = 0x7f, infinity = -1, nan = 0x80, beyond = 0x80;
  static constexpr bool is_signed = true, negative_zero = false, specials_fn = false;
};
struct e4m3_format {
  static constexpr int bits = 8, exponent = 4, mantissa = 3, bias = 7;
  static constexpr long long largest = 0x7e, infinity = -1, nan = 0x7f, beyond = 0x7f;
  static constexpr bool is_signed = true, negative_zero = true, specials_fn = true;
};
struct e4m3fnuz_format {
  static constexpr int bits = 8, exponent = 4, mantissa = 3, bias = 8;
  static constexpr long long largest = 0x7f, infinity = -1, nan = 0x80, beyond = 0x80;
  static constexpr bool is_signed = true, negative_zero = false, specials_fn = false;
};
struct e5m2_format {
  static constexpr int bits = 8, exponent = 5, mantissa = 2, bias = 15;
  static constexpr long long largest = 0x7b, infinity = 0x7c, nan = 0x7f, beyond = 0x7c;
  static constexpr bool is_signed = true, negative_zero = true, specials_fn = false;
};
struct e5m2fnuz_format {
  static constexpr int bits = 8, exponent = 5, mantissa = 2, bias = 16;
  static constexpr long long largest = 0x7f, infinity = -1, nan = 0x80, beyond = 0x80;
  static constexpr bool is_signed = true, negative_zero = false, specials_fn = false;
};
struct e8m0_format {
  static constexpr int bits = 8, exponent = 8, mantissa = 0, bias = 127;
  static constexpr long long largest = 0xfe, infinity = -1, nan = 0xff, beyond = 0xff;
  static constexpr bool is_signed = false, negative_zero = false, specials_fn = false;
};
struct e2m3_format {
  static constexpr int bits = 6, exponent = 2, mantissa = 3, bias = 1;
  static constexpr long long largest = 0x1f, infinity = -1, nan = -1, beyond = 0x1f;
  static constexpr bool is_signed = true, negative_zero = true, specials_fn = false;
};
struct e3m2_format {
  static constexpr int bits = 6, exponent = 3, mantissa = 2, bias = 3;
  static constexpr long long largest = 0x1f, infinity = -1, nan = -1, beyond = 0x1f;
  static constexpr bool is_signed = true, negative_zero = true, specials_fn = false;
};
struct e2m1_format {
  static constexpr int bits = 4, exponent = 2, mantissa = 1, bias = 1;
  static constexpr long long largest = 0x7, infinity = -1, nan = -1, beyond = 0x7;
  static constexpr bool is_signed = true, negative_zero = true, specials_fn = false;
};

// Conversions between element types by the rules of tile_core.casts: one text for the CPU's headers and both CUDA headers, after the
// formats, which are made from the table. Needs TILE_FN, TILE_MEMBER, TILE_RINT and kin, bit_cast, round_to_odd, store_nibble, load_nibbles and the fixed-width integers.

enum class rounding { nearest, zero, up, down, stochastic };

// What is given as a magnitude, significand · 2^exponent, in the format's bits: the exact value rounded once.
template <class F, rounding R, bool Saturate>
TILE_FN uint64_t encode(bool negative, uint64_t significand, int exponent, uint32_t random) {
  const uint64_t sign = F::is_signed && negative ? uint64_t(1) << (F::exponent + F::mantissa) : 0;
  if (!F::is_signed && (significand == 0 || negative)) return Saturate ? 0 : F::nan;
  if (significand == 0) return F::negative_zero ? sign : 0;
  while (!(significand >> 32)) { significand <<= 32; exponent -= 32; }
  while (!(significand >> 63)) { significand <<= 1; exponent -= 1; }
  // The value is 1.… · 2^top.
  const int top = exponent + 63, least = F::is_signed ? 1 - F::bias : -F::bias;
  const int weight = top > least ? top : least;
  const int drop = 63 - F::mantissa + (weight - top);
  uint64_t kept = drop < 64 ? significand >> drop : 0;
  // What is dropped, as a fraction of 2^64.
  uint64_t rest = drop < 64 ? significand << (64 - drop) : drop == 64 ? significand : drop < 128 ? (significand >> (drop - 64)) | 1 : 1;
  bool away;
  if (R == rounding::nearest) away = rest > (uint64_t(1) << 63) || (rest == (uint64_t(1) << 63) && (kept & 1));
  else if (R == rounding::zero) away = false;
  else if (R == rounding::up) away = !negative && rest != 0;
  else if (R == rounding::down) away = negative && rest != 0;
  else away = (rest >> 32) + random > 0xffffffffu;
  kept += away;
  uint64_t bits = kept + (uint64_t(weight - least) << F::mantissa);
  if (!F::is_signed) bits = bits == 0 ? 0 : bits - 1;
  if (bits > uint64_t(F::largest)) {
    const bool inward = F::is_signed && (R == rounding::zero || (R == rounding::up && negative) || (R == rounding::down && !negative));
    if (inward || (Saturate && F::bits <= 8) || F::beyond == F::largest) bits = F::largest;
    else if (F::infinity < 0) return F::nan;
    else bits = F::infinity;
  }
  return bits == 0 && !F::negative_zero ? 0 : sign | bits;
}

// The bits of infinity and NaN as a conversion to the format gives them.
template <class F, bool Saturate>
TILE_FN uint64_t encode_special(bool negative, bool is_nan) {
  const uint64_t sign = F::is_signed && negative ? uint64_t(1) << (F::exponent + F::mantissa) : 0;
  if (is_nan) return F::nan < 0 ? F::largest : F::nan;
  if (!F::is_signed && negative) return Saturate ? 0 : F::nan;
  if ((Saturate && F::bits <= 8) || F::beyond == F::largest) return sign | F::largest;
  return F::infinity < 0 ? F::nan : sign | F::infinity;
}

template <class F, rounding R, bool Saturate>
TILE_FN uint64_t encode(double x, uint32_t random) {
  const uint64_t u = bit_cast<uint64_t>(x), fraction = u & 0xfffffffffffffull;
  const int field = int(u >> 52 & 0x7ff);
  const bool negative = u >> 63;
  if (field == 0x7ff) return encode_special<F, Saturate>(negative, fraction != 0);
  return encode<F, R, Saturate>(negative, field ? fraction | 1ull << 52 : fraction, (field ? field : 1) - 1075, random);
}
template <class F, rounding R, bool Saturate>
TILE_FN uint64_t encode(float x, uint32_t random) {
  const uint32_t u = bit_cast<uint32_t>(x), fraction = u & 0x7fffffu;
  const int field = int(u >> 23 & 0xff);
  const bool negative = u >> 31;
  if (field == 0xff) return encode_special<F, Saturate>(negative, fraction != 0);
  return encode<F, R, Saturate>(negative, field ? fraction | 1u << 23 : fraction, (field ? field : 1) - 150, random);
}
template <class F, rounding R, bool Saturate>
TILE_FN uint64_t encode(int64_t x, uint32_t random) {
  return encode<F, R, Saturate>(x < 0, x < 0 ? uint64_t(0) - uint64_t(x) : uint64_t(x), 0, random);
}
template <class F, rounding R, bool Saturate>
TILE_FN uint64_t encode(uint64_t x, uint32_t random) {
  return encode<F, R, Saturate>(false, x, 0, random);
}

// fp32 to nearest even in a format of a byte or less, without a loop.
template <class F, bool Saturate>
TILE_FN uint8_t encode_nearest(float x) {
  uint32_t u = bit_cast<uint32_t>(x);
  if constexpr (!F::is_signed) {
    if ((u & 0x7fffffffu) > 0x7f800000u) return uint8_t(F::nan);
    if (u == 0 || u >> 31) return Saturate ? 0 : uint8_t(F::nan);
    const uint32_t bits = u < 0x00800000u ? (u > 0x00600000u - 1u) : (u + 0x400000u) >> 23;
    return bits > uint32_t(F::largest) ? uint8_t(Saturate ? F::largest : F::nan) : uint8_t(bits);
  } else {
    uint32_t sign = (u >> 31) << (F::exponent + F::mantissa);
    u &= 0x7fffffffu;
    if (u > 0x7f800000u) return uint8_t(F::nan < 0 ? F::largest : F::nan);
    constexpr int drop = 23 - F::mantissa;
    uint32_t bits;
    if (u < uint32_t(128 - F::bias) << 23) {
      // The fp32 adder rounds at the weight of the last subnormal bit.
      constexpr uint32_t magic = uint32_t(128 - F::bias + drop) << 23;
      bits = bit_cast<uint32_t>(bit_cast<float>(u) + bit_cast<float>(magic)) - magic;
    } else {
      u += (1u << (drop - 1)) - 1 + ((u >> drop) & 1u);
      bits = (u >> drop) - (uint32_t(127 - F::bias) << F::mantissa);
    }
    if (bits > uint32_t(F::largest)) {
      if (Saturate || F::beyond == F::largest) bits = F::largest;
      else if (F::infinity < 0) return uint8_t(F::nan);
      else bits = F::infinity;
    }
    return uint8_t(bits == 0 && !F::negative_zero ? 0u : sign | bits);
  }
}

// The value of a byte of the format, exactly.
template <class F>
TILE_FN float decode(uint8_t bits) {
  if constexpr (!F::is_signed) {
    return bit_cast<float>(bits == 0 ? 0x00400000u : bits == 0xff ? 0x7fffffffu : uint32_t(bits) << 23);
  } else {
    constexpr uint32_t top = 1u << (F::exponent + F::mantissa);
    const uint32_t u = bits & (top - 1);
    const uint32_t sign = uint32_t(bits & top) << (31 - F::exponent - F::mantissa);
    if (F::nan >= 0 && bits == F::nan) return bit_cast<float>(0x7fffffffu);
    if (F::infinity >= 0 && u >= uint32_t(F::infinity)) return bit_cast<float>(u == uint32_t(F::infinity) ? sign | 0x7f800000u : 0x7fffffffu);
    if (F::specials_fn && u == uint32_t(F::nan)) return bit_cast<float>(0x7fffffffu);
    // A normal fp32 whose exponent is moved by subtraction: no step touches an fp32 subnormal, whatever the machine does with those.
    constexpr uint32_t one = uint32_t(128 - F::bias) << 23;
    const uint32_t magnitude = u >> F::mantissa
                                   ? (u << (23 - F::mantissa)) + (uint32_t(127 - F::bias) << 23)
                                   : bit_cast<uint32_t>(bit_cast<float>(one | (u << (23 - F::mantissa))) - bit_cast<float>(one));
    return bit_cast<float>(sign | magnitude);
  }
}

// A float format of a byte or less: its bits, the low ones of a byte.
template <class F>
struct small_float {
  using format = F;
  static constexpr bool is_four_bits = F::bits == 4;
  uint8_t bits;
  small_float() = default;
  TILE_MEMBER static small_float from(int nibble) {
    small_float x;
    x.bits = uint8_t(nibble);
    return x;
  }
  TILE_MEMBER uint8_t nibble() const { return bits; }
  TILE_MEMBER explicit small_float(float x) : bits(encode_nearest<F, true>(x)) {}
  TILE_MEMBER explicit small_float(double x) : bits(encode_nearest<F, true>(round_to_odd(x))) {}
  TILE_MEMBER explicit small_float(bool x) : small_float(float(x)) {}
  TILE_MEMBER explicit small_float(int8_t x) : small_float(float(x)) {}
  TILE_MEMBER explicit small_float(uint8_t x) : small_float(float(x)) {}
  TILE_MEMBER explicit small_float(int16_t x) : small_float(float(x)) {}
  TILE_MEMBER explicit small_float(uint16_t x) : small_float(float(x)) {}
  TILE_MEMBER explicit small_float(int32_t x) : small_float(double(x)) {}
  TILE_MEMBER explicit small_float(uint32_t x) : small_float(double(x)) {}
  TILE_MEMBER explicit small_float(int64_t x) : bits(uint8_t(encode<F, rounding::nearest, true>(x, 0))) {}
  TILE_MEMBER explicit small_float(uint64_t x) : bits(uint8_t(encode<F, rounding::nearest, true>(x, 0))) {}
  TILE_MEMBER operator float() const { return decode<F>(bits); }
};
template <class F> TILE_FN small_float<F> operator+(small_float<F> a, small_float<F> b) { return small_float<F>(float(a) + float(b)); }
template <class F> TILE_FN small_float<F> operator-(small_float<F> a, small_float<F> b) { return small_float<F>(float(a) - float(b)); }
template <class F> TILE_FN small_float<F> operator*(small_float<F> a, small_float<F> b) { return small_float<F>(float(a) * float(b)); }
template <class F> TILE_FN small_float<F> operator/(small_float<F> a, small_float<F> b) { return small_float<F>(float(a) / float(b)); }
template <class F> TILE_FN small_float<F> operator-(small_float<F> a) { return small_float<F>(-float(a)); }

// A four-bit integer: the low half of a byte, kept with its sign.
struct i4 {
  static constexpr bool is_four_bits = true;
  int8_t value;
  TILE_MEMBER static i4 from(int nibble) { return i4(nibble); }
  TILE_MEMBER uint8_t nibble() const { return uint8_t(value & 15); }
  i4() = default;
  template <class T> TILE_MEMBER explicit i4(T x) : value(int8_t(((int(x) & 15) ^ 8) - 8)) {}
  TILE_MEMBER operator int32_t() const { return value; }
};
struct u4 {
  static constexpr bool is_four_bits = true;
  uint8_t value;
  TILE_MEMBER static u4 from(int nibble) { return u4(nibble); }
  TILE_MEMBER uint8_t nibble() const { return value; }
  u4() = default;
  template <class T> TILE_MEMBER explicit u4(T x) : value(uint8_t(int(x) & 15)) {}
  TILE_MEMBER operator int32_t() const { return value; }
};

// Elements of four bits in memory, two a byte, the first in the low half: what stands for a pointer to them. A store to half a byte that
// other threads may see is an atomic exchange of the byte; whole bytes are written by vectors.
template <class T, bool Visible>
struct nibbles {
  uint8_t* base;
  int64_t index;
  struct reference {
    uint8_t* byte;
    int shift;
    TILE_MEMBER T get() const {
      if constexpr (Visible) return T::from((load_nibbles(byte) >> shift) & 15);
      else return T::from((*byte >> shift) & 15);
    }
    TILE_MEMBER operator T() const { return get(); }
    TILE_MEMBER reference& operator=(T x) {
      if constexpr (Visible) store_nibble(byte, shift, x.nibble());
      else *byte = uint8_t((*byte & (0xf0 >> shift)) | (x.nibble() << shift));
      return *this;
    }
    TILE_MEMBER reference& operator=(const reference& other) { return *this = other.get(); }
  };
  TILE_MEMBER explicit nibbles(const void* address, int64_t first = 0) : base((uint8_t*)address), index(first) {}
  template <class I> TILE_MEMBER nibbles operator+(I n) const { return nibbles(base, index + int64_t(n)); }
  template <class I> TILE_MEMBER reference operator[](I n) const {
    const int64_t at = index + int64_t(n);
    return reference{base + (at >> 1), int(at & 1) * 4};
  }
  TILE_MEMBER uint8_t* bytes() const { return base + (index >> 1); }
};

template <class T> struct small_float_of { static constexpr bool is = false; };
template <class F> struct small_float_of<small_float<F>> { static constexpr bool is = true; };
template <class A, class B> struct same_type { static constexpr bool is = false; };
template <class A> struct same_type<A, A> { static constexpr bool is = true; };

// The range of an integer type, and the float from which on values lie above it.
template <class I> struct integer_range {
  static constexpr bool is_signed = I(-1) < I(0);
  static constexpr int digits = 8 * int(sizeof(I)) - is_signed;
  static constexpr I high = I((((uint64_t(1) << (digits - 1)) - 1) << 1) | 1), low = is_signed ? I(-high - 1) : I(0);
  static constexpr double above = double(uint64_t(1) << (digits - 1)) * 2.0;
};

// Float → integer: already whole, clamped, 0 for NaN.
template <class I, class Float>
TILE_FN I clamp_whole(Float x) {
  using R = integer_range<I>;
  if (!(x < Float(R::above))) return x != x ? I(0) : R::high;
  if (!(x > Float(R::low))) return R::low;
  return I(x);
}
template <class I, rounding R, class Float>
TILE_FN I to_integer(Float x) {
  if constexpr (R == rounding::zero) {
#ifdef TILE_SATURATING_CONVERSIONS
    // The machine's conversion truncates and clamps; NaN gives 0 from fp32 to 32 bits only.
    if constexpr (sizeof(I) == 4 && sizeof(Float) == 4) return I(x);
    else if constexpr (sizeof(I) >= 4) return x != x ? I(0) : I(x);
    else {
      using W = integer_range<I>;
      const int32_t whole = x != x ? 0 : int32_t(x);
      return whole < int32_t(W::low) ? W::low : whole > int32_t(W::high) ? W::high : I(whole);
    }
#else
    return clamp_whole<I>(x);
#endif
  } else if constexpr (R == rounding::nearest) {
    return clamp_whole<I>(sizeof(Float) == 8 ? Float(TILE_RINT(double(x))) : Float(TILE_RINTF(float(x))));
  } else if constexpr (R == rounding::up) {
    return clamp_whole<I>(sizeof(Float) == 8 ? Float(TILE_CEIL(double(x))) : Float(TILE_CEILF(float(x))));
  } else {
    return clamp_whole<I>(sizeof(Float) == 8 ? Float(TILE_FLOOR(double(x))) : Float(TILE_FLOORF(float(x))));
  }
}

using e3m4 = small_float<e3m4_format>;
using e4m3ieee = small_float<e4m3ieee_format>;
using e4m3b11 = small_float<e4m3b11_format>;
using e4m3 = small_float<e4m3_format>;
using e4m3fnuz = small_float<e4m3fnuz_format>;
using e5m2 = small_float<e5m2_format>;
using e5m2fnuz = small_float<e5m2fnuz_format>;
using e8m0 = small_float<e8m0_format>;
using e2m3 = small_float<e2m3_format>;
using e3m2 = small_float<e3m2_format>;
using e2m1 = small_float<e2m1_format>;

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

// The format of a type; tf32 names the one that is held in a float.
struct tf32 {};
template <class T> struct format_of { using type = typename T::format; };
template <> struct format_of<fp16> { using type = fp16_format; };
template <> struct format_of<bf16> { using type = bf16_format; };
template <> struct format_of<tf32> { using type = tf32_format; };
template <> struct format_of<float> { using type = fp32_format; };
template <> struct format_of<double> { using type = fp64_format; };

template <class To>
TILE_FN auto from_bits(uint64_t bits) {
  if constexpr (same_type<To, tf32>::is) return bit_cast<float>(uint32_t(bits << 13));
  else if constexpr (sizeof(To) == 8) return bit_cast<To>(bits);
  else if constexpr (sizeof(To) == 4) return bit_cast<To>(uint32_t(bits));
  else if constexpr (sizeof(To) == 2) return bit_cast<To>(uint16_t(bits));
  else return bit_cast<To>(uint8_t(bits));
}
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
// vec<T, N>: N values of one type, as vectorised loops of the kernel use them; a value in registers, moved to and from memory in accesses
// of up to 16 bytes.
namespace tile {

template <class T, int N>
struct vec {
  T v[N];
  TILE_MEMBER T& operator[](int i) { return v[i]; }
  TILE_MEMBER T operator[](int i) const { return v[i]; }
};

// Lanes of four bits lie two a byte, as in memory.
template <class T, int N>
struct nibble_lanes {
  static_assert(N % 2 == 0, "elements of four bits come in pairs");
  uint8_t byte[N / 2];
  TILE_MEMBER typename nibbles<T, false>::reference operator[](int i) { return {&byte[i / 2], i % 2 * 4}; }
  TILE_MEMBER T operator[](int i) const { return T::from(byte[i / 2] >> (i % 2 * 4) & 15); }
};
#define TILE_NIBBLE_VECTOR(T)                                   \
  template <int N>                                              \
  struct alignas(N % 8 == 0 ? 4 : N % 4 == 0 ? 2 : 1) vec<T, N> {                \
    nibble_lanes<T, N> v;                                       \
    TILE_MEMBER T operator[](int i) const { return v[i]; }      \
  };
TILE_NIBBLE_VECTOR(i4)
TILE_NIBBLE_VECTOR(u4)
TILE_NIBBLE_VECTOR(e2m1)
#undef TILE_NIBBLE_VECTOR

template <class T, int N>
TILE_FN vec<T, N> broadcast(T x) {
  vec<T, N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = x;
  return r;
}
template <int N>
TILE_FN vec<float, N> to_tf32(vec<float, N> x) {
  TILE_UNROLL
  for (int i = 0; i < N; ++i) x.v[i] = to_tf32(x.v[i]);
  return x;
}
// base, base + stride, …
template <class T, int N>
TILE_FN vec<T, N> iota(T base, T stride) {
  vec<T, N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = T(base + T(i) * stride);
  return r;
}

// ---- memory: load and store want the alignment of the whole vector (16 bytes when it is longer) ---------------------------------

template <int Bytes> struct word_of;
template <> struct word_of<1> { typedef unsigned char type; };
template <> struct word_of<2> { typedef word2 type; };
template <> struct word_of<4> { typedef word4 type; };
template <> struct word_of<8> { typedef word8 type; };
template <> struct word_of<16> { typedef word16 type; };

template <class T, int N>
TILE_FN vec<T, N> load(const T* p) {
  constexpr int bytes = sizeof(T) * N, word = bytes < 16 ? bytes : 16;
  static_assert(bytes % word == 0 && (word & (word - 1)) == 0, "a vector access is 1, 2, 4, 8 or a multiple of 16 bytes");
  struct words { typename word_of<word>::type w[bytes / word]; } r;
  check_alignment(p, word);
  TILE_UNROLL
  for (int i = 0; i < bytes / word; ++i) r.w[i] = ((const typename word_of<word>::type*)p)[i];
  return bit_cast<vec<T, N>>(r);
}
template <class T, int N>
TILE_FN void store(T* p, vec<T, N> x) {
  constexpr int bytes = sizeof(T) * N, word = bytes < 16 ? bytes : 16;
  static_assert(bytes % word == 0 && (word & (word - 1)) == 0, "a vector access is 1, 2, 4, 8 or a multiple of 16 bytes");
  struct words { typename word_of<word>::type w[bytes / word]; };
  words r = bit_cast<words>(x);
  check_alignment(p, word);
  TILE_UNROLL
  for (int i = 0; i < bytes / word; ++i) ((typename word_of<word>::type*)p)[i] = r.w[i];
}
// All lanes or none; zeros for none.
template <class T, int N>
TILE_FN vec<T, N> load_if(bool predicate, const T* p) {
  return predicate ? load<T, N>(p) : broadcast<T, N>(T(0));
}
template <class T, int N>
TILE_FN void store_if(bool predicate, T* p, vec<T, N> x) {
  if (predicate) store(p, x);
}
// Lane by lane: registers, strides, lanes that are off (they read as 0).
template <class T, int N, class P, class I>
TILE_FN vec<T, N> gather(P p, I stride) {
  vec<T, N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = p[i * stride];
  return r;
}
template <class P, class T, int N, class I>
TILE_FN void scatter(P p, I stride, vec<T, N> x) {
  TILE_UNROLL
  for (int i = 0; i < N; ++i) p[i * stride] = x.v[i];
}
template <class T, int N, class P, class I>
TILE_FN vec<T, N> gather_if(vec<bool, N> mask, P p, I stride) {
  vec<T, N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = mask.v[i] ? p[i * stride] : T(0);
  return r;
}
template <class P, class T, int N, class I>
TILE_FN void scatter_if(vec<bool, N> mask, P p, I stride, vec<T, N> x) {
  TILE_UNROLL
  for (int i = 0; i < N; ++i)
    if (mask.v[i]) p[i * stride] = x.v[i];
}
template <class T, int N, class P, class I>
TILE_FN vec<T, N> gather_at(P p, vec<I, N> index) {
  vec<T, N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = p[index.v[i]];
  return r;
}
template <class P, class T, int N, class I>
TILE_FN void scatter_at(P p, vec<I, N> index, vec<T, N> x) {
  TILE_UNROLL
  for (int i = 0; i < N; ++i) p[index.v[i]] = x.v[i];
}
template <class T, int N, class P, class I>
TILE_FN vec<T, N> gather_at_if(vec<bool, N> mask, P p, vec<I, N> index) {
  vec<T, N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = mask.v[i] ? p[index.v[i]] : T(0);
  return r;
}
template <class P, class T, int N, class I>
TILE_FN void scatter_at_if(vec<bool, N> mask, P p, vec<I, N> index, vec<T, N> x) {
  TILE_UNROLL
  for (int i = 0; i < N; ++i)
    if (mask.v[i]) p[index.v[i]] = x.v[i];
}

// Elements of four bits: as the bytes that hold them where the first one starts a byte.
template <class T, int N, bool V>
TILE_FN vec<T, N> load(nibbles<T, V> p) {
  if (p.index & 1) return gather<T, N>(p, 1);
  return bit_cast<vec<T, N>>(load<uint8_t, N / 2>(p.bytes()));
}
template <class T, int N, bool V>
TILE_FN void store(nibbles<T, V> p, vec<T, N> x) {
  if (p.index & 1) scatter(p, 1, x);
  else store(p.bytes(), bit_cast<vec<uint8_t, N / 2>>(x));
}
template <class T, int N, bool V>
TILE_FN vec<T, N> load_if(bool predicate, nibbles<T, V> p) {
  return predicate ? load<T, N>(p) : broadcast<T, N>(T(0));
}
#if !defined(TILE_EMULATE) && TILE_ARCH >= 80
// Two fp16 or bf16 in a register: each operation rounds once, as the way through fp32 does.
template <class T, int N>
TILE_FN uint32_t pair_at(vec<T, N> x, int i) {
  return bit_cast<uint32_t>(vec<T, 2>{x.v[i], x.v[i + 1]});
}
template <class T, int N>
TILE_FN void put_pair(vec<T, N>& x, int i, uint32_t pair) {
  const vec<T, 2> two = bit_cast<vec<T, 2>>(pair);
  x.v[i] = two.v[0];
  x.v[i + 1] = two.v[1];
}
template <class T>
TILE_FN uint32_t fma_pair(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t r;
  if constexpr (same<T, fp16>) asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  else asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}
#define TILE_PAIRS(OPERATOR, F16, BF16)                                                              \
  template <int N>                                                                                   \
  TILE_FN vec<fp16, N> operator OPERATOR(vec<fp16, N> a, vec<fp16, N> b) {                           \
    static_assert(N % 2 == 0, "pairs");                                                              \
    vec<fp16, N> r;                                                                                  \
    TILE_UNROLL                                                                                      \
    for (int i = 0; i < N; i += 2) {                                                                 \
      uint32_t pair;                                                                                 \
      asm(F16 " %0, %1, %2;" : "=r"(pair) : "r"(pair_at(a, i)), "r"(pair_at(b, i)));                 \
      put_pair(r, i, pair);                                                                          \
    }                                                                                                \
    return r;                                                                                        \
  }                                                                                                  \
  template <int N>                                                                                   \
  TILE_FN vec<bf16, N> operator OPERATOR(vec<bf16, N> a, vec<bf16, N> b) {                           \
    vec<bf16, N> r;                                                                                  \
    TILE_UNROLL                                                                                      \
    for (int i = 0; i < N; i += 2) {                                                                 \
      const uint32_t x = pair_at(a, i), y = pair_at(b, i);                                           \
      put_pair(r, i, BF16);                                                                          \
    }                                                                                                \
    return r;                                                                                        \
  }
TILE_PAIRS(+, "add.f16x2", fma_pair<bf16>(x, 0x3f803f80u, y))
TILE_PAIRS(-, "sub.f16x2", fma_pair<bf16>(y, 0xbf80bf80u, x))
TILE_PAIRS(*, "mul.f16x2", fma_pair<bf16>(x, y, 0x80008000u))
#undef TILE_PAIRS
#endif

// ---- operators ------------------------------------------------------------------------------------------------------------------

#define TILE_LANES(OPERATOR, RESULT)                                 \
  template <class T, int N>                                          \
  TILE_FN vec<RESULT, N> operator OPERATOR(vec<T, N> a, vec<T, N> b) { \
    vec<RESULT, N> r;                                                \
    TILE_UNROLL                                                      \
    for (int i = 0; i < N; ++i) r.v[i] = RESULT(T(a[i]) OPERATOR T(b[i])); \
    return r;                                                        \
  }
TILE_LANES(+, T)
TILE_LANES(-, T)
TILE_LANES(*, T)
TILE_LANES(/, T)
TILE_LANES(&, T)
TILE_LANES(|, T)
TILE_LANES(^, T)
TILE_LANES(==, bool)
TILE_LANES(!=, bool)
TILE_LANES(<, bool)
TILE_LANES(<=, bool)
TILE_LANES(>, bool)
TILE_LANES(>=, bool)
#undef TILE_LANES

#define TILE_LANES(OPERATOR)                                \
  template <class T, int N>                                 \
  TILE_FN vec<T, N> operator OPERATOR(vec<T, N> a) {        \
    vec<T, N> r;                                            \
    TILE_UNROLL                                             \
    for (int i = 0; i < N; ++i) r.v[i] = T(OPERATOR T(a[i])); \
    return r;                                               \
  }
TILE_LANES(-)
TILE_LANES(~)
TILE_LANES(!)
#undef TILE_LANES

template <class T>
TILE_FN T select(bool condition, T a, T b) {
  return condition ? a : b;
}
template <class T, int N>
TILE_FN vec<T, N> select(vec<bool, N> condition, vec<T, N> a, vec<T, N> b) {
  vec<T, N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = condition.v[i] ? a.v[i] : b.v[i];
  return r;
}

// Two floats at once where the machine has an instruction for it; the first goes to the low half.
template <class To>
TILE_FN vec<To, 2> convert_pair(float low, float high) {
#if !defined(TILE_EMULATE) && TILE_ARCH >= 80
  if constexpr (same<To, fp16>) {
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return bit_cast<vec<To, 2>>(r);
  }
  if constexpr (same<To, bf16>) {
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return bit_cast<vec<To, 2>>(r);
  }
#endif
  return vec<To, 2>{To(low), To(high)};
}
// Two small numbers in the low bits of a word's halves as two fp16 or bf16: rows of the table.
template <bool Signed> TILE_FN uint32_t nibbles_fp16(uint32_t word);
TILE_FN uint32_t e2m1_fp16(uint32_t word);
TILE_FN uint32_t e4m3_fp16(uint32_t word);
TILE_FN uint32_t e5m2_fp16(uint32_t word);
#if TILE_ARCH >= 80
template <bool Signed> TILE_FN uint32_t nibbles_bf16(uint32_t word);
TILE_FN uint32_t e2m1_bf16(uint32_t word);
#endif
template <class From, class To> constexpr int decoded_bits =
    (is_nibble<From> || same<From, e2m1>) && (same<To, fp16> || (TILE_ARCH >= 80 && same<To, bf16>)) ? 4
    : (same<From, e4m3> || same<From, e5m2>) && same<To, fp16> ? 8 : 0;
template <class From, class To>
TILE_FN uint32_t decode_pair(uint32_t word) {
  if constexpr (same<From, e4m3>) return e4m3_fp16(word);
  else if constexpr (same<From, e5m2>) return e5m2_fp16(word);
  else if constexpr (same<To, fp16>) {
    if constexpr (same<From, e2m1>) return e2m1_fp16(word);
    else return nibbles_fp16<same<From, i4>>(word);
  }
#if TILE_ARCH >= 80
  else if constexpr (same<From, e2m1>) return e2m1_bf16(word);
  else return nibbles_bf16<same<From, i4>>(word);
#endif
}
template <class To, class From, int N>
TILE_FN vec<To, N> convert(vec<From, N> x) {
  vec<To, N> r;
  if constexpr (decoded_bits<From, To> != 0 && N * decoded_bits<From, To> % 32 == 0) {
    // A word at a time: its numbers are taken in pairs that lie half a word apart.
    constexpr int bits = decoded_bits<From, To>, in_word = 32 / bits;
    struct words { uint32_t w[N / in_word]; };
    const words packed = bit_cast<words>(x);
    TILE_UNROLL
    for (int i = 0; i < N / in_word; ++i) {
      TILE_UNROLL
      for (int j = 0; j < in_word / 2; ++j) {
        const vec<To, 2> pair = bit_cast<vec<To, 2>>(decode_pair<From, To>(packed.w[i] >> (j * bits)));
        r.v[i * in_word + j] = pair.v[0];
        r.v[i * in_word + j + in_word / 2] = pair.v[1];
      }
    }
  } else if constexpr (N % 2 == 0 && same<From, float> && (same<To, fp16> || same<To, bf16>)) {
    TILE_UNROLL
    for (int i = 0; i < N; i += 2) {
      vec<To, 2> pair = convert_pair<To>(x.v[i], x.v[i + 1]);
      r.v[i] = pair.v[0];
      r.v[i + 1] = pair.v[1];
    }
  } else {
    TILE_UNROLL
    for (int i = 0; i < N; ++i) r.v[i] = convert<To>(x[i]);
  }
  return r;
}
// Lane by lane with a rounding mode, saturation or not, and random bits.
template <class To, rounding R, bool Saturate, class From, int N>
TILE_FN auto convert_by(vec<From, N> x) {
  vec<decltype(convert_by<To, R, Saturate>(From(x[0]))), N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = convert_by<To, R, Saturate>(From(x[i]));
  return r;
}
template <class To, rounding R, bool Saturate, class From, int N>
TILE_FN auto convert_by(vec<From, N> x, vec<uint32_t, N> random) {
  vec<decltype(convert_by<To, R, Saturate>(From(x[0]))), N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = convert_by<To, R, Saturate>(From(x[i]), random.v[i]);
  return r;
}
// Any bits as any type of as many: N lanes of To, or a scalar.
template <class To, int N, class From>
TILE_FN auto reinterpret(From x) {
  if constexpr (N > 1) return bit_cast<vec<To, N>>(x);
  else if constexpr (is_nibble<From> || same<From, e2m1>) return To::from(x.nibble());
  else return bit_cast<To>(x);
}

// Scalars and vectors end to end, then a choice of lanes.
template <class T, int A, int B>
TILE_FN vec<T, A + B> join(vec<T, A> a, vec<T, B> b) {
  vec<T, A + B> r;
  TILE_UNROLL
  for (int i = 0; i < A; ++i) r.v[i] = a.v[i];
  TILE_UNROLL
  for (int i = 0; i < B; ++i) r.v[A + i] = b.v[i];
  return r;
}
template <int... Index, class T, int N>
TILE_FN vec<T, sizeof...(Index)> shuffle(vec<T, N> x) {
  constexpr int from[] = {Index...};
  vec<T, sizeof...(Index)> r;
  TILE_UNROLL
  for (int i = 0; i < int(sizeof...(Index)); ++i) r.v[i] = x.v[from[i]];
  return r;
}

}  // namespace tile
// ---- accesses to global memory that say what the second-level cache should do with the line -------------------------------------
// PTX ISA, createpolicy and the .L2::cache_hint of ld, st and cp.async (sm_80 on). The emulator has no caches.

namespace tile {

enum eviction { evict_first, evict_last };

#if !defined(TILE_EMULATE) && TILE_ARCH >= 80
template <eviction E>
TILE_FN uint64_t cache_policy() {
  uint64_t policy;
  if constexpr (E == evict_first)
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  else
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
TILE_FN uint64_t global_address(const void* p) { return uint64_t(__cvta_generic_to_global(p)); }
TILE_FN void load_word(word16& w, const void* p, uint64_t policy) {
  asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(global_address(p)), "l"(policy) : "memory");
}
TILE_FN void load_word(word8& w, const void* p, uint64_t policy) {
  asm volatile("ld.global.L2::cache_hint.u64 %0, [%1], %2;" : "=l"(w) : "l"(global_address(p)), "l"(policy) : "memory");
}
TILE_FN void load_word(word4& w, const void* p, uint64_t policy) {
  asm volatile("ld.global.L2::cache_hint.u32 %0, [%1], %2;" : "=r"(w) : "l"(global_address(p)), "l"(policy) : "memory");
}
TILE_FN void load_word(word2& w, const void* p, uint64_t policy) {
  asm volatile("ld.global.L2::cache_hint.u16 %0, [%1], %2;" : "=h"(w) : "l"(global_address(p)), "l"(policy) : "memory");
}
TILE_FN void load_word(unsigned char& w, const void* p, uint64_t policy) {
  word4 wide;
  asm volatile("ld.global.L2::cache_hint.u8 %0, [%1], %2;" : "=r"(wide) : "l"(global_address(p)), "l"(policy) : "memory");
  w = (unsigned char)wide;
}
TILE_FN void store_word(void* p, word16 w, uint64_t policy) {
  asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;"
               : : "l"(global_address(p)), "r"(w.x), "r"(w.y), "r"(w.z), "r"(w.w), "l"(policy) : "memory");
}
TILE_FN void store_word(void* p, word8 w, uint64_t policy) {
  asm volatile("st.global.L2::cache_hint.u64 [%0], %1, %2;" : : "l"(global_address(p)), "l"(w), "l"(policy) : "memory");
}
TILE_FN void store_word(void* p, word4 w, uint64_t policy) {
  asm volatile("st.global.L2::cache_hint.u32 [%0], %1, %2;" : : "l"(global_address(p)), "r"(w), "l"(policy) : "memory");
}
TILE_FN void store_word(void* p, word2 w, uint64_t policy) {
  asm volatile("st.global.L2::cache_hint.u16 [%0], %1, %2;" : : "l"(global_address(p)), "h"(w), "l"(policy) : "memory");
}
TILE_FN void store_word(void* p, unsigned char w, uint64_t policy) {
  asm volatile("st.global.L2::cache_hint.u8 [%0], %1, %2;" : : "l"(global_address(p)), "r"(word4(w)), "l"(policy) : "memory");
}
#endif

// As load and store; of one element too.
template <eviction E, class T, int N>
TILE_FN vec<T, N> load_cached(const T* p) {
#if !defined(TILE_EMULATE) && TILE_ARCH >= 80
  constexpr int bytes = sizeof(T) * N, word = bytes < 16 ? bytes : 16;
  struct words { typename word_of<word>::type w[bytes / word]; } r;
  TILE_UNROLL
  for (int i = 0; i < bytes / word; ++i) load_word(r.w[i], (const char*)p + i * word, cache_policy<E>());
  return bit_cast<vec<T, N>>(r);
#else
  return load<T, N>(p);
#endif
}
template <eviction E, class T, int N>
TILE_FN void store_cached(T* p, vec<T, N> x) {
#if !defined(TILE_EMULATE) && TILE_ARCH >= 80
  constexpr int bytes = sizeof(T) * N, word = bytes < 16 ? bytes : 16;
  struct words { typename word_of<word>::type w[bytes / word]; };
  words r = bit_cast<words>(x);
  TILE_UNROLL
  for (int i = 0; i < bytes / word; ++i) store_word((char*)p + i * word, r.w[i], cache_policy<E>());
#else
  store(p, x);
#endif
}

}  // namespace tile
// Functions that expressions call, by one name for scalars and vectors. fp16, bf16 and fp8 go through fp32 and round once.
// maximum/minimum give the number when the other operand is NaN; floordiv/floormod follow Python, truncdiv/truncmod follow C; an
// integer division by zero gives 0.
namespace tile {

#define TILE_LANES1(NAME)                          \
  template <class T, int N>                        \
  TILE_FN auto NAME(vec<T, N> x) {                 \
    vec<decltype(NAME(T(x[0]))), N> r;             \
    TILE_UNROLL                                    \
    for (int i = 0; i < N; ++i) r.v[i] = NAME(T(x[i])); \
    return r;                                      \
  }
#define TILE_LANES2(NAME)                                  \
  template <class T, int N>                                \
  TILE_FN vec<T, N> NAME(vec<T, N> a, vec<T, N> b) {       \
    vec<T, N> r;                                           \
    TILE_UNROLL                                            \
    for (int i = 0; i < N; ++i) r.v[i] = NAME(a[i], b[i]); \
    return r;                                              \
  }
// The second operand of a type of its own.
#define TILE_LANES2_MIXED(NAME)                            \
  template <class T, class U, int N>                       \
  TILE_FN vec<T, N> NAME(vec<T, N> a, vec<U, N> b) {       \
    vec<T, N> r;                                           \
    TILE_UNROLL                                            \
    for (int i = 0; i < N; ++i) r.v[i] = NAME(a[i], b[i]); \
    return r;                                              \
  }

// ---- functions of floats --------------------------------------------------------------------------------------------------------

namespace scalar {
TILE_FN float rsqrt(float x) {
#ifndef TILE_EMULATE
  return ::rsqrtf(x);
#else
  return 1.0f / ::sqrtf(x);
#endif
}
TILE_FN double rsqrt(double x) { return 1.0 / ::sqrt(x); }
TILE_FN float exp10(float x) {
#ifndef TILE_EMULATE
  return ::exp10f(x);
#else
  return ::powf(10.0f, x);
#endif
}
TILE_FN double exp10(double x) { return ::pow(10.0, x); }
TILE_FN float sigmoid(float x) { return 1.0f / (1.0f + ::expf(-x)); }
TILE_FN double sigmoid(double x) { return 1.0 / (1.0 + ::exp(-x)); }
}  // namespace scalar

#define TILE_MATH1(NAME, F32, F64)                              \
  template <class T>                                            \
  TILE_FN T NAME(T x) {                                         \
    if constexpr (same<T, double>) return F64(x);               \
    else if constexpr (is_float<T>) return T(F32(float(x)));    \
    else return T(F64(double(x)));                              \
  }                                                             \
  TILE_LANES1(NAME)
TILE_MATH1(exp, ::expf, ::exp)
TILE_MATH1(exp2, ::exp2f, ::exp2)
TILE_MATH1(exp10, scalar::exp10, scalar::exp10)
TILE_MATH1(log, ::logf, ::log)
TILE_MATH1(log2, ::log2f, ::log2)
TILE_MATH1(log10, ::log10f, ::log10)
TILE_MATH1(log1p, ::log1pf, ::log1p)
TILE_MATH1(sqrt, ::sqrtf, ::sqrt)
TILE_MATH1(rsqrt, scalar::rsqrt, scalar::rsqrt)
TILE_MATH1(sin, ::sinf, ::sin)
TILE_MATH1(cos, ::cosf, ::cos)
TILE_MATH1(tan, ::tanf, ::tan)
TILE_MATH1(asin, ::asinf, ::asin)
TILE_MATH1(acos, ::acosf, ::acos)
TILE_MATH1(atan, ::atanf, ::atan)
TILE_MATH1(sinh, ::sinhf, ::sinh)
TILE_MATH1(cosh, ::coshf, ::cosh)
TILE_MATH1(tanh, ::tanhf, ::tanh)
TILE_MATH1(asinh, ::asinhf, ::asinh)
TILE_MATH1(acosh, ::acoshf, ::acosh)
TILE_MATH1(atanh, ::atanhf, ::atanh)
TILE_MATH1(erf, ::erff, ::erf)
TILE_MATH1(sigmoid, scalar::sigmoid, scalar::sigmoid)
#undef TILE_MATH1

// Rounding leaves integers alone.
#define TILE_ROUND(NAME, F32, F64)                              \
  template <class T>                                            \
  TILE_FN T NAME(T x) {                                         \
    if constexpr (same<T, double>) return F64(x);               \
    else if constexpr (is_float<T>) return T(F32(float(x)));    \
    else return x;                                              \
  }                                                             \
  TILE_LANES1(NAME)
TILE_ROUND(floor, ::floorf, ::floor)
TILE_ROUND(ceil, ::ceilf, ::ceil)
TILE_ROUND(trunc, ::truncf, ::trunc)
TILE_ROUND(round, ::rintf, ::rint)  // ties to even, as Python and torch
TILE_ROUND(nearbyint, ::rintf, ::rint)
#undef TILE_ROUND

#define TILE_MATH2(NAME, F32, F64)                                             \
  template <class T>                                                           \
  TILE_FN T NAME(T a, T b) {                                                   \
    if constexpr (same<T, double>) return F64(a, b);                           \
    else if constexpr (is_float<T>) return T(F32(float(a), float(b)));         \
    else return T(F64(double(a), double(b)));                                  \
  }                                                                            \
  TILE_LANES2(NAME)
TILE_MATH2(pow, ::powf, ::pow)
TILE_MATH2(fmod, ::fmodf, ::fmod)
TILE_MATH2(atan2, ::atan2f, ::atan2)
TILE_MATH2(hypot, ::hypotf, ::hypot)
TILE_MATH2(copysign, ::copysignf, ::copysign)
#undef TILE_MATH2

// The next value of the type itself: its bits, counted up or down.
template <class T, class Bits>
TILE_FN T next_bits(T a, T b) {
  if (a != a || b != b) return T(a + b);
  if (a == b) return b;
  Bits u = bit_cast<Bits>(a);
  constexpr Bits sign = Bits(Bits(1) << (8 * sizeof(Bits) - 1));
  if ((u & Bits(~sign)) == 0) return bit_cast<T>(Bits(b > a ? 1 : Bits(sign | 1)));
  bool away = (a < b) == ((u & sign) == 0);
  return bit_cast<T>(Bits(away ? u + 1 : u - 1));
}
template <class T>
TILE_FN T nextafter(T a, T b) {
  if constexpr (sizeof(T) == 8) return next_bits<T, uint64_t>(a, b);
  else if constexpr (sizeof(T) == 4) return next_bits<T, uint32_t>(a, b);
  else if constexpr (sizeof(T) == 2) return next_bits<T, uint16_t>(a, b);
  else return next_bits<T, uint8_t>(a, b);
}
TILE_LANES2(nextafter)

template <class T>
TILE_FN T fma(T a, T b, T c) {
  if constexpr (same<T, double>) return ::fma(a, b, c);
  else if constexpr (same<T, float>) return ::fmaf(a, b, c);
#ifndef TILE_EMULATE
  else if constexpr (same<T, fp16>) {
    asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(a.bits) : "h"(a.bits), "h"(b.bits), "h"(c.bits));
    return a;
  }
#endif
  // fp64 holds the product exactly, and its sum is rounded to odd before it is rounded to the type.
  else if constexpr (is_float<T>) return T(::fma(double(float(a)), double(float(b)), double(float(c))));
  else return T(a * b + c);
}
template <class T, int N>
TILE_FN vec<T, N> fma(vec<T, N> a, vec<T, N> b, vec<T, N> c) {
  vec<T, N> r;
#if !defined(TILE_EMULATE) && TILE_ARCH >= 80
  if constexpr (N % 2 == 0 && (same<T, fp16> || same<T, bf16>)) {
    TILE_UNROLL
    for (int i = 0; i < N; i += 2) put_pair(r, i, fma_pair<T>(pair_at(a, i), pair_at(b, i), pair_at(c, i)));
    return r;
  }
#endif
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = fma(a.v[i], b.v[i], c.v[i]);
  return r;
}
template <class T, class I>
TILE_FN T ldexp(T x, I n) {
  if constexpr (same<T, double>) return ::ldexp(x, int(n));
  else if constexpr (same<T, float>) return ::ldexpf(x, int(n));
  else return T(::ldexp(double(float(x)), int(n)));
}
TILE_LANES2_MIXED(ldexp)

// ---- sign, classification, extremes ---------------------------------------------------------------------------------------------

template <class T>
TILE_FN T abs(T x) {
  if constexpr (same<T, double>) return ::fabs(x);
  else if constexpr (is_float<T>) return T(::fabsf(float(x)));
  else if constexpr (is_signed<T>) return x < T(0) ? T(T(0) - x) : x;
  else return x;
}
TILE_LANES1(abs)
template <class T>
TILE_FN bool isnan(T x) {
  if constexpr (is_small_float<T>) return isnan(float(x));
  else return x != x;
}
TILE_LANES1(isnan)
template <class T>
TILE_FN bool isinf(T x) {
  if constexpr (is_small_float<T>) return isinf(float(x));
  else if constexpr (is_float<T>) return abs(x) == T(INFINITY);
  else return false;
}
TILE_LANES1(isinf)
template <class T>
TILE_FN bool isfinite(T x) {
  if constexpr (is_small_float<T>) return isfinite(float(x));
  else if constexpr (is_float<T>) return abs(x) < T(INFINITY);
  else return true;
}
TILE_LANES1(isfinite)
template <class T>
TILE_FN T maximum(T a, T b) {
#ifndef TILE_EMULATE
  if constexpr (same<T, float>) return ::fmaxf(a, b);
  else if constexpr (same<T, double>) return ::fmax(a, b);
  else
#endif
  if constexpr (is_small_float<T>) return T(maximum(float(a), float(b)));
  // The host's fmax gives NaN for a signalling one.
  else if constexpr (is_float<T>) return a > b || b != b ? a : b;
  else return a > b ? a : b;
}
TILE_LANES2(maximum)
template <class T>
TILE_FN T minimum(T a, T b) {
#ifndef TILE_EMULATE
  if constexpr (same<T, float>) return ::fminf(a, b);
  else if constexpr (same<T, double>) return ::fmin(a, b);
  else
#endif
  if constexpr (is_small_float<T>) return T(minimum(float(a), float(b)));
  else if constexpr (is_float<T>) return a < b || b != b ? a : b;
  else return a < b ? a : b;
}
TILE_LANES2(minimum)

// ---- integers -------------------------------------------------------------------------------------------------------------------

template <class T>
TILE_FN T truncmod(T a, T b) {
  if constexpr (is_float<T>) return fmod(a, b);
  else if constexpr (is_signed<T>) return b == T(0) || b == T(-1) ? T(0) : T(a % b);
  else return b == T(0) ? T(0) : T(a % b);
}
TILE_LANES2(truncmod)
template <class T>
TILE_FN T truncdiv(T a, T b) {
  if constexpr (is_float<T>) return trunc(T(a / b));
  else if constexpr (is_signed<T>) return b == T(0) ? T(0) : b == T(-1) ? T(T(0) - a) : T(a / b);
  else return b == T(0) ? T(0) : T(a / b);
}
TILE_LANES2(truncdiv)
template <class T>
TILE_FN T floormod(T a, T b) {
  if constexpr (is_small_float<T>) return T(floormod(float(a), float(b)));
  else {
    T r = truncmod(a, b);
    if constexpr (is_float<T>) {
      if (r == T(0)) return copysign(T(0), b);
    }
    return r != T(0) && ((r < T(0)) != (b < T(0))) ? T(r + b) : r;
  }
}
TILE_LANES2(floormod)
template <class T>
TILE_FN T floordiv(T a, T b) {
  if constexpr (is_small_float<T>) return T(floordiv(float(a), float(b)));
  else if constexpr (is_float<T>) {
    if (b == T(0)) return a / b;
    T r = fmod(a, b), q = (a - r) / b;
    if (r != T(0) && ((r < T(0)) != (b < T(0)))) q -= T(1);
    if (q == T(0)) return copysign(T(0), T(a / b));
    // a - r is a multiple of b, so q is an integer but for the rounding of the division.
    T whole = floor(q);
    return q - whole > T(0.5) ? whole + T(1) : whole;
  } else {
    T q = truncdiv(a, b);
    if constexpr (is_signed<T>) {
      T r = truncmod(a, b);
      return r != T(0) && ((r < T(0)) != (b < T(0))) ? T(q - T(1)) : q;
    } else return q;
  }
}
TILE_LANES2(floordiv)

// Shifts by the width or more, or by less than 0, give 0 (the sign, for a right shift of a negative).
template <class T, class S>
TILE_FN T shift_left(T a, S b) {
  return uint64_t(b) < 8 * sizeof(T) ? T(uint64_t(a) << b) : T(0);
}
TILE_LANES2_MIXED(shift_left)
template <class T, class S>
TILE_FN T shift_right(T a, S b) {
  if (uint64_t(b) < 8 * sizeof(T)) return T(a >> b);
  return is_signed<T> && a < T(0) ? T(-1) : T(0);
}
TILE_LANES2_MIXED(shift_right)

template <class T>
TILE_FN uint64_t unsigned_bits(T x) {
  return uint64_t(x) & (~uint64_t(0) >> (64 - 8 * sizeof(T)));
}
template <class T>
TILE_FN T popcount(T x) {
#ifndef TILE_EMULATE
  return T(__popcll(unsigned_bits(x)));
#else
  return T(__builtin_popcountll(unsigned_bits(x)));
#endif
}
TILE_LANES1(popcount)
// Leading zeros within the type's own width; the width for 0.
template <class T>
TILE_FN T clz(T x) {
  uint64_t u = unsigned_bits(x);
#ifndef TILE_EMULATE
  return T(__clzll((long long)u) - int(64 - 8 * sizeof(T)));
#else
  return T((u == 0 ? 64 : __builtin_clzll(u)) - int(64 - 8 * sizeof(T)));
#endif
}
TILE_LANES1(clz)

#undef TILE_LANES1
#undef TILE_LANES2
#undef TILE_LANES2_MIXED

// ---- operators as functions, for reductions and scans ---------------------------------------------------------------------------

struct op_sum {
  template <class T> TILE_MEMBER T operator()(T a, T b) const { return T(a + b); }
};
struct op_prod {
  template <class T> TILE_MEMBER T operator()(T a, T b) const { return T(a * b); }
};
struct op_max {
  template <class T> TILE_MEMBER T operator()(T a, T b) const { return maximum(a, b); }
};
struct op_min {
  template <class T> TILE_MEMBER T operator()(T a, T b) const { return minimum(a, b); }
};
struct op_bitand {
  template <class T> TILE_MEMBER T operator()(T a, T b) const { return T(a & b); }
};
struct op_bitor {
  template <class T> TILE_MEMBER T operator()(T a, T b) const { return T(a | b); }
};
struct op_bitxor {
  template <class T> TILE_MEMBER T operator()(T a, T b) const { return T(a ^ b); }
};
struct op_exchange {
  template <class T> TILE_MEMBER T operator()(T, T b) const { return b; }
};

template <class Op, class T, int N>
TILE_FN T vector_reduce(vec<T, N> x) {
  if constexpr (is_small_float<T>) return T(vector_reduce<Op>(convert<float>(x)));
  else {
    T r = x.v[0];
    TILE_UNROLL
    for (int i = 1; i < N; ++i) r = Op()(r, x.v[i]);
    return r;
  }
}

TILE_FN void check(bool condition, const char* message) {
  if (!condition) trap(message);
}

}  // namespace tile
#ifdef TILE_EMULATE
#define TILE_ROUNDS_BY_DOUBLES 1
#endif
namespace tile {

// Functions of scalars that mean the same everywhere: one text for the CPU's headers and both CUDA headers. Needs TILE_FN, bit_cast,
// <cmath> and the fixed-width integers; with TILE_ROUNDS_BY_DOUBLES also the operations with a rounding mode.

// Random bits: Philox4x32-10 (Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", 2011), counted as cuRAND counts: the
// sequence is the counter's upper half, and each block of the lower half gives four numbers.
TILE_FN uint32_t philox(uint64_t seed, uint64_t sequence, uint64_t place) {
  uint64_t block = place >> 2;
  uint32_t x0 = uint32_t(block), x1 = uint32_t(block >> 32), x2 = uint32_t(sequence), x3 = uint32_t(sequence >> 32);
  uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
  for (int i = 0; i < 10; ++i) {
    uint64_t a = uint64_t(0xD2511F53u) * x0, b = uint64_t(0xCD9E8D57u) * x2;
    x0 = uint32_t(b >> 32) ^ x1 ^ k0;
    x1 = uint32_t(b);
    x2 = uint32_t(a >> 32) ^ x3 ^ k1;
    x3 = uint32_t(a);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  switch (place & 3) {
    case 0: return x0;
    case 1: return x1;
    case 2: return x2;
    default: return x3;
  }
}

// The bit of a mask that is the offset-th set one from a place on, or 0xffffffff.
TILE_FN uint32_t fns(uint32_t mask, uint32_t base, int32_t offset) {
  if (offset == 0) return mask >> (base & 31) & 1 ? base : 0xffffffffu;
  int step = offset > 0 ? 1 : -1, left = offset > 0 ? offset : -offset;
  for (int bit = int(base); bit >= 0 && bit < 32; bit += step)
    if ((mask >> bit & 1) && --left == 0) return uint32_t(bit);
  return 0xffffffffu;
}

#ifdef TILE_ROUNDS_BY_DOUBLES
// A rounding mode is carried out by looking at what rounding to nearest took away, which double arithmetic gives exactly.
// A result that no operation after it is fused with.
TILE_FN float alone(float x) {
#if defined(__x86_64__)
  __asm__("" : "+x"(x));
#elif defined(__aarch64__)
  __asm__("" : "+w"(x));
#endif
  return x;
}

// A result rounded to nearest, and the sign of what the exact result has more than it: the neighbour that a mode asks for. The mode is
// the second letter of rn, rz, ru and rd.
TILE_FN float directed(float nearest, double rest, const char* mode) {
  if (mode[1] == 'n' || !(rest > 0 || rest < 0)) return nearest;
  bool up = rest > 0 && (mode[1] == 'u' || (mode[1] == 'z' && nearest < 0));
  bool down = rest < 0 && (mode[1] == 'd' || (mode[1] == 'z' && nearest > 0));
  if (!up && !down) return nearest;
  uint32_t bits = bit_cast<uint32_t>(nearest);
  if (nearest == 0) bits = up ? 1u : 0x80000001u;
  else bits = (nearest > 0) == up ? bits + 1 : bits - 1;
  return bit_cast<float>(bits);
}
// What a + b has more than its rounded sum (Knuth).
TILE_FN double lost(double a, double b, double sum) {
  double part = sum - a;
  double rest = (a - (sum - part)) + (b - part);
  return sum - sum == 0 ? rest : 0;
}
// -0 where two parts of different signs, or two negative zeros, cancel while rounding down.
TILE_FN float cancelled(float found, double a, double b, const char* mode) {
  return mode[1] == 'd' && found == 0 && a + b == 0 && (std::signbit(a) || std::signbit(b)) ? -0.0f : found;
}
TILE_FN float ieee_add(float a, float b, const char* mode) {
  float nearest = alone(a + b);
  double sum = double(a) + double(b), rest = lost(a, b, sum);
  return cancelled(directed(nearest, (sum - double(nearest)) + rest, mode), a, b, mode);
}
TILE_FN float ieee_sub(float a, float b, const char* mode) { return ieee_add(a, -b, mode); }
TILE_FN float ieee_mul(float a, float b, const char* mode) {
  float nearest = alone(a * b);
  return directed(nearest, double(a) * double(b) - double(nearest), mode);
}
TILE_FN float ieee_fma(float a, float b, float c, const char* mode) {
  float nearest = ::fmaf(a, b, c);
  double product = double(a) * double(b), sum = product + double(c), rest = lost(product, c, sum);
  return cancelled(directed(nearest, (sum - double(nearest)) + rest, mode), product, c, mode);
}
TILE_FN float ieee_div(float a, float b, const char* mode) {
  float nearest = alone(a / b);
  double rest = double(a) - double(nearest) * double(b);
  return directed(nearest, std::signbit(double(b)) ? -rest : rest, mode);
}
TILE_FN float ieee_sqrt(float x, const char* mode) {
  float nearest = ::sqrtf(x);
  return directed(nearest, double(x) - double(nearest) * double(nearest), mode);
}
TILE_FN float ieee_rsqrt(float x, const char*) { return float(1.0 / ::sqrt(double(x))); }
#endif
}  // namespace tile

// Operations with a rounding mode, dot products of bytes, single bits of words.
namespace tile {

#ifndef TILE_EMULATE
// The mode is a literal, so that one of the instructions is left.
TILE_FN float ieee_add(float a, float b, const char* mode) {
  if (mode[1] == 'z') return __fadd_rz(a, b);
  if (mode[1] == 'u') return __fadd_ru(a, b);
  if (mode[1] == 'd') return __fadd_rd(a, b);
  return __fadd_rn(a, b);
}
TILE_FN float ieee_sub(float a, float b, const char* mode) {
  if (mode[1] == 'z') return __fsub_rz(a, b);
  if (mode[1] == 'u') return __fsub_ru(a, b);
  if (mode[1] == 'd') return __fsub_rd(a, b);
  return __fsub_rn(a, b);
}
TILE_FN float ieee_mul(float a, float b, const char* mode) {
  if (mode[1] == 'z') return __fmul_rz(a, b);
  if (mode[1] == 'u') return __fmul_ru(a, b);
  if (mode[1] == 'd') return __fmul_rd(a, b);
  return __fmul_rn(a, b);
}
TILE_FN float ieee_div(float a, float b, const char* mode) {
  if (mode[1] == 'z') return __fdiv_rz(a, b);
  if (mode[1] == 'u') return __fdiv_ru(a, b);
  if (mode[1] == 'd') return __fdiv_rd(a, b);
  return __fdiv_rn(a, b);
}
TILE_FN float ieee_fma(float a, float b, float c, const char* mode) {
  if (mode[1] == 'z') return __fmaf_rz(a, b, c);
  if (mode[1] == 'u') return __fmaf_ru(a, b, c);
  if (mode[1] == 'd') return __fmaf_rd(a, b, c);
  return __fmaf_rn(a, b, c);
}
TILE_FN float ieee_sqrt(float a, const char* mode) {
  if (mode[1] == 'z') return __fsqrt_rz(a);
  if (mode[1] == 'u') return __fsqrt_ru(a);
  if (mode[1] == 'd') return __fsqrt_rd(a);
  return __fsqrt_rn(a);
}
TILE_FN float ieee_rsqrt(float x, const char*) { return __frsqrt_rn(x); }
#endif
template <int N>
TILE_FN vec<float, N> ieee_add(vec<float, N> a, vec<float, N> b, const char* mode) {
  vec<float, N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = ieee_add(a.v[i], b.v[i], mode);
  return r;
}
template <int N>
TILE_FN vec<float, N> ieee_sub(vec<float, N> a, vec<float, N> b, const char* mode) {
  vec<float, N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = ieee_sub(a.v[i], b.v[i], mode);
  return r;
}
template <int N>
TILE_FN vec<float, N> ieee_mul(vec<float, N> a, vec<float, N> b, const char* mode) {
  vec<float, N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = ieee_mul(a.v[i], b.v[i], mode);
  return r;
}
template <int N>
TILE_FN vec<float, N> ieee_div(vec<float, N> a, vec<float, N> b, const char* mode) {
  vec<float, N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = ieee_div(a.v[i], b.v[i], mode);
  return r;
}
template <int N>
TILE_FN vec<float, N> ieee_fma(vec<float, N> a, vec<float, N> b, vec<float, N> c, const char* mode) {
  vec<float, N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = ieee_fma(a.v[i], b.v[i], c.v[i], mode);
  return r;
}
template <int N>
TILE_FN vec<float, N> ieee_sqrt(vec<float, N> a, const char* mode) {
  vec<float, N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = ieee_sqrt(a.v[i], mode);
  return r;
}
template <int N>
TILE_FN vec<float, N> ieee_rsqrt(vec<float, N> a, const char* mode) {
  vec<float, N> r;
  TILE_UNROLL
  for (int i = 0; i < N; ++i) r.v[i] = ieee_rsqrt(a.v[i], mode);
  return r;
}

template <class T, class C>
TILE_FN C dp4a(vec<T, 4> a, vec<T, 4> b, C c) {
#ifndef TILE_EMULATE
  if constexpr (is_signed<T>) return C(__dp4a(bit_cast<int>(a), bit_cast<int>(b), int(c)));
  else return C(__dp4a(bit_cast<unsigned>(a), bit_cast<unsigned>(b), unsigned(c)));
#endif
  for (int i = 0; i < 4; ++i) c = C(uint32_t(c) + uint32_t(int32_t(a.v[i]) * int32_t(b.v[i])));
  return c;
}
template <class A, class B, class C, int N>
TILE_FN vec<uint32_t, N> fns(vec<A, N> mask, vec<B, N> base, vec<C, N> offset) {
  vec<uint32_t, N> r;
  for (int i = 0; i < N; ++i) r.v[i] = fns(uint32_t(mask.v[i]), uint32_t(base.v[i]), int32_t(offset.v[i]));
  return r;
}

}  // namespace tile

// What kernels print and check while they run; the formats are made with the kernel, a line each.
namespace tile {

#ifdef TILE_EMULATE
// Not watched: the stream is no memory of the kernel's.
static __attribute__((noinline, no_sanitize("thread"))) void write_line(const char* line) {
  fputs(line, stdout);
  fflush(stdout);
}
#endif

template <class... Values>
TILE_FN void device_print(const char* format, Values... values) {
#ifdef TILE_EMULATE
  char line[1024];
  snprintf(line, sizeof line, format, values...);
  write_line(line);
#else
  printf(format, values...);
#endif
}

// Where a condition does not hold: its values are printed, and the kernel ends with an error.
template <class... Values>
TILE_FN void device_assert(bool holds, const char* format, Values... values) {
  if (holds) return;
#ifdef TILE_EMULATE
  char line[1024];
  snprintf(line, sizeof line, format, values...);
  for (char* c = line; *c; ++c)
    if (*c == '\n') *c = 0;
  emu::trap(line);
#else
  printf(format, values...);
  __trap();
#endif
}

}  // namespace tile

namespace tile {

// all threads of the block meet
TILE_FN void sync_threads(site where) {
  emu::sync_threads(where);
}

// all threads of all blocks meet; the launch must be cooperative, and one at a time
TILE_FN void sync_grid(site where) {
  emu::sync_grid(where);
}

// the lanes of the mask meet
TILE_FN void sync_warp(site where, uint32_t mask = 0xffffffffu) {
  emu::sync_warp(where, mask);
}

// `count` threads meet at barrier `id` (1 to 15; 0 is sync_threads)
TILE_FN void bar_sync(site where, uint32_t id, uint32_t count) {
  emu::bar_sync(where, id, count);
}

// arrives at barrier `id` without waiting
TILE_FN void bar_arrive(site where, uint32_t id, uint32_t count) {
  emu::bar_arrive(where, id, count);
}

// all threads of the block meet; count of their predicates
TILE_FN int32_t sync_threads_count(site where, bool predicate) {
  int total = emu::sync_threads_count(where, predicate);

  return total;
}

// all threads of the block meet; and of their predicates
TILE_FN int32_t sync_threads_and(site where, bool predicate) {
  int total = emu::sync_threads_count(where, predicate);
  int threads = int(blockDim.x * blockDim.y * blockDim.z);
  return total == threads;
}

// all threads of the block meet; or of their predicates
TILE_FN int32_t sync_threads_or(site where, bool predicate) {
  int total = emu::sync_threads_count(where, predicate);

  return total != 0;
}

// orders this thread's accesses as seen by the block
TILE_FN void fence_block() {
  emu::fence(emu::Scope::block);
}

// orders this thread's accesses as seen by the device
TILE_FN void fence_device() {
  emu::fence(emu::Scope::device);
}

// orders this thread's accesses as seen by the system
TILE_FN void fence_system() {
  emu::fence(emu::Scope::system);
}

// starts a copy of 4, 8 or 16 bytes from global to shared memory; zeros when the predicate is false
template <int Bytes>
TILE_FN void cp_async(void* dst, const void* src, bool predicate = true) {
  emu::cp_async(dst, src, Bytes, predicate ? Bytes : 0);
}

// closes this thread's group of copies
TILE_FN void cp_async_commit() {
  emu::cp_async_commit();
}

// waits until at most `pending` of this thread's groups are unfinished
template <int Pending>
TILE_FN void cp_async_wait(site where) {
  emu::cp_async_wait(where, Pending);
}

// loads 8x8 matrices of 16-bit elements from shared memory into the fragments of a warp
template <int Num, bool Trans>
TILE_FN void ldmatrix(void* dst, const void* src) {
  emu::ldmatrix(dst, src, Num, Trans);
}

// c += a b for one warp, 16x8x8, in registers
TILE_FN void mma_m16n8k8_f16_f16_f32(float* c, const fp16* a, const fp16* b) {
  emu::mma(16, 8, 8, emu::Element::f16, emu::Element::f16, emu::Element::f32, c, a, b, c);
}

// c += a b for one warp, 16x8x8, in registers
TILE_FN void mma_m16n8k8_f16_f16_f16(fp16* c, const fp16* a, const fp16* b) {
  emu::mma(16, 8, 8, emu::Element::f16, emu::Element::f16, emu::Element::f16, c, a, b, c);
}

// c += a b for one warp, 16x8x16, in registers
TILE_FN void mma_m16n8k16_f16_f16_f32(float* c, const fp16* a, const fp16* b) {
  emu::mma(16, 8, 16, emu::Element::f16, emu::Element::f16, emu::Element::f32, c, a, b, c);
}

// c += a b for one warp, 16x8x16, in registers
TILE_FN void mma_m16n8k16_f16_f16_f16(fp16* c, const fp16* a, const fp16* b) {
  emu::mma(16, 8, 16, emu::Element::f16, emu::Element::f16, emu::Element::f16, c, a, b, c);
}

// c += a b for one warp, 16x8x8, in registers
TILE_FN void mma_m16n8k8_bf16_bf16_f32(float* c, const bf16* a, const bf16* b) {
  emu::mma(16, 8, 8, emu::Element::bf16, emu::Element::bf16, emu::Element::f32, c, a, b, c);
}

// c += a b for one warp, 16x8x16, in registers
TILE_FN void mma_m16n8k16_bf16_bf16_f32(float* c, const bf16* a, const bf16* b) {
  emu::mma(16, 8, 16, emu::Element::bf16, emu::Element::bf16, emu::Element::f32, c, a, b, c);
}

// c += a b for one warp, 16x8x4, in registers
TILE_FN void mma_m16n8k4_tf32_tf32_f32(float* c, const float* a, const float* b) {
  emu::mma(16, 8, 4, emu::Element::tf32, emu::Element::tf32, emu::Element::f32, c, a, b, c);
}

// c += a b for one warp, 16x8x8, in registers
TILE_FN void mma_m16n8k8_tf32_tf32_f32(float* c, const float* a, const float* b) {
  emu::mma(16, 8, 8, emu::Element::tf32, emu::Element::tf32, emu::Element::f32, c, a, b, c);
}

// c += a b for one warp, 16x8x16, in registers
TILE_FN void mma_m16n8k16_s8_s8_s32(int32_t* c, const int8_t* a, const int8_t* b) {
  emu::mma(16, 8, 16, emu::Element::s8, emu::Element::s8, emu::Element::s32, c, a, b, c);
}

// c += a b for one warp, 16x8x16, in registers
TILE_FN void mma_m16n8k16_s8_u8_s32(int32_t* c, const int8_t* a, const uint8_t* b) {
  emu::mma(16, 8, 16, emu::Element::s8, emu::Element::u8, emu::Element::s32, c, a, b, c);
}

// c += a b for one warp, 16x8x16, in registers
TILE_FN void mma_m16n8k16_u8_s8_s32(int32_t* c, const uint8_t* a, const int8_t* b) {
  emu::mma(16, 8, 16, emu::Element::u8, emu::Element::s8, emu::Element::s32, c, a, b, c);
}

// c += a b for one warp, 16x8x16, in registers
TILE_FN void mma_m16n8k16_u8_u8_s32(int32_t* c, const uint8_t* a, const uint8_t* b) {
  emu::mma(16, 8, 16, emu::Element::u8, emu::Element::u8, emu::Element::s32, c, a, b, c);
}

// c += a b for one warp, 16x8x32, in registers
TILE_FN void mma_m16n8k32_s8_s8_s32(int32_t* c, const int8_t* a, const int8_t* b) {
  emu::mma(16, 8, 32, emu::Element::s8, emu::Element::s8, emu::Element::s32, c, a, b, c);
}

// c += a b for one warp, 16x8x32, in registers
TILE_FN void mma_m16n8k32_s8_u8_s32(int32_t* c, const int8_t* a, const uint8_t* b) {
  emu::mma(16, 8, 32, emu::Element::s8, emu::Element::u8, emu::Element::s32, c, a, b, c);
}

// c += a b for one warp, 16x8x32, in registers
TILE_FN void mma_m16n8k32_u8_s8_s32(int32_t* c, const uint8_t* a, const int8_t* b) {
  emu::mma(16, 8, 32, emu::Element::u8, emu::Element::s8, emu::Element::s32, c, a, b, c);
}

// c += a b for one warp, 16x8x32, in registers
TILE_FN void mma_m16n8k32_u8_u8_s32(int32_t* c, const uint8_t* a, const uint8_t* b) {
  emu::mma(16, 8, 32, emu::Element::u8, emu::Element::u8, emu::Element::s32, c, a, b, c);
}

// c += a b for one warp, 16x8x32, in registers
TILE_FN void mma_m16n8k32_e4m3_e4m3_f32(float* c, const e4m3* a, const e4m3* b) {
  emu::mma(16, 8, 32, emu::Element::e4m3, emu::Element::e4m3, emu::Element::f32, c, a, b, c);
}

// c += a b for one warp, 16x8x32, in registers
TILE_FN void mma_m16n8k32_e4m3_e5m2_f32(float* c, const e4m3* a, const e5m2* b) {
  emu::mma(16, 8, 32, emu::Element::e4m3, emu::Element::e5m2, emu::Element::f32, c, a, b, c);
}

// c += a b for one warp, 16x8x32, in registers
TILE_FN void mma_m16n8k32_e5m2_e4m3_f32(float* c, const e5m2* a, const e4m3* b) {
  emu::mma(16, 8, 32, emu::Element::e5m2, emu::Element::e4m3, emu::Element::f32, c, a, b, c);
}

// c += a b for one warp, 16x8x32, in registers
TILE_FN void mma_m16n8k32_e5m2_e5m2_f32(float* c, const e5m2* a, const e5m2* b) {
  emu::mma(16, 8, 32, emu::Element::e5m2, emu::Element::e5m2, emu::Element::f32, c, a, b, c);
}

// c += a b for one warp, 8x8x4, in registers
TILE_FN void mma_m8n8k4_f64_f64_f64(double* c, const double* a, const double* b) {
  emu::mma(8, 8, 4, emu::Element::f64, emu::Element::f64, emu::Element::f64, c, a, b, c);
}

// c += a b for one warp, 16x8x32, in registers, of a sparse a
template <int Selector>
TILE_FN void mma_sp_m16n8k32_f16_f16_f32(float* c, const fp16* a, const fp16* b, const uint32_t* e) {
  emu::mma_sp(16, 8, 32, emu::Element::f16, emu::Element::f16, emu::Element::f32, c, a, b, c, *e, Selector);
}

// c += a b for one warp, 16x8x32, in registers, of a sparse a
template <int Selector>
TILE_FN void mma_sp_m16n8k32_bf16_bf16_f32(float* c, const bf16* a, const bf16* b, const uint32_t* e) {
  emu::mma_sp(16, 8, 32, emu::Element::bf16, emu::Element::bf16, emu::Element::f32, c, a, b, c, *e, Selector);
}

// c += a b for one warp, 16x8x16, in registers, of a sparse a
template <int Selector>
TILE_FN void mma_sp_m16n8k16_tf32_tf32_f32(float* c, const float* a, const float* b, const uint32_t* e) {
  emu::mma_sp(16, 8, 16, emu::Element::tf32, emu::Element::tf32, emu::Element::f32, c, a, b, c, *e, Selector);
}

// c += a b for one warp, 16x8x64, in registers, of a sparse a
template <int Selector>
TILE_FN void mma_sp_m16n8k64_s8_s8_s32(int32_t* c, const int8_t* a, const int8_t* b, const uint32_t* e) {
  emu::mma_sp(16, 8, 64, emu::Element::s8, emu::Element::s8, emu::Element::s32, c, a, b, c, *e, Selector);
}

// c += a b for one warp, 16x8x64, in registers, of a sparse a
template <int Selector>
TILE_FN void mma_sp_m16n8k64_s8_u8_s32(int32_t* c, const int8_t* a, const uint8_t* b, const uint32_t* e) {
  emu::mma_sp(16, 8, 64, emu::Element::s8, emu::Element::u8, emu::Element::s32, c, a, b, c, *e, Selector);
}

// c += a b for one warp, 16x8x64, in registers, of a sparse a
template <int Selector>
TILE_FN void mma_sp_m16n8k64_u8_s8_s32(int32_t* c, const uint8_t* a, const int8_t* b, const uint32_t* e) {
  emu::mma_sp(16, 8, 64, emu::Element::u8, emu::Element::s8, emu::Element::s32, c, a, b, c, *e, Selector);
}

// c += a b for one warp, 16x8x64, in registers, of a sparse a
template <int Selector>
TILE_FN void mma_sp_m16n8k64_u8_u8_s32(int32_t* c, const uint8_t* a, const uint8_t* b, const uint32_t* e) {
  emu::mma_sp(16, 8, 64, emu::Element::u8, emu::Element::u8, emu::Element::s32, c, a, b, c, *e, Selector);
}

// c += a b for one warp, 16x8x64, in registers, of a sparse a
template <int Selector>
TILE_FN void mma_sp_m16n8k64_e4m3_e4m3_f32(float* c, const e4m3* a, const e4m3* b, const uint32_t* e) {
  emu::mma_sp(16, 8, 64, emu::Element::e4m3, emu::Element::e4m3, emu::Element::f32, c, a, b, c, *e, Selector);
}

// c += a b for one warp, 16x8x64, in registers, of a sparse a
template <int Selector>
TILE_FN void mma_sp_m16n8k64_e4m3_e5m2_f32(float* c, const e4m3* a, const e5m2* b, const uint32_t* e) {
  emu::mma_sp(16, 8, 64, emu::Element::e4m3, emu::Element::e5m2, emu::Element::f32, c, a, b, c, *e, Selector);
}

// c += a b for one warp, 16x8x64, in registers, of a sparse a
template <int Selector>
TILE_FN void mma_sp_m16n8k64_e5m2_e4m3_f32(float* c, const e5m2* a, const e4m3* b, const uint32_t* e) {
  emu::mma_sp(16, 8, 64, emu::Element::e5m2, emu::Element::e4m3, emu::Element::f32, c, a, b, c, *e, Selector);
}

// c += a b for one warp, 16x8x64, in registers, of a sparse a
template <int Selector>
TILE_FN void mma_sp_m16n8k64_e5m2_e5m2_f32(float* c, const e5m2* a, const e5m2* b, const uint32_t* e) {
  emu::mma_sp(16, 8, 64, emu::Element::e5m2, emu::Element::e5m2, emu::Element::f32, c, a, b, c, *e, Selector);
}

// stores `desired` where `expected` is; the value before
template <class T>
TILE_FN T atomic_cas(T* address, T expected, T desired) {
  return emu::atomic_compare_exchange(address, expected, desired);
}

// applies an operator of the headers
template <class Op, class T>
TILE_FN T atomic_combine(T* address, T value) {
  return emu::atomic_update(address, [=](T old) { return Op()(old, value); });
}

// add of one element, indivisibly; the value before
template <class T>
TILE_FN T atomic_add(T* address, T value) {
  return atomic_combine<op_sum>(address, value);
}

// max of one element, indivisibly; the value before
template <class T>
TILE_FN T atomic_max(T* address, T value) {
  return atomic_combine<op_max>(address, value);
}

// min of one element, indivisibly; the value before
template <class T>
TILE_FN T atomic_min(T* address, T value) {
  return atomic_combine<op_min>(address, value);
}

// and of one element, indivisibly; the value before
template <class T>
TILE_FN T atomic_and(T* address, T value) {
  return atomic_combine<op_bitand>(address, value);
}

// or of one element, indivisibly; the value before
template <class T>
TILE_FN T atomic_or(T* address, T value) {
  return atomic_combine<op_bitor>(address, value);
}

// xor of one element, indivisibly; the value before
template <class T>
TILE_FN T atomic_xor(T* address, T value) {
  return atomic_combine<op_bitxor>(address, value);
}

// exch of one element, indivisibly; the value before
template <class T>
TILE_FN T atomic_exch(T* address, T value) {
  return atomic_combine<op_exchange>(address, value);
}

// one element, which other threads may be updating
template <class T>
TILE_FN T atomic_load(const T* address) {
  return emu::atomic_load(address);
}

// sets one element, which other threads may be reading
template <class T>
TILE_FN void atomic_store(T* address, T value) {
  emu::atomic_store(address, value);
}

// adds each lane of a vector to its element; aligned to the vector's size
template <class T, int N>
TILE_FN void atomic_add_vec(T* address, vec<T, N> value) {
  for (int i = 0; i < N; ++i) atomic_add(address + i, value.v[i]);
}

// two four-bit integers as fp16
template <bool Signed>
TILE_FN uint32_t nibbles_fp16(uint32_t word) {
  int low = int(word & 15), high = int(word >> 16 & 15);
  if (Signed) low = (low ^ 8) - 8, high = (high ^ 8) - 8;
  return uint32_t(fp16(low).bits) | uint32_t(fp16(high).bits) << 16;
}

// two four-bit integers as bf16
template <bool Signed>
TILE_FN uint32_t nibbles_bf16(uint32_t word) {
  int low = int(word & 15), high = int(word >> 16 & 15);
  if (Signed) low = (low ^ 8) - 8, high = (high ^ 8) - 8;
  return uint32_t(bf16(low).bits) | uint32_t(bf16(high).bits) << 16;
}

// two float4_e2m1fn as fp16
TILE_FN uint32_t e2m1_fp16(uint32_t word) {
  return uint32_t(fp16(float(e2m1::from(int(word & 15)))).bits) | uint32_t(fp16(float(e2m1::from(int(word >> 16 & 15)))).bits) << 16;
}

// two float4_e2m1fn as bf16
TILE_FN uint32_t e2m1_bf16(uint32_t word) {
  return uint32_t(bf16(float(e2m1::from(int(word & 15)))).bits) | uint32_t(bf16(float(e2m1::from(int(word >> 16 & 15)))).bits) << 16;
}

// two float8_e4m3fn as fp16
TILE_FN uint32_t e4m3_fp16(uint32_t word) {
  return uint32_t(fp16(decode<e4m3_format>(uint8_t(word))).bits) | uint32_t(fp16(decode<e4m3_format>(uint8_t(word >> 16))).bits) << 16;
}

// two float8_e5m2 as fp16
TILE_FN uint32_t e5m2_fp16(uint32_t word) {
  return (word & 0x00ff00ffu) << 8;
}

// another lane's value (index)
template <class T>
TILE_FN T shfl(T value, int lane, int width = 32, uint32_t mask = 0xffffffffu) {
  return emu::shuffle(mask, value, emu::Shuffle::index, uint32_t(lane), uint32_t(width));
}

// another lane's value (up)
template <class T>
TILE_FN T shfl_up(T value, int delta, int width = 32, uint32_t mask = 0xffffffffu) {
  return emu::shuffle(mask, value, emu::Shuffle::up, uint32_t(delta), uint32_t(width));
}

// another lane's value (down)
template <class T>
TILE_FN T shfl_down(T value, int delta, int width = 32, uint32_t mask = 0xffffffffu) {
  return emu::shuffle(mask, value, emu::Shuffle::down, uint32_t(delta), uint32_t(width));
}

// another lane's value (exclusive_or)
template <class T>
TILE_FN T shfl_xor(T value, int lane_mask, int width = 32, uint32_t mask = 0xffffffffu) {
  return emu::shuffle(mask, value, emu::Shuffle::exclusive_or, uint32_t(lane_mask), uint32_t(width));
}

// the lanes whose predicate is true, a bit each
TILE_FN uint32_t ballot(bool predicate, uint32_t mask = 0xffffffffu) {
  return emu::ballot(mask, predicate);
}

// whether any lane's predicate is true
TILE_FN bool any_sync(bool predicate, uint32_t mask = 0xffffffffu) {
  return emu::any(mask, predicate);
}

// whether every lane's predicate is true
TILE_FN bool all_sync(bool predicate, uint32_t mask = 0xffffffffu) {
  return emu::all(mask, predicate);
}

// the lanes with the same value, a bit each
template <class T>
TILE_FN uint32_t match_any(T value, uint32_t mask = 0xffffffffu) {
  if constexpr (sizeof(T) == 8) return emu::match_any(mask, bit_cast<uint64_t>(value));
  else if constexpr (sizeof(T) == 4) return emu::match_any(mask, bit_cast<uint32_t>(value));
  else return emu::match_any(mask, uint32_t(value));
}

// the lanes, where all of them have the same value, else 0
template <class T>
TILE_FN uint32_t match_all(T value, uint32_t mask = 0xffffffffu) {
  int same;
  if constexpr (sizeof(T) == 8) return emu::match_all(mask, bit_cast<uint64_t>(value), &same);
  else if constexpr (sizeof(T) == 4) return emu::match_all(mask, bit_cast<uint32_t>(value), &same);
  else return emu::match_all(mask, uint32_t(value), &same);
}

// the lanes that execute together now
TILE_FN uint32_t activemask() {
  return emu::active_mask();
}

// sum over each `width` neighbouring lanes (a power of two); every lane gets it
template <class T>
TILE_FN T warp_reduce_sum(T value, int width = 32, uint32_t mask = 0xffffffffu) {
  TILE_UNROLL
  for (int step = width / 2; step > 0; step /= 2) value = op_sum()(value, shfl_xor(value, step, width, mask));
  return value;
}

// inclusive sum over the lanes before, within each `width` neighbouring lanes
template <class T>
TILE_FN T warp_scan_sum(T value, int width = 32, uint32_t mask = 0xffffffffu) {
  int place = int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % width;
  TILE_UNROLL
  for (int step = 1; step < width; step *= 2) {
    T before = shfl_up(value, step, width, mask);
    if (place >= step) value = op_sum()(before, value);
  }
  return value;
}

// sum over all threads of the block; scratch: an element a warp, or a thread when the threads are no multiple of 32
template <class T>
TILE_FN T block_reduce_sum(site where, T value, T* scratch) {
  int threads = int(blockDim.x * blockDim.y * blockDim.z);
  int thread = int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
  bool warps = threads % 32 == 0;
  int count = warps ? threads / 32 : threads;
  if (warps) value = warp_reduce_sum(value);
  tile::sync_threads(where);  // the scratch may still be read for the reduction before
  if (!warps) scratch[thread] = value;
  else if (thread % 32 == 0) scratch[thread / 32] = value;
  tile::sync_threads(where);
  value = scratch[0];
  for (int i = 1; i < count; ++i) value = op_sum()(value, scratch[i]);
  return value;
}

// prod over each `width` neighbouring lanes (a power of two); every lane gets it
template <class T>
TILE_FN T warp_reduce_prod(T value, int width = 32, uint32_t mask = 0xffffffffu) {
  TILE_UNROLL
  for (int step = width / 2; step > 0; step /= 2) value = op_prod()(value, shfl_xor(value, step, width, mask));
  return value;
}

// inclusive prod over the lanes before, within each `width` neighbouring lanes
template <class T>
TILE_FN T warp_scan_prod(T value, int width = 32, uint32_t mask = 0xffffffffu) {
  int place = int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % width;
  TILE_UNROLL
  for (int step = 1; step < width; step *= 2) {
    T before = shfl_up(value, step, width, mask);
    if (place >= step) value = op_prod()(before, value);
  }
  return value;
}

// prod over all threads of the block; scratch: an element a warp, or a thread when the threads are no multiple of 32
template <class T>
TILE_FN T block_reduce_prod(site where, T value, T* scratch) {
  int threads = int(blockDim.x * blockDim.y * blockDim.z);
  int thread = int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
  bool warps = threads % 32 == 0;
  int count = warps ? threads / 32 : threads;
  if (warps) value = warp_reduce_prod(value);
  tile::sync_threads(where);  // the scratch may still be read for the reduction before
  if (!warps) scratch[thread] = value;
  else if (thread % 32 == 0) scratch[thread / 32] = value;
  tile::sync_threads(where);
  value = scratch[0];
  for (int i = 1; i < count; ++i) value = op_prod()(value, scratch[i]);
  return value;
}

// max over each `width` neighbouring lanes (a power of two); every lane gets it
template <class T>
TILE_FN T warp_reduce_max(T value, int width = 32, uint32_t mask = 0xffffffffu) {
  TILE_UNROLL
  for (int step = width / 2; step > 0; step /= 2) value = op_max()(value, shfl_xor(value, step, width, mask));
  return value;
}

// inclusive max over the lanes before, within each `width` neighbouring lanes
template <class T>
TILE_FN T warp_scan_max(T value, int width = 32, uint32_t mask = 0xffffffffu) {
  int place = int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % width;
  TILE_UNROLL
  for (int step = 1; step < width; step *= 2) {
    T before = shfl_up(value, step, width, mask);
    if (place >= step) value = op_max()(before, value);
  }
  return value;
}

// max over all threads of the block; scratch: an element a warp, or a thread when the threads are no multiple of 32
template <class T>
TILE_FN T block_reduce_max(site where, T value, T* scratch) {
  int threads = int(blockDim.x * blockDim.y * blockDim.z);
  int thread = int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
  bool warps = threads % 32 == 0;
  int count = warps ? threads / 32 : threads;
  if (warps) value = warp_reduce_max(value);
  tile::sync_threads(where);  // the scratch may still be read for the reduction before
  if (!warps) scratch[thread] = value;
  else if (thread % 32 == 0) scratch[thread / 32] = value;
  tile::sync_threads(where);
  value = scratch[0];
  for (int i = 1; i < count; ++i) value = op_max()(value, scratch[i]);
  return value;
}

// min over each `width` neighbouring lanes (a power of two); every lane gets it
template <class T>
TILE_FN T warp_reduce_min(T value, int width = 32, uint32_t mask = 0xffffffffu) {
  TILE_UNROLL
  for (int step = width / 2; step > 0; step /= 2) value = op_min()(value, shfl_xor(value, step, width, mask));
  return value;
}

// inclusive min over the lanes before, within each `width` neighbouring lanes
template <class T>
TILE_FN T warp_scan_min(T value, int width = 32, uint32_t mask = 0xffffffffu) {
  int place = int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % width;
  TILE_UNROLL
  for (int step = 1; step < width; step *= 2) {
    T before = shfl_up(value, step, width, mask);
    if (place >= step) value = op_min()(before, value);
  }
  return value;
}

// min over all threads of the block; scratch: an element a warp, or a thread when the threads are no multiple of 32
template <class T>
TILE_FN T block_reduce_min(site where, T value, T* scratch) {
  int threads = int(blockDim.x * blockDim.y * blockDim.z);
  int thread = int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
  bool warps = threads % 32 == 0;
  int count = warps ? threads / 32 : threads;
  if (warps) value = warp_reduce_min(value);
  tile::sync_threads(where);  // the scratch may still be read for the reduction before
  if (!warps) scratch[thread] = value;
  else if (thread % 32 == 0) scratch[thread / 32] = value;
  tile::sync_threads(where);
  value = scratch[0];
  for (int i = 1; i < count; ++i) value = op_min()(value, scratch[i]);
  return value;
}

// bitand over each `width` neighbouring lanes (a power of two); every lane gets it
template <class T>
TILE_FN T warp_reduce_bitand(T value, int width = 32, uint32_t mask = 0xffffffffu) {
  TILE_UNROLL
  for (int step = width / 2; step > 0; step /= 2) value = op_bitand()(value, shfl_xor(value, step, width, mask));
  return value;
}

// inclusive bitand over the lanes before, within each `width` neighbouring lanes
template <class T>
TILE_FN T warp_scan_bitand(T value, int width = 32, uint32_t mask = 0xffffffffu) {
  int place = int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % width;
  TILE_UNROLL
  for (int step = 1; step < width; step *= 2) {
    T before = shfl_up(value, step, width, mask);
    if (place >= step) value = op_bitand()(before, value);
  }
  return value;
}

// bitand over all threads of the block; scratch: an element a warp, or a thread when the threads are no multiple of 32
template <class T>
TILE_FN T block_reduce_bitand(site where, T value, T* scratch) {
  int threads = int(blockDim.x * blockDim.y * blockDim.z);
  int thread = int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
  bool warps = threads % 32 == 0;
  int count = warps ? threads / 32 : threads;
  if (warps) value = warp_reduce_bitand(value);
  tile::sync_threads(where);  // the scratch may still be read for the reduction before
  if (!warps) scratch[thread] = value;
  else if (thread % 32 == 0) scratch[thread / 32] = value;
  tile::sync_threads(where);
  value = scratch[0];
  for (int i = 1; i < count; ++i) value = op_bitand()(value, scratch[i]);
  return value;
}

// bitor over each `width` neighbouring lanes (a power of two); every lane gets it
template <class T>
TILE_FN T warp_reduce_bitor(T value, int width = 32, uint32_t mask = 0xffffffffu) {
  TILE_UNROLL
  for (int step = width / 2; step > 0; step /= 2) value = op_bitor()(value, shfl_xor(value, step, width, mask));
  return value;
}

// inclusive bitor over the lanes before, within each `width` neighbouring lanes
template <class T>
TILE_FN T warp_scan_bitor(T value, int width = 32, uint32_t mask = 0xffffffffu) {
  int place = int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % width;
  TILE_UNROLL
  for (int step = 1; step < width; step *= 2) {
    T before = shfl_up(value, step, width, mask);
    if (place >= step) value = op_bitor()(before, value);
  }
  return value;
}

// bitor over all threads of the block; scratch: an element a warp, or a thread when the threads are no multiple of 32
template <class T>
TILE_FN T block_reduce_bitor(site where, T value, T* scratch) {
  int threads = int(blockDim.x * blockDim.y * blockDim.z);
  int thread = int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
  bool warps = threads % 32 == 0;
  int count = warps ? threads / 32 : threads;
  if (warps) value = warp_reduce_bitor(value);
  tile::sync_threads(where);  // the scratch may still be read for the reduction before
  if (!warps) scratch[thread] = value;
  else if (thread % 32 == 0) scratch[thread / 32] = value;
  tile::sync_threads(where);
  value = scratch[0];
  for (int i = 1; i < count; ++i) value = op_bitor()(value, scratch[i]);
  return value;
}

// bitxor over each `width` neighbouring lanes (a power of two); every lane gets it
template <class T>
TILE_FN T warp_reduce_bitxor(T value, int width = 32, uint32_t mask = 0xffffffffu) {
  TILE_UNROLL
  for (int step = width / 2; step > 0; step /= 2) value = op_bitxor()(value, shfl_xor(value, step, width, mask));
  return value;
}

// inclusive bitxor over the lanes before, within each `width` neighbouring lanes
template <class T>
TILE_FN T warp_scan_bitxor(T value, int width = 32, uint32_t mask = 0xffffffffu) {
  int place = int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % width;
  TILE_UNROLL
  for (int step = 1; step < width; step *= 2) {
    T before = shfl_up(value, step, width, mask);
    if (place >= step) value = op_bitxor()(before, value);
  }
  return value;
}

// bitxor over all threads of the block; scratch: an element a warp, or a thread when the threads are no multiple of 32
template <class T>
TILE_FN T block_reduce_bitxor(site where, T value, T* scratch) {
  int threads = int(blockDim.x * blockDim.y * blockDim.z);
  int thread = int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
  bool warps = threads % 32 == 0;
  int count = warps ? threads / 32 : threads;
  if (warps) value = warp_reduce_bitxor(value);
  tile::sync_threads(where);  // the scratch may still be read for the reduction before
  if (!warps) scratch[thread] = value;
  else if (thread % 32 == 0) scratch[thread / 32] = value;
  tile::sync_threads(where);
  value = scratch[0];
  for (int i = 1; i < count; ++i) value = op_bitxor()(value, scratch[i]);
  return value;
}

// exp, approximate
TILE_FN float fast_exp(float x) {
  return ::expf(x);
}

// exp10, approximate
TILE_FN float fast_exp10(float x) {
  return ::powf(10.0f, x);
}

// log, approximate
TILE_FN float fast_log(float x) {
  return ::logf(x);
}

// log2, approximate
TILE_FN float fast_log2(float x) {
  return ::log2f(x);
}

// log10, approximate
TILE_FN float fast_log10(float x) {
  return ::log10f(x);
}

// sin, approximate
TILE_FN float fast_sin(float x) {
  return ::sinf(x);
}

// cos, approximate
TILE_FN float fast_cos(float x) {
  return ::cosf(x);
}

// tan, approximate
TILE_FN float fast_tan(float x) {
  return ::tanf(x);
}

// exp2, approximate
TILE_FN float fast_exp2(float x) {
  return ::exp2f(x);
}

// tanh, approximate
TILE_FN float fast_tanh(float x) {
  return ::tanhf(x);
}

// rcp, approximate
TILE_FN float fast_rcp(float x) {
  return 1.0f / x;
}

// sqrt, approximate
TILE_FN float fast_sqrt(float x) {
  return ::sqrtf(x);
}

// rsqrt, approximate
TILE_FN float fast_rsqrt(float x) {
  return 1.0f / ::sqrtf(x);
}

// a / b, approximate
TILE_FN float fast_div(float a, float b) {
  return a / b;
}

}  // namespace tile
// Approximate functions of vectors, lane by lane.
namespace tile {

template <int N>
TILE_FN vec<float, N> fast_exp(vec<float, N> x) {
  TILE_UNROLL
  for (int i = 0; i < N; ++i) x.v[i] = fast_exp(x.v[i]);
  return x;
}
template <int N>
TILE_FN vec<float, N> fast_exp10(vec<float, N> x) {
  TILE_UNROLL
  for (int i = 0; i < N; ++i) x.v[i] = fast_exp10(x.v[i]);
  return x;
}
template <int N>
TILE_FN vec<float, N> fast_log(vec<float, N> x) {
  TILE_UNROLL
  for (int i = 0; i < N; ++i) x.v[i] = fast_log(x.v[i]);
  return x;
}
template <int N>
TILE_FN vec<float, N> fast_log2(vec<float, N> x) {
  TILE_UNROLL
  for (int i = 0; i < N; ++i) x.v[i] = fast_log2(x.v[i]);
  return x;
}
template <int N>
TILE_FN vec<float, N> fast_log10(vec<float, N> x) {
  TILE_UNROLL
  for (int i = 0; i < N; ++i) x.v[i] = fast_log10(x.v[i]);
  return x;
}
template <int N>
TILE_FN vec<float, N> fast_sin(vec<float, N> x) {
  TILE_UNROLL
  for (int i = 0; i < N; ++i) x.v[i] = fast_sin(x.v[i]);
  return x;
}
template <int N>
TILE_FN vec<float, N> fast_cos(vec<float, N> x) {
  TILE_UNROLL
  for (int i = 0; i < N; ++i) x.v[i] = fast_cos(x.v[i]);
  return x;
}
template <int N>
TILE_FN vec<float, N> fast_tan(vec<float, N> x) {
  TILE_UNROLL
  for (int i = 0; i < N; ++i) x.v[i] = fast_tan(x.v[i]);
  return x;
}
template <int N>
TILE_FN vec<float, N> fast_rcp(vec<float, N> x) {
  TILE_UNROLL
  for (int i = 0; i < N; ++i) x.v[i] = fast_rcp(x.v[i]);
  return x;
}

}  // namespace tile
