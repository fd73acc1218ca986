// Included after the kernels of a library: calls a kernel of any signature with the parameter array that the CUDA driver would get.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include "emu.h"

namespace emu {

template <class... P>
struct Caller {
    void (*kernel)(P...);
    void** values;

    template <size_t... I>
    __attribute__((no_sanitize("thread"))) void call(std::index_sequence<I...>) const {
        kernel(*static_cast<P*>(values[I])...);
    }
    __attribute__((no_sanitize("thread"))) static void body(void* self) {
        static_cast<const Caller*>(self)->call(std::index_sequence_for<P...>{});
    }
};

template <class... P>
int call(const char* name, const uint32_t* grid, const uint32_t* block, size_t shared_bytes, void (*kernel)(P...), void** values) {
    Caller<P...> caller{kernel, values};
    return launch({name, {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared_bytes}, Caller<P...>::body, &caller);
}

}  // namespace emu

#define TILE_EMU_ENTRY(kernel)                                                                                                        \
    extern "C" __attribute__((visibility("default"))) int tile_emu_launch_##kernel(const uint32_t* grid, const uint32_t* block,       \
                                                                                    uint64_t shared_bytes, void** values) {           \
        return ::emu::call(#kernel, grid, block, shared_bytes, &kernel, values);                                                      \
    }
