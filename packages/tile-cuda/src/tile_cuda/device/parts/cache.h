// ---- accesses to global memory that say what the second-level cache should do with the line -------------------------------------
// PTX ISA, createpolicy and the .L2::cache_hint of ld, st and cp.async (sm_80 on). The emulator has no caches.

namespace tile {

enum eviction { evict_first, evict_last };

#if !defined(TILE_EMULATE) && TILE_ARCH >= 80
template <eviction E>
TILE_FN uint64_t cache_policy() {
  uint64_t policy;
  if constexpr (E == evict_first)
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  else
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
TILE_FN uint64_t global_address(const void* p) { return uint64_t(__cvta_generic_to_global(p)); }
TILE_FN void load_word(word16& w, const void* p, uint64_t policy) {
  asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(global_address(p)), "l"(policy) : "memory");
}
TILE_FN void load_word(word8& w, const void* p, uint64_t policy) {
  asm volatile("ld.global.L2::cache_hint.u64 %0, [%1], %2;" : "=l"(w) : "l"(global_address(p)), "l"(policy) : "memory");
}
TILE_FN void load_word(word4& w, const void* p, uint64_t policy) {
  asm volatile("ld.global.L2::cache_hint.u32 %0, [%1], %2;" : "=r"(w) : "l"(global_address(p)), "l"(policy) : "memory");
}
TILE_FN void load_word(word2& w, const void* p, uint64_t policy) {
  asm volatile("ld.global.L2::cache_hint.u16 %0, [%1], %2;" : "=h"(w) : "l"(global_address(p)), "l"(policy) : "memory");
}
TILE_FN void load_word(unsigned char& w, const void* p, uint64_t policy) {
  word4 wide;
  asm volatile("ld.global.L2::cache_hint.u8 %0, [%1], %2;" : "=r"(wide) : "l"(global_address(p)), "l"(policy) : "memory");
  w = (unsigned char)wide;
}
TILE_FN void store_word(void* p, word16 w, uint64_t policy) {
  asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;"
               : : "l"(global_address(p)), "r"(w.x), "r"(w.y), "r"(w.z), "r"(w.w), "l"(policy) : "memory");
}
TILE_FN void store_word(void* p, word8 w, uint64_t policy) {
  asm volatile("st.global.L2::cache_hint.u64 [%0], %1, %2;" : : "l"(global_address(p)), "l"(w), "l"(policy) : "memory");
}
TILE_FN void store_word(void* p, word4 w, uint64_t policy) {
  asm volatile("st.global.L2::cache_hint.u32 [%0], %1, %2;" : : "l"(global_address(p)), "r"(w), "l"(policy) : "memory");
}
TILE_FN void store_word(void* p, word2 w, uint64_t policy) {
  asm volatile("st.global.L2::cache_hint.u16 [%0], %1, %2;" : : "l"(global_address(p)), "h"(w), "l"(policy) : "memory");
}
TILE_FN void store_word(void* p, unsigned char w, uint64_t policy) {
  asm volatile("st.global.L2::cache_hint.u8 [%0], %1, %2;" : : "l"(global_address(p)), "r"(word4(w)), "l"(policy) : "memory");
}
#endif

// As load and store; of one element too.
template <eviction E, class T, int N>
TILE_FN vec<T, N> load_cached(const T* p) {
#if !defined(TILE_EMULATE) && TILE_ARCH >= 80
  constexpr int bytes = sizeof(T) * N, word = bytes < 16 ? bytes : 16;
  struct words { typename word_of<word>::type w[bytes / word]; } r;
  TILE_UNROLL
  for (int i = 0; i < bytes / word; ++i) load_word(r.w[i], (const char*)p + i * word, cache_policy<E>());
  return bit_cast<vec<T, N>>(r);
#else
  return load<T, N>(p);
#endif
}
template <eviction E, class T, int N>
TILE_FN void store_cached(T* p, vec<T, N> x) {
#if !defined(TILE_EMULATE) && TILE_ARCH >= 80
  constexpr int bytes = sizeof(T) * N, word = bytes < 16 ? bytes : 16;
  struct words { typename word_of<word>::type w[bytes / word]; };
  words r = bit_cast<words>(x);
  TILE_UNROLL
  for (int i = 0; i < bytes / word; ++i) store_word((char*)p + i * word, r.w[i], cache_policy<E>());
#else
  store(p, x);
#endif
}

}  // namespace tile
