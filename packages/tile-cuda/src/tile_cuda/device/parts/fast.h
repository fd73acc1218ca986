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
