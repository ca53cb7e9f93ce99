// Static analysis: which loops of a program do the same work in every iteration.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <vector>

#include "emulator/engine/program.h"

namespace spyre::emulator::engine {

// A loop is uniform if visiting one iteration is enough to count all: only data, scratchpad offsets
// and addresses of tiles depend on the iteration, addresses are affine in the loop variable, and
// only tensors are loop-carried.
struct LoopFacts {
  bool is_uniform = false;
  std::vector<Register> irregular;  // depend on the loop variable, but are not affine in it
};

// Thrown when a loop that was analysed as uniform must be visited iteration by iteration: its
// iterations transfer different numbers of sticks, or cores share sticks in some iterations only.
struct NonUniformLoop : std::exception {
  explicit NonUniformLoop(size_t loop) : loop(loop) {}
  size_t loop;
};

// Returns the facts of each loop, by the index of its LoopBegin. Other entries are meaningless.
std::vector<LoopFacts> loop_facts(const Program& program);

// Returns the register that the instruction writes, or kNoRegister.
Register destination_of(const Action& action);
// Returns the registers that instructions [begin, end) write.
std::vector<Register> written_registers(const Program& program, size_t begin, size_t end);

}  // namespace spyre::emulator::engine
