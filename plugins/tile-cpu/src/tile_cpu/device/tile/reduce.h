// Reductions of a contiguous row, and of any expression over lanes, with four accumulators and a masked tail.
//
// max and min drop NaN (CUDA fmaxf); sum and prod of fp16/bf16 accumulate in fp32. An empty row gives the identity (0 for absmax).
#pragma once

#include <limits>

#include "math.h"

namespace tile {

// The type that a reduction of T is carried in.
template <class T>
using accumulator_t = std::conditional_t<is_half<T>, float, T>;

struct op_sum {
  template <class T>
  static constexpr T identity() { return T(0); }
  template <class X>
  static TILE_INLINE X combine(X acc, X x) { return X(acc + x); }
};
struct op_prod {
  template <class T>
  static constexpr T identity() { return T(1); }
  template <class X>
  static TILE_INLINE X combine(X acc, X x) { return X(acc * x); }
};
struct op_max {
  template <class T>
  static constexpr T identity() {
    return std::numeric_limits<T>::has_infinity ? T(-std::numeric_limits<T>::infinity()) : std::numeric_limits<T>::lowest();
  }
  // The accumulator is never NaN, so "x > acc ? x : acc" drops a NaN in x at no cost.
  template <class T, int N>
  static TILE_INLINE vec<T, N> combine(vec<T, N> acc, vec<T, N> x) {
    if constexpr (std::is_same<T, float>::value) return f32::greater_or_second(x, acc);
    else return select(x > acc, x, acc);
  }
  template <class T, std::enable_if_t<is_scalar<T>, int> = 0>
  static TILE_INLINE T combine(T acc, T x) { return x > acc ? x : acc; }
};
// Of nothing but NaN the largest magnitude is 0, as of nothing at all.
struct op_absmax : op_max {
  template <class T>
  static constexpr T identity() { return T(0); }
};
struct op_min {
  template <class T>
  static constexpr T identity() {
    return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  }
  template <class T, int N>
  static TILE_INLINE vec<T, N> combine(vec<T, N> acc, vec<T, N> x) {
    if constexpr (std::is_same<T, float>::value) return f32::less_or_second(x, acc);
    else return select(x < acc, x, acc);
  }
  template <class T, std::enable_if_t<is_scalar<T>, int> = 0>
  static TILE_INLINE T combine(T acc, T x) { return x < acc ? x : acc; }
};
struct op_bitand {
  template <class T>
  static constexpr T identity() { return T(~T(0)); }
  template <class X>
  static TILE_INLINE X combine(X acc, X x) { return X(acc & x); }
};
struct op_bitor {
  template <class T>
  static constexpr T identity() { return T(0); }
  template <class X>
  static TILE_INLINE X combine(X acc, X x) { return X(acc | x); }
};
struct op_bitxor {
  template <class T>
  static constexpr T identity() { return T(0); }
  template <class X>
  static TILE_INLINE X combine(X acc, X x) { return X(acc ^ x); }
};

// All lanes of one vector combined, by halves.
template <class Op, class T, int N>
TILE_FN T horizontal(vec<T, N> x) {
  if constexpr (N == 1) {
    return x[0];
  } else {
    vec<T, N / 2> low, high;
    __builtin_memcpy(&low, &x, sizeof low);
    __builtin_memcpy(&high, reinterpret_cast<const char*>(&x) + sizeof low, sizeof high);
    if constexpr (N == 2) return Op::combine(low[0], high[0]);
    else return horizontal<Op>(Op::combine(low, high));
  }
}

template <class L, int N>
TILE_FN auto first_lanes(int n) {
  using I = typename int_of_size<sizeof(L)>::type;
  return iota<I, N>(I(0)) < vec<I, N>(I(n));
}

// Combines f(lanes, j) over j = 0 … n-1, W lanes at a time; f returns a vec<T, W>, whose inactive lanes are ignored.
template <int W, class Op, class I, class F>
TILE_FN auto reduce_lanes(I n, Op, F&& f) {
  using V = decltype(f(full<W>{}, I(0)));
  using T = typename V::element;
  const V identity(Op::template identity<T>());
  V a = identity, b = identity, c = identity, d = identity;
  I j = 0;
  for (; j + 4 * W <= n; j += 4 * W) {
    a = Op::combine(a, f(full<W>{}, j));
    b = Op::combine(b, f(full<W>{}, j + W));
    c = Op::combine(c, f(full<W>{}, j + 2 * W));
    d = Op::combine(d, f(full<W>{}, j + 3 * W));
  }
  for (; j + W <= n; j += W) a = Op::combine(a, f(full<W>{}, j));
  if (j < n) {
    int left = int(n - j);
    b = Op::combine(b, select(first_lanes<lane_t<T>, W>(left), V(f(part<W>{left}, j)), identity));
  }
  return horizontal<Op>(Op::combine(Op::combine(a, b), Op::combine(c, d)));
}

#define TILE_REDUCE(NAME, OP, VALUE)                                                                                          \
  template <int W, class T, class I>                                                                                          \
  TILE_FN accumulator_t<T> NAME(const T* p, I n) {                                                                            \
    using A = accumulator_t<T>;                                                                                               \
    return reduce_lanes<W>(n, OP{}, [=](auto m, I j) TILE_INLINE {                                                            \
      vec<A, W> x = convert<A>(load<T>(m, p + j));                                                                            \
      return VALUE;                                                                                                           \
    });                                                                                                                       \
  }
TILE_REDUCE(reduce_sum, op_sum, x)
TILE_REDUCE(reduce_prod, op_prod, x)
TILE_REDUCE(reduce_max, op_max, x)
TILE_REDUCE(reduce_min, op_min, x)
TILE_REDUCE(reduce_abssum, op_sum, abs(x))
TILE_REDUCE(reduce_absmax, op_absmax, abs(x))
TILE_REDUCE(reduce_bitand, op_bitand, x)
TILE_REDUCE(reduce_bitor, op_bitor, x)
TILE_REDUCE(reduce_bitxor, op_bitxor, x)
#undef TILE_REDUCE

template <int W, class T, class I>
TILE_FN bool reduce_any(const T* p, I n) {
  return reduce_lanes<W>(n, op_bitor{}, [=](auto m, I j) TILE_INLINE { return convert<uint8_t>(convert<bool>(load<T>(m, p + j))); }) != 0;
}
template <int W, class T, class I>
TILE_FN bool reduce_all(const T* p, I n) {
  return reduce_lanes<W>(n, op_bitand{}, [=](auto m, I j) TILE_INLINE { return convert<uint8_t>(convert<bool>(load<T>(m, p + j))); }) & 1;
}

// All lanes of one vector combined; `kind` is a literal, so the choice is made at compile time.
template <class T, int N>
TILE_FN T vector_reduce(const char* kind, vec<T, N> x) {
  auto is = [kind](const char* name) TILE_INLINE { return __builtin_strcmp(kind, name) == 0; };
  if (is("max")) return horizontal<op_max>(x);
  if (is("min")) return horizontal<op_min>(x);
  if (is("absmax")) return horizontal<op_max>(abs(x));
  if (is("abssum")) return horizontal<op_sum>(abs(x));
  if (is("prod")) return horizontal<op_prod>(x);
  if constexpr (!is_floating<T>) {
    if (is("bitand") || is("all")) return horizontal<op_bitand>(x);
    if (is("bitor") || is("any")) return horizontal<op_bitor>(x);
    if (is("bitxor")) return horizontal<op_bitxor>(x);
  }
  return horizontal<op_sum>(x);
}

}  // namespace tile
