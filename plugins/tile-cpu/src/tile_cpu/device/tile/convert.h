// convert<To>(vec): between all lane types, lane by lane. Rounds to nearest even; float → integer truncates; to bool is "not zero".
#pragma once

#include "vec.h"

namespace tile {

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

template <class To, class T, int N>
TILE_FN vec<To, N> convert(vec<T, N> x) {
  if constexpr (std::is_same<To, T>::value) {
    return x;
  } else if constexpr (std::is_same<To, bool>::value) {
    return convert<bool>(x != vec<T, N>(T(0)));
  } else if constexpr (std::is_same<T, bf16>::value) {
    return convert<To>(from_bf16(x));
  } else if constexpr (std::is_same<T, fp16>::value) {
    return convert<To>(from_fp16(x));
  } else if constexpr (is_half<To>) {
    vec<float, N> f;
    if constexpr (std::is_same<T, double>::value) f = narrow_to_odd(x);
    else f = convert<float>(x);
    if constexpr (std::is_same<To, bf16>::value) return to_bf16(f);
    else return to_fp16(f);
  } else if constexpr (std::is_floating_point<To>::value && !std::is_floating_point<T>::value && sizeof(lane_t<T>) < 4) {
    // GCC has no direct narrow integer ↔ float vector conversion and would go lane by lane: step through int32.
    return convert<To>(vec<int32_t, N>(__builtin_convertvector(x.v, raw_t<int32_t, N>)));
  } else if constexpr (std::is_floating_point<T>::value && sizeof(To) < 4) {
    return vec<To, N>(__builtin_convertvector(__builtin_convertvector(x.v, raw_t<int32_t, N>), typename vec<To, N>::raw));
  } else {
    return vec<To, N>(__builtin_convertvector(x.v, typename vec<To, N>::raw));
  }
}

}  // namespace tile
