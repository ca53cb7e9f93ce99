// The host threads that execute the emulated card's work.
#pragma once

#include <cstdint>
#include <functional>

namespace spyre::emulator {

// The number of host threads of one parallel_for, including the caller. Defaults to
// SPYRE_EMU_THREADS, else to the number of host cores. It never changes results.
void set_host_threads(int count);
int host_threads();

// Returns the number of threads that a parallel_for called here would use: one inside a body and in
// a forked child.
int threads_here();

// Calls `body(begin, end)` over disjoint ranges that cover [0, count), each a multiple of `grain`
// long except the last, on the pool and the calling thread; returns when all are done. Calls
// from several threads at once and nested calls are allowed (a nested call runs inline). The
// first exception thrown by a body is rethrown here. Threads are started lazily and, after a
// fork, the child must not rely on them: it runs inline.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

}  // namespace spyre::emulator
