// The grid of blocks over threads, and each thread's scratch memory.
//
// With OpenMP the threads are those of the runtime that the process already uses (torch and this code share libgomp by its SONAME, so
// torch.set_num_threads holds here and two pools never spin against each other). Without it a pool of std::thread is kept.
#pragma once

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "scalar.h"

#include <pthread.h>
#include <unistd.h>

#if defined(_OPENMP)
#include <omp.h>
#else
#include <condition_variable>
#include <mutex>
#include <thread>
#endif

namespace tile {

enum : int { success = 0, error_out_of_memory = 1, error_check_failed = 2, error_left_waiting = 3 };

// The message of an assertion that failed in a kernel of this library; the launch that sees it reports it.
static std::atomic<const char*> failed_check{nullptr};
// In its place: threads wait at a named barrier to which too few others come.
static const char left_waiting[] = "the other threads of the barrier to come there";

// An assertion of the kernel: the first failure of a launch is kept, the block goes on (there is nothing to unwind).
TILE_FN void check(bool holds, const char* message) {
  if (__builtin_expect(!holds, 0)) failed_check.store(message, std::memory_order_relaxed);
}

// A line printed by the kernel.
template <class... Values>
TILE_FN void device_print(const char* format, Values... values) {
  char line[1024];
  std::snprintf(line, sizeof line, format, values...);
  std::printf("%s\n", line);
  std::fflush(stdout);
}

// A condition of the kernel that does not hold, with its values; the first of a launch is kept, and its block ends.
template <class... Values>
static __attribute__((noinline, cold)) void assert_failed(const char* format, Values... values) {
  static char line[1024];
  static std::atomic<bool> taken{false};
  if (failed_check.load(std::memory_order_relaxed) || taken.exchange(true)) return;
  std::snprintf(line, sizeof line, format, values...);
  failed_check.store(line, std::memory_order_release);
  taken.store(false);
}

// One thread's block-local memory: grows, never shrinks, freed when the thread ends. SLOT keeps independent users apart.
template <int SLOT>
class ThreadArena {
 public:
  ThreadArena() = default;
  ThreadArena(const ThreadArena&) = delete;
  ThreadArena& operator=(const ThreadArena&) = delete;
  ~ThreadArena() { std::free(memory_); }

  // At least `bytes`, 64-byte aligned; nullptr when there is no memory. Contents do not survive growth.
  void* reserve(size_t bytes) {
    if (bytes > size_) {
      std::free(memory_);
      memory_ = nullptr;
      size_ = 0;
      size_t rounded = (bytes + 4095) & ~size_t(4095);
      if (posix_memalign(&memory_, 4096, rounded) != 0) {
        memory_ = nullptr;
        return nullptr;
      }
      size_ = rounded;
    }
    return memory_;
  }
  void* get() const { return memory_; }

  static ThreadArena& mine() {
    static thread_local ThreadArena arena;
    return arena;
  }

 private:
  void* memory_ = nullptr;
  size_t size_ = 0;
};

// The block-local tiles of the running kernel; parallel_for has reserved sizeof(Tiles) on this thread.
template <class Tiles>
TILE_FN Tiles* arena() {
  static_assert(alignof(Tiles) <= 4096, "tiles are aligned to a page at most");
  return static_cast<Tiles*>(ThreadArena<0>::mine().get());
}

#if !defined(_OPENMP)
// Threads that sleep between launches; run(f, n) calls f on the caller and on n - 1 workers and returns when all have.
class ThreadPool {
 public:
  static ThreadPool& instance() {
    // Never destroyed: workers may outlive static destruction at process exit. A forked process has none of its parent's threads.
    static ThreadPool* pool = new ThreadPool;
    static pid_t owner = getpid();
    if (getpid() != owner) {
      pool = new ThreadPool;
      owner = getpid();
    }
    return *pool;
  }
  template <class F>
  void run(F& f, int n) {
    std::lock_guard<std::mutex> one_launch(launch_);
    while (int(workers_) < n - 1) std::thread([this, id = workers_++] { work(id); }).detach();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      call_ = [](void* g) { (*static_cast<F*>(g))(); };
      argument_ = &f;
      wanted_ = n - 1;
      pending_ = n - 1;
      generation_++;
    }
    wake_.notify_all();
    inside() = true;  // a launch from within a block must not wait for this one
    f();
    inside() = false;
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, [this] { return pending_ == 0; });
  }
  static bool& inside() {
    static thread_local bool flag = false;
    return flag;
  }

 private:
  void work(int id) {
    inside() = true;
    unsigned seen = 0;
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [&] { return generation_ != seen; });
      seen = generation_;
      if (id >= wanted_) continue;
      auto call = call_;
      void* argument = argument_;
      lock.unlock();
      call(argument);
      lock.lock();
      if (--pending_ == 0) done_.notify_one();
    }
  }
  std::mutex launch_, mutex_;
  std::condition_variable wake_, done_;
  void (*call_)(void*) = nullptr;
  void* argument_ = nullptr;
  int workers_ = 0, wanted_ = 0, pending_ = 0;
  unsigned generation_ = 0;
};
#endif

TILE_FN int default_threads() {
#if defined(_OPENMP)
  return omp_get_max_threads();
#else
  int n = int(std::thread::hardware_concurrency());
  return n > 0 ? n : 1;
#endif
}
TILE_FN bool in_parallel_region() {
#if defined(_OPENMP)
  return omp_in_parallel();
#else
  return ThreadPool::inside();
#endif
}

// Whether groups of `group` blocks leave each thread at least four: fewer would leave threads idle at the end.
TILE_FN int worth_grouping(int threads, int64_t blocks, int group) {
  const int64_t team = in_parallel_region() ? 1 : threads > 0 ? threads : default_threads();
  return blocks >= 4 * team * group;
}

// The process that loaded this library. A process forked from it has no other thread than the one that forked, whose team OpenMP
// takes to be alive and would wait for (torch hangs so, too); a thread of the process's own has no team yet.
static const pid_t loading_process = getpid();

template <class Worker>
static void run_team(Worker& worker, int team) {
#if defined(_OPENMP)
#pragma omp parallel num_threads(team)
  worker();
#else
  ThreadPool::instance().run(worker, team);
#endif
}

// run_team from a fresh thread; false if the system gives none.
template <class Worker>
static __attribute__((noinline, cold)) bool run_team_apart(Worker& worker, int team) {
  struct Call {
    Worker* worker;
    int team;
  } call{&worker, team};
  auto start = [](void* given) -> void* {
    run_team(*static_cast<Call*>(given)->worker, static_cast<Call*>(given)->team);
    return nullptr;
  };
  pthread_t thread;
  return pthread_create(&thread, nullptr, start, &call) == 0 && pthread_join(thread, nullptr) == 0;
}

// body(bx, by, bz) for every block of the grid, bx fastest; `threads` 0 is the default. Blocks are handed out in order, a few at a time,
// so a slow core takes fewer. Serial for one block or inside another parallel region. Returns success, error_out_of_memory
// (no block has run on a thread without scratch, and the output is incomplete) or error_check_failed (failed_check has the message).
template <class Body>
static inline int parallel_for(int64_t gx, int64_t gy, int64_t gz, int threads, Body&& body, size_t arena_bytes = 0) {
  const int64_t total = gx * gy * gz;
  if (total <= 0) return success;
  failed_check.store(nullptr, std::memory_order_relaxed);
  int64_t team = threads > 0 ? threads : default_threads();
  if (team > total) team = total;
  if (team > 1 && in_parallel_region()) team = 1;
  std::atomic<int64_t> next{0};
  std::atomic<bool> failed{false};
  const int64_t chunk = total / (team * 32) > 0 ? total / (team * 32) : 1;
  auto worker = [&] {
    if (arena_bytes && !ThreadArena<0>::mine().reserve(arena_bytes)) {
      failed.store(true, std::memory_order_relaxed);
      return;
    }
    for (;;) {
      int64_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
      if (begin >= total || failed_check.load(std::memory_order_relaxed)) return;
      int64_t end = begin + chunk < total ? begin + chunk : total;
      int64_t x = begin % gx, y = begin / gx % gy, z = begin / (gx * gy);
      for (int64_t i = begin; i < end; i++) {
        body(int(x), int(y), int(z));
        if (++x == gx) {
          x = 0;
          if (++y == gy) {
            y = 0;
            z++;
          }
        }
      }
    }
  };
  if (team == 1) {
    worker();
  } else if (getpid() == loading_process) {
    run_team(worker, int(team));
  } else if (!run_team_apart(worker, int(team))) {
    worker();
  }
#if defined(__AVX__)
  // GCC 12 leaves this out on a way to the return; the caller's next SSE instruction then takes 0.2 µs (measured).
  _mm256_zeroupper();
#endif
  if (failed.load()) return error_out_of_memory;
  return failed_check.load() ? error_check_failed : success;
}

}  // namespace tile
