// Mathematics with a say about speed and rounding. A CPU has no approximate functions worth their error, so the fast ones are the others.
#pragma once

#include "math.h"

#define TILE_ROUNDS_BY_DOUBLES 1
#include "functions.h"

namespace tile {

template <int N>
TILE_FN vec<float, N> ieee_add(vec<float, N> a, vec<float, N> b, const char* mode) {
  vec<float, N> r;
  for (int i = 0; i < N; i++) r.set(i, ieee_add(a[i], b[i], mode));
  return r;
}
template <int N>
TILE_FN vec<float, N> ieee_sub(vec<float, N> a, vec<float, N> b, const char* mode) {
  vec<float, N> r;
  for (int i = 0; i < N; i++) r.set(i, ieee_sub(a[i], b[i], mode));
  return r;
}
template <int N>
TILE_FN vec<float, N> ieee_mul(vec<float, N> a, vec<float, N> b, const char* mode) {
  vec<float, N> r;
  for (int i = 0; i < N; i++) r.set(i, ieee_mul(a[i], b[i], mode));
  return r;
}
template <int N>
TILE_FN vec<float, N> ieee_div(vec<float, N> a, vec<float, N> b, const char* mode) {
  vec<float, N> r;
  for (int i = 0; i < N; i++) r.set(i, ieee_div(a[i], b[i], mode));
  return r;
}
template <int N>
TILE_FN vec<float, N> ieee_fma(vec<float, N> a, vec<float, N> b, vec<float, N> c, const char* mode) {
  vec<float, N> r;
  for (int i = 0; i < N; i++) r.set(i, ieee_fma(a[i], b[i], c[i], mode));
  return r;
}
template <int N>
TILE_FN vec<float, N> ieee_sqrt(vec<float, N> a, const char* mode) {
  vec<float, N> r;
  for (int i = 0; i < N; i++) r.set(i, ieee_sqrt(a[i], mode));
  return r;
}
template <int N>
TILE_FN vec<float, N> ieee_rsqrt(vec<float, N> a, const char* mode) {
  vec<float, N> r;
  for (int i = 0; i < N; i++) r.set(i, ieee_rsqrt(a[i], mode));
  return r;
}
template <class X>
TILE_FN X fast_exp(X x) {
  return exp(x);
}
template <class X>
TILE_FN X fast_exp10(X x) {
  return exp10(x);
}
template <class X>
TILE_FN X fast_log(X x) {
  return log(x);
}
template <class X>
TILE_FN X fast_log2(X x) {
  return log2(x);
}
template <class X>
TILE_FN X fast_log10(X x) {
  return log10(x);
}
template <class X>
TILE_FN X fast_sin(X x) {
  return sin(x);
}
template <class X>
TILE_FN X fast_cos(X x) {
  return cos(x);
}
template <class X>
TILE_FN X fast_tan(X x) {
  return tan(x);
}
template <class X>
TILE_FN X fast_rcp(X x) {
  return X(1.0f) / x;
}

template <class T, class C>
TILE_FN C dp4a(vec<T, 4> a, vec<T, 4> b, C c) {
  for (int i = 0; i < 4; ++i) c = C(uint32_t(c) + uint32_t(int32_t(a[i]) * int32_t(b[i])));
  return c;
}

template <class A, class B, class C, int N>
TILE_FN vec<uint32_t, N> fns(vec<A, N> mask, vec<B, N> base, vec<C, N> offset) {
  vec<uint32_t, N> r;
  for (int i = 0; i < N; i++) r.set(i, fns(uint32_t(mask[i]), uint32_t(base[i]), int32_t(offset[i])));
  return r;
}

}  // namespace tile
