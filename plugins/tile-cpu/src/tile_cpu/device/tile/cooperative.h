// What waits for each other: the blocks of a launch (sync_grid), and parts of a block's threads (named barriers).
//
// Each is a strand, code with a stack of its own that is left where it waits and taken up there again. A worker of the launch keeps its
// strands, so what a strand has read of the worker's thread stays right.
#pragma once

#include <tile_fiber.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "parallel.h"

namespace tile {

class Strand {
 public:
  bool usable() const { return fiber_.usable(); }
  bool ended() const { return ended_; }

  // The next go_on() calls body(), which must outlive the strand.
  template <class Body>
  void start(Body& body) {
    call_ = [](void* given) { (*static_cast<Body*>(given))(); };
    argument_ = &body;
    fiber_.reset(&run, this);
  }
  // Runs the strand until it waits or ends.
  void go_on() {
    Strand* outer = current();
    current() = this;
    fiber_.resume();
    current() = outer;
  }
  // From inside the strand: waits until the next go_on().
  void wait() { fiber_.suspend(); }

  static Strand*& current() {
    static thread_local Strand* strand = nullptr;
    return strand;
  }

 private:
  static void run(void* given) {
    auto* me = static_cast<Strand*>(given);
    me->call_(me->argument_);
    me->ended_ = true;
    me->wait();
  }
  tile_fiber::Fiber fiber_;
  void (*call_)(void*) = nullptr;
  void* argument_ = nullptr;
  bool ended_ = false;
};

// All blocks of the launch meet.
TILE_FN void sync_grid() { Strand::current()->wait(); }

// Where the workers of a launch meet after each has let each of its blocks go on once.
class Rounds {
 public:
  enum : int { another = -1 };
  explicit Rounds(int64_t blocks) : blocks_(blocks) {}

  // `waiting`: how many of the worker's blocks wait. The launch's result, or `another`.
  int meet(int workers, int64_t waiting, bool out_of_memory) {
    std::unique_lock<std::mutex> lock(mutex_);
    waiting_ += waiting;
    failed_ = failed_ || out_of_memory;
    if (++came_ < workers) {
      const unsigned round = round_;
      next_.wait(lock, [&] { return round_ != round; });
      return verdict_;
    }
    verdict_ = failed_                ? int(error_out_of_memory)
               : failed_check.load() ? int(error_check_failed)
               : waiting_ == 0       ? int(success)
               : waiting_ == blocks_ ? int(another)
                                     : int(error_left_waiting);
    waiting_ = 0;
    came_ = 0;
    round_++;
    next_.notify_all();
    return verdict_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable next_;
  const int64_t blocks_;
  int64_t waiting_ = 0;
  int came_ = 0, verdict_ = success;
  bool failed_ = false;
  unsigned round_ = 0;
};

// parallel_for for blocks that call sync_grid: body(bx, by, bz, arena). All blocks are begun before one goes on after its first meeting.
// Returns error_left_waiting where some blocks wait and others have ended.
template <class Body>
static inline int cooperative_for(int64_t gx, int64_t gy, int64_t gz, int threads, Body&& body, size_t arena_bytes = 0) {
  const int64_t total = gx * gy * gz;
  if (total <= 0) return success;
  failed_check.store(nullptr, std::memory_order_relaxed);
  Rounds rounds(total);
  std::atomic<int> result{success};
  auto worker = [&](int64_t me, int workers) {
    struct Block {
      Strand strand;
      std::unique_ptr<char, void (*)(void*)> memory{nullptr, std::free};
    };
    const int64_t count = (total - me + workers - 1) / workers;
    std::vector<Block> mine(size_t(count > 0 ? count : 0));
    bool failed = false;
    auto make = [&](int64_t i) {
      return [&, i] {
        const int64_t n = me + i * workers;
        body(int(n % gx), int(n / gx % gy), int(n / (gx * gy)), mine[size_t(i)].memory.get());
      };
    };
    std::vector<decltype(make(0))> bodies;
    bodies.reserve(mine.size());
    for (int64_t i = 0; i < count; i++) {
      Block& block = mine[size_t(i)];
      void* memory = nullptr;
      if (arena_bytes && posix_memalign(&memory, 4096, arena_bytes) != 0) memory = nullptr;
      block.memory.reset(static_cast<char*>(memory));
      failed = failed || !block.strand.usable() || (arena_bytes && !memory);
      bodies.push_back(make(i));
      if (!failed) block.strand.start(bodies.back());
    }
    for (;;) {
      int64_t waiting = 0;
      for (Block& block : mine) {
        if (failed || block.strand.ended()) continue;
        block.strand.go_on();
        waiting += !block.strand.ended();
      }
      const int verdict = rounds.meet(workers, waiting, failed);
      if (verdict != Rounds::another) return result.store(verdict);
    }
  };
  int64_t team = threads > 0 ? threads : default_threads();
  if (team > total) team = total;
  if (team == 1 || in_parallel_region()) {
    worker(0, 1);
    return result.load();
  }
#if defined(_OPENMP)
#pragma omp parallel num_threads(int(team))
  worker(omp_get_thread_num(), omp_get_num_threads());
#else
  std::atomic<int64_t> next{0};
  auto numbered = [&] { worker(next.fetch_add(1), int(team)); };
  ThreadPool::instance().run(numbered, int(team));
#endif
  return result.load();
}

// The numbered barriers of a block. `here` threads come at once: those of one part.
class NamedBarriers {
 public:
  void arrive(int id, int wanted, int here) {
    Barrier& barrier = barriers_[id & 15];
    barrier.arrived += here;
    events++;
    if (barrier.arrived < wanted) return;
    barrier.arrived -= wanted;
    barrier.released++;
  }
  void sync(int id, int wanted, int here) {
    if (!here) return;
    const Barrier& barrier = barriers_[id & 15];
    const unsigned before = barrier.released;
    arrive(id, wanted, here);
    while (barrier.released == before) Strand::current()->wait();
  }
  unsigned events = 0;
  int depth = 0;

 private:
  struct Barrier {
    int arrived = 0;
    unsigned released = 0;
  };
  Barrier barriers_[16];
};

// Parts of a block's threads, each going on while others wait. False where all wait and nobody is left to come (the launch has failed).
template <class... Parts>
static bool side_by_side(NamedBarriers& barriers, Parts&&... parts) {
  Strand strands[sizeof...(Parts)];
  for (Strand& strand : strands) {
    if (strand.usable()) continue;
    failed_check.store("no memory for the stacks of threads that wait for each other");
    return false;
  }
  size_t next = 0;
  (strands[next++].start(parts), ...);
  barriers.depth++;
  for (;;) {
    const unsigned before = barriers.events;
    bool all = true;
    for (Strand& strand : strands) {
      if (strand.ended()) continue;
      strand.go_on();
      barriers.events += strand.ended();
      all = all && strand.ended();
    }
    if (all || failed_check.load(std::memory_order_relaxed)) break;
    if (barriers.events != before) continue;
    if (barriers.depth > 1) {
      // Threads of a part around this one may come yet.
      Strand::current()->wait();
      continue;
    }
    failed_check.store(left_waiting);
    break;
  }
  barriers.depth--;
  return !failed_check.load(std::memory_order_relaxed);
}

}  // namespace tile
