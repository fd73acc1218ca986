// Copies of 2-D tiles between row-major arrays: converting, filling, prefetching and transposing.
#pragma once

#include "memory.h"

namespace tile {

// dst[r][c] = convert(src[r][c]) for r < rows, c < columns; pitches in elements.
template <class D, class S, class I>
TILE_FN void copy_tile(D* dst, int64_t dst_pitch, const S* src, int64_t src_pitch, I rows, I columns) {
  constexpr int W = TILE_VECTOR_BYTES / int(sizeof(D) > sizeof(S) ? sizeof(D) : sizeof(S));
  for (I r = 0; r < rows; r++)
    for_lanes<W>(columns, [=](auto m, I c) TILE_INLINE {
      store(m, dst + r * dst_pitch + c, convert<D>(load<S>(m, src + r * src_pitch + c)));
    });
}

template <class D, class I>
TILE_FN void fill_tile(D* dst, int64_t pitch, I rows, I columns, D value) {
  constexpr int W = lanes<D>;
  for (I r = 0; r < rows; r++)
    for_lanes<W>(columns, [=](auto m, I c) TILE_INLINE { store(m, dst + r * pitch + c, vec<D, W>(value)); });
}

// Slice `slice` of SLICES of the cache lines of a tile that a later step copies: called between register blocks of a gemm, it hides the
// latency of the next tile. A burst of all lines at once would only fill the line buffers and stall.
template <int ROWS, int COLUMNS, class T, int SLICES>
TILE_FN void prefetch_slice(const T* src, int64_t pitch, int slice, std::integral_constant<int, SLICES>) {
  constexpr int lines_in_row = (COLUMNS * int(sizeof(T)) + 63) / 64;
  constexpr int total = ROWS * lines_in_row;
  constexpr int each = (total + SLICES - 1) / SLICES;
#pragma GCC unroll 16
  for (int i = 0; i < each; i++) {
    int line = slice * each + i;
    // Past the end the last line is asked for again, which is cheaper than a branch.
    if (total % each != 0 || SLICES * each != total) line = line < total ? line : total - 1;
    __builtin_prefetch(reinterpret_cast<const char*>(src + (line / lines_in_row) * pitch) + line % lines_in_row * 64, 0, 2);
  }
}

// ---- transposition --------------------------------------------------------------------------------------------------

// An n x n block of 32-bit lanes in registers: log2(n) rounds of two-row exchanges.
template <int N, int STEP, class V>
TILE_FN void exchange_rows(V (&row)[N]) {
  if constexpr (STEP >= 1) {
    using M = raw_t<int32_t, N>;
    M low, high;
    for (int i = 0; i < N; i++) {
      bool second = (i & STEP) != 0;
      low[i] = second ? N + i - STEP : i;
      high[i] = second ? N + i : i + STEP;
    }
#pragma GCC unroll 16
    for (int r = 0; r < N; r++) {
      if (r & STEP) continue;
      V a = row[r], b = row[r + STEP];
#if defined(__clang__)
      V x, y;
      for (int i = 0; i < N; i++) {
        x[i] = low[i] < N ? a[low[i]] : b[low[i] - N];
        y[i] = high[i] < N ? a[high[i]] : b[high[i] - N];
      }
      row[r] = x;
      row[r + STEP] = y;
#else
      row[r] = __builtin_shuffle(a, b, low);
      row[r + STEP] = __builtin_shuffle(a, b, high);
#endif
    }
    exchange_rows<N, STEP / 2>(row);
  }
}

// dst[c][r] = src[r][c] for one N x N block of 4-byte elements.
template <int N>
TILE_FN void transpose_block(uint32_t* dst, int64_t dst_pitch, const uint32_t* src, int64_t src_pitch) {
  using V = raw_t<int32_t, N>;
  V row[N];
#pragma GCC unroll 16
  for (int r = 0; r < N; r++) row[r] = (V)load_raw<uint32_t, N>(src + r * src_pitch);
  exchange_rows<N, N / 2>(row);
#pragma GCC unroll 16
  for (int r = 0; r < N; r++) store_raw<uint32_t, N>(dst + r * dst_pitch, (raw_t<uint32_t, N>)row[r]);
}

// dst[c][r] = convert(src[r][c]) for r < rows, c < columns. 4-byte elements move by register blocks, the rest element by element
// in an order that keeps the written lines in cache.
template <class D, class S, class I>
TILE_FN void copy_transposed(D* dst, int64_t dst_pitch, const S* src, int64_t src_pitch, I rows, I columns) {
  I whole_rows = 0, whole_columns = 0;
  if constexpr (std::is_same<D, S>::value && sizeof(S) == 4) {
    constexpr int N = TILE_VECTOR_BYTES / 4;
    whole_rows = rows / N * N;
    whole_columns = columns / N * N;
    for (I r = 0; r < whole_rows; r += N)
      for (I c = 0; c < whole_columns; c += N)
        transpose_block<N>(reinterpret_cast<uint32_t*>(dst) + c * dst_pitch + r, dst_pitch,
                           reinterpret_cast<const uint32_t*>(src) + r * src_pitch + c, src_pitch);
  }
  for (I r = 0; r < rows; r++)
    for (I c = r < whole_rows ? whole_columns : 0; c < columns; c++) dst[c * dst_pitch + r] = convert<D>(src[r * src_pitch + c]);
}

}  // namespace tile
