// Loads and stores of vec: whole, first n lanes, predicated, strided, indexed; and for_lanes, the loop that generated code uses.
//
// The first argument says which lanes are active: full<W> (all) or part<W> (the first n). Inactive lanes load as zero and are never
// touched in memory, so a row may end at the end of an allocation.
#pragma once

#include "vec.h"

namespace tile {

// A cache line on its way to the second cache; past the end of anything this does nothing.
TILE_FN void prefetch(const void* address, int write) {
  if (write) __builtin_prefetch(address, 1, 2);
  else __builtin_prefetch(address, 0, 2);
}

template <int W>
struct full {
  static constexpr int size = W;
  static constexpr bool whole = true;
};
template <int W>
struct part {
  static constexpr int size = W;
  static constexpr bool whole = false;
  int n;  // 0 <= n <= W
};

// Calls f(full<W>, j) for j = 0, W, 2W, … and f(part<W>, j) once for what is left of n.
template <int W, class I, class F>
TILE_FN void for_lanes(I n, F&& f) {
  I j = 0;
  for (; j + W <= n; j += W) f(full<W>{}, j);
  if (j < n) f(part<W>{int(n - j)}, j);
}

// ---- raw lanes ----------------------------------------------------------------------------------------------------

template <class L, int N>
struct unaligned_vector {
  typedef L type __attribute__((vector_size(N * sizeof(L)), aligned(1), may_alias));
};

#if TILE_AVX512
template <class L, int N>
TILE_FN raw_t<L, N> masked_load(const void* p, uint64_t k) {
  constexpr int bytes = N * int(sizeof(L));
  if constexpr (bytes == 64) {
    __m512i r;
    if constexpr (sizeof(L) == 1) r = _mm512_maskz_loadu_epi8(k, p);
    else if constexpr (sizeof(L) == 2) r = _mm512_maskz_loadu_epi16(uint32_t(k), p);
    else if constexpr (sizeof(L) == 4) r = _mm512_maskz_loadu_epi32(uint16_t(k), p);
    else r = _mm512_maskz_loadu_epi64(uint8_t(k), p);
    return (raw_t<L, N>)r;
  } else if constexpr (bytes == 32) {
    __m256i r;
    if constexpr (sizeof(L) == 1) r = _mm256_maskz_loadu_epi8(uint32_t(k), p);
    else if constexpr (sizeof(L) == 2) r = _mm256_maskz_loadu_epi16(uint16_t(k), p);
    else if constexpr (sizeof(L) == 4) r = _mm256_maskz_loadu_epi32(uint8_t(k), p);
    else r = _mm256_maskz_loadu_epi64(uint8_t(k), p);
    return (raw_t<L, N>)r;
  } else {
    __m128i r;
    if constexpr (sizeof(L) == 1) r = _mm_maskz_loadu_epi8(uint16_t(k), p);
    else if constexpr (sizeof(L) == 2) r = _mm_maskz_loadu_epi16(uint8_t(k), p);
    else if constexpr (sizeof(L) == 4) r = _mm_maskz_loadu_epi32(uint8_t(k), p);
    else r = _mm_maskz_loadu_epi64(uint8_t(k), p);
    raw_t<L, N> v;
    __builtin_memcpy(&v, &r, sizeof v);
    return v;
  }
}

template <class L, int N>
TILE_FN void masked_store(void* p, uint64_t k, raw_t<L, N> v) {
  constexpr int bytes = N * int(sizeof(L));
  if constexpr (bytes == 64) {
    if constexpr (sizeof(L) == 1) _mm512_mask_storeu_epi8(p, k, (__m512i)v);
    else if constexpr (sizeof(L) == 2) _mm512_mask_storeu_epi16(p, uint32_t(k), (__m512i)v);
    else if constexpr (sizeof(L) == 4) _mm512_mask_storeu_epi32(p, uint16_t(k), (__m512i)v);
    else _mm512_mask_storeu_epi64(p, uint8_t(k), (__m512i)v);
  } else if constexpr (bytes == 32) {
    if constexpr (sizeof(L) == 1) _mm256_mask_storeu_epi8(p, uint32_t(k), (__m256i)v);
    else if constexpr (sizeof(L) == 2) _mm256_mask_storeu_epi16(p, uint16_t(k), (__m256i)v);
    else if constexpr (sizeof(L) == 4) _mm256_mask_storeu_epi32(p, uint8_t(k), (__m256i)v);
    else _mm256_mask_storeu_epi64(p, uint8_t(k), (__m256i)v);
  } else {
    __m128i r = _mm_setzero_si128();
    __builtin_memcpy(&r, &v, sizeof v);
    if constexpr (sizeof(L) == 1) _mm_mask_storeu_epi8(p, uint16_t(k), r);
    else if constexpr (sizeof(L) == 2) _mm_mask_storeu_epi16(p, uint8_t(k), r);
    else if constexpr (sizeof(L) == 4) _mm_mask_storeu_epi32(p, uint8_t(k), r);
    else _mm_mask_storeu_epi64(p, uint8_t(k), r);
  }
}

TILE_FN uint64_t low_bits(int n) { return n >= 64 ? ~uint64_t(0) : _bzhi_u64(~uint64_t(0), unsigned(n)); }

template <int S, int N>
TILE_FN uint64_t mask_bits(mask<S, N> m) {
  if constexpr (S * N == 64 && S == 4) return _mm512_movepi32_mask((__m512i)m.v);
  else if constexpr (S * N == 64 && S == 8) return _mm512_movepi64_mask((__m512i)m.v);
  else if constexpr (S * N == 64 && S == 2) return _mm512_movepi16_mask((__m512i)m.v);
  else if constexpr (S * N == 64 && S == 1) return _mm512_movepi8_mask((__m512i)m.v);
  else if constexpr (N <= 16) {
    if constexpr (N == 16) return mask_bits(m.template as<4>());
    else if constexpr (N == 8) return mask_bits(m.template as<8>());
    else {
      uint64_t k = 0;
      for (int i = 0; i < N; i++) k |= uint64_t(m.v[i] != 0) << i;
      return k;
    }
  } else if constexpr (N == 32) return mask_bits(m.template as<2>());
  else return mask_bits(m.template as<1>());
}
#elif defined(__AVX2__)
template <int S, int N>
TILE_FN raw_t<typename int_of_size<S>::type, N> lane_numbers() {
  raw_t<typename int_of_size<S>::type, N> r;
  for (int i = 0; i < N; i++) r[i] = typename int_of_size<S>::type(i);
  return r;
}
#endif

template <class L, int N>
TILE_FN raw_t<L, N> load_raw(const L* p) {
  return *reinterpret_cast<const typename unaligned_vector<L, N>::type*>(p);
}
template <class L, int N>
TILE_FN void store_raw(L* p, raw_t<L, N> v) {
  *reinterpret_cast<typename unaligned_vector<L, N>::type*>(p) = v;
}

template <class L, int N>
TILE_FN raw_t<L, N> load_raw_first(const L* p, int n) {
#if TILE_AVX512
  return masked_load<L, N>(p, low_bits(n));
#else
#if defined(__AVX2__)
  if constexpr (sizeof(L) == 4 && N == 8) {
    auto k = lane_numbers<4, 8>() < n;
    return (raw_t<L, N>)_mm256_maskload_epi32((const int*)p, (__m256i)k);
  } else if constexpr (sizeof(L) == 8 && N == 4) {
    auto k = lane_numbers<8, 4>() < int64_t(n);
    return (raw_t<L, N>)_mm256_maskload_epi64((const long long*)p, (__m256i)k);
  }
#endif
  raw_t<L, N> r{};
  __builtin_memcpy(&r, p, size_t(n) * sizeof(L));
  return r;
#endif
}

template <class L, int N>
TILE_FN void store_raw_first(L* p, int n, raw_t<L, N> v) {
#if TILE_AVX512
  masked_store<L, N>(p, low_bits(n), v);
#else
#if defined(__AVX2__)
  if constexpr (sizeof(L) == 4 && N == 8) {
    auto k = lane_numbers<4, 8>() < n;
    _mm256_maskstore_epi32((int*)p, (__m256i)k, (__m256i)v);
    return;
  } else if constexpr (sizeof(L) == 8 && N == 4) {
    auto k = lane_numbers<8, 4>() < int64_t(n);
    _mm256_maskstore_epi64((long long*)p, (__m256i)k, (__m256i)v);
    return;
  }
#endif
  __builtin_memcpy(p, &v, size_t(n) * sizeof(L));
#endif
}

// ---- contiguous ---------------------------------------------------------------------------------------------------

template <class T, int W>
TILE_FN vec<T, W> load(full<W>, const T* p) {
  return vec<T, W>(load_raw<lane_t<T>, W>(reinterpret_cast<const lane_t<T>*>(p)));
}
template <class T, int W>
TILE_FN vec<T, W> load(part<W> m, const T* p) {
  return vec<T, W>(load_raw_first<lane_t<T>, W>(reinterpret_cast<const lane_t<T>*>(p), m.n));
}
template <class T, int W>
TILE_FN void store(full<W>, T* p, vec<T, W> v) {
  store_raw<lane_t<T>, W>(reinterpret_cast<lane_t<T>*>(p), v.v);
}
template <class T, int W>
TILE_FN void store(part<W> m, T* p, vec<T, W> v) {
  store_raw_first<lane_t<T>, W>(reinterpret_cast<lane_t<T>*>(p), m.n, v.v);
}
// A scalar or a comparison may be stored where a vector is expected.
template <class M, class T, class S, std::enable_if_t<is_scalar<S>, int> = 0>
TILE_FN void store(M m, T* p, S value) {
  store(m, p, vec<T, M::size>(value));
}
template <class M, int S>
TILE_FN void store(M m, bool* p, mask<S, M::size> value) {
  store(m, p, convert<bool>(value));
}

// Predicated: lanes where `when` is false load as zero, are not stored, and their addresses are not touched.
template <class T, int W, int S>
TILE_FN vec<T, W> load(full<W>, const T* p, mask<S, W> when) {
#if TILE_AVX512
  return vec<T, W>(masked_load<lane_t<T>, W>(p, mask_bits(when)));
#else
  vec<T, W> r{T(0)};
  for (int i = 0; i < W; i++)
    if (when[i]) r.set(i, p[i]);
  return r;
#endif
}
template <class T, int W, int S>
TILE_FN vec<T, W> load(part<W> m, const T* p, mask<S, W> when) {
#if TILE_AVX512
  return vec<T, W>(masked_load<lane_t<T>, W>(p, mask_bits(when) & low_bits(m.n)));
#else
  vec<T, W> r{T(0)};
  for (int i = 0; i < m.n; i++)
    if (when[i]) r.set(i, p[i]);
  return r;
#endif
}
template <class T, int W, int S>
TILE_FN void store(full<W>, T* p, vec<T, W> v, mask<S, W> when) {
#if TILE_AVX512
  masked_store<lane_t<T>, W>(p, mask_bits(when), v.v);
#else
  for (int i = 0; i < W; i++)
    if (when[i]) p[i] = v[i];
#endif
}
template <class T, int W, int S>
TILE_FN void store(part<W> m, T* p, vec<T, W> v, mask<S, W> when) {
#if TILE_AVX512
  masked_store<lane_t<T>, W>(p, mask_bits(when) & low_bits(m.n), v.v);
#else
  for (int i = 0; i < m.n; i++)
    if (when[i]) p[i] = v[i];
#endif
}

// Past the cache, for results that nobody reads soon; p aligned to the vector. Ordinary store where the ISA has none.
template <class T, int W>
TILE_FN void store_stream(full<W>, T* p, vec<T, W> v) {
#if TILE_AVX512
  if constexpr (sizeof(v) == 64) {
    _mm512_stream_si512((__m512i*)p, (__m512i)v.v);
    return;
  }
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(v) == 32) {
    _mm256_stream_si256((__m256i*)p, (__m256i)v.v);
    return;
  }
#endif
  store(full<W>{}, p, v);
}

// ---- strided and indexed ------------------------------------------------------------------------------------------

template <int W>
TILE_FN int active_lanes(full<W>) { return W; }
template <int W>
TILE_FN int active_lanes(part<W> m) { return m.n; }

template <class T, class M>
TILE_FN vec<T, M::size> gather(M m, const T* p, int64_t stride) {
  constexpr int W = M::size;
  if (stride == 0) return vec<T, W>(*p);
  lane_t<T> lanes_of[W] = {};
  auto* q = reinterpret_cast<const lane_t<T>*>(p);
  int n = active_lanes(m);
  for (int i = 0; i < n; i++) lanes_of[i] = q[i * stride];
  return vec<T, W>(load_raw<lane_t<T>, W>(lanes_of));
}

template <class T, class M, int S>
TILE_FN vec<T, M::size> gather(M m, const T* p, int64_t stride, mask<S, M::size> when) {
  vec<T, M::size> r{T(0)};
  int n = active_lanes(m);
  for (int i = 0; i < n; i++)
    if (when[i]) r.set(i, p[i * stride]);
  return r;
}

template <class T, class M, class I>
TILE_FN vec<T, M::size> gather(M m, const T* p, vec<I, M::size> index) {
  constexpr int W = M::size;
#if TILE_AVX512
  if constexpr (M::whole && sizeof(T) == 4 && sizeof(I) == 4 && W == 16)
    return vec<T, W>((typename vec<T, W>::raw)_mm512_i32gather_epi32((__m512i)index.v, p, 4));
#endif
  lane_t<T> lanes_of[W] = {};
  auto* q = reinterpret_cast<const lane_t<T>*>(p);
  int n = active_lanes(m);
  for (int i = 0; i < n; i++) lanes_of[i] = q[index.v[i]];
  return vec<T, W>(load_raw<lane_t<T>, W>(lanes_of));
}
template <class T, class M, class I, int S>
TILE_FN vec<T, M::size> gather(M m, const T* p, vec<I, M::size> index, mask<S, M::size> when) {
  vec<T, M::size> r{T(0)};
  int n = active_lanes(m);
  for (int i = 0; i < n; i++)
    if (when[i]) r.set(i, p[index.v[i]]);
  return r;
}

template <class T, class M>
TILE_FN void scatter(M m, T* p, int64_t stride, vec<T, M::size> v) {
  int n = active_lanes(m);
  for (int i = 0; i < n; i++) p[i * stride] = v[i];
}
template <class T, class M, int S>
TILE_FN void scatter(M m, T* p, int64_t stride, vec<T, M::size> v, mask<S, M::size> when) {
  int n = active_lanes(m);
  for (int i = 0; i < n; i++)
    if (when[i]) p[i * stride] = v[i];
}
template <class T, class M, class I>
TILE_FN void scatter(M m, T* p, vec<I, M::size> index, vec<T, M::size> v) {
  int n = active_lanes(m);
  for (int i = 0; i < n; i++) p[index.v[i]] = v[i];
}
template <class T, class M, class I, int S>
TILE_FN void scatter(M m, T* p, vec<I, M::size> index, vec<T, M::size> v, mask<S, M::size> when) {
  int n = active_lanes(m);
  for (int i = 0; i < n; i++)
    if (when[i]) p[index.v[i]] = v[i];
}

// ---- elements of four bits ------------------------------------------------------------------------------------------

// Bytes as twice as many lanes of a half each, and back.
template <int W>
TILE_FN raw_t<uint8_t, W> spread_nibbles(raw_t<uint8_t, W / 2> bytes) {
  using Pairs = raw_t<uint16_t, W / 2>;
  const Pairs w = __builtin_convertvector(bytes, Pairs);
  return (raw_t<uint8_t, W>)((w & 0x0f) | ((w & 0xf0) << 4));
}
template <int W>
TILE_FN raw_t<uint8_t, W / 2> join_nibbles(raw_t<uint8_t, W> lanes) {
  const auto w = (raw_t<uint16_t, W / 2>)lanes;
  return __builtin_convertvector((w & 0x0f) | ((w >> 4) & 0xf0), raw_t<uint8_t, W / 2>);
}
template <class T, int W>
TILE_FN vec<T, W> from_nibbles(raw_t<uint8_t, W> x) {
  if constexpr (std::is_same<T, i4>::value) return vec<T, W>(((raw_t<int8_t, W>)x ^ int8_t(8)) - int8_t(8));
  else return vec<T, W>((typename vec<T, W>::raw)x);
}

template <class T, class M, bool V>
TILE_FN vec<T, M::size> load(M m, nibbles<T, V> p) {
  constexpr int W = M::size;
  const int n = active_lanes(m);
  if ((p.index & 1) == 0) {
    if constexpr (M::whole) return from_nibbles<T, W>(spread_nibbles<W>(load_raw<uint8_t, W / 2>(p.bytes())));
    raw_t<uint8_t, W / 2> bytes{};
    __builtin_memcpy(&bytes, p.bytes(), size_t((n + 1) / 2));
    return from_nibbles<T, W>(spread_nibbles<W>(bytes));
  }
  vec<T, W> r{T(0)};
  for (int i = 0; i < n; i++) r.set(i, p[i]);
  return r;
}
template <class T, class M, bool V>
TILE_FN void store(M m, nibbles<T, V> p, vec<T, M::size> v) {
  constexpr int W = M::size;
  const int n = active_lanes(m);
  if ((p.index & 1) == 0) {
    const auto bytes = join_nibbles<W>((raw_t<uint8_t, W>)v.v);
    if constexpr (M::whole) {
      store_raw<uint8_t, W / 2>(p.bytes(), bytes);
      return;
    }
    __builtin_memcpy(p.bytes(), &bytes, size_t(n / 2));
    if (n & 1) p[n - 1] = v[n - 1];
    return;
  }
  for (int i = 0; i < n; i++) p[i] = v[i];
}
template <class T, class M, bool V, class S, std::enable_if_t<is_scalar<S>, int> = 0>
TILE_FN void store(M m, nibbles<T, V> p, S value) {
  store(m, p, vec<T, M::size>(value));
}
template <class T, class M, bool V, int S>
TILE_FN vec<T, M::size> load(M m, nibbles<T, V> p, mask<S, M::size> when) {
  vec<T, M::size> r{T(0)};
  for (int i = 0; i < active_lanes(m); i++)
    if (when[i]) r.set(i, p[i]);
  return r;
}
template <class T, class M, bool V, int S>
TILE_FN void store(M m, nibbles<T, V> p, vec<T, M::size> v, mask<S, M::size> when) {
  for (int i = 0; i < active_lanes(m); i++)
    if (when[i]) p[i] = v[i];
}
template <class T, class M, bool V>
TILE_FN vec<T, M::size> gather(M m, nibbles<T, V> p, int64_t stride) {
  vec<T, M::size> r{T(0)};
  for (int i = 0; i < active_lanes(m); i++) r.set(i, p[i * stride]);
  return r;
}
template <class T, class M, bool V, int S>
TILE_FN vec<T, M::size> gather(M m, nibbles<T, V> p, int64_t stride, mask<S, M::size> when) {
  vec<T, M::size> r{T(0)};
  for (int i = 0; i < active_lanes(m); i++)
    if (when[i]) r.set(i, p[i * stride]);
  return r;
}
template <class T, class M, bool V, class I>
TILE_FN vec<T, M::size> gather(M m, nibbles<T, V> p, vec<I, M::size> index) {
  vec<T, M::size> r{T(0)};
  for (int i = 0; i < active_lanes(m); i++) r.set(i, p[index.v[i]]);
  return r;
}
template <class T, class M, bool V, class I, int S>
TILE_FN vec<T, M::size> gather(M m, nibbles<T, V> p, vec<I, M::size> index, mask<S, M::size> when) {
  vec<T, M::size> r{T(0)};
  for (int i = 0; i < active_lanes(m); i++)
    if (when[i]) r.set(i, p[index.v[i]]);
  return r;
}
template <class T, class M, bool V>
TILE_FN void scatter(M m, nibbles<T, V> p, int64_t stride, vec<T, M::size> v) {
  for (int i = 0; i < active_lanes(m); i++) p[i * stride] = v[i];
}
template <class T, class M, bool V, int S>
TILE_FN void scatter(M m, nibbles<T, V> p, int64_t stride, vec<T, M::size> v, mask<S, M::size> when) {
  for (int i = 0; i < active_lanes(m); i++)
    if (when[i]) p[i * stride] = v[i];
}
template <class T, class M, bool V, class I>
TILE_FN void scatter(M m, nibbles<T, V> p, vec<I, M::size> index, vec<T, M::size> v) {
  for (int i = 0; i < active_lanes(m); i++) p[index.v[i]] = v[i];
}
template <class T, class M, bool V, class I, int S>
TILE_FN void scatter(M m, nibbles<T, V> p, vec<I, M::size> index, vec<T, M::size> v, mask<S, M::size> when) {
  for (int i = 0; i < active_lanes(m); i++)
    if (when[i]) p[index.v[i]] = v[i];
}

// ---- values that know their width from the loop's mask -----------------------------------------------------------

template <class T, class M>
TILE_FN vec<T, M::size> iota(M, T base, T step = T(1)) {
  return iota<T, M::size>(base, step);
}
template <class T, class M>
TILE_FN vec<T, M::size> broadcast(M, T value) {
  return vec<T, M::size>(value);
}

}  // namespace tile
