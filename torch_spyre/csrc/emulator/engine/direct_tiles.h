// Tiles that only matmuls read, as B: their loads need not copy them, because the matmuls
// can read memory itself. Nobody can tell, since nothing changes that memory in between.
#pragma once

#include "emulator/engine/core.h"

namespace spyre::emulator::engine {

// Numbers the tiles of the program for which this holds, in its loads and matmuls. Registers that
// are constant must stay so.
void find_direct_tiles(Program& program);

// Brings a tile that was left in memory to the scratchpad, where it is then.
void copy_now(DirectTile& tile);

}  // namespace spyre::emulator::engine
