// Runs a grid: which block, which thread next; what is said when nobody can go on.
#pragma once
#include "access.h"
#include "explore.h"
#include "watchdog.h"

namespace emu {

constexpr size_t kExplored = 8;         // blocks among which all orders are tried
constexpr size_t kThreads = 16 * 1024;  // that may be under way at once, in blocks that wait for one another: stacks take address space
constexpr size_t kMargin = 64 * 1024;
constexpr uint64_t kTurn = 50000;   // switches after which a further block begins
constexpr uint32_t kTurns = 4000;   // of them without the end of any block: nobody will end

void suspend_ready(bool spinning) {
    Engine& e = engine;
    Thread* me = e.current;
    if (spinning) ++e.spins;
    if (spinning && e.schedule == Schedule::latest)
        e.ready.push_front(me);
    else
        e.ready.push_back(me);
    me->fiber.suspend();
}

void suspend_delayed() {
    engine.delayed.push_back(engine.current);
    engine.current->fiber.suspend();
}

void suspend_blocked(State state, const char* what) {
    Thread* me = engine.current;
    me->state = state;
    me->waits_for = what;
    me->fiber.suspend();
}

void wake(Thread* thread) {
    thread->state = State::ready;
    engine.ready.push_back(thread);
}

void end_launch() {
    engine.stop = true;
    engine.current->fiber.suspend();
    __builtin_unreachable();
}

inline void thread_main(void* argument) {
    Thread* me = static_cast<Thread*>(argument);
    engine.body(engine.arguments);
    land(*me, UINT32_MAX);
    me->state = State::done;
    ++me->block->finished;
    ++engine.progress;
    me->fiber.suspend();
    __builtin_unreachable();
}

inline void start_block(uint32_t linear) {
    Engine& e = engine;
    std::unique_ptr<Block> block;
    if (!e.pool.empty()) {
        block = std::move(e.pool.back());
        e.pool.pop_back();
    } else {
        block.reset(new Block);
    }
    block->linear = linear;
    Index3 g = e.what.grid, b = e.what.block;
    block->position = {linear % g.x, linear / g.x % g.y, linear / (g.x * g.y)};
    block->finished = 0;
    block->gathers.clear();
    for (uint32_t i = 0; i < 16; ++i) {
        block->barriers[i] = Barrier{};
        block->barriers[i].id = i;
    }
    size_t bytes = e.what.shared_bytes;
    block->memory.assign(bytes ? bytes + 2 * kMargin + 1024 : 0, 0xFF);
    uintptr_t base = bytes ? (reinterpret_cast<uintptr_t>(block->memory.data()) + kMargin + 1023) / 1024 * 1024 : 0;
    block->arena.base = reinterpret_cast<uint8_t*>(base);
    block->arena.bytes = bytes;
    block->arena.shared = block->arena.tracked = true;
    block->arena.block = linear;
    block->arena.reset();
    while (block->threads.size() < e.threads) block->threads.emplace_back(new Thread);
    for (uint32_t i = 0; i < e.threads; ++i) {
        Thread& thread = *block->threads[i];
        if (!thread.fiber.usable()) {
            report("launch", "no memory for the stacks of " + std::to_string(e.threads) + " threads", nullptr, 0);
            e.stop = true;
            return;
        }
        thread.block = block.get();
        thread.index = i;
        thread.position = {i % b.x, i / b.x % b.y, i / (b.x * b.y)};
        thread.state = State::ready;
        thread.knows.start(linear, i, e.threads, e.zero);
        thread.live = 0;
        thread.in_flight.clear();
        thread.committed = thread.accesses = thread.pc = 0;
        thread.fenced.clear();
        thread.pending.clear();
        thread.at_atomic = false;
        thread.fiber.reset(thread_main, &thread);
        e.ready.push_back(&thread);
    }
    e.resident.push_back(std::move(block));
}

inline bool admit() {
    Engine& e = engine;
    if (e.next_block >= e.order.size() || (e.resident.size() + 1) * e.threads > std::max<size_t>(kThreads, 8 * e.threads)) return false;
    start_block(e.order[e.next_block++]);
    return true;
}

// Blocks that are through make room; arrivals that nobody waited for are a mistake in the counts.
inline void retire() {
    Engine& e = engine;
    for (size_t i = 0; i < e.resident.size();) {
        Block& block = *e.resident[i];
        if (block.finished < e.threads) {
            ++i;
            continue;
        }
        for (Barrier& barrier : block.barriers)
            if (barrier.arrived)
                report("barrier-count",
                       "barrier " + std::to_string(barrier.id) + " is left with " + std::to_string(barrier.arrived) + " arrivals of " +
                           std::to_string(barrier.count) + " when the block ends",
                       block.threads[0].get(), barrier.pc);
        e.pool.push_back(std::move(e.resident[i]));
        e.resident.erase(e.resident.begin() + static_cast<long>(i));
    }
}

inline std::string range_text(const std::vector<uint32_t>& numbers) {
    std::string out;
    for (size_t i = 0; i < numbers.size();) {
        size_t j = i;
        while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1) ++j;
        out += (out.empty() ? "" : ", ") + std::to_string(numbers[i]) + (j > i ? "-" + std::to_string(numbers[j]) : "");
        i = j + 1;
    }
    return out;
}

// Groups the threads of a block by what they do now.
inline void describe_waiting(Finding& finding, Block& block) {
    std::vector<std::pair<std::pair<std::string, uint32_t>, std::vector<uint32_t>>> groups;
    for (auto& thread : block.threads) {
        if (thread->index >= engine.threads) break;
        std::string what = thread->state == State::done ? "have left the kernel"
                           : thread->state == State::ready ? "go round and round"
                                                           : std::string("wait at ") + thread->waits_for;
        std::pair<std::string, uint32_t> key{what, thread->state == State::done ? 0 : thread->pc};
        auto found = std::find_if(groups.begin(), groups.end(), [&](auto& g) { return g.first == key; });
        if (found == groups.end()) groups.push_back({key, {}}), found = groups.end() - 1;
        found->second.push_back(thread->index);
    }
    for (auto& group : groups)
        finding.waiting.emplace_back(group.first.second, "threads " + range_text(group.second) + " " + group.first.first);
}

inline void report_stuck(bool spinning) {
    Engine& e = engine;
    for (auto& block : e.resident) {
        if (block->finished == e.threads) continue;
        Thread* first = nullptr;
        for (auto& thread : block->threads)
            if (thread->state != State::done && (!first || thread->state == State::collective)) first = thread.get();
        const char* kind = "deadlock";
        std::string text = "no thread of the block can go on";
        if (spinning) {
            kind = "livelock";
            text = "threads poll and nothing changes any more";
        } else if (!block->gathers.empty()) {
            Gather& gather = block->gathers[0];
            kind = "divergent-collective";
            std::vector<uint32_t> missing;
            for (uint32_t lane = 0; lane < 32; ++lane)
                if ((gather.mask & ~gather.arrived) >> lane & 1) missing.push_back(lane);
            text = std::string(gather.name) + " of warp " + std::to_string(gather.warp) + " waits for lanes " + range_text(missing) +
                   ", which don't come";
        } else {
            for (Barrier& barrier : block->barriers)
                if (barrier.arrived) {
                    text = "barrier " + std::to_string(barrier.id) + " waits for " + std::to_string(barrier.count) + " threads; " +
                           std::to_string(barrier.arrived) + " came, and no more can";
                    first = barrier.waiting.empty() ? first : barrier.waiting[0];
                }
        }
        Finding& finding = report(kind, text, first, first ? first->pc : 0);
        if (finding.waiting.empty()) describe_waiting(finding, *block);
        return;  // one block tells the story
    }
}

inline Thread* pick() {
    Engine& e = engine;
    if (e.exploring) {
        // Everything but atomics runs first; then it is a choice whose atomics come next.
        for (size_t i = 0; i < e.ready.size(); ++i)
            if (!e.ready[i]->at_atomic) {
                Thread* thread = e.ready[i];
                e.ready.erase(e.ready.begin() + static_cast<long>(i));
                return thread;
            }
        if (!choose_agent()) {
            e.repeats = true;
            return nullptr;
        }
        return pick();
    }
    if (e.schedule == Schedule::in_order) {
        Thread* thread = e.ready.front();
        e.ready.pop_front();
        return thread;
    }
    if (e.schedule == Schedule::random) std::swap(e.ready[next_random() % e.ready.size()], e.ready.back());
    Thread* thread = e.ready.back();
    e.ready.pop_back();
    return thread;
}

inline void run_grid() {
    Engine& e = engine;
    const size_t window = e.exploring ? kExplored : e.schedule == Schedule::random ? 2 : 1;
    uint64_t since = e.switches;
    uint32_t turns = 0;
    while (!e.stop) {
        const size_t resident = e.resident.size();
        retire();
        if (e.resident.size() != resident) since = e.switches, turns = 0;
        if (e.switches - since > kTurn) {
            // A block that goes on for long may be waiting for one that has not begun, in a loop that also writes and so looks busy.
            since = e.switches;
            if (!admit() && ++turns > kTurns) {
                report_stuck(true);
                return;
            }
        }
        while (e.resident.size() < window && admit()) {
        }
        if (e.resident.empty()) return;
        if (e.ready.empty() && !e.delayed.empty()) {
            e.ready.push_back(e.delayed.front());
            e.delayed.pop_front();
        }
        if (e.ready.empty()) {
            if (admit()) continue;
            report_stuck(false);
            return;
        }
        Thread* thread = pick();
        if (!thread) return;
        ++e.switches;
        thread->accesses = 0;
        e.current = thread;
        thread->fiber.resume();
        e.current = nullptr;
        if (e.progress != e.spins_since) {
            e.spins_since = e.progress;
            e.spins = 0;
        } else if (e.spins > 64 + 8 * e.ready.size()) {
            e.spins = 0;
            if (admit()) continue;
            if (e.schedule == Schedule::random && ++e.patience < 64) continue;
            report_stuck(true);
            return;
        }
    }
}

inline void prepare() {
    Engine& e = engine;
    e.ready.clear();
    e.delayed.clear();
    for (auto& block : e.resident) e.pool.push_back(std::move(block));
    e.resident.clear();
    e.released.clear();
    e.grid_arrived = 0;
    e.grid_waiting.clear();
    e.grid_knows.clear();
    e.random = e.seed * 0x9E3779B97F4A7C15ULL | 1;
    e.next_block = e.depth = 0;
    e.trace.clear();
    e.repeats = e.stop = e.retrack = e.in_atomic = e.quiet = false;
    e.spins = e.patience = 0;
    uint32_t blocks = e.what.grid.x * e.what.grid.y * e.what.grid.z;
    e.order.resize(blocks);
    for (uint32_t i = 0; i < blocks; ++i) e.order[i] = e.schedule == Schedule::latest ? blocks - 1 - i : i;
    if (e.schedule == Schedule::random)
        for (uint32_t i = blocks; i > 1; --i) std::swap(e.order[i - 1], e.order[next_random() % i]);
    for (Region& region : e.regions) {
        if (region.initialised)
            memcpy(region.base, region.origin, region.bytes);
        else
            memset(region.base, 0xFF, region.bytes);
        region.reset();
    }
}

// Whether there is a finding that its lines can't explain away.
inline bool found_something() {
    for (const Finding& finding : engine.findings)
        if (!finding.same_line_is_fine) return true;
    return false;
}

int launch(const Launch& what, void (*body)(void*), void* arguments) {
    Engine& e = engine;
    e.what = what;
    e.body = body;
    e.arguments = arguments;
    e.threads = what.block.x * what.block.y * what.block.z;
    if (e.threads == 0 || what.grid.x * what.grid.y * what.grid.z == 0) return 0;
    if (e.threads > 1024) {
        report("launch", "a block of " + std::to_string(e.threads) + " threads; at most 1024 fit", nullptr, 0);
        return 1;
    }
    e.zero = std::make_shared<Vector>(2 * e.threads, 0);
    ++e.launches;
    e.path.clear();
    e.agents += (e.threads + 31) / 32 * what.grid.x * what.grid.y * what.grid.z;
    e.exploring = e.explore_bound > 0;
    Watchdog watchdog;
    for (uint64_t run = 1;; ++run) {
        auto findings = e.findings;
        auto known = e.known_findings;
        prepare();
        run_grid();
        e.current = nullptr;
        if (e.retrack) {  // what was missed before the first write is not known: once more, watching that region
            e.findings.swap(findings);
            e.known_findings.swap(known);
            --run;
            continue;
        }
        ++(e.repeats ? e.cut : e.explored);
        // Of more blocks than may be there at once, some orders are never tried.
        if (e.exploring && e.depth && e.order.size() > kExplored) e.exhausted = false;
        if (!e.exploring || found_something() || !next_order()) break;
        if (run >= e.explore_bound) {
            e.exhausted = false;
            break;
        }
    }
    // A process may hold many libraries, each with an engine, and the system allows so many stacks.
    e.ready.clear();
    e.delayed.clear();
    e.pool.clear();
    e.resident.clear();
    return e.stop || found_something();
}

}  // namespace emu
