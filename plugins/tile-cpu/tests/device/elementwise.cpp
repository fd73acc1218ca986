// Element-wise checks: NAME_TYPE(x, [y,] out, n) runs a function over vectors, NAME_TYPE_scalar over single values.
#include <tile/tile.h>
#define API extern "C" __attribute__((visibility("default")))
using namespace tile;
using f16 = tile::fp16;
using f32t = float;
using f64t = double;

#define UNARY(NAME, T)                                                                                              \
  API void NAME##_##T(const T* x, T* y, int n) {                                                                    \
    for_lanes<lanes<T>>(n, [&](auto m, int j) TILE_INLINE { store(m, y + j, tile::NAME(load<T>(m, x + j))); });     \
  }                                                                                                                 \
  API void NAME##_##T##_scalar(const T* x, T* y, int n) {                                                           \
    for (int i = 0; i < n; i++) y[i] = tile::NAME(x[i]);                                                            \
  }
#define HALF_LANES(T) (TILE_VECTOR_BYTES / 4)
#define UNARY_HALF(NAME, T)                                                                                         \
  API void NAME##_##T(const T* x, T* y, int n) {                                                                    \
    for_lanes<HALF_LANES(T)>(n, [&](auto m, int j) TILE_INLINE { store(m, y + j, tile::NAME(load<T>(m, x + j))); });\
  }                                                                                                                 \
  API void NAME##_##T##_scalar(const T* x, T* y, int n) {                                                           \
    for (int i = 0; i < n; i++) y[i] = tile::NAME(x[i]);                                                            \
  }
#define FLOAT_FUNCTIONS(DO)                                                                                         \
  DO(exp) DO(exp2) DO(exp10) DO(expm1) DO(log) DO(log2) DO(log10) DO(log1p) DO(sqrt) DO(rsqrt) DO(cbrt) DO(sin)     \
  DO(cos) DO(tan) DO(asin) DO(acos) DO(atan) DO(sinh) DO(cosh) DO(tanh) DO(asinh) DO(acosh) DO(atanh) DO(erf)       \
  DO(sigmoid) DO(floor) DO(ceil) DO(trunc) DO(round) DO(nearbyint) DO(abs)
#define DO_FLOAT(NAME) UNARY(NAME, float)
#define DO_DOUBLE(NAME) UNARY(NAME, double)
FLOAT_FUNCTIONS(DO_FLOAT)
DO_DOUBLE(exp) DO_DOUBLE(log) DO_DOUBLE(sqrt) DO_DOUBLE(floor) DO_DOUBLE(round) DO_DOUBLE(abs) DO_DOUBLE(tanh) DO_DOUBLE(sigmoid)
UNARY_HALF(exp, fp16) UNARY_HALF(tanh, fp16) UNARY_HALF(abs, fp16) UNARY_HALF(floor, fp16)
UNARY_HALF(exp, bf16) UNARY_HALF(tanh, bf16) UNARY_HALF(abs, bf16) UNARY_HALF(floor, bf16)
UNARY(popcount, int32_t) UNARY(clz, int32_t) UNARY(abs, int32_t) UNARY(popcount, uint8_t) UNARY(clz, uint8_t) UNARY(abs, int8_t)

#define BINARY(NAME, T, W)                                                                                          \
  API void NAME##_##T(const T* x, const T* y, T* z, int n) {                                                        \
    for_lanes<W>(n, [&](auto m, int j) TILE_INLINE { store(m, z + j, tile::NAME(load<T>(m, x + j), load<T>(m, y + j))); }); \
  }                                                                                                                 \
  API void NAME##_##T##_scalar(const T* x, const T* y, T* z, int n) {                                               \
    for (int i = 0; i < n; i++) z[i] = tile::NAME(x[i], y[i]);                                                      \
  }
#define DIVISIONS(T, W) BINARY(floordiv, T, W) BINARY(floormod, T, W) BINARY(truncdiv, T, W) BINARY(truncmod, T, W)
#define INTEGER(T, W) DIVISIONS(T, W) BINARY(shift_left, T, W) BINARY(shift_right, T, W) BINARY(maximum, T, W) BINARY(minimum, T, W) BINARY(pow, T, W)
INTEGER(int8_t, lanes<int32_t>)
INTEGER(uint8_t, lanes<int32_t>)
INTEGER(int32_t, lanes<int32_t>)
INTEGER(uint32_t, lanes<int32_t>)
INTEGER(int64_t, lanes<int64_t>)
#define FLOATING(T, W)                                                                                              \
  BINARY(floordiv, T, W) BINARY(floormod, T, W) BINARY(fmod, T, W) BINARY(maximum, T, W) BINARY(minimum, T, W)      \
  BINARY(pow, T, W) BINARY(atan2, T, W) BINARY(hypot, T, W) BINARY(copysign, T, W) BINARY(nextafter, T, W)
FLOATING(float, lanes<float>)
BINARY(floordiv, double, lanes<double>) BINARY(floormod, double, lanes<double>) BINARY(maximum, double, lanes<double>)
BINARY(maximum, fp16, HALF_LANES(fp16)) BINARY(nextafter, fp16, HALF_LANES(fp16)) BINARY(copysign, bf16, HALF_LANES(bf16))

#define ARITHMETIC(NAME, OP, T)                                                                                     \
  API void NAME##_##T(const T* x, const T* y, T* z, int n) {                                                        \
    for_lanes<HALF_LANES(T)>(n, [&](auto m, int j) TILE_INLINE { store(m, z + j, load<T>(m, x + j) OP load<T>(m, y + j)); }); \
  }                                                                                                                 \
  API void NAME##_##T##_scalar(const T* x, const T* y, T* z, int n) {                                               \
    for (int i = 0; i < n; i++) z[i] = x[i] OP y[i];                                                                \
  }
ARITHMETIC(add, +, fp16) ARITHMETIC(sub, -, fp16) ARITHMETIC(mul, *, fp16) ARITHMETIC(div, /, fp16)
ARITHMETIC(add, +, bf16) ARITHMETIC(sub, -, bf16) ARITHMETIC(mul, *, bf16) ARITHMETIC(div, /, bf16)

// classify(x, out): bit 0 NaN, 1 infinite, 2 finite.
#define CLASSIFY(T, W)                                                                                              \
  API void classify_##T(const T* x, int32_t* y, int n) {                                                            \
    for_lanes<W>(n, [&](auto m, int j) TILE_INLINE {                                                                \
      auto v = load<T>(m, x + j);                                                                                   \
      store(m, y + j, convert<int32_t>(tile::isnan(v)) + convert<int32_t>(tile::isinf(v)) * 2 + convert<int32_t>(tile::isfinite(v)) * 4); \
    });                                                                                                             \
  }
CLASSIFY(float, lanes<float>) CLASSIFY(double, lanes<double>) CLASSIFY(fp16, HALF_LANES(fp16)) CLASSIFY(bf16, HALF_LANES(bf16))

API void ldexp_float(const float* x, const int32_t* e, float* y, int n) {
  for_lanes<lanes<float>>(n, [&](auto m, int j) TILE_INLINE { store(m, y + j, tile::ldexp(load<float>(m, x + j), load<int32_t>(m, e + j))); });
}
// Comparisons of types of different width in one expression: float data, int64 indices, bool result.
API void mixed(const float* x, const int64_t* i, bool* out, float* chosen, int n) {
  for_lanes<lanes<int64_t>>(n, [&](auto m, int j) TILE_INLINE {
    auto inside = (load<int64_t>(m, i + j) >= 3) & (load<float>(m, x + j) < 0.5f);
    store(m, out + j, inside);
    store(m, chosen + j, select(inside, load<float>(m, x + j), -1.0f));
  });
}

API void divide_by_one(const float* x, float d, float* y, int n) {
  for_lanes<lanes<float>>(n, [&](auto m, int j) TILE_INLINE { store(m, y + j, load<float>(m, x + j) / d); });
}
#define FMA(T, W)                                                                                                   \
  API void fma_##T(const T* x, const T* y, const T* z, T* out, int n) {                                             \
    for_lanes<W>(n, [&](auto m, int j) TILE_INLINE { store(m, out + j, tile::fma(load<T>(m, x + j), load<T>(m, y + j), load<T>(m, z + j))); }); \
  }                                                                                                                 \
  API void fma_##T##_scalar(const T* x, const T* y, const T* z, T* out, int n) {                                    \
    for (int i = 0; i < n; i++) out[i] = tile::fma(x[i], y[i], z[i]);                                               \
  }
FMA(float, lanes<float>) FMA(bf16, HALF_LANES(bf16))
// out[0..7]: the odd lanes of two vectors of 8, last first; bits: x seen as integers and back.
API void rearrange(const float* x, float* out, int32_t* bits, float* back) {
  auto a = load<float>(full<8>{}, x), b = load<float>(full<8>{}, x + 8);
  store(full<8>{}, out, shuffle<15, 13, 11, 9, 7, 5, 3, 1>(a, b));
  store(full<8>{}, bits, reinterpret<int32_t, 8>(a));
  store(full<8>{}, back, reinterpret<float, 8>(reinterpret<uint32_t, 8>(a)));
  bits[8] = reinterpret<int32_t, 1>(x[8]);
}
API void across(const float* x, const int32_t* y, float* out, int32_t* whole) {
  auto a = load<float>(full<lanes<float>>{}, x);
  auto b = load<int32_t>(full<lanes<int32_t>>{}, y);
  out[0] = vector_reduce("sum", a);
  out[1] = vector_reduce("max", a);
  out[2] = vector_reduce("absmax", a);
  whole[0] = vector_reduce("min", b);
  whole[1] = vector_reduce("bitxor", b);
  whole[2] = vector_reduce("prod", b);
}
