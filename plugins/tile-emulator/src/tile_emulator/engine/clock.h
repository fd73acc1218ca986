// Vector clocks. Every thread of a block is an agent, and so are its asynchronous copies: agent i is thread i, agent n + i its groups of
// copies, whose clock is the group's number. What a thread knows of its own block is one shared vector, replaced whole when it learns; its own
// entries are kept aside, because they move most. What it knows of other blocks is a short list, empty unless blocks synchronise.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace emu {

struct Epoch {
    uint32_t block = 0;
    uint16_t agent = 0;
    uint16_t flags = 0;
    uint32_t clock = 0;  // 0: no access
    uint32_t pc = 0;     // offset in the library
};
enum : uint16_t { kAtomic = 1, kWritten = 2, kWrite = 4 };

using Vector = std::vector<uint32_t>;
using VectorRef = std::shared_ptr<const Vector>;

using Pieces = std::vector<std::pair<uint32_t, VectorRef>>;  // (block, what is known of it)

class Knowledge {
public:
    static void merge(Pieces& into, const Pieces& news) {
        for (const auto& piece : news) {
            auto found = std::find_if(into.begin(), into.end(), [&](const auto& have) { return have.first == piece.first; });
            if (found == into.end())
                into.push_back(piece);
            else
                found->second = maximum(found->second, piece.second);
        }
    }
    void start(uint32_t block_, uint32_t index_, uint32_t threads_, const VectorRef& zero) {
        block = block_;
        index = index_;
        threads = threads_;
        own = zero;
        others.clear();
        clock = 1;
        landed = 0;
    }
    bool includes(const Epoch& e) const {
        if (e.block == block) {
            if (e.agent == index) return true;
            if (e.agent == threads + index) return e.clock <= landed;
            return e.clock <= (*own)[e.agent];
        }
        for (const auto& other : others)
            if (other.first == e.block) return e.clock <= (*other.second)[e.agent];
        return false;
    }
    // Everything known, as a list of (block, vector) with this block first.
    Pieces snapshot() const {
        auto mine = std::make_shared<Vector>(*own);
        (*mine)[index] = clock;
        (*mine)[threads + index] = landed;
        Pieces all{{block, mine}};
        all.insert(all.end(), others.begin(), others.end());
        return all;
    }
    void learn(const Pieces& news) {
        for (const auto& piece : news) learn(piece.first, piece.second);
    }
    void learn(uint32_t from, const VectorRef& vector) {
        if (from == block) {
            own = maximum(own, vector);
            return;
        }
        for (auto& other : others)
            if (other.first == from) {
                other.second = maximum(other.second, vector);
                return;
            }
        others.emplace_back(from, vector);
    }
    static VectorRef maximum(const VectorRef& a, const VectorRef& b) {
        if (a == b || !b) return a;
        if (!a) return b;
        auto out = std::make_shared<Vector>(*a);
        for (size_t i = 0; i < out->size(); ++i) (*out)[i] = std::max((*out)[i], (*b)[i]);
        return out;
    }

    uint32_t block = 0, index = 0, threads = 0;
    uint32_t clock = 1;   // own epoch
    uint32_t landed = 0;  // last of the own groups of copies that is known to be complete
    VectorRef own;
    Pieces others;
};

// Collects what the members of a barrier know, then gives the union.
class Meeting {
public:
    void add(const Knowledge& who) {
        if (pieces.empty() || pieces.back() != who.own) pieces.push_back(who.own);
        members.push_back({who.index, who.clock, who.landed});
        threads = who.threads;
        Knowledge::merge(others, who.others);
    }
    void close() {
        auto out = std::make_shared<Vector>(*pieces[0]);
        std::sort(pieces.begin(), pieces.end());
        pieces.erase(std::unique(pieces.begin(), pieces.end()), pieces.end());
        for (const auto& piece : pieces)
            for (size_t i = 0; i < out->size(); ++i) (*out)[i] = std::max((*out)[i], (*piece)[i]);
        for (const auto& m : members) {
            (*out)[m.index] = std::max((*out)[m.index], m.clock);
            (*out)[threads + m.index] = std::max((*out)[threads + m.index], m.landed);
        }
        result = out;
    }
    void give(Knowledge& who) const {
        who.own = result;
        who.others = others;
    }
    void clear() {
        pieces.clear();
        members.clear();
        others.clear();
        result.reset();
    }

private:
    struct Member {
        uint32_t index, clock, landed;
    };
    std::vector<VectorRef> pieces;
    std::vector<Member> members;
    Pieces others;
    VectorRef result;
    uint32_t threads = 0;
};

}  // namespace emu
