// Which loops of a program do the same work in every trip, as far as its text tells.
#pragma once

#include <vector>

#include "emulator/engine/program.h"

namespace spyre::emulator::engine {

// A loop of which one trip tells all: nothing in its body depends on the trip but data, scratchpad
// offsets, and addresses of tiles, which advance evenly; nothing but tensors is carried from trip
// to trip.
struct LoopFacts {
  bool is_uniform = false;
  std::vector<Register> irregular;  // change from trip to trip, but not evenly
};

// For each instruction that begins a loop; of the others the facts mean nothing.
std::vector<LoopFacts> loop_facts(const Program& program);

// The register that the instruction writes, if any.
Register destination_of(const Action& action);
// The registers that instructions [begin, end) write.
std::vector<Register> written_registers(const Program& program, size_t begin, size_t end);

}  // namespace spyre::emulator::engine
