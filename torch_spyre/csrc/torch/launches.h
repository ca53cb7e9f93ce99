// What every way to queue a device program shares: what it costs, how it may run, its errors.
#pragma once

#include <cstdint>
#include <string>

#include "flex/runtime.h"

namespace spyre {

// What a launch costs on the card, as the timing model has it.
struct LaunchCost {
  uint64_t time_ps = 0, ddr_read_bytes = 0, ddr_write_bytes = 0;
};

// What the configuration says about every launch.
struct LaunchOptions {
  bool executes = true;  // false: only the clock advances
  bool charges = true;   // false: only the result is computed
  std::string spoiled_instruction;
  double watchdog_seconds = 0;
};

// The instruction that a value of SPYRE_EMU_INJECT names.
std::string spoiled_instruction(const char* function, const std::string& inject);

// Runs a launch on the calling thread. What the kernel does wrong becomes the error that Python
// knows.
void execute_launch(flex::Card& card, const flex::LoadedProgram& program,
                    const flex::Launch& launch);

// Adds a launch that has run to the process's counters.
void charge(const LaunchCost& cost);

}  // namespace spyre
