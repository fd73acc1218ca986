// convert_TO_FROM(x, y, n) over vectors and convert_TO_FROM_scalar over single values, for every pair of types.
#include <tile/tile.h>
using namespace tile;
#define PAIR(TO, FROM)                                                                                    \
  extern "C" void convert_##TO##_##FROM(const FROM* x, TO* y, int n) {                                    \
    constexpr int W = TILE_VECTOR_BYTES / int(sizeof(TO) > sizeof(FROM) ? (sizeof(TO) > 4 ? sizeof(TO) : 4) : (sizeof(FROM) > 4 ? sizeof(FROM) : 4)); \
    for_lanes<W>(n, [&](auto m, int j) TILE_INLINE { store(m, y + j, convert<TO>(load<FROM>(m, x + j))); }); \
  }                                                                                                       \
  extern "C" void convert_##TO##_##FROM##_scalar(const FROM* x, TO* y, int n) {                           \
    for (int i = 0; i < n; i++) y[i] = convert<TO>(x[i]);                                                 \
  }
#define ALL(FROM)                                                                                          \
  PAIR(bool, FROM) PAIR(int8_t, FROM) PAIR(int16_t, FROM) PAIR(int32_t, FROM) PAIR(int64_t, FROM)          \
  PAIR(uint8_t, FROM) PAIR(uint16_t, FROM) PAIR(uint32_t, FROM) PAIR(uint64_t, FROM)                       \
  PAIR(fp16, FROM) PAIR(bf16, FROM) PAIR(float, FROM) PAIR(double, FROM)
ALL(bool) ALL(int8_t) ALL(int16_t) ALL(int32_t) ALL(int64_t) ALL(uint8_t) ALL(uint16_t) ALL(uint32_t) ALL(uint64_t)
ALL(fp16) ALL(bf16) ALL(float) ALL(double)
