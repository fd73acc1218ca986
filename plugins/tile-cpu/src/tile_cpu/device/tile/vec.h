// vec<T, N>: N lanes of T on GCC vector extensions, and mask<S, N>: N truth values in lanes of S bytes (0 or -1).
//
// N is a power of two and N * sizeof(T) at most TILE_VECTOR_BYTES for the widest type of a statement: wider vectors compile, but
// GCC keeps them in memory. fp16 and bf16 lanes are stored as 16-bit integers and computed in fp32, rounding at every operation.
#pragma once

#include <tuple>

#include "scalar.h"

namespace tile {

template <class T>
struct lane { using type = T; };
template <>
struct lane<bool> { using type = uint8_t; };
template <>
struct lane<fp16> { using type = uint16_t; };
template <>
struct lane<bf16> { using type = uint16_t; };
template <class F>
struct lane<small_float<F>> { using type = uint8_t; };
template <>
struct lane<i4> { using type = int8_t; };
template <>
struct lane<u4> { using type = uint8_t; };
// int64_t may be long or long long; vectors of the two are different types to GCC, so one is used throughout.
template <class T>
using lane_t = typename lane<T>::type;

template <class L, int N>
struct raw_vector {
  typedef L type __attribute__((vector_size(N * sizeof(L))));
};
template <class L, int N>
using raw_t = typename raw_vector<L, N>::type;

template <int S>
struct int_of_size;
template <>
struct int_of_size<1> { using type = int8_t; };
template <>
struct int_of_size<2> { using type = int16_t; };
template <>
struct int_of_size<4> { using type = int32_t; };
template <>
struct int_of_size<8> { using type = int64_t; };

template <class T>
TILE_FN lane_t<T> to_lane(T x) {
  if constexpr (is_half<T>) return x.bits;
  else if constexpr (is_nibble<T>) return x.value;
  else return lane_t<T>(x);
}
template <class T>
TILE_FN T from_lane(lane_t<T> x) {
  if constexpr (is_half<T> || is_nibble<T>) return bit_cast<T>(x);
  else return T(x);
}

// Lanes of T in a native register: the W that generated loops use, taken from the widest type involved.
template <class T>
constexpr int lanes = TILE_VECTOR_BYTES / int(sizeof(T));

template <int S, int N>
struct mask {
  using raw = raw_t<typename int_of_size<S>::type, N>;
  raw v;
  template <int S2>
  TILE_INLINE mask<S2, N> as() const {
    if constexpr (S == S2) return *this;
    else return {__builtin_convertvector(v, typename mask<S2, N>::raw)};
  }
  TILE_INLINE bool operator[](int i) const { return v[i] != 0; }
};

template <class T, int N>
struct vec {
  static_assert((N & (N - 1)) == 0, "a vector has a power of two of lanes");
  using element = T;
  using raw = raw_t<lane_t<T>, N>;
  static constexpr int size = N;
  raw v;
  vec() = default;
  TILE_INLINE vec(raw r) : v(r) {}
  // A scalar of any type in arithmetic with a vector is broadcast in the vector's type.
  template <class S, std::enable_if_t<is_scalar<S>, int> = 0>
  TILE_INLINE vec(S s) {
    T t = convert<T>(s);
    if constexpr (std::is_same<T, bool>::value || is_half<T> || is_nibble<T>) v = raw{} + to_lane(t);
    else v = t - raw{};  // x - 0 keeps -0.0; x + 0 would not
  }
  TILE_INLINE T operator[](int i) const { return from_lane<T>(v[i]); }
  TILE_INLINE void set(int i, T x) { v[i] = to_lane(x); }
};

template <class X>
struct is_vec_type : std::false_type {};
template <class T, int N>
struct is_vec_type<vec<T, N>> : std::true_type {};
template <class X>
constexpr bool is_vec = is_vec_type<X>::value;

template <class T, int N>
TILE_FN vec<T, N> broadcast(T x) {
  return vec<T, N>(x);
}

// ---- masks -------------------------------------------------------------------------------------------------------

#define TILE_MASK_BINARY(OP)                                            \
  template <int S, int S2, int N>                                       \
  TILE_FN mask<S, N> operator OP(mask<S, N> a, mask<S2, N> b) {         \
    return {a.v OP b.template as<S>().v};                               \
  }
TILE_MASK_BINARY(&)
TILE_MASK_BINARY(|)
TILE_MASK_BINARY(^)
#undef TILE_MASK_BINARY
template <int S, int N>
TILE_FN mask<S, N> operator~(mask<S, N> a) { return {~a.v}; }
template <int S, int N>
TILE_FN mask<S, N> operator!(mask<S, N> a) { return {~a.v}; }
// A uniform condition with a mask: `in_range & (x < y)`.
template <int S, int N>
TILE_FN mask<S, N> operator&(mask<S, N> a, bool b) { return {b ? a.v : typename mask<S, N>::raw{}}; }
template <int S, int N>
TILE_FN mask<S, N> operator&(bool b, mask<S, N> a) { return a & b; }
template <int S, int N>
TILE_FN mask<S, N> operator|(mask<S, N> a, bool b) { return {b ? ~typename mask<S, N>::raw{} : a.v}; }
template <int S, int N>
TILE_FN mask<S, N> operator|(bool b, mask<S, N> a) { return a | b; }

template <int N>
TILE_FN mask<1, N> to_mask(vec<bool, N> x) {
  return {x.v != 0};
}
template <int S, int N>
TILE_FN mask<S, N> to_mask(mask<S, N> x) {
  return x;
}

template <class T, int N, int S>
TILE_FN vec<T, N> select(mask<S, N> m, vec<T, N> a, vec<T, N> b) {
  auto k = m.template as<int(sizeof(lane_t<T>))>();
  return vec<T, N>(k.v ? a.v : b.v);
}
template <class T, int N, int S, class B, std::enable_if_t<is_scalar<B>, int> = 0>
TILE_FN vec<T, N> select(mask<S, N> m, vec<T, N> a, B b) {
  return select(m, a, vec<T, N>(b));
}
template <class T, int N, int S, class A, std::enable_if_t<is_scalar<A>, int> = 0>
TILE_FN vec<T, N> select(mask<S, N> m, A a, vec<T, N> b) {
  return select(m, vec<T, N>(a), b);
}
// Both sides scalar: the result has the type of the first.
template <class T, int N, int S, std::enable_if_t<is_scalar<T>, int> = 0>
TILE_FN vec<T, N> select(mask<S, N> m, T a, T b) {
  return select(m, vec<T, N>(a), vec<T, N>(b));
}
template <class T, int N>
TILE_FN vec<T, N> select(vec<bool, N> m, vec<T, N> a, vec<T, N> b) {
  return select(to_mask(m), a, b);
}
template <class T, int N>
TILE_FN vec<T, N> select(bool m, vec<T, N> a, vec<T, N> b) {
  return m ? a : b;
}

template <int S, int N>
TILE_FN bool any(mask<S, N> m) {
#if TILE_AVX512
  if constexpr (S * N == 64) {
    if constexpr (S == 4) return _mm512_movepi32_mask((__m512i)m.v) != 0;
    if constexpr (S == 8) return _mm512_movepi64_mask((__m512i)m.v) != 0;
  }
#endif
  bool r = false;
  for (int i = 0; i < N; i++) r |= m.v[i] != 0;
  return r;
}
template <int S, int N>
TILE_FN bool all(mask<S, N> m) {
  return !any(~m);
}

// ---- conversion of vectors (convert.h gives the general form) ------------------------------------------------------

template <class To, class T, int N>
TILE_FN vec<To, N> convert(vec<T, N> x);
template <class To, int S, int N>
TILE_FN vec<To, N> convert(mask<S, N> m) {
  if constexpr (std::is_same<To, bool>::value) return vec<bool, N>(typename vec<bool, N>::raw(-m.template as<1>().v));
  else return select(m, vec<To, N>(1), vec<To, N>(0));
}

// ---- arithmetic ---------------------------------------------------------------------------------------------------

template <class T, int N>
TILE_FN auto widened(vec<T, N> x) {
  if constexpr (is_half<T>) return convert<float>(x);
  else return x;
}

// Half numbers that the machine adds and multiplies itself; rounded once, as through fp32, whose bits are more than twice as many.
#if defined(__AVX512FP16__)
template <class T, int N>
constexpr bool native_half = std::is_same<T, fp16>::value && N >= 8 && N <= 32;
template <int N>
using half_lanes = raw_t<_Float16, N>;
// Keeps the compiler from making one operation of a product and a sum, which would not round the product.
template <int N>
TILE_FN half_lanes<N> rounded(half_lanes<N> x) {
  asm("" : "+v"(x));
  return x;
}
#else
template <class T, int N>
constexpr bool native_half = false;
template <int N>
using half_lanes = raw_t<uint16_t, N>;
template <int N>
TILE_FN half_lanes<N> rounded(half_lanes<N> x) {
  return x;
}
#endif

#define TILE_ARITHMETIC(OP)                                                               \
  template <class T, int N>                                                               \
  TILE_FN vec<T, N> operator OP(vec<T, N> a, vec<T, N> b) {                               \
    if constexpr (native_half<T, N>)                                                      \
      return vec<T, N>(typename vec<T, N>::raw(rounded<N>((half_lanes<N>)a.v OP (half_lanes<N>)b.v))); \
    else if constexpr (is_half<T>) return convert<T>(widened(a) OP widened(b));                \
    else return vec<T, N>(typename vec<T, N>::raw(a.v OP b.v));                           \
  }                                                                                       \
  template <class T, int N, class S, std::enable_if_t<is_scalar<S>, int> = 0>             \
  TILE_FN vec<T, N> operator OP(S a, vec<T, N> b) {                                       \
    return vec<T, N>(a) OP b;                                                             \
  }                                                                                       \
  template <class T, int N, class B>                                                      \
  TILE_FN vec<T, N>& operator OP##=(vec<T, N>& a, B b) {                                  \
    return a = a OP b;                                                                    \
  }
TILE_ARITHMETIC(+)
TILE_ARITHMETIC(-)
TILE_ARITHMETIC(*)
TILE_ARITHMETIC(/)
#undef TILE_ARITHMETIC

#define TILE_WITH_SCALAR(OP)                                                              \
  template <class T, int N, class S, std::enable_if_t<is_scalar<S>, int> = 0>             \
  TILE_FN vec<T, N> operator OP(vec<T, N> a, S b) {                                       \
    return a OP vec<T, N>(b);                                                             \
  }
TILE_WITH_SCALAR(+)
TILE_WITH_SCALAR(-)
TILE_WITH_SCALAR(*)
#undef TILE_WITH_SCALAR

// One divisor for all lanes: its reciprocal, which a loop hoists, times the dividend, then one step with the exact remainder, which
// rounds correctly (Markstein); 3 times as fast as the division of a vector. Quotients below 2^-100 may be off in the last place.
template <class T, int N, class S, std::enable_if_t<is_scalar<S>, int> = 0>
TILE_FN vec<T, N> operator/(vec<T, N> a, S b) {
#if defined(__FMA__) || defined(__aarch64__)
  if constexpr (std::is_same<T, float>::value) {
    const float d = convert<float>(b), r = 1.0f / d;
    // Where the reciprocal or the remainder could leave the normal range the machine divides.
    const float size = __builtin_fabsf(d);
    if (!(size >= 0x1p-64f && size <= 0x1p64f)) return a / vec<T, N>(d);
    vec<T, N> q(typename vec<T, N>::raw(a.v * r));
    vec<T, N> rest(typename vec<T, N>::raw(a.v - q.v * d));
    vec<T, N> corrected(typename vec<T, N>::raw(q.v + rest.v * r));
    auto finite = typename mask<4, N>::raw((raw_t<int32_t, N>(q.v) & 0x7fffffff) < 0x7f800000);
    return vec<T, N>(finite ? corrected.v : q.v);
  } else
#endif
    return a / vec<T, N>(b);
}

// Integer and bool lanes only.
#define TILE_BITWISE(OP)                                                                  \
  template <class T, int N>                                                               \
  TILE_FN vec<T, N> operator OP(vec<T, N> a, vec<T, N> b) {                               \
    static_assert(!is_floating<T>, "bit operations need integer lanes");                  \
    return vec<T, N>(typename vec<T, N>::raw(a.v OP b.v));                                \
  }                                                                                       \
  template <class T, int N, class S, std::enable_if_t<is_scalar<S>, int> = 0>             \
  TILE_FN vec<T, N> operator OP(vec<T, N> a, S b) {                                       \
    return a OP vec<T, N>(b);                                                             \
  }                                                                                       \
  template <class T, int N, class S, std::enable_if_t<is_scalar<S>, int> = 0>             \
  TILE_FN vec<T, N> operator OP(S a, vec<T, N> b) {                                       \
    return vec<T, N>(a) OP b;                                                             \
  }
TILE_BITWISE(&)
TILE_BITWISE(|)
TILE_BITWISE(^)
#undef TILE_BITWISE

template <class T, int N>
TILE_FN vec<T, N> operator-(vec<T, N> a) {
  if constexpr (small_float_of<T>::is) return convert<T>(-widened(a));
  else if constexpr (is_half<T>) return vec<T, N>(typename vec<T, N>::raw(a.v ^ uint16_t(0x8000u)));
  else return vec<T, N>(typename vec<T, N>::raw(-a.v));
}
template <class T, int N>
TILE_FN vec<T, N> operator~(vec<T, N> a) {
  if constexpr (std::is_same<T, bool>::value) return vec<T, N>(typename vec<T, N>::raw(a.v ^ uint8_t(1)));
  else return vec<T, N>(typename vec<T, N>::raw(~a.v));
}
template <int N>
TILE_FN vec<bool, N> operator!(vec<bool, N> a) {
  return ~a;
}

#define TILE_COMPARE(OP)                                                                                              \
  template <class T, int N>                                                                                           \
  TILE_FN auto operator OP(vec<T, N> a, vec<T, N> b) {                                                                \
    if constexpr (is_half<T>) {                                                                                       \
      return widened(a) OP widened(b);                                                                                \
    } else {                                                                                                          \
      using M = mask<int(sizeof(lane_t<T>)), N>;                                                                      \
      return M{(typename M::raw)(a.v OP b.v)};                                                                        \
    }                                                                                                                 \
  }                                                                                                                   \
  template <class T, int N, class S, std::enable_if_t<is_scalar<S>, int> = 0>                                         \
  TILE_FN auto operator OP(vec<T, N> a, S b) {                                                                        \
    return a OP vec<T, N>(b);                                                                                         \
  }                                                                                                                   \
  template <class T, int N, class S, std::enable_if_t<is_scalar<S>, int> = 0>                                         \
  TILE_FN auto operator OP(S a, vec<T, N> b) {                                                                        \
    return vec<T, N>(a) OP b;                                                                                         \
  }
TILE_COMPARE(<)
TILE_COMPARE(<=)
TILE_COMPARE(>)
TILE_COMPARE(>=)
TILE_COMPARE(==)
TILE_COMPARE(!=)
#undef TILE_COMPARE


template <class T, int N>
TILE_FN vec<T, N> iota(T base, T step = T(1)) {
  using C = std::conditional_t<is_half<T>, float, T>;
  vec<C, N> r;
  for (int i = 0; i < N; i++) r.v[i] = C(C(base) + C(i) * C(step));
  if constexpr (is_half<T>) return convert<T>(r);
  else return r;
}

// A function of one or two scalars applied lane by lane, for what has no vector form.
template <class T, int N, class F>
TILE_FN vec<T, N> map_lanes(F&& f, vec<T, N> x) {
  vec<T, N> r;
  for (int i = 0; i < N; i++) r.set(i, f(x[i]));
  return r;
}
template <class T, int N, class F>
TILE_FN vec<T, N> map_lanes(F&& f, vec<T, N> x, vec<T, N> y) {
  vec<T, N> r;
  for (int i = 0; i < N; i++) r.set(i, f(x[i], y[i]));
  return r;
}

// Scalars as a vector. One lane is padded to two: GCC has no vectors of one.
template <class T, class... S>
TILE_FN auto lanes_of(S... values) {
  constexpr int N = sizeof...(S);
  vec<T, N> r;
  int i = 0;
  (r.set(i++, T(values)), ...);
  return r;
}

// Lanes I… of vectors laid end to end, whose sizes may differ.
template <int... I, class... V>
TILE_FN auto shuffle(V... parts) {
  using T = typename std::tuple_element_t<0, std::tuple<V...>>::element;
  constexpr int from[] = {I...};
  vec<T, int(sizeof...(I))> r;
  for (int i = 0; i < int(sizeof...(I)); i++) {
    int at = from[i];
    // Each part takes what lies in it and hands on the rest.
    ((at >= 0 && at < V::size ? (void)(r.v[i] = parts.v[at]) : void(), at -= V::size), ...);
  }
  return r;
}
template <int... I, class T, int N>
TILE_FN vec<T, int(sizeof...(I))> shuffle(vec<T, N> x) {
  if constexpr (sizeof...(I) == N && N > 1) {
    // The compilers recognise neither a permutation in a loop over lanes nor each other's name for one.
#if defined(__clang__)
    return vec<T, N>(typename vec<T, N>::raw(__builtin_shufflevector(x.v, x.v, I...)));
#else
    using index = typename int_of_size<int(sizeof(x.v[0]))>::type;
    return vec<T, N>(typename vec<T, N>::raw(__builtin_shuffle(x.v, raw_t<index, N>{index(I)...})));
#endif
  } else {
    constexpr int from[] = {I...};
    vec<T, int(sizeof...(I))> r;
    for (int i = 0; i < int(sizeof...(I)); i++) r.v[i] = x.v[from[i]];
    return r;
  }
}

// Same-size reinterpretation of lanes.
template <class To, class T, int N>
TILE_FN vec<To, N> bits_as(vec<T, N> x) {
  static_assert(sizeof(To) == sizeof(T), "lanes keep their size");
  return vec<To, N>((typename vec<To, N>::raw)x.v);
}
// Any bits as any type of as many: N lanes of To, or a scalar. Lanes of four bits have a byte each here, and half a one there.
template <class T, int N>
TILE_FN auto packed_bits(vec<T, N> x) {
  if constexpr (is_nibble<T> || std::is_same<T, e2m1>::value) {
    const auto w = (raw_t<uint16_t, N / 2>)x.v;
    return __builtin_convertvector((w & 0x0f) | ((w >> 4) & 0xf0), raw_t<uint8_t, N / 2>);
  } else {
    return x.v;
  }
}
template <class T, std::enable_if_t<is_scalar<T>, int> = 0>
TILE_FN auto packed_bits(T x) {
  if constexpr (is_nibble<T> || std::is_same<T, e2m1>::value) return x.nibble();
  else return x;
}
template <class To, int N, class X>
TILE_FN auto reinterpret(X x) {
  const auto bits = packed_bits(x);
  constexpr bool halves = is_nibble<To> || std::is_same<To, e2m1>::value;
  if constexpr (N == 1) {
    if constexpr (halves) return To::from(bits);
    else if constexpr (std::is_same<To, bool>::value) return bit_cast<uint8_t>(bits) != 0;
    else return bit_cast<To>(bits);
  } else if constexpr (halves) {
    const auto w = __builtin_convertvector(bit_cast<raw_t<uint8_t, N / 2>>(bits), raw_t<uint16_t, N / 2>);
    const auto lanes = (raw_t<uint8_t, N>)((w & 0x0f) | ((w & 0xf0) << 4));
    if constexpr (std::is_same<To, i4>::value) return vec<To, N>(((raw_t<int8_t, N>)lanes ^ int8_t(8)) - int8_t(8));
    else return vec<To, N>((typename vec<To, N>::raw)lanes);
  } else {
    return vec<To, N>(bit_cast<typename vec<To, N>::raw>(bits));
  }
}

template <class X>
TILE_FN X likely(X x) {
  return x;
}
TILE_FN bool likely(bool x) { return __builtin_expect(x, 1); }

}  // namespace tile

#include "convert.h"
