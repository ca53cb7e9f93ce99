// A device program in memory. All cores of its grid execute the same instructions, whose structs
// are in generated/instructions.h; docs/program.md describes the file format. `read_program` checks
// everything that does not depend on register contents; the engine checks everything else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
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

  // The bytes of the scratchpad that are initialised before a core starts; nothing: all bytes that
  // tensors use.
  std::optional<std::vector<ScratchpadRange>> filled;
  int32_t direct_tiles = 0;  // the number of direct tiles
  // The begin of the loop whose iterations host threads may execute in parallel, see
  // parallel_loops.h.
  int32_t parallel_loop = kNoLoop;

  int64_t cores() const { return grid[0] * grid[1] * grid[2]; }
};

// Returns an op and its place in a kernel's text, or the number of the OpSpec that it comes from.
inline std::string text_of(const SourceLocation& location) {
  if (location.column == 0 && location.line > 0) {
    return location.op + " of op " + std::to_string(location.line);
  }
  return location.op + " at " + std::to_string(location.line) + ":" +
         std::to_string(location.column);
}

// Thrown for a file that is damaged, of another version, or not a valid program.
using flex::ProgramError;

// Throws ProgramError. Nothing in the file is trusted; the program needs at most
// `scratchpad_capacity` bytes of each core's scratchpad.
Program read_program(std::span<const std::byte> file, int64_t scratchpad_capacity);
// Throws ProgramError unless the program is valid. `read_program` calls this.
void check_program(const Program& program, int64_t scratchpad_capacity);

}  // namespace spyre::emulator::engine
