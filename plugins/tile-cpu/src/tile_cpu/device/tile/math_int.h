// Division with a chosen rounding, shifts and bit counts.
#pragma once

#include "math.h"

namespace tile {

// C division; by zero gives 0, and the most negative value by -1 wraps, so that neither traps.
template <class T, std::enable_if_t<is_scalar<T>, int> = 0>
TILE_FN T truncdiv(T a, T b) {
  if constexpr (is_floating<T>) return trunc(T(a / b));
  else {
    if (b == 0) return 0;
    if constexpr (std::is_signed<T>::value)
      if (b == T(-1)) return T(0 - std::make_unsigned_t<T>(a));
    return T(a / b);
  }
}
template <class T, std::enable_if_t<is_scalar<T>, int> = 0>
TILE_FN T truncmod(T a, T b) {
  if constexpr (is_floating<T>) return fmod(a, b);
  else {
    if (b == 0) return 0;
    if constexpr (std::is_signed<T>::value)
      if (b == T(-1)) return 0;
    return T(a % b);
  }
}

// Python's %: the result has the sign of the divisor.
template <class T, std::enable_if_t<is_scalar<T>, int> = 0>
TILE_FN T floormod(T a, T b) {
  if constexpr (is_half<T>) return T(floormod(float(a), float(b)));
  else if constexpr (is_floating<T>) {
    T r = std::fmod(a, b);
    if (r != 0) return (r < 0) != (b < 0) ? r + b : r;
    return b == 0 ? r : std::copysign(T(0), b);
  } else {
    T r = truncmod(a, b);
    if constexpr (std::is_signed<T>::value) return (r != 0 && ((r < 0) != (b < 0))) ? T(r + b) : r;
    else return r;
  }
}
// Python's //.
template <class T, std::enable_if_t<is_scalar<T>, int> = 0>
TILE_FN T floordiv(T a, T b) {
  if constexpr (is_half<T>) return T(floordiv(float(a), float(b)));
  else if constexpr (is_floating<T>) {
    if (b == 0) return a / b;
    T r = std::fmod(a, b);
    T q = (a - r) / b;
    if (r != 0 && ((r < 0) != (b < 0))) q -= 1;
    if (q == 0) return std::copysign(T(0), a / b);
    // a - r is a multiple of b, so q is an integer but for the rounding of the division.
    T whole = std::floor(q);
    return q - whole > T(0.5) ? whole + 1 : whole;
  } else {
    T q = truncdiv(a, b);
    if constexpr (std::is_signed<T>::value) {
      T r = truncmod(a, b);
      return (r != 0 && ((r < 0) != (b < 0))) ? T(q - 1) : q;
    } else return q;
  }
}

#define TILE_DIVISION_LANES(NAME)                                                                 \
  template <class T, int N>                                                                       \
  TILE_FN vec<T, N> NAME(vec<T, N> a, vec<T, N> b) {                                              \
    return map_lanes([](T x, T y) TILE_INLINE { return NAME(x, y); }, a, b);                      \
  }                                                                                               \
  template <class T, int N, class S, std::enable_if_t<is_scalar<S>, int> = 0>                     \
  TILE_FN vec<T, N> NAME(S a, vec<T, N> b) {                                                      \
    return NAME(vec<T, N>(a), b);                                                                 \
  }
TILE_DIVISION_LANES(truncdiv)
TILE_DIVISION_LANES(truncmod)
TILE_DIVISION_LANES(floordiv)
TILE_DIVISION_LANES(floormod)
#undef TILE_DIVISION_LANES

// By a scalar, as index arithmetic does: a power of two becomes a shift or mask when the compiler sees the constant.
template <class T, int N, class S, std::enable_if_t<is_scalar<S>, int> = 0>
TILE_FN vec<T, N> floordiv(vec<T, N> a, S b) {
  if constexpr (std::is_integral<T>::value && std::is_integral<S>::value) {
    if (b > 0 && (uint64_t(b) & (uint64_t(b) - 1)) == 0)
      return vec<T, N>(typename vec<T, N>::raw(a.v >> T(__builtin_ctzll(uint64_t(b)))));
  }
  return floordiv(a, vec<T, N>(b));
}
template <class T, int N, class S, std::enable_if_t<is_scalar<S>, int> = 0>
TILE_FN vec<T, N> floormod(vec<T, N> a, S b) {
  if constexpr (std::is_integral<T>::value && std::is_integral<S>::value) {
    if (b > 0 && (uint64_t(b) & (uint64_t(b) - 1)) == 0) return a & T(b - 1);
  }
  return floormod(a, vec<T, N>(b));
}
template <class T, int N, class S, std::enable_if_t<is_scalar<S>, int> = 0>
TILE_FN vec<T, N> truncdiv(vec<T, N> a, S b) {
  return truncdiv(a, vec<T, N>(b));
}
template <class T, int N, class S, std::enable_if_t<is_scalar<S>, int> = 0>
TILE_FN vec<T, N> truncmod(vec<T, N> a, S b) {
  return truncmod(a, vec<T, N>(b));
}

// Shifts by the width or more give 0 (or the sign, for a right shift of a negative), as numpy does; negative counts likewise.
template <class T, class S, std::enable_if_t<std::is_integral<T>::value && std::is_integral<S>::value, int> = 0>
TILE_FN T shift_left(T a, S b) {
  using U = std::make_unsigned_t<T>;
  return uint64_t(b) < 8 * sizeof(T) ? T(U(a) << b) : T(0);
}
template <class T, class S, std::enable_if_t<std::is_integral<T>::value && std::is_integral<S>::value, int> = 0>
TILE_FN T shift_right(T a, S b) {
  if (uint64_t(b) < 8 * sizeof(T)) return T(a >> b);
  return std::is_signed<T>::value && a < 0 ? T(-1) : T(0);
}
template <class T, int N>
TILE_FN vec<T, N> shift_left(vec<T, N> a, vec<T, N> b) {
  constexpr T bits = T(8 * sizeof(T));
  auto fits = (b >= T(0)) & (b < bits);
  vec<T, N> count = select(fits, b, T(0));
  return select(fits, vec<T, N>(typename vec<T, N>::raw(a.v << count.v)), T(0));
}
template <class T, int N>
TILE_FN vec<T, N> shift_right(vec<T, N> a, vec<T, N> b) {
  constexpr T bits = T(8 * sizeof(T));
  auto fits = (b >= T(0)) & (b < bits);
  if constexpr (std::is_signed<T>::value) {
    // All bits are the sign after bits - 1 places.
    return vec<T, N>(typename vec<T, N>::raw(a.v >> select(fits, b, T(bits - 1)).v));
  } else {
    return select(fits, vec<T, N>(typename vec<T, N>::raw(a.v >> select(fits, b, T(0)).v)), T(0));
  }
}
TILE_BINARY_FORMS(shift_left)
TILE_BINARY_FORMS(shift_right)
#undef TILE_BINARY_FORMS

template <class T, std::enable_if_t<std::is_integral<T>::value, int> = 0>
TILE_FN T popcount(T x) {
  return T(__builtin_popcountll(uint64_t(std::make_unsigned_t<T>(x))));
}
// Leading zeros within the type's own width; the width for 0.
template <class T, std::enable_if_t<std::is_integral<T>::value, int> = 0>
TILE_FN T clz(T x) {
  uint64_t u = uint64_t(std::make_unsigned_t<T>(x));
  return T(u == 0 ? 8 * sizeof(T) : size_t(__builtin_clzll(u)) - (64 - 8 * sizeof(T)));
}
template <class T, int N>
TILE_FN vec<T, N> popcount(vec<T, N> x) {
  return map_lanes([](T v) TILE_INLINE { return popcount(v); }, x);
}
template <class T, int N>
TILE_FN vec<T, N> clz(vec<T, N> x) {
  return map_lanes([](T v) TILE_INLINE { return clz(v); }, x);
}

}  // namespace tile
