// Runs a program on all cores of its grid.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "emulator/engine/memory.h"
#include "emulator/engine/scratchpads.h"

namespace spyre::emulator::engine {

// What is known of a loaded program, kept from launch to launch.
struct ProgramHistory {
  ProgramHistory();

  const uint64_t number;  // no other program of the process has it
  // How many launches are to wake other threads at once, because one took so long that it pays.
  // Then one tries without again: it may have been the host that was slow. Each time it takes long
  // again, more launches pass before the next try.
  std::atomic<int> launches_to_next_try = 0;
  std::atomic<int> launches_between_tries = kFewestBetweenTries;

  static constexpr int kFewestBetweenTries = 4, kMostBetweenTries = 64;
};

struct RunOptions {
  // One core after the other, in the order of their ids, on the calling thread.
  bool ordered = false;
  std::string faulty_instruction;  // see Injection; makes the run ordered
  double watchdog_seconds = 0;     // 0: none
  ProgramHistory* history = nullptr;
};

// Returns when all cores are done. The result does not depend on the number of host threads, as
// long as no core writes memory that another one accesses; `ordered` is for those that do. After
// an error all cores have stopped, and what is thrown is the error of the core with the lowest id.
void run_program(const Program& program, const Memory& memory, std::span<const uint64_t> scalars,
                 ScratchpadPool& scratchpads, const RunOptions& options);

}  // namespace spyre::emulator::engine
