// Ends a kernel that computes without end: a loop that touches no memory never comes to the engine, so a timer's signal has to look.
#pragma once
#include "state.h"

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#define EMU_WATCHDOG 1
#endif

namespace emu {

#ifdef EMU_WATCHDOG
// While one lives, its thread gets a signal a second. After `kPatience` of them without an access or a switch, the running fiber is left for
// good: it is in the kernel's own code, not in the engine or an allocator, so nothing is left half done.
class Watchdog {
public:
    Watchdog() {
        struct sigaction action = {};
        action.sa_sigaction = tick;
        action.sa_flags = SA_SIGINFO | SA_RESTART;
        sigaction(kSignal(), &action, &before);
        struct sigevent event = {};
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = kSignal();
#ifdef sigev_notify_thread_id
        event.sigev_notify_thread_id = static_cast<int>(syscall(SYS_gettid));
#else
        event._sigev_un._tid = static_cast<int>(syscall(SYS_gettid));
#endif
        runs = timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) == 0;
        struct itimerspec every = {{1, 0}, {1, 0}};
        if (runs) timer_settime(timer, 0, &every, nullptr);
    }
    ~Watchdog() {
        if (runs) timer_delete(timer);
        sigaction(kSignal(), &before, nullptr);
    }

private:
    static constexpr int kPatience = 5;  // seconds of the thread's own time
    static int kSignal() { return SIGRTMIN + 9; }

    static void tick(int, siginfo_t*, void* context) {
        static uint64_t seen = 0;
        static int quiet = 0;
        Engine& e = engine;
        uint64_t now = e.accesses + e.switches + e.atomics;
        quiet = e.current && now == seen ? quiet + 1 : 0;
        seen = now;
        if (quiet < kPatience) return;
        quiet = 0;
        const auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
        uintptr_t pc = static_cast<uintptr_t>(machine.gregs[REG_RIP]);
#else
        uintptr_t pc = static_cast<uintptr_t>(machine.pc);
#endif
        if (pc < e.image_low || pc >= e.image_high) return;  // not in the kernel: look again later
        sigset_t own;
        sigemptyset(&own);
        sigaddset(&own, kSignal());
        pthread_sigmask(SIG_UNBLOCK, &own, nullptr);  // the handler is never returned from
        report("livelock", "a loop that touches no memory does not end", e.current, offset_of(reinterpret_cast<void*>(pc + 1)));
        end_launch();
    }

    struct sigaction before = {};
    timer_t timer = {};
    bool runs = false;
};
#else
class Watchdog {
public:
    Watchdog() {}
    ~Watchdog() {}
};
#endif

}  // namespace emu
