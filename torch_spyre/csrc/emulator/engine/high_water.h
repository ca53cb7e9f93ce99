// Measures how much of its scratchpad a core accesses while it executes a program.
#pragma once

#include <cstdint>

#include "emulator/engine/core.h"
#include "emulator/engine/program.h"

namespace spyre::emulator::engine {

// Returns the end of the last byte that the next execution of an instruction accesses in the core's
// scratchpad: of its elements, at the extents and offsets in the registers. 0 if it accesses none.
// A lookup counts with all elements that its indices may select. Throws KernelError for an
// execution that fails.
int64_t scratchpad_end(const Action& action, const Core& core);

}  // namespace spyre::emulator::engine
