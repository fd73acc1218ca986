// Written by `python -m tile_cpu.device` from tile_core.codegen and its table of formats: edit those.
#pragma once

namespace tile {

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

}  // namespace tile
