// convert<To>(vec): between all lane types, lane by lane. The rules are those of numbers.h.
#pragma once

#include "vec.h"

namespace tile {

// Integer lanes of another size. GCC takes a widening by more than twice lane by lane, so it goes by doublings.
template <class L, int N, class S>
TILE_FN raw_t<L, N> widen_lanes(S v) {
  using From = std::decay_t<decltype(v[0])>;
  if constexpr (sizeof(L) >= 4 * sizeof(From)) {
    using Signed = typename int_of_size<2 * int(sizeof(From))>::type;
    using Twice = std::conditional_t<std::is_signed<From>::value, Signed, std::make_unsigned_t<Signed>>;
    return widen_lanes<L, N>(__builtin_convertvector(v, raw_t<Twice, N>));
  } else {
    return __builtin_convertvector(v, raw_t<L, N>);
  }
}

template <int N>
TILE_FN vec<bf16, N> to_bf16(vec<float, N> x) {
  using U = raw_t<uint32_t, N>;
  U u = (U)x.v;
  U rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  U quiet = (u >> 16) | 0x40u;
  U bits = (x.v == x.v) ? rounded : quiet;
  return vec<bf16, N>(__builtin_convertvector(bits, raw_t<uint16_t, N>));
}

template <int N>
TILE_FN vec<float, N> from_bf16(vec<bf16, N> x) {
  raw_t<uint32_t, N> u = __builtin_convertvector(x.v, raw_t<uint32_t, N>) << 16;
  return vec<float, N>((raw_t<float, N>)u);
}

// Integer-only fp16 conversions for ISAs without one (SSE2): same steps as fp16_bits and fp16_value.
template <int N>
TILE_FN vec<fp16, N> to_fp16_generic(vec<float, N> x) {
  using U = raw_t<uint32_t, N>;
  using F = raw_t<float, N>;
  U u = (U)x.v;
  U sign = (u >> 16) & 0x8000u;
  u &= 0x7fffffffu;
  U nan = 0x7e00u | ((u >> 13) & 0x3ffu);
  U small = (U)((F)u + 0.5f) - 0x3f000000u;
  U normal = (u + 0xc8000fffu + ((u >> 13) & 1u)) >> 13;
  U bits = u < 0x38800000u ? small : normal;
  bits = u >= 0x477ff000u ? U{} + 0x7c00u : bits;
  bits = u > 0x7f800000u ? nan : bits;
  return vec<fp16, N>(__builtin_convertvector(bits | sign, raw_t<uint16_t, N>));
}

template <int N>
TILE_FN vec<float, N> from_fp16_generic(vec<fp16, N> x) {
  using U = raw_t<uint32_t, N>;
  using F = raw_t<float, N>;
  U h = __builtin_convertvector(x.v, U);
  U sign = (h & 0x8000u) << 16;
  U u = (h & 0x7fffu) << 13;
  U finite = (U)((F)u * 0x1p112f);
  U special = (u + 0x70000000u) | (u > 0x0f800000u ? U{} + 0x400000u : U{});
  return vec<float, N>((F)((u >= 0x0f800000u ? special : finite) | sign));
}

template <int N>
TILE_FN vec<fp16, N> to_fp16(vec<float, N> x) {
#if TILE_AVX512
  if constexpr (N == 16) return vec<fp16, N>((raw_t<uint16_t, N>)_mm512_cvtps_ph((__m512)x.v, 0));
#endif
#if defined(__F16C__)
  if constexpr (N == 8) return vec<fp16, N>((raw_t<uint16_t, N>)_mm256_cvtps_ph((__m256)x.v, 0));
  if constexpr (N == 4) {
    auto packed = (raw_t<uint16_t, 8>)_mm_cvtps_ph((__m128)x.v, 0);
    raw_t<uint16_t, N> low;
    __builtin_memcpy(&low, &packed, sizeof low);
    return vec<fp16, N>(low);
  }
#endif
  return to_fp16_generic(x);
}

template <int N>
TILE_FN vec<float, N> from_fp16(vec<fp16, N> x) {
#if TILE_AVX512
  if constexpr (N == 16) return vec<float, N>((raw_t<float, N>)_mm512_cvtph_ps((__m256i)x.v));
#endif
#if defined(__F16C__)
  if constexpr (N == 8) return vec<float, N>((raw_t<float, N>)_mm256_cvtph_ps((__m128i)x.v));
  if constexpr (N == 4) {
    raw_t<uint16_t, 8> packed{};
    __builtin_memcpy(&packed, &x.v, sizeof x.v);
    return vec<float, N>((raw_t<float, N>)_mm_cvtph_ps((__m128i)packed));
  }
#endif
  return from_fp16_generic(x);
}

// fp64 → fp32 rounded to odd, lane by lane arithmetic as in scalar round_to_odd.
template <int N>
TILE_FN vec<float, N> narrow_to_odd(vec<double, N> x) {
  return [&] {
    vec<float, N> r;
    for (int i = 0; i < N; i++) r.v[i] = round_to_odd(x.v[i]);
    return r;
  }();
}

// fp32 ↔ formats of a byte or less: the steps of encode_nearest and decode, on all lanes.
template <class F, bool Saturate, int N>
TILE_FN vec<small_float<F>, N> to_small(vec<float, N> x) {
  using U = raw_t<uint32_t, N>;
  using FV = raw_t<float, N>;
  vec<small_float<F>, N> r;
  if constexpr (!F::is_signed) {
    for (int i = 0; i < N; i++) r.v[i] = encode_nearest<F, Saturate>(x.v[i]);
    return r;
  } else {
    U u = (U)x.v;
    const U sign = (u >> 31) << (F::exponent + F::mantissa);
    u &= 0x7fffffffu;
    constexpr int drop = 23 - F::mantissa;
    constexpr uint32_t magic = uint32_t(128 - F::bias + drop) << 23;
    const U small = (U)((FV)u + bit_cast<float>(magic)) - magic;
    const U normal = ((u + (((1u << (drop - 1)) - 1) + ((u >> drop) & 1u))) >> drop) - (uint32_t(127 - F::bias) << F::mantissa);
    U bits = u < (uint32_t(128 - F::bias) << 23) ? small : normal;
    constexpr bool clamps = Saturate || F::beyond == F::largest;
    constexpr uint32_t beyond = clamps ? F::largest : F::infinity >= 0 ? F::infinity : F::nan;
    bits = bits > uint32_t(F::largest) ? U{} + beyond : bits;
    U whole = bits | sign;
    if constexpr (!F::negative_zero) whole = bits == 0 || bits == uint32_t(F::nan) ? bits : whole;
    whole = u > 0x7f800000u ? U{} + uint32_t(F::nan >= 0 ? F::nan : F::largest) : whole;
    r.v = __builtin_convertvector(whole, raw_t<uint8_t, N>);
    return r;
  }
}

template <class F, int N>
TILE_FN vec<float, N> from_small(vec<small_float<F>, N> x) {
  using U = raw_t<uint32_t, N>;
  using FV = raw_t<float, N>;
  const U b = widen_lanes<uint32_t, N>(x.v);
  if constexpr (!F::is_signed) {
    U bits = b == 0 ? U{} + 0x00400000u : b << 23;
    return vec<float, N>((FV)(b == 0xff ? U{} + 0x7fffffffu : bits));
  } else {
    constexpr uint32_t top = 1u << (F::exponent + F::mantissa);
    constexpr uint32_t one = uint32_t(128 - F::bias) << 23;
    const U u = b & (top - 1), sign = (b & top) << (31 - F::exponent - F::mantissa), shifted = u << (23 - F::mantissa);
    const U small = (U)((FV)(shifted | one) - bit_cast<float>(one));
    U bits = (u >= (1u << F::mantissa) ? shifted + (uint32_t(127 - F::bias) << 23) : small) | sign;
    if constexpr (F::infinity >= 0) {
      bits = u >= uint32_t(F::infinity) ? (u == uint32_t(F::infinity) ? sign | 0x7f800000u : U{} + 0x7fffffffu) : bits;
    }
    if constexpr (F::specials_fn) bits = u == uint32_t(F::nan) ? U{} + 0x7fffffffu : bits;
    if constexpr (F::nan >= 0 && !F::negative_zero) bits = b == uint32_t(F::nan) ? U{} + 0x7fffffffu : bits;
    return vec<float, N>((FV)bits);
  }
}

// Float → integer: truncated, clamped to the range, 0 for NaN.
template <class To, class T, int N>
TILE_FN vec<To, N> truncate(vec<T, N> x) {
  using R = integer_range<To>;
  using Raw = typename vec<To, N>::raw;
  raw_t<T, N> v = x.v == x.v ? x.v : raw_t<T, N>{};
  if constexpr (sizeof(To) < 4) {
    v = v < T(R::low) ? raw_t<T, N>{} + T(R::low) : v;
    v = v > T(R::high) ? raw_t<T, N>{} + T(R::high) : v;
    return vec<To, N>(__builtin_convertvector(__builtin_convertvector(v, raw_t<int32_t, N>), Raw));
  } else {
    const auto above = v >= T(R::above), below = v < T(R::low);
    v = above || below ? raw_t<T, N>{} : v;
    using M = typename mask<int(sizeof(To)), N>::raw;
    const Raw whole = __builtin_convertvector(v, Raw);
    const M high = __builtin_convertvector(above, M), low = __builtin_convertvector(below, M);
    return vec<To, N>(Raw(high ? Raw{} + R::high : low ? Raw{} + R::low : whole));
  }
}

// Integers of 32 bits and more → fp32 so that rounding again to fewer bits is rounding once.
template <class T, int N>
TILE_FN vec<float, N> integer_to_odd(vec<T, N> x) {
  vec<float, N> r;
  for (int i = 0; i < N; i++) r.v[i] = round_integer<fp16_format>(x.v[i]);
  return r;
}

// Halves of a vector, and two vectors as one.
template <bool High, class T, int N>
TILE_FN vec<T, N / 2> half_of(vec<T, N> x) {
  typename vec<T, N / 2>::raw r;
  __builtin_memcpy(&r, (const char*)&x.v + (High ? sizeof r : 0), sizeof r);
  return vec<T, N / 2>(r);
}
template <class T, int N>
TILE_FN vec<T, 2 * N> join_halves(vec<T, N> low, vec<T, N> high) {
  typename vec<T, 2 * N>::raw r;
  __builtin_memcpy(&r, &low.v, sizeof low.v);
  __builtin_memcpy((char*)&r + sizeof low.v, &high.v, sizeof high.v);
  return vec<T, 2 * N>(r);
}

// Whether the way goes through 32-bit lanes that fill more than a register: then half a vector at a time.
template <class To, class T, int N>
constexpr bool converts_in_halves =
    N >= 8 && N * 4 > TILE_VECTOR_BYTES && !std::is_same<To, T>::value && !std::is_same<To, bool>::value &&
    ((is_floating<T> || is_floating<To>)) && sizeof(lane_t<T>) <= 4 && sizeof(lane_t<To>) <= 4;

template <class To, class T, int N>
TILE_FN vec<To, N> convert(vec<T, N> x) {
  if constexpr (std::is_same<To, T>::value) {
    return x;
  } else if constexpr (converts_in_halves<To, T, N>) {
    return join_halves(convert<To>(half_of<false>(x)), convert<To>(half_of<true>(x)));
  } else if constexpr (std::is_same<To, bool>::value) {
    if constexpr (is_half<T>) return convert<bool>(convert<float>(x) != vec<float, N>(0.0f));
    else if constexpr (is_nibble<T>) return convert<bool>(convert<int8_t>(x) != vec<int8_t, N>(int8_t(0)));
    else return convert<bool>(x != vec<T, N>(T(0)));
  } else if constexpr (is_nibble<T>) {
    return convert<To>(vec<lane_t<T>, N>(x.v));
  } else if constexpr (is_nibble<To>) {
    if constexpr (is_floating<T>) {
      auto f = convert<float>(x).v;
      constexpr float low = std::is_same<To, i4>::value ? -8.0f : 0.0f, high = low + 15.0f;
      f = f < low ? raw_t<float, N>{} + low : f;
      f = f > high ? raw_t<float, N>{} + high : f;
      return vec<To, N>(convert<lane_t<To>>(vec<float, N>(f)).v);
    } else {
      auto low = __builtin_convertvector(x.v, raw_t<lane_t<To>, N>) & lane_t<To>(15);
      if constexpr (std::is_same<To, i4>::value) low = (low ^ int8_t(8)) - int8_t(8);
      return vec<To, N>(low);
    }
  } else if constexpr (std::is_same<T, bf16>::value) {
    return convert<To>(from_bf16(x));
  } else if constexpr (std::is_same<T, fp16>::value) {
    return convert<To>(from_fp16(x));
  } else if constexpr (small_float_of<T>::is) {
    return convert<To>(from_small(x));
  } else if constexpr (is_half<To>) {
    vec<float, N> f;
    if constexpr (std::is_same<T, double>::value) f = narrow_to_odd(x);
    else if constexpr (std::is_integral<T>::value && sizeof(T) >= 4) f = integer_to_odd(x);
    else f = convert<float>(x);
    if constexpr (std::is_same<To, bf16>::value) return to_bf16(f);
    else if constexpr (std::is_same<To, fp16>::value) return to_fp16(f);
    else return to_small<typename To::format, true>(f);
  } else if constexpr (std::is_floating_point<To>::value && !std::is_floating_point<T>::value && sizeof(lane_t<T>) < 4) {
    // GCC has no direct narrow integer ↔ float vector conversion and would go lane by lane: step through int32.
    return convert<To>(vec<int32_t, N>(widen_lanes<int32_t, N>(x.v)));
  } else if constexpr (std::is_floating_point<T>::value && std::is_integral<To>::value) {
    return truncate<To>(x);
  } else if constexpr (std::is_integral<To>::value && std::is_integral<lane_t<T>>::value && sizeof(lane_t<T>) < 4) {
    return vec<To, N>((typename vec<To, N>::raw)widen_lanes<lane_t<To>, N>(x.v));
  } else {
    return vec<To, N>(__builtin_convertvector(x.v, typename vec<To, N>::raw));
  }
}

template <int N>
TILE_FN vec<float, N> to_tf32(vec<float, N> x) {
  using U = raw_t<uint32_t, N>;
  const U u = (U)x.v, rounded = (u + 0xfffu + ((u >> 13) & 1u)) & 0xffffe000u;
  return vec<float, N>((raw_t<float, N>)((u & 0x7f800000u) == 0x7f800000u ? u : rounded));
}

// With a rounding mode, saturation or not, and random bits: lane by lane but for the usual one.
template <class To, rounding R, bool Saturate, class T, int N>
TILE_FN auto convert_by(vec<T, N> x) {
  if constexpr (R == rounding::nearest && small_float_of<To>::is && (std::is_same<T, float>::value || (is_half<T>))) {
    return to_small<typename To::format, Saturate>(convert<float>(x));
  } else {
    using Result = decltype(convert_by<To, R, Saturate>(x[0]));
    vec<Result, N> r;
    for (int i = 0; i < N; i++) r.set(i, convert_by<To, R, Saturate>(x[i]));
    return r;
  }
}
template <class To, rounding R, bool Saturate, class T, int N>
TILE_FN auto convert_by(vec<T, N> x, vec<uint32_t, N> random) {
  using Result = decltype(convert_by<To, R, Saturate>(x[0]));
  vec<Result, N> r;
  for (int i = 0; i < N; i++) r.set(i, convert_by<To, R, Saturate>(x[i], random[i]));
  return r;
}

}  // namespace tile
