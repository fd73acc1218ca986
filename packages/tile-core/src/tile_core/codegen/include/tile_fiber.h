// Fibers: a stack and a saved register state each, switched by hand (12 ns against 303 ns for swapcontext, which asks the kernel for the
// signal mask).
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#if !defined(__x86_64__) && !defined(__aarch64__)
#define TILE_FIBER_UCONTEXT 1
#endif
#ifdef TILE_FIBER_UCONTEXT
#include <ucontext.h>
#endif

namespace tile_fiber {

constexpr size_t kStackBytes = 512 * 1024;  // reserved; pages are touched on use

#ifndef TILE_FIBER_UCONTEXT
extern "C" void tile_fiber_switch(void** save, void* load) __attribute__((visibility("hidden")));
extern "C" void tile_fiber_start() __attribute__((visibility("hidden")));

#if defined(__x86_64__)
asm(R"(
.text
.hidden tile_fiber_switch
.globl tile_fiber_switch
.type tile_fiber_switch,@function
tile_fiber_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size tile_fiber_switch,.-tile_fiber_switch
.hidden tile_fiber_start
.globl tile_fiber_start
.type tile_fiber_start,@function
tile_fiber_start:
    movq %r12, %rdi
    call *%r13
    ud2
.size tile_fiber_start,.-tile_fiber_start
)");
#else
asm(R"(
.text
.hidden tile_fiber_switch
.globl tile_fiber_switch
.type tile_fiber_switch,%function
tile_fiber_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size tile_fiber_switch,.-tile_fiber_switch
.hidden tile_fiber_start
.globl tile_fiber_start
.type tile_fiber_start,%function
tile_fiber_start:
    mov x0, x19
    blr x20
    brk #1
.size tile_fiber_start,.-tile_fiber_start
)");
#endif
#endif

class Fiber {
public:
    Fiber() {
        void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) return;
        low = static_cast<uint8_t*>(memory);
        mprotect(low, static_cast<size_t>(sysconf(_SC_PAGESIZE)), PROT_NONE);  // running over the stack faults at once
        high = low + kStackBytes;
    }
    ~Fiber() {
        if (low) munmap(low, kStackBytes);
    }
    bool usable() const { return low != nullptr; }
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    // The next resume() calls entry(argument) on an empty stack; entry must never return.
    void reset(void (*entry)(void*), void* argument);
    void resume();         // from the scheduler into the fiber
    void suspend();        // from the fiber into the scheduler
    bool owns(uintptr_t address) const { return address - reinterpret_cast<uintptr_t>(low) < kStackBytes; }

private:
    uint8_t* low = nullptr;
    uint8_t* high = nullptr;
#ifdef TILE_FIBER_UCONTEXT
    ucontext_t context, scheduler;
#else
    void* stack = nullptr;
    void* scheduler = nullptr;
#endif
};

#ifdef TILE_FIBER_UCONTEXT
inline void fiber_entry(unsigned entry_high, unsigned entry_low, unsigned argument_high, unsigned argument_low) {
    auto join = [](unsigned a, unsigned b) { return (static_cast<uint64_t>(a) << 32) | b; };
    reinterpret_cast<void (*)(void*)>(join(entry_high, entry_low))(reinterpret_cast<void*>(join(argument_high, argument_low)));
}
inline void Fiber::reset(void (*entry)(void*), void* argument) {
    getcontext(&context);
    context.uc_stack.ss_sp = low;
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = nullptr;
    uint64_t e = reinterpret_cast<uint64_t>(entry), a = reinterpret_cast<uint64_t>(argument);
    makecontext(&context, reinterpret_cast<void (*)()>(fiber_entry), 4, static_cast<unsigned>(e >> 32), static_cast<unsigned>(e),
                static_cast<unsigned>(a >> 32), static_cast<unsigned>(a));
}
inline void Fiber::resume() { swapcontext(&scheduler, &context); }
inline void Fiber::suspend() { swapcontext(&context, &scheduler); }
#else
inline void Fiber::reset(void (*entry)(void*), void* argument) {
    void** top = reinterpret_cast<void**>(high);
#if defined(__x86_64__)
    // Popped by tile_fiber_switch: r15 r14 r13 r12 rbx rbp, return address. rsp is 16-byte aligned at tile_fiber_start's call.
    top -= 2;
    *--top = reinterpret_cast<void*>(tile_fiber_start);
    top -= 6;
    top[0] = nullptr;                         // r15
    top[1] = nullptr;                         // r14
    top[2] = reinterpret_cast<void*>(entry);  // r13
    top[3] = argument;                        // r12
    top[4] = nullptr;                         // rbx
    top[5] = nullptr;                         // rbp
#else
    top -= 20;
    for (int i = 0; i < 20; ++i) top[i] = nullptr;
    top[0] = argument;                                   // x19
    top[1] = reinterpret_cast<void*>(entry);             // x20
    top[11] = reinterpret_cast<void*>(tile_fiber_start);  // x30
#endif
    stack = top;
}
inline void Fiber::resume() { tile_fiber_switch(&scheduler, stack); }
inline void Fiber::suspend() { tile_fiber_switch(&stack, scheduler); }
#endif

}  // namespace tile_fiber
