// The host threads that do the emulated card's work.
#pragma once

#include <cstdint>
#include <functional>

namespace spyre::emulator {

// Number of host threads used for one piece of work, the caller's included. Taken from the
// configuration at start (SPYRE_EMU_THREADS), else the number of host cores. May be set again;
// it never changes results.
void set_host_threads(int count);
int host_threads();

// How many of them a parallel_for would use if it was called here: one inside of a body and in a
// forked child.
int threads_here();

// Calls `body(begin, end)` over disjoint ranges that cover [0, count), each a multiple of `grain`
// long except the last, on the pool and the calling thread; returns when all are done. Calls
// from several threads at once and nested calls are allowed (a nested call runs inline). The
// first exception thrown by a body is rethrown here. Threads are started lazily and, after a
// fork, the child must not rely on them: it runs inline.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

}  // namespace spyre::emulator
