// Copies of 2-D tiles between row-major arrays: converting, filling, prefetching and transposing.
#pragma once

#include <utility>

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

template <class L, int N, int STEP, bool HIGH>
struct exchange_indices {
  using index = typename int_of_size<int(sizeof(L))>::type;
  // Lane i of the first (HIGH: second) row of a pair, counted in the concatenation of the two.
  static constexpr index at(int i) { return index((HIGH ? i + STEP : i) + ((i & STEP) ? N - STEP : 0)); }
  template <int... I>
  static TILE_INLINE raw_t<L, N> shuffle(raw_t<L, N> a, raw_t<L, N> b, std::integer_sequence<int, I...>) {
#if defined(__clang__)
    return __builtin_shufflevector(a, b, at(I)...);
#else
    return __builtin_shuffle(a, b, raw_t<index, N>{at(I)...});
#endif
  }
};

// An N x N block in N registers: log2(N) rounds, each exchanging parts of two rows.
template <class L, int N, int STEP>
TILE_FN void exchange_rows(raw_t<L, N> (&row)[N]) {
  if constexpr (STEP >= 1) {
    constexpr std::make_integer_sequence<int, N> all{};
#pragma GCC unroll 32
    for (int r = 0; r < N; r++) {
      if (r & STEP) continue;
      raw_t<L, N> a = row[r], b = row[r + STEP];
      row[r] = exchange_indices<L, N, STEP, false>::shuffle(a, b, all);
      row[r + STEP] = exchange_indices<L, N, STEP, true>::shuffle(a, b, all);
    }
    exchange_rows<L, N, STEP / 2>(row);
  }
}

// dst[c][r] = convert(src[r][c]) for one N x N block.
template <int N, class D, class S>
TILE_FN void transpose_block(D* dst, int64_t dst_pitch, const S* src, int64_t src_pitch) {
  using L = typename int_of_size<int(sizeof(D))>::type;
  raw_t<L, N> row[N];
#pragma GCC unroll 32
  for (int r = 0; r < N; r++) row[r] = (raw_t<L, N>)convert<D>(load<S>(full<N>{}, src + r * src_pitch)).v;
  exchange_rows<L, N, N / 2>(row);
#pragma GCC unroll 32
  for (int r = 0; r < N; r++) store_raw<L, N>(reinterpret_cast<L*>(dst + r * dst_pitch), row[r]);
}

// dst[c][r] = convert(src[r][c]) for r < rows, c < columns: blocks in registers, what is left element by element.
template <class D, class S, class I>
TILE_FN void copy_transposed(D* dst, int64_t dst_pitch, const S* src, int64_t src_pitch, I rows, I columns) {
  // As many lanes as the wider type fills a register with; more than 16 rows would not fit the register file.
  constexpr int fit = TILE_VECTOR_BYTES / int(sizeof(D) > sizeof(S) ? sizeof(D) : sizeof(S));
  constexpr int N = fit > 16 ? 16 : fit;
  const I whole_rows = rows / N * N, whole_columns = columns / N * N;
  for (I r = 0; r < whole_rows; r += N)
    for (I c = 0; c < whole_columns; c += N) transpose_block<N>(dst + c * dst_pitch + r, dst_pitch, src + r * src_pitch + c, src_pitch);
  for (I r = 0; r < rows; r++)
    for (I c = r < whole_rows ? whole_columns : 0; c < columns; c++) dst[c * dst_pitch + r] = convert<D>(src[r * src_pitch + c]);
}

// The same with extents known to the compiler.
template <int ROWS, int COLUMNS, class D, class S>
TILE_FN void copy_transpose(D* dst, int64_t dst_pitch, const S* src, int64_t src_pitch) {
  copy_transposed(dst, dst_pitch, src, src_pitch, ROWS, COLUMNS);
}

}  // namespace tile
