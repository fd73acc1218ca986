// int8, uint8 and int16 operands of an integer gemm: neighbours in K become int16 pairs in 32-bit lanes, whose two products x86 adds in
// one instruction. Exact modulo 2^32.
#pragma once

#include "copy.h"

namespace tile {
namespace detail {

template <class T>
constexpr bool fits_int16 = std::is_same<T, int8_t>::value || std::is_same<T, uint8_t>::value || std::is_same<T, int16_t>::value;

#if defined(__SSE2__)
template <class A, class B, class T>
constexpr bool multiplies_pairs = std::is_same<T, int32_t>::value && fits_int16<A> && fits_int16<B>;
#else
template <class A, class B, class T>
constexpr bool multiplies_pairs = false;
#endif

// Rows of packed operands start on a cache line.
constexpr int padded(int elements) { return (elements + 15) / 16 * 16; }

// acc + x.low * y.low + x.high * y.high in each 32-bit lane.
template <int W>
TILE_FN raw_t<int32_t, W> add_pair_products(raw_t<int32_t, W> acc, raw_t<int32_t, W> x, raw_t<int32_t, W> y) {
  using R = raw_t<int32_t, W>;
#if TILE_AVX512
  if constexpr (W == 16) {
#if defined(__AVX512VNNI__)
    return (R)_mm512_dpwssd_epi32((__m512i)acc, (__m512i)x, (__m512i)y);
#else
    return acc + (R)_mm512_madd_epi16((__m512i)x, (__m512i)y);
#endif
  }
#endif
#if defined(__AVX2__)
  if constexpr (W == 8) return acc + (R)_mm256_madd_epi16((__m256i)x, (__m256i)y);
#endif
#if defined(__SSE2__)
  if constexpr (W == 4) return acc + (R)_mm_madd_epi16((__m128i)x, (__m128i)y);
#endif
  return acc + (x << 16 >> 16) * (y << 16 >> 16) + (x >> 16) * (y >> 16);
}

// dst[r][c] = pair of src[r][2c], src[r][2c + 1] (0 past the end), for ROWS rows of COLUMNS elements.
template <int ROWS, int COLUMNS, class S>
TILE_FN void pair_columns(int32_t* dst, int pitch, const S* src, int64_t src_pitch) {
  for (int r = 0; r < ROWS; r++) {
    int16_t* row = reinterpret_cast<int16_t*>(dst + r * pitch);
    for_lanes<lanes<int16_t>>(COLUMNS, [=](auto m, int c) TILE_INLINE { store(m, row + c, convert<int16_t>(load<S>(m, src + r * src_pitch + c))); });
    if (COLUMNS % 2) row[COLUMNS] = 0;
  }
}

// dst[r][c] = pair of src[2r][c], src[2r + 1][c] (0 past the end), for ROWS rows of COLUMNS elements.
template <int ROWS, int COLUMNS, class S>
TILE_FN void pair_rows(int32_t* dst, int pitch, const S* src, int64_t src_pitch) {
  for (int r = 0; r < ROWS; r += 2) {
    const S* first = src + r * src_pitch;
    const bool last = r + 1 == ROWS;
    for_lanes<lanes<int32_t>>(COLUMNS, [=](auto m, int c) TILE_INLINE {
      vec<int32_t, lanes<int32_t>> low = convert<int32_t>(load<S>(m, first + c)) & 0xffff;
      vec<int32_t, lanes<int32_t>> high = last ? low ^ low : convert<int32_t>(load<S>(m, first + src_pitch + c));
      store(m, dst + r / 2 * pitch + c, low | decltype(high)(typename decltype(high)::raw(high.v << 16)));
    });
  }
}

}  // namespace detail
}  // namespace tile
