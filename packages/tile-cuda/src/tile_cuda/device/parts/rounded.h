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

