// Mathematics with a say about speed and rounding. A CPU has no approximate functions worth their error, so the fast ones are the others.
// A rounding mode is carried out by looking at what rounding to nearest took away, which double arithmetic gives exactly.
#pragma once

#include "math.h"

namespace tile {

TILE_FN uint32_t bits_of(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}
TILE_FN float float_of(uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}
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
  uint32_t bits = bits_of(nearest);
  if (nearest == 0) bits = up ? 1u : 0x80000001u;
  else bits = (nearest > 0) == up ? bits + 1 : bits - 1;
  return float_of(bits);
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
  float nearest = std::fma(a, b, c);
  double product = double(a) * double(b), sum = product + double(c), rest = lost(product, c, sum);
  return cancelled(directed(nearest, (sum - double(nearest)) + rest, mode), product, c, mode);
}
TILE_FN float ieee_div(float a, float b, const char* mode) {
  float nearest = alone(a / b);
  double rest = double(a) - double(nearest) * double(b);
  return directed(nearest, std::signbit(double(b)) ? -rest : rest, mode);
}
TILE_FN float ieee_sqrt(float x, const char* mode) {
  float nearest = std::sqrt(x);
  return directed(nearest, double(x) - double(nearest) * double(nearest), mode);
}
TILE_FN float ieee_rsqrt(float x, const char*) { return float(1.0 / std::sqrt(double(x))); }
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

TILE_FN uint32_t fns(uint32_t mask, uint32_t base, int32_t offset) {
  if (offset == 0) return mask >> (base & 31) & 1 ? base : 0xffffffffu;
  int step = offset > 0 ? 1 : -1, left = offset > 0 ? offset : -offset;
  for (int bit = int(base); bit >= 0 && bit < 32; bit += step)
    if ((mask >> bit & 1) && --left == 0) return uint32_t(bit);
  return 0xffffffffu;
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
