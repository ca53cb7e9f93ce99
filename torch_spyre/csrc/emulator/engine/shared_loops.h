// Loops whose trips have nothing to do with each other, so that host threads can share those of a
// program that has one core only. Nobody can tell: every trip begins with the same registers and
// scratchpad as far as it reads them, and memory that one writes no other accesses.
#pragma once

#include "emulator/engine/core.h"
#include "emulator/engine/memory.h"

namespace spyre::emulator::engine {

// Finds the program's first loop, if what its text tells allows that, and if executing what comes
// before it several times does no harm.
void find_shared_loop(Program& program);

// Whether it holds for memory too, with the registers that the core has where the loop begins. The
// loop has at least one trip, and its bounds and its step are below 2^40.
bool may_share_trips(const Program& program, const Core& core, const Memory& memory);

}  // namespace spyre::emulator::engine
