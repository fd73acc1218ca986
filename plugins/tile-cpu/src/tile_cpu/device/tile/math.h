// The functions that expressions of a kernel call, by the same name for scalars and vectors of every type they make sense for.
//
// fp16 and bf16 go through fp32 and round once. Scalars use libm; fp32 vectors use math_f32.h; what has no vector form calls libm lane by
// lane. maximum/minimum drop a NaN when the other operand is a number (C fmax, CUDA fmaxf). floordiv/floormod follow Python, truncdiv/
// truncmod follow C; an integer division by zero gives 0 (as numpy does) and never traps.
#pragma once

#include <cmath>

#include "math_f32.h"
#include "math_f64.h"

namespace tile {

// ---- unary functions of floating types ------------------------------------------------------------------------------

// NAME(x): scalar by F32/F64 expressions, halves through float, vectors by VEC (a function of a vec<float|double, N>).
#define TILE_UNARY(NAME, SCALAR)                                                                        \
  template <class T, std::enable_if_t<is_scalar<T>, int> = 0>                                           \
  TILE_FN auto NAME(T x) {                                                                              \
    if constexpr (is_half<T>) return T(SCALAR(float(x)));                                               \
    else if constexpr (std::is_floating_point<T>::value) return T(SCALAR(x));                           \
    else return float(SCALAR(float(x)));                                                                \
  }
#define TILE_UNARY_LANES(NAME, SCALAR)                                                                  \
  TILE_UNARY(NAME, SCALAR)                                                                              \
  template <class T, int N>                                                                             \
  TILE_FN vec<T, N> NAME(vec<T, N> x) {                                                                 \
    if constexpr (is_half<T>) return convert<T>(NAME(convert<float>(x)));                               \
    else return map_lanes([](T v) TILE_INLINE { return T(SCALAR(v)); }, x);                             \
  }
#define TILE_UNARY_F32(NAME, SCALAR)                                                                    \
  TILE_UNARY(NAME, SCALAR)                                                                              \
  template <class T, int N>                                                                             \
  TILE_FN vec<T, N> NAME(vec<T, N> x) {                                                                 \
    if constexpr (is_half<T>) return convert<T>(f32::NAME(convert<float>(x)));                          \
    else if constexpr (std::is_same<T, float>::value) return f32::NAME(x);                              \
    else return map_lanes([](T v) TILE_INLINE { return T(SCALAR(v)); }, x);                             \
  }
#define TILE_UNARY_F32_F64(NAME, SCALAR)                                                                \
  TILE_UNARY(NAME, SCALAR)                                                                              \
  template <class T, int N>                                                                             \
  TILE_FN vec<T, N> NAME(vec<T, N> x) {                                                                 \
    if constexpr (is_half<T>) return convert<T>(f32::NAME(convert<float>(x)));                          \
    else if constexpr (std::is_same<T, float>::value) return f32::NAME(x);                              \
    else return f64::NAME(x);                                                                           \
  }

namespace scalar {
template <class T>
TILE_FN T exp10(T x) { return T(std::pow(T(10), x)); }
template <class T>
TILE_FN T rsqrt(T x) { return T(1) / std::sqrt(x); }
template <class T>
TILE_FN T sigmoid(T x) { return T(1) / (T(1) + std::exp(-x)); }
}  // namespace scalar

TILE_UNARY_F32_F64(exp, std::exp)
TILE_UNARY_F32_F64(log, std::log)
TILE_UNARY_F32_F64(sqrt, std::sqrt)
TILE_UNARY_F32(exp2, std::exp2)
TILE_UNARY_F32(exp10, scalar::exp10)
TILE_UNARY_F32(log2, std::log2)
TILE_UNARY_F32(log10, std::log10)
TILE_UNARY_F32(log1p, std::log1p)
TILE_UNARY_F32(tanh, std::tanh)
TILE_UNARY_F32(erf, std::erf)
TILE_UNARY_F32(sin, std::sin)
TILE_UNARY_F32(cos, std::cos)
TILE_UNARY(sigmoid, scalar::sigmoid)
TILE_UNARY(rsqrt, scalar::rsqrt)
TILE_UNARY(tan, std::tan)
TILE_UNARY_LANES(expm1, std::expm1)
TILE_UNARY_LANES(cbrt, std::cbrt)
TILE_UNARY_LANES(asin, std::asin)
TILE_UNARY_LANES(acos, std::acos)
TILE_UNARY_LANES(atan, std::atan)
TILE_UNARY_LANES(sinh, std::sinh)
TILE_UNARY_LANES(cosh, std::cosh)
TILE_UNARY_LANES(asinh, std::asinh)
TILE_UNARY_LANES(acosh, std::acosh)
TILE_UNARY_LANES(atanh, std::atanh)

// Built from the above in the vector's own arithmetic.
template <class T, int N>
TILE_FN vec<T, N> sigmoid(vec<T, N> x) {
  if constexpr (is_half<T>) return convert<T>(sigmoid(convert<float>(x)));
  else return T(1) / (exp(-x) + T(1));
}
template <class T, int N>
TILE_FN vec<T, N> rsqrt(vec<T, N> x) {
  if constexpr (is_half<T>) return convert<T>(rsqrt(convert<float>(x)));
  else return T(1) / sqrt(x);
}
template <class T, int N>
TILE_FN vec<T, N> tan(vec<T, N> x) {
  if constexpr (is_half<T>) return convert<T>(tan(convert<float>(x)));
  else if constexpr (std::is_same<T, float>::value) return sin(x) / cos(x);
  else return map_lanes([](T v) TILE_INLINE { return std::tan(v); }, x);
}

// ---- rounding to integers ----------------------------------------------------------------------------------------------

// MODE is the x86 immediate with exceptions suppressed.
#if TILE_AVX512
#define TILE_ROUND_512(MODE)                                                                                               \
  if constexpr (std::is_same<T, float>::value && N == 16)                                                                  \
    return vec<T, N>((typename vec<T, N>::raw)_mm512_roundscale_ps((__m512)x.v, MODE));                                    \
  if constexpr (std::is_same<T, double>::value && N == 8)                                                                  \
    return vec<T, N>((typename vec<T, N>::raw)_mm512_roundscale_pd((__m512d)x.v, MODE));
#else
#define TILE_ROUND_512(MODE)
#endif
#if defined(__AVX2__)
#define TILE_ROUND_256(MODE)                                                                                               \
  if constexpr (std::is_same<T, float>::value && N == 8)                                                                   \
    return vec<T, N>((typename vec<T, N>::raw)_mm256_round_ps((__m256)x.v, MODE));                                         \
  if constexpr (std::is_same<T, double>::value && N == 4)                                                                  \
    return vec<T, N>((typename vec<T, N>::raw)_mm256_round_pd((__m256d)x.v, MODE));
#else
#define TILE_ROUND_256(MODE)
#endif
#define TILE_ROUND(NAME, SCALAR, MODE)                                                                                     \
  template <class T, std::enable_if_t<is_scalar<T>, int> = 0>                                                              \
  TILE_FN T NAME(T x) {                                                                                                    \
    if constexpr (std::is_integral<T>::value) return x;                                                                    \
    else if constexpr (is_half<T>) return T(SCALAR(float(x)));                                                             \
    else return SCALAR(x);                                                                                                 \
  }                                                                                                                        \
  template <class T, int N>                                                                                                \
  TILE_FN vec<T, N> NAME(vec<T, N> x) {                                                                                    \
    if constexpr (std::is_integral<T>::value) return x;                                                                    \
    else if constexpr (is_half<T>) return convert<T>(NAME(convert<float>(x)));                                             \
    else {                                                                                                                 \
      TILE_ROUND_512(MODE)                                                                                                 \
      TILE_ROUND_256(MODE)                                                                                                 \
      return map_lanes([](T v) TILE_INLINE { return SCALAR(v); }, x);                                                      \
    }                                                                                                                      \
  }
TILE_ROUND(floor, std::floor, 0x09)
TILE_ROUND(ceil, std::ceil, 0x0a)
TILE_ROUND(trunc, std::trunc, 0x0b)
TILE_ROUND(round, std::nearbyint, 0x08)  // ties to even, as Python and torch
TILE_ROUND(nearbyint, std::nearbyint, 0x08)
#undef TILE_ROUND
#undef TILE_ROUND_512
#undef TILE_ROUND_256

// ---- sign, classification, selection -------------------------------------------------------------------------------------

template <class T, std::enable_if_t<is_scalar<T>, int> = 0>
TILE_FN T abs(T x) {
  if constexpr (small_float_of<T>::is) return T(std::fabs(float(x)));
  else if constexpr (is_half<T>) {
    x.bits &= 0x7fffu;
    return x;
  } else if constexpr (std::is_floating_point<T>::value) return std::fabs(x);
  else if constexpr (std::is_unsigned<T>::value) return x;
  else return x < 0 ? T(0 - x) : x;
}
template <class T, int N>
TILE_FN vec<T, N> abs(vec<T, N> x) {
  if constexpr (small_float_of<T>::is) return convert<T>(abs(convert<float>(x)));
  else if constexpr (is_half<T>) return vec<T, N>(typename vec<T, N>::raw(x.v & uint16_t(0x7fffu)));
  else if constexpr (std::is_same<T, float>::value) return f32::abs(x);
  else if constexpr (std::is_same<T, double>::value) return bits_as<double>(bits_as<int64_t>(x) & INT64_MAX);
  else if constexpr (std::is_unsigned<T>::value) return x;
  else return select(x < T(0), T(0) - x, x);
}
template <class X>
TILE_FN X fabs(X x) {
  return abs(x);
}

template <class T, std::enable_if_t<is_scalar<T>, int> = 0>
TILE_FN bool isnan(T x) {
  if constexpr (is_floating<T>) return x != x;
  else return false;
}
template <class T, std::enable_if_t<is_scalar<T>, int> = 0>
TILE_FN bool isinf(T x) {
  if constexpr (is_half<T>) return isinf(float(x));
  else if constexpr (is_floating<T>) return std::fabs(x) == T(__builtin_inf());
  else return false;
}
template <class T, std::enable_if_t<is_scalar<T>, int> = 0>
TILE_FN bool isfinite(T x) {
  if constexpr (is_half<T>) return isfinite(float(x));
  else if constexpr (is_floating<T>) return std::fabs(x) < T(__builtin_inf());
  else return true;
}
template <class T, int N>
TILE_FN auto isnan(vec<T, N> x) {
  return x != x;
}
template <class T, int N>
TILE_FN auto isinf(vec<T, N> x) {
  if constexpr (is_half<T>) return isinf(convert<float>(x));
  else if constexpr (is_floating<T>) return abs(x) == T(__builtin_inf());
  else return x != x;
}
template <class T, int N>
TILE_FN auto isfinite(vec<T, N> x) {
  if constexpr (is_half<T>) return isfinite(convert<float>(x));
  else if constexpr (is_floating<T>) return abs(x) < T(__builtin_inf());
  else return x == x;
}

// Two operands of one type (or a vector and a scalar): OP on scalars, VEC on vectors.
template <class T, class = std::enable_if_t<is_scalar<T>>>
TILE_FN T maximum(T a, T b) {
  if constexpr (is_floating<T>) return (a > b || b != b) ? a : b;
  else return a > b ? a : b;
}
template <class T, class = std::enable_if_t<is_scalar<T>>>
TILE_FN T minimum(T a, T b) {
  if constexpr (is_floating<T>) return (a < b || b != b) ? a : b;
  else return a < b ? a : b;
}
template <class T, int N>
TILE_FN vec<T, N> maximum(vec<T, N> a, vec<T, N> b) {
  if constexpr (is_half<T>) return convert<T>(maximum(convert<float>(a), convert<float>(b)));
  else if constexpr (std::is_same<T, float>::value) return select(b != b, a, f32::greater_or_second(a, b));
  else if constexpr (std::is_same<T, double>::value) return select((a > b) | (b != b), a, b);
  else return select(a > b, a, b);
}
template <class T, int N>
TILE_FN vec<T, N> minimum(vec<T, N> a, vec<T, N> b) {
  if constexpr (is_half<T>) return convert<T>(minimum(convert<float>(a), convert<float>(b)));
  else if constexpr (std::is_same<T, float>::value) return select(b != b, a, f32::less_or_second(a, b));
  else if constexpr (std::is_same<T, double>::value) return select((a < b) | (b != b), a, b);
  else return select(a < b, a, b);
}

// The four operand forms of a binary function: the scalar one is written by hand, FORMS adds vector-with-scalar.
#define TILE_BINARY_FORMS(NAME)                                                             \
  template <class T, int N, class S, std::enable_if_t<is_scalar<S>, int> = 0>               \
  TILE_FN auto NAME(vec<T, N> a, S b) {                                                     \
    return NAME(a, vec<T, N>(b));                                                           \
  }                                                                                         \
  template <class T, int N, class S, std::enable_if_t<is_scalar<S>, int> = 0>               \
  TILE_FN auto NAME(S a, vec<T, N> b) {                                                     \
    return NAME(vec<T, N>(a), b);                                                           \
  }
TILE_BINARY_FORMS(maximum)
TILE_BINARY_FORMS(minimum)

template <class X, class L, class H>
TILE_FN auto clamp(X x, L low, H high) {
  return minimum(maximum(x, low), high);
}

template <class T, std::enable_if_t<is_floating<T>, int> = 0>
TILE_FN T copysign(T magnitude, T sign) {
  if constexpr (small_float_of<T>::is) return T(std::copysign(float(magnitude), float(sign)));
  else if constexpr (is_half<T>) {
    magnitude.bits = uint16_t((magnitude.bits & 0x7fffu) | (sign.bits & 0x8000u));
    return magnitude;
  } else return std::copysign(magnitude, sign);
}

// Lane-by-lane libm functions of two floating operands.
#define TILE_BINARY_LANES(NAME, SCALAR)                                                     \
  template <class T, std::enable_if_t<is_floating<T>, int> = 0>                             \
  TILE_FN T NAME(T a, T b) {                                                                \
    if constexpr (is_half<T>) return T(SCALAR(float(a), float(b)));                         \
    else return T(SCALAR(a, b));                                                            \
  }                                                                                         \
  template <class T, int N>                                                                 \
  TILE_FN vec<T, N> NAME(vec<T, N> a, vec<T, N> b) {                                        \
    if constexpr (is_half<T>) return convert<T>(NAME(convert<float>(a), convert<float>(b))); \
    else return map_lanes([](T x, T y) TILE_INLINE { return T(SCALAR(x, y)); }, a, b);      \
  }                                                                                         \
  TILE_BINARY_FORMS(NAME)
TILE_BINARY_LANES(fmod, std::fmod)
TILE_BINARY_LANES(atan2, std::atan2)
TILE_BINARY_LANES(hypot, std::hypot)
#undef TILE_BINARY_LANES

template <class T, int N>
TILE_FN vec<T, N> copysign(vec<T, N> a, vec<T, N> b) {
  if constexpr (std::is_same<T, float>::value) return f32::with_sign_of(a, b);
  else return map_lanes([](T x, T y) TILE_INLINE { return copysign(x, y); }, a, b);
}
TILE_BINARY_FORMS(copysign)

// The next representable value of the type itself, also for halves.
template <class T, std::enable_if_t<is_floating<T>, int> = 0>
TILE_FN T nextafter(T a, T b) {
  if constexpr (is_half<T>) {
    float x = float(a), y = float(b);
    if (x != x) return a;
    if (y != y) return b;
    if (x == y) return b;
    using Bits = lane_t<T>;
    if (x == 0.0f) {
      a.bits = Bits(1);
      return y < 0.0f ? -a : a;
    }
    a.bits = Bits(a.bits + (((x < y) == (x > 0.0f)) ? 1 : -1));
    return a;
  } else return std::nextafter(a, b);
}
template <class T, int N>
TILE_FN vec<T, N> nextafter(vec<T, N> a, vec<T, N> b) {
  return map_lanes([](T x, T y) TILE_INLINE { return nextafter(x, y); }, a, b);
}
TILE_BINARY_FORMS(nextafter)

template <class T, std::enable_if_t<is_floating<T>, int> = 0>
TILE_FN T ldexp(T x, int32_t e) {
  if constexpr (is_half<T>) return T(std::ldexp(double(float(x)), e));
  else return std::ldexp(x, e);
}
template <class T, int N>
TILE_FN vec<T, N> ldexp(vec<T, N> x, vec<int32_t, N> e) {
  vec<T, N> r;
  for (int i = 0; i < N; i++) r.set(i, ldexp(x[i], int32_t(e.v[i])));
  return r;
}
template <class T, int N>
TILE_FN vec<T, N> ldexp(vec<T, N> x, int32_t e) {
  return ldexp(x, vec<int32_t, N>(e));
}

// a * b + c, rounded once.
template <class T, std::enable_if_t<is_floating<T>, int> = 0>
TILE_FN T fma(T a, T b, T c) {
  if constexpr (is_half<T>) return T(std::fma(double(float(a)), double(float(b)), double(float(c))));
  else return std::fma(a, b, c);
}
template <class T, int N>
TILE_FN vec<T, N> fma(vec<T, N> a, vec<T, N> b, vec<T, N> c) {
#if defined(__FMA__) || defined(__aarch64__)
  // One expression, which -ffp-contract=fast turns into the machine's operation.
  if constexpr (!is_half<T>) return vec<T, N>(typename vec<T, N>::raw(a.v * b.v + c.v));
#endif
  vec<T, N> r;
  for (int i = 0; i < N; i++) r.set(i, fma(a[i], b[i], c[i]));
  return r;
}

// ---- power ------------------------------------------------------------------------------------------------------------

template <class T, std::enable_if_t<is_scalar<T>, int> = 0>
TILE_FN T pow(T a, T b) {
  if constexpr (is_half<T>) return T(std::pow(float(a), float(b)));
  else if constexpr (std::is_floating_point<T>::value) return std::pow(a, b);
  else {
    // Integers wrap; a negative exponent gives 0 but for bases 1 and -1.
    using U = std::make_unsigned_t<std::conditional_t<std::is_same<T, bool>::value, uint8_t, T>>;
    if constexpr (std::is_signed<T>::value)
      if (b < 0) return a == 1 ? T(1) : a == -1 ? T((b & 1) ? -1 : 1) : T(0);
    U r = 1, base = U(a);
    for (U e = U(b); e; e = U(e >> 1)) {
      if (e & 1) r = U(r * base);
      base = U(base * base);
    }
    return T(r);
  }
}
template <class T, int N>
TILE_FN vec<T, N> pow(vec<T, N> a, vec<T, N> b) {
  if constexpr (is_half<T>) return convert<T>(pow(convert<float>(a), convert<float>(b)));
  else return map_lanes([](T x, T y) TILE_INLINE { return pow(x, y); }, a, b);
}
TILE_BINARY_FORMS(pow)

#undef TILE_UNARY
#undef TILE_UNARY_LANES
#undef TILE_UNARY_F32
#undef TILE_UNARY_F32_F64

}  // namespace tile

#include "math_int.h"
