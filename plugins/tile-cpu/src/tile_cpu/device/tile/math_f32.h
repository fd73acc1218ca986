// Elementary functions on fp32 lanes: range reduction and minimax polynomials, no tables, no branches but for huge trigonometric arguments.
//
// Errors measured against 80-bit references (tests/test_device_math.py): exp, exp2, log, log2, log10, sin, cos ≤ 2 ulp, erf ≤ 2.5,
// tanh and sigmoid ≤ 3 ulp. Infinities, NaN, signed zero, overflow and gradual underflow behave as in libm.
#pragma once

#include "memory.h"

namespace tile {
namespace f32 {

template <int N>
using F = vec<float, N>;
template <int N>
using I = vec<int32_t, N>;

// a > b ? a : b and a < b ? a : b exactly, so a NaN in b wins and a NaN in a is dropped: one instruction on x86.
template <int N>
TILE_FN F<N> greater_or_second(F<N> a, F<N> b) {
#if TILE_AVX512
  if constexpr (N == 16) return F<N>((typename F<N>::raw)_mm512_max_ps((__m512)a.v, (__m512)b.v));
#endif
#if defined(__AVX2__)
  if constexpr (N == 8) return F<N>((typename F<N>::raw)_mm256_max_ps((__m256)a.v, (__m256)b.v));
#endif
#if defined(__SSE2__)
  if constexpr (N == 4) return F<N>((typename F<N>::raw)_mm_max_ps((__m128)a.v, (__m128)b.v));
#endif
  return select(a > b, a, b);
}
template <int N>
TILE_FN F<N> less_or_second(F<N> a, F<N> b) {
#if TILE_AVX512
  if constexpr (N == 16) return F<N>((typename F<N>::raw)_mm512_min_ps((__m512)a.v, (__m512)b.v));
#endif
#if defined(__AVX2__)
  if constexpr (N == 8) return F<N>((typename F<N>::raw)_mm256_min_ps((__m256)a.v, (__m256)b.v));
#endif
#if defined(__SSE2__)
  if constexpr (N == 4) return F<N>((typename F<N>::raw)_mm_min_ps((__m128)a.v, (__m128)b.v));
#endif
  return select(a < b, a, b);
}

template <int N>
TILE_FN F<N> sqrt(F<N> x) {
#if TILE_AVX512
  if constexpr (N == 16) return F<N>((typename F<N>::raw)_mm512_sqrt_ps((__m512)x.v));
#endif
#if defined(__AVX2__)
  if constexpr (N == 8) return F<N>((typename F<N>::raw)_mm256_sqrt_ps((__m256)x.v));
#endif
#if defined(__SSE2__)
  if constexpr (N == 4) return F<N>((typename F<N>::raw)_mm_sqrt_ps((__m128)x.v));
#endif
  return map_lanes([](float v) TILE_INLINE { return __builtin_sqrtf(v); }, x);
}

template <int N>
TILE_FN F<N> abs(F<N> x) {
  return bits_as<float>(bits_as<int32_t>(x) & 0x7fffffff);
}
template <int N>
TILE_FN F<N> with_sign_of(F<N> magnitude, F<N> sign) {
  return bits_as<float>((bits_as<uint32_t>(magnitude) & 0x7fffffffu) | (bits_as<uint32_t>(sign) & 0x80000000u));
}

template <int N>
TILE_FN F<N> polynomial(F<N>, float c) {
  return F<N>(c);
}
// c0 + c1 x + c2 x^2 + …, Horner.
template <int N, class... C>
TILE_FN F<N> polynomial(F<N> x, float c0, C... rest) {
  return polynomial(x, rest...) * x + c0;
}

// p * 2^n for integral n in [-252, 252], rounding once into the subnormals.
template <int N>
TILE_FN F<N> scale(F<N> p, F<N> n) {
#if TILE_AVX512
  if constexpr (N == 16) return F<N>((typename F<N>::raw)_mm512_scalef_ps((__m512)p.v, (__m512)n.v));
  if constexpr (N == 8) return F<N>((typename F<N>::raw)_mm256_scalef_ps((__m256)p.v, (__m256)n.v));
#endif
  I<N> whole = convert<int32_t>(n);
  I<N> half = I<N>(typename I<N>::raw(whole.v >> 1));
  I<N> rest = whole - half;
  F<N> first = bits_as<float>(I<N>(typename I<N>::raw((half.v + 127) << 23)));
  F<N> second = bits_as<float>(I<N>(typename I<N>::raw((rest.v + 127) << 23)));
  return p * first * second;
}

// Nearest integer, for |x| < 2^22: adding 1.5 * 2^23 leaves it in the low bits of the significand.
constexpr float round_magic = 12582912.0f;

template <int N>
TILE_FN F<N> exp_polynomial(F<N> r) {
  F<N> p = polynomial(r, 0.49999994f, 0.166665211f, 0.0416682549f, 0.00836867653f, 0.00138217444f);
  return p * (r * r) + r + 1.0f;
}

template <int N>
TILE_FN F<N> exp(F<N> x) {
  x = less_or_second(F<N>(89.0f), greater_or_second(F<N>(-104.0f), x));
  F<N> shifted = x * 1.44269504f + round_magic;
  F<N> n = shifted - round_magic;
  // ln 2 in two parts; n * 0.693359375 is exact, so this needs no fused operation.
  F<N> r = x - n * 0.693359375f + n * 2.12194442e-4f;
  return scale(exp_polynomial(r), n);
}

template <int N>
TILE_FN F<N> exp2(F<N> x) {
  x = less_or_second(F<N>(129.0f), greater_or_second(F<N>(-151.0f), x));
  F<N> n = (x + round_magic) - round_magic;
  F<N> r = x - n;
  F<N> p = polynomial(r, 0.693147182f, 0.240226433f, 0.0555035844f, 0.00961899757f, 0.00133914954f, 0.000151989836f);
  return scale(p * r + 1.0f, n);
}

template <int N>
TILE_FN F<N> exp10(F<N> x) {
  x = less_or_second(F<N>(39.0f), greater_or_second(F<N>(-46.0f), x));
  F<N> n = (x * 3.32192809f + round_magic) - round_magic;
  F<N> r = (x - n * 0.30078125f - n * 2.48745666e-4f) * 2.30258509f;
  return scale(exp_polynomial(r), n);
}

// x = m * 2^e with m in [sqrt(1/2), sqrt(2)); gives f = m - 1 and log(1 + f) - f.
template <int N>
struct log_parts {
  F<N> f, tail, e;
};

template <int N>
TILE_FN log_parts<N> log_reduce(F<N> x) {
  auto tiny = x < 1.17549435e-38f;
  x = select(tiny, x * 8388608.0f, x);
  I<N> u = bits_as<int32_t>(x);
  I<N> e = I<N>(typename I<N>::raw((u.v - 0x3f3504f3) >> 23));
  F<N> f = bits_as<float>(I<N>(typename I<N>::raw(u.v - (e.v << 23)))) - 1.0f;
  F<N> exponent = convert<float>(e) - select(tiny, F<N>(23.0f), F<N>(0.0f));
  F<N> p = polynomial(f, 0.333333135f, -0.250000119f, 0.20002073f, -0.166678548f, 0.142202333f, -0.124081969f, 0.11886204f,
                      -0.116606608f, 0.0673301071f);
  F<N> square = f * f;
  return {f, square * f * p - square * 0.5f, exponent};
}

template <int N>
TILE_FN F<N> log_special(F<N> x, F<N> result) {
  result = select(x == 0.0f, F<N>(-__builtin_inff()), result);
  result = select(x < 0.0f, F<N>(__builtin_nanf("")), result);
  return select(x < __builtin_inff(), result, x);  // +inf and NaN give themselves
}

template <int N>
TILE_FN F<N> log(F<N> x) {
  auto [f, tail, e] = log_reduce(x);
  return log_special(x, (f + (tail - e * 2.12194442e-4f)) + e * 0.693359375f);
}
template <int N>
TILE_FN F<N> log2(F<N> x) {
  auto [f, tail, e] = log_reduce(x);
  return log_special(x, (f + tail) * 1.44269504f + e);
}
template <int N>
TILE_FN F<N> log10(F<N> x) {
  auto [f, tail, e] = log_reduce(x);
  return log_special(x, ((f + tail) * 0.434294482f + e * 2.48745666e-4f) + e * 0.30078125f);
}
template <int N>
TILE_FN F<N> log1p(F<N> x) {
  F<N> u = x + 1.0f;
  // What the addition lost, to first order; nothing to correct once u is infinite or not positive.
  F<N> lost = (x - (u - 1.0f)) / u;
  F<N> r = log(u) + select((u > 0.0f) & (u < __builtin_inff()), lost, F<N>(0.0f));
  return select(x == 0.0f, x, r);
}

template <int N>
TILE_FN F<N> tanh(F<N> x) {
  F<N> a = abs(x);
  F<N> t = x * x;
  F<N> p = polynomial(t, -0.333333313f, 0.133332133f, -0.0539466366f, 0.0216961224f, -0.00815908704f, 0.00212133303f);
  F<N> small = p * t * x + x;
  F<N> large = 1.0f - 2.0f / (exp(a + a) + 1.0f);
  return with_sign_of(select(a < 0.625f, small, large), x);
}

template <int N>
TILE_FN F<N> sigmoid(F<N> x) {
  return 1.0f / (exp(-x) + 1.0f);
}

template <int N>
TILE_FN F<N> erf(F<N> x) {
  F<N> a = abs(x);
  F<N> t = x * x;
  // 2/sqrt(pi) - 1 + …: the leading x is added last, so the constant's rounding does not count.
  F<N> p = polynomial(t, 0.128379167f, -0.37612465f, 0.11282327f, -0.0268114042f, 0.00511859357f, -0.000745838624f, 6.17129699e-05f);
  F<N> small = p * x + x;
  F<N> c = less_or_second(F<N>(4.0f), a);
  F<N> q = polynomial(c, 0.000188040198f, -1.12957847f, -0.633219719f, -0.108418837f, 0.0252084564f, -0.00420464529f, 0.000441354321f,
                      -2.16883982e-05f);
  F<N> large = with_sign_of(1.0f - exp(q), x);
  return select(a < 1.0f, small, large);
}

// x - n * pi/2 in fp64; pi/2 in two parts, the first of 33 bits, so that its product with n < 2^17 is exact.
template <int N>
TILE_FN F<N> reduce_quarter(F<N> x, F<N> n) {
  if constexpr (N * 8 > TILE_VECTOR_BYTES) {
    F<N / 2> x0, x1, n0, n1;
    __builtin_memcpy(&x0, &x, sizeof x0);
    __builtin_memcpy(&x1, reinterpret_cast<const char*>(&x) + sizeof x0, sizeof x1);
    __builtin_memcpy(&n0, &n, sizeof n0);
    __builtin_memcpy(&n1, reinterpret_cast<const char*>(&n) + sizeof n0, sizeof n1);
    F<N / 2> low = reduce_quarter(x0, n0), high = reduce_quarter(x1, n1);
    F<N> r;
    __builtin_memcpy(&r, &low, sizeof low);
    __builtin_memcpy(reinterpret_cast<char*>(&r) + sizeof low, &high, sizeof high);
    return r;
  } else {
    vec<double, N> wide = convert<double>(n);
    return convert<float>((convert<double>(x) - wide * 1.57079632673412561417) - wide * 6.07710050650619224932e-11);
  }
}

// sin (quadrant 0) or cos (quadrant 1) of x for |x| <= 2^17; the caller sends larger arguments to libm.
template <int N>
TILE_FN F<N> sin_reduced(F<N> x, int quadrant) {
  F<N> shifted = x * 0.636619772f + round_magic;
  F<N> n = shifted - round_magic;
  I<N> q = bits_as<int32_t>(shifted) + quadrant;
  F<N> r = reduce_quarter(x, n);
  F<N> t = r * r;
  F<N> s = polynomial(t, -0.166666672f, 0.00833337288f, -0.000198502952f, 2.80435688e-06f) * (t * r) + r;
  F<N> c = polynomial(t, 0.0416666679f, -0.00138889754f, 2.4820185e-05f, -2.870392e-07f) * (t * t) + (1.0f - t * 0.5f);
  F<N> value = select((q & 1) != 0, c, s);
  return bits_as<float>(bits_as<int32_t>(value) ^ I<N>(typename I<N>::raw((q.v & 2) << 30)));
}

template <int N>
TILE_FN F<N> sin(F<N> x) {
  auto far = !(abs(x) <= 131072.0f);
  F<N> r = sin_reduced(x, 0);
  // -0.0 and subnormals are their own sines; the reduction would lose the sign of zero.
  r = select(abs(x) < 1e-19f, x, r);
  if (__builtin_expect(any(far), 0)) return select(far, map_lanes([](float v) { return __builtin_sinf(v); }, x), r);
  return r;
}
template <int N>
TILE_FN F<N> cos(F<N> x) {
  auto far = !(abs(x) <= 131072.0f);
  F<N> r = sin_reduced(x, 1);
  if (__builtin_expect(any(far), 0)) return select(far, map_lanes([](float v) { return __builtin_cosf(v); }, x), r);
  return r;
}

}  // namespace f32
}  // namespace tile
