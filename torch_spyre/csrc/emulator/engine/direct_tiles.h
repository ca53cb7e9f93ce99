// Finds tiles that are read only as operand B of matmuls. Their loads do not copy them: the matmuls
// read device memory directly. The result is the same, because that memory does not change between
// the load and the matmul.
#pragma once

#include "emulator/engine/core.h"

namespace spyre::emulator::engine {

// Assigns numbers to these tiles in the program's loads and matmuls. Constant registers of the
// program must not change afterwards.
void find_direct_tiles(Program& program);

// Copies a tile that was left in memory to the scratchpad.
void materialise(DirectTile& tile);

}  // namespace spyre::emulator::engine
