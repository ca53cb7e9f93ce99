// A device program in memory: what one core executes, the same on all cores of its grid. The
// structs of instructions are in generated/instructions.h, the form on disk is that of
// docs/program.md. `read_program` checks everything that does not depend on register contents, the
// engine the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "emulator/engine/generated/instructions.h"
#include "emulator/engine/lanes.h"
#include "flex/driver.h"

namespace spyre::emulator::engine {

using Expression = std::vector<Term>;

// Bytes [begin, end) of a core's scratchpad.
struct ScratchpadRange {
  int64_t begin, end;
};

inline constexpr int32_t kNoLoop = -1;

struct Program : ProgramContent {
  Program() { registers = kFirstFreeRegister; }

  // The bytes of the scratchpad that are filled before a core begins; none: all that tensors use.
  std::optional<std::vector<ScratchpadRange>> filled;
  int32_t direct_tiles = 0;  // how many there are
  // The begin of the loop whose iterations host threads may execute in parallel, see
  // shared_loops.h.
  int32_t shared_loop = kNoLoop;

  int64_t cores() const { return grid[0] * grid[1] * grid[2]; }
};

// A file that is damaged, of another version, or no valid program.
using flex::ProgramError;

// Throws ProgramError. Nothing in the file is trusted; the program needs at most
// `scratchpad_capacity` bytes of each core's scratchpad.
Program read_program(std::span<const std::byte> file, int64_t scratchpad_capacity);
// Throws ProgramError unless the program is valid: the second half of `read_program`.
void check_program(const Program& program, int64_t scratchpad_capacity);

}  // namespace spyre::emulator::engine
