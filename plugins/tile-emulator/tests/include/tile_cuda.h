// What the tests' hand-written kernels call: the names that generated source uses, over emu.h.
#pragma once
#include "emu.h"

namespace tile {

EMU_INLINE void sync_threads(emu::Site site) { emu::sync_threads(site); }
EMU_INLINE void sync_warp(emu::Site site, uint32_t mask = ~0u) { emu::sync_warp(site, mask); }
EMU_INLINE void bar_sync(emu::Site site, uint32_t id, uint32_t count) { emu::bar_sync(site, id, count); }
EMU_INLINE void bar_arrive(emu::Site site, uint32_t id, uint32_t count) { emu::bar_arrive(site, id, count); }
template <int N>
EMU_INLINE void cp_async(void* shared, const void* global, bool predicate = true) {
    emu::cp_async(shared, global, N, predicate ? N : 0);
}
EMU_INLINE void cp_async_commit() { emu::cp_async_commit(); }
template <int N>
EMU_INLINE void cp_async_wait(emu::Site site) {
    emu::cp_async_wait(site, N);
}
EMU_INLINE float shfl_xor(float value, int delta) { return emu::shuffle(~0u, value, emu::Shuffle::exclusive_or, static_cast<uint32_t>(delta)); }
EMU_INLINE float shfl_down(uint32_t mask, float value, int delta) { return emu::shuffle(mask, value, emu::Shuffle::down, static_cast<uint32_t>(delta)); }
template <int Num, bool Transposed>
EMU_INLINE void ldmatrix(void* registers, const void* row) {
    emu::ldmatrix(registers, row, Num, Transposed);
}
EMU_INLINE void mma_f16(float* c, const uint16_t* a, const uint16_t* b) {
    emu::mma(16, 8, 16, emu::Element::f16, emu::Element::f16, emu::Element::f32, c, a, b, c);
}
EMU_INLINE void fence() { emu::fence(emu::Scope::device); }
EMU_INLINE int atomic_add(int* address, int value) {
    return emu::atomic_update(address, [value](int old) { return old + value; });
}
EMU_INLINE int atomic_load(const int* address) { return emu::atomic_load(address); }
EMU_INLINE void atomic_store(int* address, int value) { emu::atomic_store(address, value); }

struct alignas(16) float4 {
    float x, y, z, w;
};

}  // namespace tile
