// Orders of agents. Agents are warps (their lanes take turns in order) and the groups of copies of their threads.
//
// Two steps of different agents are independent unless they touch the same bytes and one of them writes. A run in which nothing is found has
// no dependent steps in an order that no synchronisation fixes, but for atomics: plain accesses and copies of that kind are races or missing
// waits, and those are found in whatever order the run took. So the orders that matter are those of atomics on the same bytes, and they are
// walked by dynamic partial-order reduction (Flanagan and Godefroid 2005) with sleep sets: a run notes for each atomic the steps of other
// agents that it could have preceded, and those other orders are run too; an agent sleeps where its step would only repeat what has been
// seen. Orders of the lanes of one warp are not tried.
#pragma once
#include "state.h"

namespace emu {

inline uint64_t agent_of(const Thread& thread) { return static_cast<uint64_t>(thread.block->linear) << 16 | thread.index / 32; }

inline bool dependent(const Touch& a, const Touch& b) { return a.low < b.high && b.low < a.high && (a.writes || b.writes); }
inline bool dependent(const std::vector<Touch>& a, const std::vector<Touch>& b) {
    for (const Touch& x : a)
        for (const Touch& y : b)
            if (dependent(x, y)) return true;
    return false;
}
inline bool holds(const std::vector<uint64_t>& set, uint64_t agent) { return std::find(set.begin(), set.end(), agent) != set.end(); }
inline void put(std::vector<uint64_t>& set, uint64_t agent) {
    if (!holds(set, agent)) set.push_back(agent);
}

// What an agent whose threads all stand before atomics would do next.
inline std::vector<Touch> next_of(uint64_t agent) {
    std::vector<Touch> found;
    for (Thread* thread : engine.ready)
        if (thread->at_atomic && agent_of(*thread) == agent) found.push_back(thread->next);
    return found;
}

// The choice at a state where every ready thread stands before an atomic; false where all agents sleep, and the run ends.
inline bool choose_agent() {
    Engine& e = engine;
    if (e.depth == e.path.size()) {
        Choice choice;
        for (Thread* thread : e.ready) {
            uint64_t agent = agent_of(*thread);
            if (holds(choice.enabled, agent)) continue;
            choice.enabled.push_back(agent);
            choice.next.push_back(next_of(agent));
        }
        if (e.depth) {
            // Who slept, and who has been tried, goes on sleeping while what is done does not concern it.
            const Choice& before = e.path[e.depth - 1];
            const std::vector<Touch>& done = e.trace.back().touched;
            for (size_t i = 0; i < before.enabled.size(); ++i) {
                uint64_t agent = before.enabled[i];
                if (agent == before.chosen || !(holds(before.asleep, agent) || holds(before.tried, agent))) continue;
                if (!dependent(before.next[i], done)) put(choice.asleep, agent);
            }
        }
        bool found = false;
        for (uint64_t agent : choice.enabled)
            if (!found && !holds(choice.asleep, agent)) choice.chosen = agent, found = true;
        if (!found) return false;
        put(choice.wanted, choice.chosen);
        put(choice.tried, choice.chosen);
        e.path.push_back(std::move(choice));
    }
    uint64_t chosen = e.path[e.depth++].chosen;
    e.trace.push_back({chosen, {}, {}});
    for (Thread* thread : e.ready)
        if (agent_of(*thread) == chosen) thread->at_atomic = false;
    return true;
}

// An atomic of the step that runs. Steps of other agents that it depends on and that are not before it in any case: the other orders are wanted.
// All such steps, not the last alone: which of them others between put in order is not kept.
inline void note_atomic(Thread& me) {
    Engine& e = engine;
    if (e.trace.empty()) return;
    Touch touch = me.next;
    uint64_t agent = agent_of(me);
    for (size_t i = e.trace.size() - 1; i-- > 0;) {
        const Step& step = e.trace[i];
        if (step.agent == agent) continue;
        bool meets = false;
        for (size_t k = 0; k < step.touched.size(); ++k) meets |= dependent(step.touched[k], touch) && !me.knows.includes(step.by[k]);
        if (!meets) continue;
        // Not this agent alone: what it did there may have to come after a third one's step, and itself be asleep.
        Choice& choice = e.path[i];
        for (uint64_t other : choice.enabled) put(choice.wanted, other);
    }
    Epoch by;
    by.block = me.block->linear;
    by.agent = static_cast<uint16_t>(me.index);
    by.clock = me.knows.clock;
    e.trace.back().touched.push_back(touch);
    e.trace.back().by.push_back(by);
}

// The deepest state at which an agent is wanted that was not tried; false when there is none.
inline bool next_order() {
    Engine& e = engine;
    while (!e.path.empty()) {
        Choice& choice = e.path.back();
        for (uint64_t agent : choice.wanted) {
            if (holds(choice.tried, agent) || holds(choice.asleep, agent)) continue;
            put(choice.tried, agent);
            choice.chosen = agent;
            return true;
        }
        e.path.pop_back();
    }
    return false;
}

}  // namespace emu
