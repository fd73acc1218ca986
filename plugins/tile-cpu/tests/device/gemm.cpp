// gemm on contiguous tiles: NAME(a, b, c); the shapes sit in test_device_gemm.py under the same names.
#include <tile/tile.h>
using namespace tile;
#define GEMM(NAME, TA, TB, M, N, K, CLEAR, A, B, C)                                                        \
  extern "C" void NAME(const A* a, const B* b, C* c) {                                                     \
    gemm<TA, TB, M, N, K, (TA ? M : K), (TB ? K : N), N, CLEAR>(a, b, c);                                  \
  }
#include "gemm_cases.inc"

// Tiles inside larger arrays: pitches differ from the extents, and what lies between the rows must not change.
extern "C" void pitched(const float* a, const float* b, float* c) {
  gemm<false, false, 13, 19, 7, 11, 23, 29>(a, b, c);
}
// The step functor runs once for each register block and sees how many there are.
extern "C" int steps(const float* a, const float* b, float* c) {
  int calls = 0, total = 0;
  gemm<false, false, 40, 72, 8, 8, 72, 72>(a, b, c, [&](int i, auto n) TILE_INLINE {
    calls += i == calls;
    total = n;
    prefetch_slice<40, 8>(a, 8, i, n);
  });
  return calls == total ? calls : -1;
}
