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
