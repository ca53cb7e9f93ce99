// Common parts of launching device programs: cost, options and errors.
#pragma once

#include <cstdint>
#include <string>

#include "flex/runtime.h"

namespace spyre {

// The cost of a launch on the card, from the timing model.
struct LaunchCost {
  uint64_t time_ps = 0, ddr_read_bytes = 0, ddr_write_bytes = 0;
};

// The configuration of every launch.
struct LaunchOptions {
  bool executes = true;            // false: only the clock advances
  bool charges = true;             // false: only the result is computed
  std::string faulty_instruction;  // fault injection, see flex::Launch
  double watchdog_seconds = 0;
};

// Returns the instruction named by a value of SPYRE_EMU_INJECT; `function` is for the message.
std::string parse_fault_injection(const char* function, const std::string& inject);

// Runs a launch on the calling thread. Errors of the kernel become errors of PyTorch.
void execute_launch(flex::Card& card, const flex::LoadedProgram& program,
                    const flex::Launch& launch);

// Adds a launch that has run to the process's counters.
void charge(const LaunchCost& cost);

}  // namespace spyre
