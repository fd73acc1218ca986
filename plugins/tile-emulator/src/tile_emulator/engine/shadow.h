// Shadow memory: for every piece of a region, the last write and the reads since. A page of 256 bytes starts with one cell for 16 bytes and
// splits its cells when a smaller access comes, so that vector accesses cost one cell and byte accesses stay exact.
#pragma once
#include <cstring>
#include <string>
#include <vector>

#include "clock.h"

namespace emu {

struct Cell {
    Epoch write;
    Epoch read;
    std::vector<Epoch>* more = nullptr;  // further reads that no other read is known to follow
};

constexpr size_t kPageBytes = 256;

struct Page {
    uint8_t shift = 4;
    std::vector<Cell> cells;
};

struct Region {
    std::string name;
    uint8_t* base = nullptr;
    size_t bytes = 0;
    bool shared = false;       // a block's arena
    bool tracked = false;      // races are looked for; a global region that nobody has written needs only its bounds
    bool initialised = false;  // holds values before the launch
    uint32_t block = 0;        // shared: whose
    std::vector<Page> pages;
    // A global region: where the caller's bytes are, and where they were copied from.
    uint8_t* origin = nullptr;
    void* allocation = nullptr;

    void reset() {
        for (Page& page : pages) drop(page);
        pages.clear();
        pages.resize((bytes + kPageBytes - 1) / kPageBytes);
    }
    ~Region() {
        for (Page& page : pages) drop(page);
    }
    Region() = default;
    Region(Region&&) = default;
    Region& operator=(Region&&) = default;

    bool holds(uintptr_t address) const { return address - reinterpret_cast<uintptr_t>(base) < bytes; }

    // The page with cells no larger than an access at `offset` of `size` bytes needs.
    Page& page(size_t offset, size_t size) {
        Page& found = pages[offset / kPageBytes];
        if (found.cells.empty()) {
            found.shift = 4;
            found.cells.resize(kPageBytes >> 4);
            if (initialised)
                for (Cell& cell : found.cells) cell.write.flags = kWritten;
        }
        while ((offset | size) & ((size_t{1} << found.shift) - 1)) split(found);
        return found;
    }

private:
    static void drop(Page& page) {
        for (Cell& cell : page.cells) delete cell.more;
        page.cells.clear();
    }
    static void split(Page& page) {
        std::vector<Cell> finer(page.cells.size() * 2);
        for (size_t i = 0; i < page.cells.size(); ++i) {
            finer[2 * i] = page.cells[i];
            finer[2 * i + 1] = page.cells[i];
            if (page.cells[i].more) finer[2 * i + 1].more = new std::vector<Epoch>(*page.cells[i].more);
        }
        page.cells.swap(finer);
        --page.shift;
    }
};

// What an access conflicts with, or null.
inline const Epoch* conflict_of_read(const Cell& cell, const Knowledge& who, bool atomic) {
    const Epoch& w = cell.write;
    if (w.clock == 0 || who.includes(w) || (atomic && (w.flags & kAtomic))) return nullptr;
    return &w;
}
inline const Epoch* conflict_of_write(const Cell& cell, const Knowledge& who, bool atomic) {
    if (const Epoch* w = conflict_of_read(cell, who, atomic)) return w;
    const Epoch& r = cell.read;
    if (r.clock && !who.includes(r) && !(atomic && (r.flags & kAtomic))) return &r;
    if (cell.more)
        for (const Epoch& e : *cell.more)
            if (!who.includes(e) && !(atomic && (e.flags & kAtomic))) return &e;
    return nullptr;
}

inline void note_read(Cell& cell, const Knowledge& who, const Epoch& now) {
    if (cell.read.clock == 0 || (!cell.more && who.includes(cell.read))) {
        cell.read = now;
        return;
    }
    if (cell.read.agent == now.agent && cell.read.block == now.block) {
        cell.read = now;
        return;
    }
    if (!cell.more) cell.more = new std::vector<Epoch>;
    std::vector<Epoch>& more = *cell.more;
    if (!more.empty() && more.back().agent == now.agent && more.back().block == now.block) {
        more.back() = now;
        return;
    }
    // Drops what the reader is known to follow, at sizes that double: constant work a read on average.
    if (more.size() >= 8 && (more.size() & (more.size() - 1)) == 0) {
        more.erase(std::remove_if(more.begin(), more.end(), [&](const Epoch& e) { return who.includes(e); }), more.end());
    }
    more.push_back(now);
}

inline void note_write(Cell& cell, const Epoch& now) {
    cell.write = now;
    cell.read.clock = 0;
    if (cell.more) {
        delete cell.more;
        cell.more = nullptr;
    }
}

}  // namespace emu
