// The state of a launch: threads, blocks, barriers, the schedule, the findings.
#pragma once
#include <tile_fiber.h>

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "emu.h"
#include "shadow.h"

namespace emu {

using tile_fiber::Fiber;
using tile_fiber::kStackBytes;

enum class Schedule { in_order = 0, latest = 1, random = 2 };

struct Tile {  // a register array under watch
    uintptr_t low, high;
    const char* name;
    std::vector<uint8_t> written;
};

struct Copy {  // one cp.async in flight
    uint8_t* destination;
    const uint8_t* source;
    uint32_t bytes, source_bytes, group;
};

enum class State : uint8_t { ready, barrier, collective, done };

struct Block;

struct Touch {  // bytes of an atomic
    uintptr_t low = 0, high = 0;
    bool writes = false;
};

struct Thread {
    Fiber fiber;
    Block* block = nullptr;
    uint32_t index = 0;
    Index3 position{};
    State state = State::ready;
    Knowledge knows;
    std::vector<Tile> tiles;  // the first `live` are in use
    size_t live = 0;
    std::vector<Copy> in_flight;
    uint32_t committed = 0;  // groups; copies issued now belong to group committed + 1
    uint32_t accesses = 0;   // since it was last resumed
    uint32_t pc = 0;         // of the last engine call
    const char* waits_for = "";
    // Fences: what a relaxed atomic publishes, and what a fence after a relaxed read acquires.
    Pieces fenced, pending;
    Scope fence_scope = Scope::block;
    uintptr_t updated = 0;   // by its last atomic
    uint32_t updates = 0;    // of another place than the one before
    bool at_atomic = false;  // exploring: its next step is an atomic, and its warp waits to be chosen
    Touch next;              // that atomic
};

struct Barrier {
    uint32_t id = 0, count = 0, arrived = 0, pc = 0;
    std::vector<Thread*> waiting;
    std::vector<uint32_t> came;  // by thread: where it arrived in this phase, 0 if it did not
    Meeting meeting;
    int total = 0;  // sum of predicates
    int last_total = 0;
};

struct Gather {  // a warp collective that some lanes have come to
    const char* name;
    uint32_t warp, mask, arrived, pc;
    void* payload[32];
    Thread* lanes[32];
};

struct Block {
    uint32_t linear = 0;
    Index3 position{};
    Region arena;
    std::vector<uint8_t> memory;  // the arena with a margin on both sides
    std::vector<std::unique_ptr<Thread>> threads;
    uint32_t finished = 0;
    Barrier barriers[16];
    std::vector<Gather> gathers;
};

struct Finding {
    std::string kind, region, text;
    size_t offset = 0, bytes = 0;
    Epoch first, second;
    bool has_first = false, has_second = false;
    bool same_line_is_fine = false;  // two calls that the compiler may have copied from one
    uint32_t block = 0, thread = 0;
    uint32_t threads = 0;  // of a block of the launch
    std::vector<std::pair<uint32_t, std::string>> waiting;  // pc, who
    uint64_t count = 1;
};

struct Flow {  // bytes of shared memory that went from one instruction to another
    Epoch write, read;
    size_t offset, bytes;
};

struct Step {  // what a chosen agent did: its atomics, and by whom
    uint64_t agent;
    std::vector<Touch> touched;
    std::vector<Epoch> by;
};

struct Choice {  // a state in which an agent was chosen
    std::vector<uint64_t> enabled;
    std::vector<std::vector<Touch>> next;  // of each of them
    std::vector<uint64_t> asleep, wanted, tried;
    uint64_t chosen = 0;
};

struct Engine {
    // set by the host before a launch
    Schedule schedule = Schedule::in_order;
    uint64_t seed = 1;
    std::vector<uint8_t> switched_off;
    std::vector<Region> regions;
    uint32_t delay = 0;  // code offset: a thread that comes to an access there waits until nobody else can go on
    uint64_t explore_bound = 0;  // runs over orders of agents; 0: one run by the schedule

    // of the launch that runs
    Launch what{};
    void (*body)(void*) = nullptr;
    void* arguments = nullptr;
    Thread* current = nullptr;
    uint64_t random = 1;
    std::deque<Thread*> ready, delayed;
    std::vector<std::unique_ptr<Block>> pool, resident;
    std::vector<uint32_t> order;  // of blocks
    size_t next_block = 0;
    VectorRef zero;
    uint32_t threads = 0;
    uint64_t progress = 0;
    bool stop = false;       // the launch ends now
    bool retrack = false;    // a region believed to be read only was written: start again
    bool in_atomic = false;  // between atomic_begin and atomic_end nothing switches
    bool quiet = false;      // a collective's body works on other lanes' stacks
    uint64_t spins = 0, spins_since = 0, patience = 0;
    bool exploring = false;
    std::vector<Choice> path;  // of this run; those of the one before are replayed up to its last
    std::vector<Step> trace;
    size_t depth = 0;
    bool repeats = false;  // the run would go on as another one did, and ends here
    uintptr_t image_low = 0, image_high = 0;
    std::unordered_map<uint64_t, Pieces> released;  // by address of an atomic
    uint64_t grid_arrived = 0;                      // threads of all blocks that wait for the rest of the grid
    std::vector<Thread*> grid_waiting;
    Pieces grid_knows;

    // results
    std::vector<Finding> findings;
    std::unordered_map<std::string, size_t> known_findings;
    std::unordered_map<uint64_t, Flow> flows;  // by both instructions; the first of each kind is kept
    uint64_t recent_flows[1024] = {};          // those that are known to be in it
    std::vector<std::string> unchecked;
    std::vector<uint64_t> site_counts;  // times each site was reached
    uint64_t accesses = 0, switches = 0, atomics = 0, launches = 0, explored = 0, cut = 0, agents = 0;
    bool exhausted = true;
    std::string json;
};

extern Engine engine;

inline uint64_t next_random() {  // xorshift64*
    uint64_t& x = engine.random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    return x * 0x2545F4914F6CDD1DULL;
}
inline bool chance(uint32_t one_in) { return engine.schedule == Schedule::random && (next_random() >> 33) % one_in == 0; }

uint32_t offset_of(const void* pc);
// The finding, new or the one with the same kind, text and places.
Finding& report(const char* kind, const std::string& text, Thread* who, uint32_t pc, uint32_t other_pc = 0);
[[noreturn]] void end_launch();  // leaves the fiber for good
void suspend_ready(bool spinning);
void suspend_delayed();
void suspend_blocked(State state, const char* what);
void wake(Thread* thread);
void access(const void* address, size_t bytes, bool is_write, bool atomic, uint32_t pc);
void land_some(Thread& who);
void land(Thread& who, uint32_t up_to_group);

#define EMU_PC (::emu::offset_of(__builtin_return_address(0)))

}  // namespace emu
