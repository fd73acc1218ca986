// Loads, stores, reductions, transposed copies and the grid loop.
#include <tile/tile.h>
#define API extern "C"
using namespace tile;

// One masked copy of the first n of W lanes, W as wide as a register.
#define TYPE(T)                                                                                                      \
  API int lanes_##T() { return lanes<T>; }                                                                           \
  API void partial_##T(const T* x, T* y, int n) {                                                                    \
    part<lanes<T>> m{n};                                                                                             \
    store(m, y, load<T>(m, x));                                                                                      \
  }                                                                                                                  \
  API void predicated_##T(const T* x, T* y, const int8_t* when, int n) {                                             \
    for_lanes<lanes<T>>(n, [&](auto m, int j) TILE_INLINE {                                                          \
      auto k = load<int8_t>(m, when + j) != 0;                                                                       \
      store(m, y + j, load<T>(m, x + j, k), k);                                                                      \
    });                                                                                                              \
  }                                                                                                                  \
  API void strided_##T(const T* x, int64_t stride, T* y, int64_t out_stride, int n) {                                \
    for_lanes<lanes<T>>(n, [&](auto m, int j) TILE_INLINE {                                                          \
      scatter(m, y + j * out_stride, out_stride, gather<T>(m, x + j * stride, stride));                              \
    });                                                                                                              \
  }                                                                                                                  \
  API void transpose_##T(const T* x, int64_t xp, T* y, int64_t yp, int rows, int columns) {                          \
    copy_transposed(y, yp, x, xp, rows, columns);                                                                    \
  }                                                                                                                  \
  API void tile_##T(const T* x, int64_t xp, T* y, int64_t yp, int rows, int columns) {                               \
    copy_tile(y, yp, x, xp, rows, columns);                                                                          \
  }
TYPE(int8_t) TYPE(bool) TYPE(int16_t) TYPE(fp16) TYPE(bf16) TYPE(int32_t) TYPE(float) TYPE(int64_t) TYPE(double)

API void indexed(const float* x, const int32_t* index, float* y, const int32_t* out_index, int n) {
  for_lanes<lanes<float>>(n, [&](auto m, int j) TILE_INLINE {
    scatter(m, y, load<int32_t>(m, out_index + j), gather<float>(m, x, load<int32_t>(m, index + j)));
  });
}
API void count_up(int32_t* y, int32_t base, int32_t step, int n) {
  for_lanes<lanes<int32_t>>(n, [&](auto m, int j) TILE_INLINE { store(m, y + j, iota<int32_t>(m, base + j * step, step)); });
}

#define REDUCE(T, W)                                                                                                 \
  API void reduce_##T(const T* x, int n, accumulator_t<T>* out) {                                                    \
    out[0] = reduce_sum<W>(x, n);                                                                                    \
    out[1] = reduce_max<W>(x, n);                                                                                    \
    out[2] = reduce_min<W>(x, n);                                                                                    \
    out[3] = reduce_abssum<W>(x, n);                                                                                 \
    out[4] = reduce_absmax<W>(x, n);                                                                                 \
    out[5] = reduce_prod<W>(x, n);                                                                                   \
  }
REDUCE(float, lanes<float>) REDUCE(double, lanes<double>) REDUCE(int32_t, lanes<int32_t>) REDUCE(int8_t, lanes<int8_t>) REDUCE(int64_t, lanes<int64_t>)
REDUCE(fp16, lanes<float>) REDUCE(bf16, lanes<float>)
#define REDUCE_BITS(T)                                                                                               \
  API void bits_##T(const T* x, int n, T* out) {                                                                     \
    out[0] = reduce_bitand<lanes<T>>(x, n);                                                                          \
    out[1] = reduce_bitor<lanes<T>>(x, n);                                                                           \
    out[2] = reduce_bitxor<lanes<T>>(x, n);                                                                          \
    out[3] = T(reduce_any<lanes<T>>(x, n));                                                                          \
    out[4] = T(reduce_all<lanes<T>>(x, n));                                                                          \
  }
REDUCE_BITS(bool) REDUCE_BITS(uint8_t) REDUCE_BITS(int32_t) REDUCE_BITS(int64_t)
// The tail of an expression that is not zero on inactive lanes must not count.
API float sum_of_exp(const float* x, int n) {
  return reduce_lanes<lanes<float>>(n, op_sum{}, [&](auto m, int j) TILE_INLINE { return tile::exp(load<float>(m, x + j)); });
}

struct Scratch {
  alignas(64) float values[1000];
};
API int grid(int32_t* seen, int gx, int gy, int gz, int threads) {
  return parallel_for(gx, gy, gz, threads, [&](int x, int y, int z) {
    Scratch* s = arena<Scratch>();
    for (int i = 0; i < 1000; i++) s->values[i] = float(x);
    bool kept = reinterpret_cast<uintptr_t>(s) % 64 == 0;
    for (int i = 0; i < 1000; i++) kept &= s->values[i] == float(x);
    __atomic_fetch_add(&seen[(z * gy + y) * gx + x], kept ? 1 : 1000, __ATOMIC_RELAXED);
  }, sizeof(Scratch));
}
API int too_much_scratch() {
  return parallel_for(4, 1, 1, 2, [&](int, int, int) {}, size_t(1) << 62);
}
API int nested(int32_t* count) {
  return parallel_for(4, 1, 1, 2, [&](int, int, int) {
    parallel_for(8, 1, 1, 2, [&](int, int, int) { __atomic_fetch_add(count, 1, __ATOMIC_RELAXED); });
  });
}
API int asserts(int limit, const char** message) {
  int code = parallel_for(10, 1, 1, 2, [&](int x, int, int) { check(x < limit, "x < limit"); });
  *message = failed_check.load();
  return code;
}
