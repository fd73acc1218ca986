// What the parts below need of a device compile. NVRTC comes without the standard headers: the fixed-width types are named here.
#define TILE_ARCH (__CUDA_ARCH__ / 10)
#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807LL - 1)
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#else
#include <cmath>
#include <cstdint>
#include <cstdio>
#endif

#define TILE_FN static __device__ __forceinline__
#define TILE_MEMBER __device__ __forceinline__
#define TILE_UNROLL _Pragma("unroll")

// A synchronisation call's place in the source: only the emulator looks at it.
#define TILE_SYNC(ordinal) (tile::site())
#define TILE_SHARED(name, bytes) extern __shared__ __align__(1024) unsigned char name[]
#define TILE_LOCAL(type, name, count) alignas(16) type name[count]

namespace tile {
// A tensor of `count` elements over an address that the kernel was given.
template <class T>
TILE_FN T* tensor_at(const char*, uint64_t address, uint64_t) {
  return (T*)address;
}
struct site {};
// Blocks that have come to sync_grid; it turns its highest bit when all have.
static __device__ unsigned grid_arrivals;
typedef uint4 word16;
typedef unsigned long long word8;
typedef unsigned int word4;
typedef unsigned short word2;
TILE_FN void check_alignment(const void*, int) {}
[[noreturn]] TILE_FN void trap(const char* what) {
  printf("tile: block (%u, %u, %u), thread (%u, %u, %u): %s\n", blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y,
         threadIdx.z, what);
  __trap();
  __builtin_unreachable();
}
}  // namespace tile
