// Checks the loops, branches and jumps of a program.
#pragma once

#include "emulator/engine/program.h"

namespace spyre::emulator::engine {

// Throws ProgramError unless loops nest properly, and branches and jumps go forward, within the
// body of their loop.
void check_control_flow(const Program& program);

}  // namespace spyre::emulator::engine
