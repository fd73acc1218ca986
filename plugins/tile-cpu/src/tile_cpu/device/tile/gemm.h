// gemm: C[M][N] (+)= op(A) op(B) on block-local tiles with sizes known at compile time.
//
// A register block of C (MR rows of NV vectors) is accumulated over all of K, then added to C in memory: loads of C at the end, not at
// the start, because the previous block's stores to a tile of 4096-byte-aliased rows would delay them (measured: 3-5 %). A is read by
// broadcast, so neither of its orientations needs packing; B is read by rows [K][N]. Operands of another type than the accumulator, and
// a B stored [N][K], are first converted into scratch.
#pragma once

#include "copy.h"
#include "gemm_pairs.h"
#include "parallel.h"

namespace tile {

// Accumulation happens in fp32 for fp16, bf16 and fp32 results, fp64 for fp64, int32 for integers.
template <class TC>
using gemm_accumulator_t = std::conditional_t<is_half<TC>, float, TC>;

struct no_step {
  template <int N>
  TILE_INLINE void operator()(int, std::integral_constant<int, N>) const {}
};

namespace detail {

#if TILE_AVX512
constexpr int gemm_accumulators = 28;  // of 32 registers; the rest hold a row of B and a broadcast
constexpr int gemm_wide = 4;           // vectors of a register block in the direction of N
#elif defined(__aarch64__)
constexpr int gemm_accumulators = 24;
constexpr int gemm_wide = 2;
#else
constexpr int gemm_accumulators = 12;  // of 16
constexpr int gemm_wide = 2;
#endif

constexpr int divide_up(int a, int b) { return (a + b - 1) / b; }

template <class T, int W>
TILE_FN raw_t<T, W> load_lanes(const T* p, int n) {
  if (n == W) return load_raw<T, W>(p);
  return load_raw_first<T, W>(p, n);
}

// acc + x * row. With PAIRS every 32-bit lane holds two int16 and both products are added: twice the multiplications of int32.
template <bool PAIRS, class T, int W>
TILE_FN raw_t<T, W> multiply_add(raw_t<T, W> acc, T x, raw_t<T, W> row) {
  if constexpr (PAIRS) return add_pair_products<W>(acc, x - raw_t<T, W>{}, row);
  else return acc + x * row;
}

// acc[MR][NV] += A(rows) * B(columns); the last vector has LAST lanes. A(i, k) is a[i * AI + k * AK], B(k, j) is b[k * BK + j].
template <int MR, int NV, int LAST, int K, int AI, int AK, int BK, bool CLEAR, bool PAIRS, class T, class TC>
TILE_FN void micro_kernel(const T* __restrict a, const T* __restrict b, TC* __restrict c, int64_t pitch) {
  constexpr int W = lanes<T>;
  using V = raw_t<T, W>;
  V acc[MR][NV];
#pragma GCC unroll 32
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 8
    for (int j = 0; j < NV; j++) acc[i][j] = V{};
#pragma GCC unroll 4
  for (int k = 0; k < K; k++) {
    V row[NV];
#pragma GCC unroll 8
    for (int j = 0; j < NV; j++) row[j] = load_lanes<T, W>(b + k * BK + j * W, j == NV - 1 ? LAST : W);
#pragma GCC unroll 32
    for (int i = 0; i < MR; i++) {
      T x = a[i * AI + k * AK];
#pragma GCC unroll 8
      for (int j = 0; j < NV; j++) acc[i][j] = multiply_add<PAIRS, T, W>(acc[i][j], x, row[j]);
    }
  }
#pragma GCC unroll 32
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 8
    for (int j = 0; j < NV; j++) {
      TC* p = c + i * pitch + j * W;
      vec<T, W> r{acc[i][j]};
      if (j == NV - 1 && LAST != W) {
        if constexpr (!CLEAR) r = r + convert<T>(load<TC>(part<W>{LAST}, p));
        store(part<W>{LAST}, p, convert<TC>(r));
      } else {
        if constexpr (!CLEAR) r = r + convert<T>(load<TC>(full<W>{}, p));
        store(full<W>{}, p, convert<TC>(r));
      }
    }
}

// All row blocks of one group of NV vectors of columns: sizes differ by at most one, so no block is a poor remainder.
template <int NV, int LAST, int M, int K, int AI, int AK, int BK, bool CLEAR, bool PAIRS, class T, class TC, class Step, class Total>
TILE_FN void column_group(const T* a, const T* b, TC* c, int64_t pitch, Step& step, int& done, Total total) {
  constexpr int most = gemm_accumulators / NV < M ? gemm_accumulators / NV : M;
  constexpr int blocks = divide_up(M, most);
  constexpr int low = M / blocks, larger = M % blocks;  // `larger` blocks of low + 1 rows, then blocks of low
  for (int i = 0; i < larger; i++) {
    step(done++, total);
    micro_kernel<low + 1, NV, LAST, K, AI, AK, BK, CLEAR, PAIRS>(a + i * (low + 1) * AI, b, c + i * (low + 1) * pitch, pitch);
  }
  for (int i = larger; i < blocks; i++) {
    int row = larger + i * low;
    step(done++, total);
    micro_kernel<low, NV, LAST, K, AI, AK, BK, CLEAR, PAIRS>(a + row * AI, b, c + row * pitch, pitch);
  }
}

template <int NV, int M>
constexpr int row_blocks() {
  return divide_up(M, gemm_accumulators / NV < M ? gemm_accumulators / NV : M);
}

// The whole tile once both operands have the accumulator's type and B is [K][N].
template <int M, int N, int K, int AI, int AK, int BK, bool CLEAR, bool PAIRS, class T, class TC, class Step>
TILE_FN void gemm_same_type(const T* a, const T* b, TC* c, int64_t pitch, Step& step) {
  constexpr int W = lanes<T>;
  constexpr int vectors = divide_up(N, W);
  constexpr int wide = vectors < gemm_wide ? vectors : gemm_wide;
  constexpr int groups = (N / W) / wide;         // groups of whole vectors
  constexpr int left = N - groups * wide * W;    // columns after them
  constexpr int left_vectors = divide_up(left, W);
  constexpr std::integral_constant<int, groups * row_blocks<wide, M>() + (left ? row_blocks<(left ? left_vectors : 1), M>() : 0)> total{};
  int done = 0;
  for (int g = 0; g < groups; g++)
    column_group<wide, W, M, K, AI, AK, BK, CLEAR, PAIRS>(a, b + g * wide * W, c + g * wide * W, pitch, step, done, total);
  if constexpr (left > 0)
    column_group<left_vectors, left - (left_vectors - 1) * W, M, K, AI, AK, BK, CLEAR, PAIRS>(
        a, b + groups * wide * W, c + groups * wide * W, pitch, step, done, total);
}

}  // namespace detail

// C[M][N] = (CLEAR ? 0 : C) + op(A) op(B). A is [M][K] or, with TA, [K][M]; B is [K][N] or, with TB, [N][K]; LDA, LDB, LDC are the
// pitches of the stored rows in elements. A and B may differ in type. `step(i, n)` runs before each of the n register blocks: generated
// code prefetches or copies a slice of the next tiles there. A and B must not overlap C.
template <bool TA, bool TB, int M, int N, int K, int LDA, int LDB, int LDC, bool CLEAR = false, class A, class B, class C, class Step = no_step>
static inline void gemm(const A* a, const B* b, C* c, Step step = Step{}) {
  static_assert(M > 0 && N > 0 && K > 0, "gemm of an empty tile");
  using T = gemm_accumulator_t<C>;
  if constexpr (detail::multiplies_pairs<A, B, T>) {
    constexpr int K2 = (K + 1) / 2, pitch_a = detail::padded(TA ? M : K2), pitch_b = detail::padded(N);
    constexpr size_t a_size = size_t(TA ? K2 : M) * pitch_a, b_size = size_t(K2) * pitch_b, turn_size = TB ? size_t(N) * detail::padded(K2) : 0;
    int32_t* pa = static_cast<int32_t*>(ThreadArena<1>::mine().reserve((a_size + b_size + turn_size) * sizeof(int32_t)));
    if (!pa) return check(false, "memory for the packed operands of a gemm");
    int32_t* pb = pa + a_size;
    if constexpr (TA) detail::pair_rows<K, M>(pa, pitch_a, a, LDA);
    else detail::pair_columns<M, K>(pa, pitch_a, a, LDA);
    if constexpr (TB) {
      int32_t* turned = pb + b_size;
      detail::pair_columns<N, K>(turned, detail::padded(K2), b, LDB);
      copy_transposed(pb, pitch_b, turned, detail::padded(K2), N, K2);
    } else {
      detail::pair_rows<K, N>(pb, pitch_b, b, LDB);
    }
    detail::gemm_same_type<M, N, K2, TA ? 1 : pitch_a, TA ? pitch_a : 1, pitch_b, CLEAR, true>(pa, pb, c, LDC, step);
  } else {
    constexpr bool pack_a = !std::is_same<A, T>::value, pack_b = !std::is_same<B, T>::value || TB;
    constexpr int a_rows = TA ? K : M, a_columns = TA ? M : K;
    constexpr int pitch_a = pack_a ? detail::padded(a_columns) : LDA, pitch_b = pack_b ? detail::padded(N) : LDB;
    constexpr size_t a_size = pack_a ? size_t(a_rows) * pitch_a : 0, b_size = pack_b ? size_t(K) * pitch_b : 0;
    const T *pa, *pb;
    T* scratch = nullptr;
    if constexpr (pack_a || pack_b) {
      scratch = static_cast<T*>(ThreadArena<1>::mine().reserve((a_size + b_size) * sizeof(T)));
      if (!scratch) return check(false, "memory for the packed operands of a gemm");
    }
    if constexpr (pack_a) {
      copy_tile(scratch, pitch_a, a, LDA, a_rows, a_columns);
      pa = scratch;
    } else {
      pa = a;
    }
    if constexpr (pack_b) {
      if constexpr (TB) copy_transposed(scratch + a_size, pitch_b, b, LDB, N, K);
      else copy_tile(scratch + a_size, pitch_b, b, LDB, K, N);
      pb = scratch + a_size;
    } else {
      pb = b;
    }
    detail::gemm_same_type<M, N, K, TA ? 1 : pitch_a, TA ? pitch_a : 1, pitch_b, CLEAR, false>(pa, pb, c, LDC, step);
  }
}

}  // namespace tile
