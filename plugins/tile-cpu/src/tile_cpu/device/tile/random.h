// Random bits for vectors.
#pragma once

#include "math_rounded.h"

namespace tile {

template <class T, int N>
TILE_FN vec<uint32_t, N> philox(vec<T, N> seed, vec<T, N> sequence, vec<T, N> place) {
  vec<uint32_t, N> r;
  for (int i = 0; i < N; i++) r.set(i, philox(uint64_t(seed[i]), uint64_t(sequence[i]), uint64_t(place[i])));
  return r;
}

}  // namespace tile
