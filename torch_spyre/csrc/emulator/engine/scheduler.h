// Runs a program on all cores of its grid.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "emulator/engine/memory.h"
#include "emulator/engine/scratchpads.h"

namespace spyre::emulator::engine {

struct RunOptions {
  // One core after the other, in the order of their ids, on the calling thread.
  bool ordered = false;
  std::string spoiled_instruction;  // see Injection; makes the run ordered
  double watchdog_seconds = 0;      // 0: none
};

// Returns when all cores are done. The result does not depend on the number of host threads, as
// long as no core writes memory that another one accesses; `ordered` is for those that do. After
// an error all cores have stopped, and what is thrown is the error of the core with the lowest id.
void run_program(const Program& program, const Memory& memory, std::span<const uint64_t> scalars,
                 ScratchpadPool& scratchpads, const RunOptions& options);

}  // namespace spyre::emulator::engine
