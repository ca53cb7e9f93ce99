// Finds loops with independent iterations, so that host threads can execute the iterations of a
// single-core program in parallel. The results are the same as in sequential order: every iteration
// starts with the same values in the registers and scratchpad bytes that it reads, and no iteration
// accesses memory that another one writes.
#pragma once

#include "emulator/engine/core.h"
#include "emulator/engine/memory.h"

namespace spyre::emulator::engine {

// Sets Program::parallel_loop to the program's first loop if static analysis allows to run it in
// parallel and if the instructions before it may be executed several times.
void find_parallel_loop(Program& program);

// Returns whether the iterations of Program::parallel_loop access disjoint memory, given the
// registers of the core at the begin of the loop. The loop must have at least one iteration, and
// the magnitudes of its bounds and its step must be below 2^40.
bool can_run_in_parallel(const Program& program, const Core& core, const Memory& memory);

}  // namespace spyre::emulator::engine
