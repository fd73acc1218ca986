// The emulation API: what the emulation bodies of a backend's device functions call.
//
// Generated device source is compiled unchanged by the host's C++ compiler with -fsanitize=thread; plain loads and stores reach the
// engine through the __tsan_* functions that engine.cc defines. Everything declared here is out of line in an uninstrumented object, or a
// thin template over such a function. Templates are always inlined: the return address that the engine sees then lies in the kernel's
// own code, and its line table leads to the kernel's line.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#define EMU_API_MAJOR 1
#define EMU_API_MINOR 0
#define EMU_INLINE inline __attribute__((always_inline))

namespace emu {

// ---- identity -------------------------------------------------------------------------------------------------------------------
struct Index3 {
    uint32_t x, y, z;
};
Index3 thread_index() noexcept;
Index3 block_index() noexcept;
Index3 block_extent() noexcept;
Index3 grid_extent() noexcept;
uint32_t lane() noexcept;  // 0..31: linear thread index % 32
uint32_t warp() noexcept;  // linear thread index / 32

// ---- memory ---------------------------------------------------------------------------------------------------------------------
// The block's shared memory; `bytes` is what the kernel declares. Starts never-written, filled with 0xFF (NaN in every float type).
unsigned char* shared_arena(size_t bytes);

// Says that the calling thread reads or writes bytes; checks bounds, poison, alignment to `alignment`, races. For bodies that then move
// the bytes in uninstrumented code.
void read(const void* address, size_t bytes, size_t alignment = 1);
void write(void* address, size_t bytes, size_t alignment = 1);
// Where a tensor lies that a kernel makes over an address of the caller's: inside a buffer of the launch, or in one that it adds.
void* tensor_at(const char* name, void* address, size_t bytes);
// Alignment only; the plain access that follows is seen by the instrumentation.
void check_alignment(const void* address, size_t bytes);

// A per-thread register array: starts never-written, and is watched until the object dies.
class LocalTile {
public:
    LocalTile(void* data, size_t bytes, const char* name) noexcept;
    ~LocalTile();
    LocalTile(const LocalTile&) = delete;
    LocalTile& operator=(const LocalTile&) = delete;
};

// ---- synchronisation ------------------------------------------------------------------------------------------------------------
// One synchronisation call of the source. A mutation run switches sites off by ordinal: the call then does nothing.
struct Site {
    uint32_t ordinal;
};
bool enabled(Site site) noexcept;

void sync_threads(Site site);                               // all threads of the block (barrier 0)
int sync_threads_count(Site site, int predicate);           // the same, and the number of threads with a true predicate
void sync_grid(Site site);                                  // all threads of all blocks
void bar_sync(Site site, uint32_t id, uint32_t count);      // id 0..15, count a multiple of 32
void bar_arrive(Site site, uint32_t id, uint32_t count);
void sync_warp(Site site, uint32_t mask);                   // orders memory among the lanes of the mask

enum class Scope { block, device, system };
enum class Order { relaxed, acquire, release, acquire_release };
void fence(Scope scope);  // __threadfence_block / __threadfence / __threadfence_system

// ---- warp collectives: no memory ordering; every lane of the mask must come to the same call ------------------------------------
enum class Shuffle { index, up, down, exclusive_or };
uint64_t shuffle_bits(uint32_t mask, uint64_t bits, Shuffle kind, uint32_t operand, uint32_t width);

template <class T>
EMU_INLINE T shuffle(uint32_t mask, T value, Shuffle kind, uint32_t operand, uint32_t width = 32) {
    static_assert(sizeof(T) <= 8, "shuffle moves at most 8 bytes; split wider values");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    bits = shuffle_bits(mask, bits, kind, operand, width);
    memcpy(&value, &bits, sizeof(T));
    return value;
}
uint32_t ballot(uint32_t mask, bool predicate);
bool any(uint32_t mask, bool predicate);
bool all(uint32_t mask, bool predicate);
uint32_t match_any(uint32_t mask, uint64_t bits);
uint32_t match_all(uint32_t mask, uint64_t bits, int* predicate);
uint32_t active_mask();  // lanes of the warp that have not exited

// The general collective: the last lane to come runs `body` once for all. lanes[i] is lane i's payload, null outside the mask. `name`
// (compared by address, so a string literal) says which operation it is.
void collective(const char* name, uint32_t mask, void* payload, void (*body)(void* const* lanes, uint32_t mask));

// ---- asynchronous copies --------------------------------------------------------------------------------------------------------
// 4, 8 or 16 bytes from global to shared memory; reads source_bytes (0: none, the address is not looked at) and zero-fills the rest.
// The bytes belong to the thread's next group and land when the schedule says, at the latest when a wait completes the group.
void cp_async(void* shared, const void* global, uint32_t bytes, uint32_t source_bytes);
void cp_async_commit();
void cp_async_wait(Site site, uint32_t pending);  // until at most `pending` of this thread's groups are in flight
void cp_async_wait_all(Site site);                // and what is not committed yet

// ---- atomics: performed at once, in the order of the schedule -------------------------------------------------------------------
// begin checks and may switch threads; nothing switches between begin and end.
void atomic_begin(const void* address, uint32_t bytes, bool reads, bool writes, Order order, Scope scope);
void atomic_fetch(void* value, const void* address, uint32_t bytes) noexcept;
void atomic_end(void* address, const void* value, uint32_t bytes) noexcept;  // value null: nothing is stored

template <class T>
EMU_INLINE T atomic_load(const T* address, Order order = Order::relaxed, Scope scope = Scope::device) {
    T value;
    atomic_begin(address, sizeof(T), true, false, order, scope);
    atomic_fetch(&value, address, sizeof(T));
    atomic_end(nullptr, nullptr, sizeof(T));
    return value;
}
// A read of bytes of which others may write meanwhile, by a thread that waits for no change: no polling, no switch.
void read_whole(void* value, const void* address, uint32_t bytes);
template <class T>
EMU_INLINE T load_whole(const T* address) {
    T value;
    read_whole(&value, address, sizeof(T));
    return value;
}
template <class T>
EMU_INLINE void atomic_store(T* address, T value, Order order = Order::relaxed, Scope scope = Scope::device) {
    atomic_begin(address, sizeof(T), false, true, order, scope);
    atomic_end(address, &value, sizeof(T));
}
// combine: T(T old). Returns the old value.
template <class T, class Combine>
EMU_INLINE T atomic_update(T* address, Combine combine, Order order = Order::relaxed, Scope scope = Scope::device) {
    T old;
    atomic_begin(address, sizeof(T), true, true, order, scope);
    atomic_fetch(&old, address, sizeof(T));
    T next = combine(old);
    atomic_end(address, &next, sizeof(T));
    return old;
}
template <class T>
EMU_INLINE T atomic_compare_exchange(T* address, T expected, T desired, Order order = Order::relaxed, Scope scope = Scope::device) {
    T old;
    atomic_begin(address, sizeof(T), true, true, order, scope);
    atomic_fetch(&old, address, sizeof(T));
    bool equal = memcmp(&old, &expected, sizeof(T)) == 0;
    atomic_end(address, equal ? &desired : nullptr, sizeof(T));
    return old;
}

// ---- matrix instructions (PTX ISA, "Matrix multiply-accumulate": fragment layouts of mma.m16n8k*, ldmatrix, stmatrix) -----------
enum class Element { f64, f32, tf32, f16, bf16, e4m3, e5m2, s8, u8, s32 };

// num 1, 2 or 4 matrices of 8 rows × 16 bytes; lane i gives the address of row i % 8 of matrix i / 8; registers: num × uint32.
void ldmatrix(void* registers, const void* row, uint32_t num, bool transposed);
void stmatrix(void* row, const void* registers, uint32_t num, bool transposed);
// D = A × B + C for one warp. shapes: m16n8k{4,8,16,32}, m8n8k4 (f64). Registers are those of the PTX fragment, packed; d may be c.
void mma(uint32_t m, uint32_t n, uint32_t k, Element a_type, Element b_type, Element c_type, void* d, const void* a, const void* b,
         const void* c);
// The same for an A of which two in four elements are kept (tf32: one in two), with the lane's metadata and a sparsity selector.
// shapes: m16n8k16 (tf32), m16n8k32 (f16, bf16), m16n8k64 (8 bits).
void mma_sp(uint32_t m, uint32_t n, uint32_t k, Element a_type, Element b_type, Element c_type, void* d, const void* a, const void* b,
            const void* c, uint32_t metadata, uint32_t selector);
// Value of one element, as the conversion instructions see it.
double decode(Element type, const void* address) noexcept;
void encode(Element type, void* address, double value) noexcept;  // rounds to nearest even

// ---- the rest -------------------------------------------------------------------------------------------------------------------
// Source that can't be emulated (inline PTX): the run ends, and its outcome is "unchecked", never clean.
[[noreturn]] void unchecked(const char* what);
[[noreturn]] void trap(const char* what);  // __trap(), a failed device assert

struct Launch {
    const char* kernel;
    Index3 grid, block;
    size_t shared_bytes;
};
// Runs the whole grid; 0, or 1 when the launch ended early (the report says why). body(arguments) is one thread's kernel call.
int launch(const Launch& what, void (*body)(void* arguments), void* arguments);

}  // namespace emu

// ---- what generated source says; the device header defines the same names -------------------------------------------------------
#define threadIdx (::emu::thread_index())
#define blockIdx (::emu::block_index())
#define blockDim (::emu::block_extent())
#define gridDim (::emu::grid_extent())
#define warpSize 32
#define __global__
#define __device__
#define __forceinline__ EMU_INLINE
#define __launch_bounds__(...)
#define __restrict__
#define TILE_SYNC(ordinal) (::emu::Site{ordinal})
#define TILE_SHARED(name, bytes) unsigned char* name = ::emu::shared_arena(bytes)
#define TILE_LOCAL(type, name, count)      \
    alignas(16) type name[count];          \
    ::emu::LocalTile name##_watch(name, sizeof(name), #name)
