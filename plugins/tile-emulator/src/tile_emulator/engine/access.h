// Checks of plain accesses: where an address lies, whether it may be touched, whether its bytes were written, who else touches them.
#pragma once
#include "state.h"

namespace emu {

inline std::string bytes_text(size_t bytes) { return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes"); }

// The region that an address is in or, with `near`, the one it just misses.
inline Region* region_of(uintptr_t address, bool near) {
    Engine& e = engine;
    if (e.current && e.current->block->arena.holds(address)) return &e.current->block->arena;
    for (Region& region : e.regions)
        if (region.holds(address)) return &region;
    if (!near) return nullptr;
    Region* best = nullptr;
    uintptr_t best_distance = 64 * 1024;
    auto consider = [&](Region& region) {
        uintptr_t low = reinterpret_cast<uintptr_t>(region.base), high = low + region.bytes;
        uintptr_t distance = address < low ? low - address : address - high;
        if (distance < best_distance) best = &region, best_distance = distance;
    };
    if (e.current) consider(e.current->block->arena);
    for (Region& region : e.regions) consider(region);
    return best;
}

[[noreturn]] inline void report_outside(uintptr_t address, size_t bytes, bool is_write, uint32_t pc) {
    Region* near = region_of(address, true);
    const char* verb = is_write ? "writes" : "reads";
    if (!near) {
        report("out-of-bounds", std::string(verb) + " " + bytes_text(bytes) + " at an address that is in no buffer", engine.current, pc).bytes =
            bytes;
        end_launch();
    }
    uintptr_t low = reinterpret_cast<uintptr_t>(near->base);
    long long offset = static_cast<long long>(address - low);
    std::string text = std::string(verb) + " " + bytes_text(bytes) + " at byte " + std::to_string(offset) + "; it has " +
                       bytes_text(near->bytes);
    Finding& finding = report("out-of-bounds", text, engine.current, pc);
    finding.region = near->shared ? "" : near->name;
    if (near->shared) finding.region = "@shared";
    finding.offset = static_cast<size_t>(offset);
    finding.bytes = bytes;
    end_launch();
}

inline void report_conflict(Region& region, size_t offset, size_t bytes, const Epoch& before, const Epoch& now, bool is_write) {
    bool asynchronous = before.agent >= engine.threads || now.agent >= engine.threads;
    bool own = before.block == now.block && before.agent % engine.threads == now.agent % engine.threads;
    const char* kind = own && asynchronous ? "missing-wait" : "race";
    Finding& finding = report(kind, "", engine.current, now.pc, before.pc);
    if (finding.has_first) return;  // seen before
    finding.region = region.shared ? "@shared" : region.name;
    finding.offset = offset;
    finding.bytes = bytes;
    finding.first = before;
    finding.second = now;
    finding.second.flags = static_cast<uint16_t>((now.flags & kAtomic) | (is_write ? kWrite : 0));
    finding.has_first = finding.has_second = true;
}

// Who wrote what is read now: a tile of the source that reads what was written as another tile has been overwritten.
inline void note_flow(const Cell& cell, const Epoch& now, size_t offset, size_t bytes) {
    Engine& e = engine;
    uint64_t key = static_cast<uint64_t>(cell.write.pc) << 32 | now.pc;
    uint64_t& recent = e.recent_flows[(cell.write.pc * 31 + now.pc) % 1024];
    if (recent == key) return;
    recent = key;
    e.flows.emplace(key, Flow{cell.write, now, offset, bytes});
}

// One access of a region by `now` (the thread itself, or one of its groups of copies).
inline void touch(Region& region, size_t offset, size_t bytes, bool is_write, const Epoch& now) {
    Thread& who = *engine.current;
    bool atomic = now.flags & kAtomic;
    size_t end = offset + bytes;
    while (offset < end) {
        size_t piece = std::min(end, (offset / kPageBytes + 1) * kPageBytes) - offset;
        Page& page = region.page(offset, piece);
        size_t first = (offset % kPageBytes) >> page.shift, count = piece >> page.shift;
        for (size_t i = first; i < first + count; ++i) {
            Cell& cell = page.cells[i];
            size_t at = (offset & ~(kPageBytes - 1)) + (i << page.shift), size = size_t{1} << page.shift;
            if (is_write) {
                if (const Epoch* before = conflict_of_write(cell, who.knows, atomic)) report_conflict(region, at, size, *before, now, true);
                note_write(cell, now);
                cell.write.flags |= kWritten | kWrite;
                continue;
            }
            if (cell.read.clock == now.clock && cell.read.agent == now.agent && cell.read.block == now.block && !cell.more &&
                (cell.write.flags & kWritten))
                continue;
            if (!(cell.write.flags & kWritten)) {
                Finding& finding = report("never-written", "", &who, now.pc);
                if (finding.region.empty()) {
                    finding.region = region.shared ? "@shared" : region.name;
                    finding.offset = at;
                    finding.bytes = size;
                }
            }
            if (const Epoch* before = conflict_of_read(cell, who.knows, atomic)) report_conflict(region, at, size, *before, now, false);
            if (region.shared && cell.write.clock) note_flow(cell, now, at, size);
            note_read(cell, who.knows, now);
        }
        offset += piece;
    }
}

inline void touch_tile(Tile& tile, uintptr_t address, size_t bytes, bool is_write, uint32_t pc) {
    size_t offset = address - tile.low;
    if (address + bytes > tile.high) {
        Finding& finding = report("out-of-bounds",
                                  std::string(is_write ? "writes " : "reads ") + bytes_text(bytes) + " at byte " + std::to_string(offset) +
                                      "; it has " + bytes_text(tile.high - tile.low),
                                  engine.current, pc);
        finding.region = tile.name;
        finding.bytes = bytes;
        end_launch();
    }
    if (is_write) {
        memset(tile.written.data() + offset, 1, bytes);
        return;
    }
    const void* hole = memchr(tile.written.data() + offset, 0, bytes);
    if (!hole) return;
    Finding& finding = report("never-written", "", engine.current, pc);
    if (!finding.region.empty()) return;
    finding.region = tile.name;
    finding.offset = static_cast<size_t>(static_cast<const uint8_t*>(hole) - tile.written.data());
    finding.bytes = 1;
}

void access(const void* pointer, size_t bytes, bool is_write, bool atomic, uint32_t pc) {
    Engine& e = engine;
    if (!e.current || e.quiet || bytes == 0) return;
    Thread& who = *e.current;
    uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    if (who.fiber.owns(address)) {
        for (size_t i = who.live; i-- > 0;) {
            Tile& tile = who.tiles[i];
            if (address - tile.low < tile.high - tile.low) return touch_tile(tile, address, bytes, is_write, pc);
        }
        return;
    }
    ++e.accesses;
    e.progress += is_write;
    who.pc = pc;
    if (pc == e.delay && pc && !e.in_atomic) suspend_delayed();
    if (!atomic && !e.in_atomic && (++who.accesses > 20000 || chance(64))) suspend_ready(who.accesses > 20000);
    Region* region = region_of(address, false);
    if (!region) {
        if (address >= e.image_low && address < e.image_high && !is_write) return;  // a constant of the source
        report_outside(address, bytes, is_write, pc);
    }
    size_t offset = address - reinterpret_cast<uintptr_t>(region->base);
    if (offset + bytes > region->bytes) report_outside(address, bytes, is_write, pc);
    if (!region->tracked) {
        if (!is_write) return;
        region->tracked = true;
        e.retrack = true;
        end_launch();
    }
    Epoch now{who.block->linear, static_cast<uint16_t>(who.index), static_cast<uint16_t>(atomic ? kAtomic : 0), who.knows.clock, pc};
    touch(*region, offset, bytes, is_write, now);
}

inline void aligned(const void* pointer, size_t bytes, uint32_t pc) {
    uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    if (!engine.current || engine.quiet || bytes == 0 || address % bytes == 0) return;
    Region* region = region_of(address, true);
    Finding& finding = report("misaligned", "an access of " + bytes_text(bytes) + " needs an address that is a multiple of " + std::to_string(bytes),
                              engine.current, pc);
    if (region) {
        finding.region = region->shared ? "@shared" : region->name;
        finding.offset = address - reinterpret_cast<uintptr_t>(region->base);
    }
    finding.bytes = bytes;
    end_launch();
}

}  // namespace emu

// ---- what -fsanitize=thread calls ---------------------------------------------------------------------------------------------------
#define EMU_HOOK(name, size)                                                                                    \
    extern "C" void __tsan_read##name(void* p) { emu::aligned(p, size, EMU_PC), emu::access(p, size, false, false, EMU_PC); } \
    extern "C" void __tsan_write##name(void* p) { emu::aligned(p, size, EMU_PC), emu::access(p, size, true, false, EMU_PC); } \
    extern "C" void __tsan_unaligned_read##name(void* p) { emu::access(p, size, false, false, EMU_PC); }        \
    extern "C" void __tsan_unaligned_write##name(void* p) { emu::access(p, size, true, false, EMU_PC); }        \
    extern "C" void __tsan_volatile_read##name(void* p) { emu::access(p, size, false, false, EMU_PC); }         \
    extern "C" void __tsan_volatile_write##name(void* p) { emu::access(p, size, true, false, EMU_PC); }
EMU_HOOK(1, 1)
EMU_HOOK(2, 2)
EMU_HOOK(4, 4)
EMU_HOOK(8, 8)
EMU_HOOK(16, 16)
extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_read_range(void* p, size_t bytes) { emu::access(p, bytes, false, false, EMU_PC); }
void __tsan_write_range(void* p, size_t bytes) { emu::access(p, bytes, true, false, EMU_PC); }
void __tsan_vptr_update(void** p, void*) { emu::access(p, sizeof(void*), true, false, EMU_PC); }
void __tsan_vptr_read(void** p) { emu::access(p, sizeof(void*), false, false, EMU_PC); }
}
