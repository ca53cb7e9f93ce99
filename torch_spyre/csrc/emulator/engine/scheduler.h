// Runs a program on all cores of its grid.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "emulator/engine/executed_counts.h"
#include "emulator/engine/memory.h"
#include "emulator/engine/scratchpads.h"

namespace spyre::emulator::engine {

// State of a loaded program that persists across launches.
struct ProgramHistory {
  ProgramHistory();

  const uint64_t id;  // unique in the process
  // A launch first tries to finish on the calling thread within a time limit. After one that
  // exceeded it, this many launches use other threads at once; then one tries again, because the
  // host may have been slow for another reason. The number doubles with each failed try.
  std::atomic<int> launches_to_next_try = 0;
  std::atomic<int> launches_between_tries = kMinBetweenTries;

  static constexpr int kMinBetweenTries = 4, kMaxBetweenTries = 64;
};

struct RunOptions {
  // Run the cores sequentially, in the order of their ids, on the calling thread.
  bool ordered = false;
  std::string faulty_instruction;  // see Injection; makes the run ordered
  double watchdog_seconds = 0;     // 0: none
  ProgramHistory* history = nullptr;
  ExecutedCounts* executed = nullptr;  // counts the work; nullptr: it is not counted
  flex::StopRequest stop = {};
};

// Returns when all cores are done. The result does not depend on the number of host threads, as
// long as no core writes memory that another one accesses; programs with such conflicts need
// `ordered`. After an error all cores are stopped, and the error of the core with the lowest id is
// thrown. Throws flex::WorkInterrupted if the run was asked to stop.
void run_program(const Program& program, const Memory& memory, std::span<const uint64_t> scalars,
                 ScratchpadPool& scratchpads, const RunOptions& options);

}  // namespace spyre::emulator::engine
