// Barriers, warp collectives, fences, atomics, asynchronous copies.
#pragma once
#include "schedule.h"

namespace emu {

bool enabled(Site site) noexcept {
    Engine& e = engine;
    if (e.site_counts.size() <= site.ordinal) e.site_counts.resize(site.ordinal + 1);
    ++e.site_counts[site.ordinal];
    return site.ordinal >= e.switched_off.size() || !e.switched_off[site.ordinal];
}

// ---- block barriers -------------------------------------------------------------------------------------------------------------
static int barrier(uint32_t id, uint32_t count, bool waits, int predicate, uint32_t pc, const char* name) {
    Engine& e = engine;
    Thread& me = *e.current;
    Block& block = *me.block;
    me.pc = pc;
    land_some(me);
    if (id > 15 || count == 0 || count > e.threads || (count % 32 && count != e.threads)) {
        report("barrier-count",
               std::string(name) + " on barrier " + std::to_string(id) + " for " + std::to_string(count) +
                   " threads: ids are 0 to 15, and the count is a multiple of 32 up to the block's " + std::to_string(e.threads) + " threads",
               &me, pc);
        end_launch();
    }
    Barrier& b = block.barriers[id];
    if (b.arrived == 0) {
        b.count = count;
        b.pc = pc;
        b.total = 0;
        b.meeting.clear();
        b.came.assign(e.threads, 0);
    } else if (b.count != count) {
        Finding& finding = report("barrier-count",
                                  "barrier " + std::to_string(id) + " is waited for with " + std::to_string(b.count) + " threads and, before it is complete, with " +
                                      std::to_string(count),
                                  &me, pc);
        finding.first.pc = b.pc;
        finding.has_first = true;
        end_launch();
    } else if (id == 0 && b.pc != pc && b.count == e.threads) {
        Finding& finding = report("divergent-barrier", "threads of one block meet at two different barrier calls", &me, pc, b.pc);
        finding.first.pc = b.pc;
        finding.has_first = finding.same_line_is_fine = true;
    }
    if (b.came[me.index]) {
        Finding& finding = report("double-arrive", "a thread arrives twice at barrier " + std::to_string(id) + " in one phase", &me, pc, b.came[me.index]);
        finding.first.pc = b.came[me.index];
        finding.first.block = block.linear;
        finding.first.agent = static_cast<uint16_t>(me.index);
        finding.has_first = true;
        end_launch();
    }
    b.came[me.index] = pc;
    b.meeting.add(me.knows);
    ++me.knows.clock;
    b.total += predicate != 0;
    ++b.arrived;
    if (b.arrived < b.count) {
        if (!waits) return 0;
        b.waiting.push_back(&me);
        suspend_blocked(State::barrier, name);
        return b.last_total;
    }
    b.meeting.close();
    ++e.progress;
    b.arrived = 0;
    b.last_total = b.total;
    for (Thread* thread : b.waiting) {
        b.meeting.give(thread->knows);
        wake(thread);
    }
    b.waiting.clear();
    if (waits) {
        b.meeting.give(me.knows);
        if (e.schedule != Schedule::in_order) suspend_ready(false);  // the last to come need not be the first to go
    }
    return b.last_total;
}

void sync_threads(Site site) {
    if (enabled(site)) barrier(0, engine.threads, true, 0, EMU_PC, "sync_threads");
}
int sync_threads_count(Site site, int predicate) {
    return enabled(site) ? barrier(0, engine.threads, true, predicate, EMU_PC, "sync_threads_count") : predicate != 0;
}
void bar_sync(Site site, uint32_t id, uint32_t count) {
    if (enabled(site)) barrier(id, count, true, 0, EMU_PC, "bar_sync");
}
void bar_arrive(Site site, uint32_t id, uint32_t count) {
    if (enabled(site)) barrier(id, count, false, 0, EMU_PC, "bar_arrive");
}

// All threads of all blocks: those that came know what each of them did. Blocks that have not begun are admitted as soon as nobody can go on.
void sync_grid(Site site) {
    if (!enabled(site)) return;
    Engine& e = engine;
    Thread& me = *e.current;
    me.pc = EMU_PC;
    land_some(me);
    Knowledge::merge(e.grid_knows, me.knows.snapshot());
    ++me.knows.clock;
    if (++e.grid_arrived < static_cast<uint64_t>(e.threads) * e.order.size()) {
        e.grid_waiting.push_back(&me);
        suspend_blocked(State::barrier, "sync_grid");
        return;
    }
    ++e.progress;
    e.grid_arrived = 0;
    const Pieces known = std::move(e.grid_knows);
    e.grid_knows.clear();
    const std::vector<Thread*> waiting = std::move(e.grid_waiting);
    e.grid_waiting.clear();
    for (Thread* thread : waiting) {
        thread->knows.learn(known);
        wake(thread);
    }
    me.knows.learn(known);
    if (e.schedule != Schedule::in_order) suspend_ready(false);
}

// ---- warp collectives -----------------------------------------------------------------------------------------------------------
static void gather(const char* name, uint32_t mask, void* payload, void (*body)(void* const*, uint32_t), bool orders, uint32_t pc) {
    Engine& e = engine;
    Thread& me = *e.current;
    Block& block = *me.block;
    me.pc = pc;
    uint32_t lane = me.index % 32, warp = me.index / 32, lanes = std::min(32u, e.threads - warp * 32);
    if (lanes < 32) mask &= (1u << lanes) - 1;  // lanes that the block does not have
    if (!(mask >> lane & 1)) {
        report("divergent-collective", std::string(name) + ": lane " + std::to_string(lane) + " is not in its own mask", &me, pc);
        end_launch();
    }
    Gather* found = nullptr;
    for (Gather& g : block.gathers)
        if (g.warp == warp && (g.mask & mask)) found = &g;
    if (found && (found->mask != mask || found->name != name)) {
        Finding& finding = report("divergent-collective",
                                  std::string("lanes of warp ") + std::to_string(warp) + " come to " + found->name + " and to " + name +
                                      (found->mask != mask ? " with masks that overlap" : ""),
                                  &me, pc, found->pc);
        finding.first.pc = found->pc;
        finding.has_first = true;
        end_launch();
    }
    if (!found) {
        for (uint32_t i = 0; i < 32; ++i)
            if ((mask >> i & 1) && block.threads[warp * 32 + i]->state == State::done) {
                report("divergent-collective", std::string(name) + " names lane " + std::to_string(i) + ", which has left the kernel", &me, pc);
                end_launch();
            }
        block.gathers.push_back({name, warp, mask, 0, pc, {}, {}});
        found = &block.gathers.back();
    } else if (found->pc != pc) {
        Finding& finding = report("divergent-collective", std::string("lanes of one warp meet at two different calls of ") + name, &me, pc, found->pc);
        finding.first.pc = found->pc;
        finding.has_first = finding.same_line_is_fine = true;
    }
    found->payload[lane] = payload;
    found->lanes[lane] = &me;
    found->arrived |= 1u << lane;
    if (found->arrived != found->mask) {
        suspend_blocked(State::collective, name);
        return;
    }
    ++e.progress;
    Gather done = *found;
    block.gathers.erase(block.gathers.begin() + (found - block.gathers.data()));
    if (body) {
        e.quiet = true;
        body(done.payload, done.mask);
        e.quiet = false;
    }
    Meeting meeting;
    for (uint32_t i = 0; orders && i < 32; ++i)
        if (done.mask >> i & 1) {
            meeting.add(done.lanes[i]->knows);
            ++done.lanes[i]->knows.clock;
        }
    if (orders) meeting.close();
    for (uint32_t i = 0; i < 32; ++i) {
        if (!(done.mask >> i & 1)) continue;
        if (orders) meeting.give(done.lanes[i]->knows);
        if (done.lanes[i] != &me) wake(done.lanes[i]);
    }
}

void collective(const char* name, uint32_t mask, void* payload, void (*body)(void* const*, uint32_t)) {
    gather(name, mask, payload, body, false, EMU_PC);
}
void sync_warp(Site site, uint32_t mask) {
    if (!enabled(site)) return;
    land_some(*engine.current);
    gather("sync_warp", mask, nullptr, nullptr, true, EMU_PC);
}

namespace {
struct Exchange {
    uint64_t bits, out;
    Shuffle kind;
    uint32_t operand, width;
};
const char* const kShuffle = "shuffle";
const char* const kBallot = "ballot";
const char* const kMatch = "match";

// PTX ISA, shfl.sync: segments of `width` lanes; a source outside the segment, or outside the mask, gives the lane's own value.
void exchange(void* const* lanes, uint32_t mask) {
    for (uint32_t lane = 0; lane < 32; ++lane) {
        if (!(mask >> lane & 1)) continue;
        Exchange& mine = *static_cast<Exchange*>(lanes[lane]);
        int width = static_cast<int>(mine.width), first = static_cast<int>(lane) / width * width, last = first + width - 1;
        int self = static_cast<int>(lane), operand = static_cast<int>(mine.operand), source = self;
        if (mine.kind == Shuffle::index) source = first + (operand & (width - 1));
        if (mine.kind == Shuffle::up) source = self - operand;
        if (mine.kind == Shuffle::down) source = self + operand;
        if (mine.kind == Shuffle::exclusive_or) source = self ^ operand;
        bool inside = mine.kind == Shuffle::up ? source >= first : source <= last && source >= 0;
        if (!inside || !(mask >> source & 1)) source = self;
        mine.out = static_cast<Exchange*>(lanes[source])->bits;
    }
}
void vote(void* const* lanes, uint32_t mask) {
    uint32_t votes = 0;
    for (uint32_t lane = 0; lane < 32; ++lane)
        if ((mask >> lane & 1) && static_cast<Exchange*>(lanes[lane])->bits) votes |= 1u << lane;
    for (uint32_t lane = 0; lane < 32; ++lane)
        if (mask >> lane & 1) static_cast<Exchange*>(lanes[lane])->out = votes;
}
void match(void* const* lanes, uint32_t mask) {
    for (uint32_t lane = 0; lane < 32; ++lane) {
        if (!(mask >> lane & 1)) continue;
        uint32_t same = 0;
        for (uint32_t other = 0; other < 32; ++other)
            if ((mask >> other & 1) && static_cast<Exchange*>(lanes[other])->bits == static_cast<Exchange*>(lanes[lane])->bits) same |= 1u << other;
        static_cast<Exchange*>(lanes[lane])->out = same;
    }
}
uint64_t exchanged(const char* name, uint32_t mask, Exchange what, void (*body)(void* const*, uint32_t), uint32_t pc) {
    gather(name, mask, &what, body, false, pc);
    return what.out;
}
uint32_t existing() {
    uint32_t lanes = std::min(32u, engine.threads - engine.current->index / 32 * 32);
    return lanes < 32 ? (1u << lanes) - 1 : ~0u;
}
}  // namespace

uint64_t shuffle_bits(uint32_t mask, uint64_t bits, Shuffle kind, uint32_t operand, uint32_t width) {
    if (width == 0 || width > 32 || (width & (width - 1))) {
        report("launch", "shuffle with a width of " + std::to_string(width) + "; it is a power of two up to 32", engine.current, EMU_PC);
        end_launch();
    }
    return exchanged(kShuffle, mask, {bits, 0, kind, operand, width}, exchange, EMU_PC);
}
uint32_t ballot(uint32_t mask, bool predicate) {
    return static_cast<uint32_t>(exchanged(kBallot, mask, {predicate, 0, Shuffle::index, 0, 32}, vote, EMU_PC));
}
bool any(uint32_t mask, bool predicate) { return exchanged(kBallot, mask, {predicate, 0, Shuffle::index, 0, 32}, vote, EMU_PC) != 0; }
bool all(uint32_t mask, bool predicate) {
    return exchanged(kBallot, mask, {predicate, 0, Shuffle::index, 0, 32}, vote, EMU_PC) == (mask & existing());
}
uint32_t match_any(uint32_t mask, uint64_t bits) {
    return static_cast<uint32_t>(exchanged(kMatch, mask, {bits, 0, Shuffle::index, 0, 32}, match, EMU_PC));
}
uint32_t match_all(uint32_t mask, uint64_t bits, int* predicate) {
    uint32_t same = static_cast<uint32_t>(exchanged(kMatch, mask, {bits, 0, Shuffle::index, 0, 32}, match, EMU_PC));
    bool every = same == (mask & existing());
    *predicate = every;
    return every ? same : 0;
}
uint32_t active_mask() {
    uint32_t out = 0, warp = engine.current->index / 32;
    for (uint32_t lane = 0; lane < 32 && warp * 32 + lane < engine.threads; ++lane)
        if (engine.current->block->threads[warp * 32 + lane]->state != State::done) out |= 1u << lane;
    return out;
}

// ---- asynchronous copies --------------------------------------------------------------------------------------------------------
static void land_one(const Copy& copy) {
    if (copy.source_bytes) memcpy(copy.destination, copy.source, copy.source_bytes);
    memset(copy.destination + copy.source_bytes, 0, copy.bytes - copy.source_bytes);
}
void land(Thread& who, uint32_t up_to_group) {
    size_t kept = 0;
    for (const Copy& copy : who.in_flight) {
        if (copy.group <= up_to_group)
            land_one(copy);
        else
            who.in_flight[kept++] = copy;
    }
    who.in_flight.resize(kept);
}
void land_some(Thread& who) {
    if (engine.schedule != Schedule::random) return;
    size_t kept = 0;
    for (const Copy& copy : who.in_flight) {
        if (chance(4))
            land_one(copy);
        else
            who.in_flight[kept++] = copy;
    }
    who.in_flight.resize(kept);
}

static void touch_async(const void* pointer, size_t bytes, bool is_write, uint32_t group, uint32_t pc) {
    Thread& who = *engine.current;
    uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    Region* region = region_of(address, false);
    if (!region || address - reinterpret_cast<uintptr_t>(region->base) + bytes > region->bytes || region->shared != is_write)
        report_outside(address, bytes, is_write, pc);
    ++engine.accesses;
    if (!region->tracked) return;
    Epoch now{who.block->linear, static_cast<uint16_t>(engine.threads + who.index), 0, group, pc};
    touch(*region, address - reinterpret_cast<uintptr_t>(region->base), bytes, is_write, now);
}

void cp_async(void* shared, const void* global, uint32_t bytes, uint32_t source_bytes) {
    uint32_t pc = EMU_PC;
    Thread& me = *engine.current;
    me.pc = pc;
    if (pc == engine.delay && pc) suspend_delayed();
    if ((bytes != 4 && bytes != 8 && bytes != 16) || source_bytes > bytes) {
        report("launch", "cp_async of " + std::to_string(bytes) + " bytes from " + std::to_string(source_bytes) + "; it copies 4, 8 or 16", &me, pc);
        end_launch();
    }
    aligned(shared, bytes, pc);
    if (source_bytes) {
        aligned(global, bytes, pc);
        touch_async(global, source_bytes, false, me.committed + 1, pc);
    }
    touch_async(shared, bytes, true, me.committed + 1, pc);
    Copy copy{static_cast<uint8_t*>(shared), static_cast<const uint8_t*>(global), bytes, source_bytes, me.committed + 1};
    if (engine.schedule == Schedule::in_order || chance(2))
        land_one(copy);
    else
        me.in_flight.push_back(copy);
}
void cp_async_commit() { ++engine.current->committed; }
static void wait_groups(Thread& me, uint32_t pending) {
    uint32_t complete = me.committed > pending ? me.committed - pending : 0;
    land(me, complete);
    me.knows.landed = std::max(me.knows.landed, complete);
    land_some(me);
}
void cp_async_wait(Site site, uint32_t pending) {
    engine.current->pc = EMU_PC;
    if (enabled(site)) wait_groups(*engine.current, pending);
}
void cp_async_wait_all(Site site) {
    engine.current->pc = EMU_PC;
    if (!enabled(site)) return;
    ++engine.current->committed;
    wait_groups(*engine.current, 0);
}

// ---- fences and atomics ---------------------------------------------------------------------------------------------------------
// A relaxed write after a fence publishes what the fence saw; a fence after a relaxed read takes what was published: C++ fences, which the
// PTX memory model has too. Block-wide order is kept apart, under a key that other blocks don't look at.
static uint64_t key_of(uintptr_t address, Scope scope) {
    return scope == Scope::block ? address ^ (static_cast<uint64_t>(engine.current->block->linear + 1) << 48) : address;
}

void fence(Scope scope) {
    Thread& me = *engine.current;
    me.pc = EMU_PC;
    me.knows.learn(me.pending);
    me.pending.clear();
    me.fenced = me.knows.snapshot();
    me.fence_scope = scope;
    ++me.knows.clock;
}

void atomic_begin(const void* address, uint32_t bytes, bool reads, bool writes, Order order, Scope scope) {
    Engine& e = engine;
    Thread& me = *e.current;
    uint32_t pc = EMU_PC;
    ++e.atomics;
    land_some(me);
    if (e.exploring) {
        me.at_atomic = true;
        me.next = {reinterpret_cast<uintptr_t>(address), reinterpret_cast<uintptr_t>(address) + bytes, writes};
        suspend_ready(reads);
        note_atomic(me);
    } else if (reads && (me.pc == pc || chance(2))) {
        // The same line again: it may be polling. Who updates one place after the other is at work, even where it adds 0.
        uintptr_t place = reinterpret_cast<uintptr_t>(address);
        bool works = writes && place != me.updated && ++me.updates < 20000;
        me.updated = place;
        suspend_ready(!works);
    }
    me.pc = pc;
    aligned(address, bytes, pc);
    access(address, bytes, writes, true, pc);
    e.in_atomic = true;
    uintptr_t place = reinterpret_cast<uintptr_t>(address);
    if (reads)
        for (Scope wide : {Scope::block, Scope::device}) {
            auto found = e.released.find(key_of(place, wide));
            if (found == e.released.end()) continue;
            if (order == Order::acquire || order == Order::acquire_release)
                me.knows.learn(found->second);
            else
                Knowledge::merge(me.pending, found->second);
        }
    if (!writes) return;
    bool releases = order == Order::release || order == Order::acquire_release;
    if (!reads)
        for (Scope wide : {Scope::block, Scope::device}) e.released.erase(key_of(place, wide));
    if (releases) {
        Knowledge::merge(e.released[key_of(place, scope)], me.knows.snapshot());
        ++me.knows.clock;
    } else if (!me.fenced.empty()) {
        Knowledge::merge(e.released[key_of(place, std::min(scope, me.fence_scope))], me.fenced);
    }
}
void read_whole(void* value, const void* address, uint32_t bytes) {
    uint32_t pc = EMU_PC;
    access(address, bytes, false, true, pc);
    memcpy(value, address, bytes);
}
void atomic_fetch(void* value, const void* address, uint32_t bytes) noexcept { memcpy(value, address, bytes); }
void atomic_end(void* address, const void* value, uint32_t bytes) noexcept {
    engine.in_atomic = false;
    if (!address) return;
    // access() counted a write; what leaves memory as it was is no progress
    if (!value || memcmp(address, value, bytes) == 0) --engine.progress;
    if (value) memcpy(address, value, bytes);
}

}  // namespace emu
