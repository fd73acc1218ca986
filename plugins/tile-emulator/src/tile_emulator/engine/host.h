// What the host side calls, and the findings as JSON.
#pragma once
#include <dlfcn.h>
#include <link.h>

#include "matrix.h"

namespace emu {

uint32_t offset_of(const void* pc) {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(pc) - engine.image_low);
}

constexpr size_t kFindings = 64;  // distinct ones that are kept

Finding& report(const char* kind, const std::string& text, Thread* who, uint32_t pc, uint32_t other_pc) {
    Engine& e = engine;
    std::string key = std::string(kind) + "\n" + std::to_string(pc) + "\n" + std::to_string(other_pc);
    auto found = e.known_findings.find(key);
    if (found != e.known_findings.end()) {
        ++e.findings[found->second].count;
        return e.findings[found->second];
    }
    static Finding overflow;
    if (e.findings.size() >= kFindings) return overflow;
    e.known_findings[key] = e.findings.size();
    e.findings.emplace_back();
    Finding& finding = e.findings.back();
    finding.kind = kind;
    finding.text = text;
    finding.threads = e.threads;
    finding.second.pc = pc;
    finding.has_second = pc != 0;
    if (who) {
        finding.block = who->block->linear;
        finding.thread = who->index;
        finding.second.block = finding.block;
        finding.second.agent = static_cast<uint16_t>(finding.thread);
    }
    return finding;
}

void unchecked(const char* what) {
    if (std::find(engine.unchecked.begin(), engine.unchecked.end(), what) == engine.unchecked.end()) engine.unchecked.push_back(what);
    end_launch();
}
void trap(const char* what) {
    report("trap", what, engine.current, engine.current->pc);
    end_launch();
}

Index3 thread_index() noexcept { return engine.current->position; }
Index3 block_index() noexcept { return engine.current->block->position; }
Index3 block_extent() noexcept { return engine.what.block; }
Index3 grid_extent() noexcept { return engine.what.grid; }
uint32_t lane() noexcept { return engine.current->index % 32; }
uint32_t warp() noexcept { return engine.current->index / 32; }

unsigned char* shared_arena(size_t bytes) {
    Block& block = *engine.current->block;
    if (bytes > block.arena.bytes) {
        report("launch", "the kernel uses " + bytes_text(bytes) + " of shared memory and is launched with " + std::to_string(block.arena.bytes),
               engine.current, EMU_PC);
        end_launch();
    }
    return block.arena.base;
}
void read(const void* address, size_t bytes, size_t alignment) {
    if (alignment > 1) aligned(address, alignment, EMU_PC);
    access(address, bytes, false, false, EMU_PC);
}
void write(void* address, size_t bytes, size_t alignment) {
    if (alignment > 1) aligned(address, alignment, EMU_PC);
    access(address, bytes, true, false, EMU_PC);
}
void check_alignment(const void* address, size_t bytes) { aligned(address, bytes, EMU_PC); }

LocalTile::LocalTile(void* data, size_t bytes, const char* name) noexcept {
    Thread* who = engine.current;
    if (!who) return;
    if (who->live == who->tiles.size()) who->tiles.emplace_back();
    Tile& tile = who->tiles[who->live++];
    tile.low = reinterpret_cast<uintptr_t>(data);
    tile.high = tile.low + bytes;
    tile.name = name;
    tile.written.assign(bytes, 0);
    memset(data, 0xFF, bytes);
}
LocalTile::~LocalTile() {
    if (engine.current) --engine.current->live;  // arrays die in the reverse order of their births
}

// ---- JSON -----------------------------------------------------------------------------------------------------------------------
static std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + "\"";
}
static std::string epoch_json(const Epoch& e, uint32_t threads) {
    bool async = threads && e.agent >= threads;
    uint32_t thread = threads ? e.agent % threads : 0;
    return "{\"pc\":" + std::to_string(e.pc) + ",\"block\":" + std::to_string(e.block) + ",\"thread\":" + std::to_string(thread) +
           ",\"async\":" + (async ? "true" : "false") + ",\"write\":" + (e.flags & kWrite ? "true" : "false") +
           ",\"atomic\":" + (e.flags & kAtomic ? "true" : "false") + "}";
}
static void make_json() {
    Engine& e = engine;
    std::string& out = e.json;
    out = "{\"findings\":[";
    for (size_t i = 0; i < e.findings.size(); ++i) {
        const Finding& f = e.findings[i];
        out += std::string(i ? "," : "") + "{\"kind\":" + quoted(f.kind) + ",\"region\":" + quoted(f.region) + ",\"text\":" + quoted(f.text) +
               ",\"offset\":" + std::to_string(static_cast<long long>(f.offset)) + ",\"bytes\":" + std::to_string(f.bytes) +
               ",\"count\":" + std::to_string(f.count) + ",\"block\":" + std::to_string(f.block) + ",\"thread\":" + std::to_string(f.thread) +
               ",\"same_line_is_fine\":" + (f.same_line_is_fine ? "true" : "false");
        if (f.has_first) out += ",\"first\":" + epoch_json(f.first, f.threads);
        if (f.has_second) out += ",\"second\":" + epoch_json(f.second, f.threads);
        out += ",\"waiting\":[";
        for (size_t j = 0; j < f.waiting.size(); ++j)
            out += std::string(j ? "," : "") + "{\"pc\":" + std::to_string(f.waiting[j].first) + ",\"text\":" + quoted(f.waiting[j].second) + "}";
        out += "]}";
    }
    out += "],\"flows\":[";
    bool later = false;
    for (const auto& entry : e.flows) {
        const Flow& flow = entry.second;
        out += std::string(later ? "," : "") + "{\"offset\":" + std::to_string(flow.offset) + ",\"bytes\":" + std::to_string(flow.bytes) +
               ",\"first\":" + epoch_json(flow.write, e.threads) + ",\"second\":" + epoch_json(flow.read, e.threads) + "}";
        later = true;
    }
    out += "],\"unchecked\":[";
    for (size_t i = 0; i < e.unchecked.size(); ++i) out += (i ? "," : "") + quoted(e.unchecked[i]);
    out += "],\"sites\":[";
    for (size_t i = 0; i < e.site_counts.size(); ++i) out += (i ? "," : "") + std::to_string(e.site_counts[i]);
    out += "],\"accesses\":" + std::to_string(e.accesses) + ",\"switches\":" + std::to_string(e.switches) +
           ",\"atomics\":" + std::to_string(e.atomics) + ",\"launches\":" + std::to_string(e.launches) +
           ",\"runs\":" + std::to_string(e.explored) + ",\"cut\":" + std::to_string(e.cut) + ",\"agents\":" + std::to_string(e.agents) + ",\"exhausted\":" + (e.exhausted ? "true" : "false") + "}";
}

static int find_image(struct dl_phdr_info* info, size_t, void* base) {
    if (info->dlpi_addr != *static_cast<uintptr_t*>(base)) return 0;
    for (int i = 0; i < info->dlpi_phnum; ++i)
        if (info->dlpi_phdr[i].p_type == PT_LOAD)
            engine.image_high = std::max<uintptr_t>(engine.image_high, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz);
    return 1;
}

}  // namespace emu

#define EMU_EXPORT extern "C" __attribute__((visibility("default")))

// Schedule 0 in order, 1 latest, 2 random. `off` lists ordinals of synchronisation sites that do nothing. explore_bound > 0: runs all orders
// of agents that can differ, at most that many. delay: offset of an access, or 0. Forgets the findings of earlier calls.
EMU_EXPORT void tile_emu_configure(int schedule, uint64_t seed, const uint32_t* off, uint64_t off_count, uint64_t explore_bound,
                                   uint32_t delay) {
    emu::Engine& e = emu::engine;
    Dl_info info;
    if (!e.image_low && dladdr(reinterpret_cast<void*>(tile_emu_configure), &info)) {
        e.image_low = reinterpret_cast<uintptr_t>(info.dli_fbase);
        dl_iterate_phdr(emu::find_image, &e.image_low);
    }
    e.schedule = static_cast<emu::Schedule>(schedule);
    e.seed = seed + 1;
    e.switched_off.clear();
    for (uint64_t i = 0; i < off_count; ++i) {
        if (e.switched_off.size() <= off[i]) e.switched_off.resize(off[i] + 1);
        e.switched_off[off[i]] = 1;
    }
    e.explore_bound = explore_bound;
    e.delay = delay;
    e.findings.clear();
    e.known_findings.clear();
    e.unchecked.clear();
    e.flows.clear();
    memset(e.recent_flows, 0, sizeof(e.recent_flows));
    e.site_counts.clear();
    e.accesses = e.switches = e.atomics = e.launches = e.explored = e.cut = e.agents = 0;
    e.exhausted = true;
}

// A buffer of the next launch: kernels work on a copy with a margin on both sides. fresh: its bytes count as never written. Buffers that
// overlap become one.
EMU_EXPORT void tile_emu_add(const char* name, void* data, uint64_t bytes, int fresh) {
    emu::Engine& e = emu::engine;
    uint8_t *low = static_cast<uint8_t*>(data), *high = low + bytes;
    std::string label = name;
    bool initialised = !fresh;
    for (size_t i = 0; i < e.regions.size();) {
        emu::Region& old = e.regions[i];
        if (high <= old.origin || low >= old.origin + old.bytes) {
            ++i;
            continue;
        }
        low = std::min(low, old.origin);
        high = std::max(high, old.origin + old.bytes);
        if (label != old.name) label = old.name + "/" + label;
        initialised = initialised || old.initialised;
        e.regions.erase(e.regions.begin() + static_cast<long>(i));
    }
    emu::Region region;
    region.name = label;
    region.origin = low;
    region.bytes = static_cast<size_t>(high - low);
    region.initialised = initialised;
    region.tracked = !initialised;
    e.regions.push_back(std::move(region));
}

// Where kernels find what the caller has at `data`.
EMU_EXPORT void* tile_emu_pointer(const void* data) {
    for (emu::Region& region : emu::engine.regions) {
        const uint8_t* at = static_cast<const uint8_t*>(data);
        if (at < region.origin || at > region.origin + region.bytes || (at == region.origin + region.bytes && region.bytes)) continue;
        if (!region.base) {
            size_t total = region.bytes + 2 * emu::kMargin + 512;
            uint8_t* memory = static_cast<uint8_t*>(malloc(total));
            if (!memory) return nullptr;
            // The caller's place within 64 bytes is kept, so that a tensor that starts off a boundary does so here; hosts align to 64, CUDA to 256.
            uintptr_t base = (reinterpret_cast<uintptr_t>(memory) + emu::kMargin + 255) / 256 * 256 + reinterpret_cast<uintptr_t>(region.origin) % 64;
            region.base = reinterpret_cast<uint8_t*>(base);
            region.allocation = memory;
        }
        return region.base + (at - region.origin);
    }
    return nullptr;
}

namespace emu {
void* tensor_at(const char* name, void* address, size_t bytes) {
    uint8_t *low = static_cast<uint8_t*>(address), *high = low + bytes;
    for (Region& region : engine.regions) {
        if (low >= region.origin && low < region.origin + region.bytes) return tile_emu_pointer(address);
        // What lies in a buffer of the launch stays part of that one.
        if (low < region.origin && high > region.origin) high = region.origin;
    }
    if (low == nullptr || high <= low) return address;
    tile_emu_add(name, low, static_cast<uint64_t>(high - low), 0);
    void* place = tile_emu_pointer(address);
    if (place) memcpy(place, low, static_cast<size_t>(high - low));
    return place;
}
}  // namespace emu

// The launch is over: the caller gets its bytes, and the buffers are forgotten.
EMU_EXPORT void tile_emu_finish() {
    for (emu::Region& region : emu::engine.regions) {
        if (region.base && region.tracked) memcpy(region.origin, region.base, region.bytes);
        free(region.allocation);
    }
    emu::engine.regions.clear();
}

EMU_EXPORT const char* tile_emu_report() {
    emu::make_json();
    return emu::engine.json.c_str();
}
