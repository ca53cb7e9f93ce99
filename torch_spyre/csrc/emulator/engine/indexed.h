// The table of an `indexed` instruction.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emulator/engine/core.h"

namespace spyre::emulator::engine {

// The elements of a table that an instruction may access: one more dimension holds the indices.
struct IndexedTable {
  IndexedTable(const Indexed& indexed, const Core& core, std::span<const int64_t> points);

  Operand operand;
  std::vector<int64_t> extents;
};

}  // namespace spyre::emulator::engine
