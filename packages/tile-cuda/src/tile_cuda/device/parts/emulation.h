// What the parts below need of the emulator: emu.h has the launch state, TILE_SYNC, TILE_SHARED and TILE_LOCAL.
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "emu.h"

#define TILE_EMULATE 1
#define TILE_ARCH 90
#define TILE_FN static EMU_INLINE
#define TILE_MEMBER EMU_INLINE
#define TILE_UNROLL

namespace tile {
using site = emu::Site;
// An access through these is one access of their size to the instrumentation.
typedef uint32_t word16 __attribute__((vector_size(16), may_alias));
typedef uint64_t word8 __attribute__((may_alias));
typedef uint32_t word4 __attribute__((may_alias));
typedef uint16_t word2 __attribute__((may_alias));
TILE_FN void check_alignment(const void* address, int bytes) { emu::check_alignment(address, bytes); }
// A tensor of `count` elements over an address that the kernel was given: the emulator learns of its extent.
template <class T>
TILE_FN T* tensor_at(const char* name, uint64_t address, uint64_t count) {
  return (T*)emu::tensor_at(name, (void*)address, count * sizeof(T));
}
[[noreturn]] TILE_FN void trap(const char* what) { emu::trap(what); }
}  // namespace tile
