// exp, log and sqrt on fp64 lanes (rational approximations after Cody and Waite, ≤ 2 ulp); other fp64 functions go to libm lane by lane.
#pragma once

#include "memory.h"

namespace tile {
namespace f64 {

template <int N>
using D = vec<double, N>;
template <int N>
using L = vec<int64_t, N>;

template <int N>
TILE_FN D<N> polynomial(D<N>, double c) {
  return D<N>(c);
}
template <int N, class... C>
TILE_FN D<N> polynomial(D<N> x, double c0, C... rest) {
  return polynomial(x, rest...) * x + c0;
}

template <int N>
TILE_FN D<N> sqrt(D<N> x) {
#if TILE_AVX512
  if constexpr (N == 8) return D<N>((typename D<N>::raw)_mm512_sqrt_pd((__m512d)x.v));
#endif
#if defined(__AVX2__)
  if constexpr (N == 4) return D<N>((typename D<N>::raw)_mm256_sqrt_pd((__m256d)x.v));
#endif
#if defined(__SSE2__)
  if constexpr (N == 2) return D<N>((typename D<N>::raw)_mm_sqrt_pd((__m128d)x.v));
#endif
  return map_lanes([](double v) TILE_INLINE { return __builtin_sqrt(v); }, x);
}

// 1.5 * 2^52: the nearest integer lands in the low bits.
constexpr double round_magic = 6755399441055744.0;

template <int N>
TILE_FN D<N> exp(D<N> x) {
  x = select(x > 710.0, D<N>(710.0), x);
  x = select(x < -746.0, D<N>(-746.0), x);
  D<N> shifted = x * 1.4426950408889634 + round_magic;
  D<N> n = shifted - round_magic;
  D<N> r = (x - n * 6.93145751953125e-1) - n * 1.42860682030941723212e-6;
  D<N> t = r * r;
  D<N> p = polynomial(t, 9.99999999999999999910e-1, 3.02994407707441961300e-2, 1.26177193074810590878e-4) * r;
  D<N> q = polynomial(t, 2.0, 2.27265548208155028766e-1, 2.52448340349684104192e-3, 3.00198505138664455042e-6);
  D<N> y = (p / (q - p)) * 2.0 + 1.0;
  L<N> whole = bits_as<int64_t>(shifted) - bit_cast<int64_t>(round_magic);
  L<N> half = L<N>(typename L<N>::raw(whole.v >> 1));
  L<N> rest = whole - half;
  D<N> first = bits_as<double>(L<N>(typename L<N>::raw((half.v + 1023) << 52)));
  D<N> second = bits_as<double>(L<N>(typename L<N>::raw((rest.v + 1023) << 52)));
  // A NaN has no exponent to scale by; it passes through x + x.
  return select(x == x, y * first * second, x);
}

template <int N>
TILE_FN D<N> log(D<N> x) {
  auto tiny = x < 2.2250738585072014e-308;
  D<N> scaled = select(tiny, x * 4503599627370496.0, x);
  L<N> u = bits_as<int64_t>(scaled);
  L<N> e = L<N>(typename L<N>::raw((u.v - 0x3fe6a09e667f3bcdLL) >> 52));
  D<N> f = bits_as<double>(L<N>(typename L<N>::raw(u.v - (e.v << 52)))) - 1.0;
  D<N> exponent = convert<double>(e) - select(tiny, D<N>(52.0), D<N>(0.0));
  D<N> square = f * f;
  D<N> p = polynomial(f, 7.70838733755885391666e0, 1.79368678507819816313e1, 1.44989225341610930846e1, 4.70579119878881725854e0,
                      4.97494994976747001425e-1, 1.01875663804580931796e-4);
  D<N> q = polynomial(f, 2.31251620126765340583e1, 7.11544750618563894466e1, 8.29875266912776603211e1, 4.52279145837532221105e1,
                      1.12873587189167450590e1, 1.0);
  D<N> tail = f * square * (p / q) - exponent * 2.121944400546905827679e-4 - square * 0.5;
  D<N> r = (f + tail) + exponent * 0.693359375;
  r = select(x == 0.0, D<N>(-__builtin_inf()), r);
  r = select(x < 0.0, D<N>(__builtin_nan("")), r);
  return select(x < __builtin_inf(), r, x);
}

}  // namespace f64
}  // namespace tile
