// The state of one core while it executes a program, and the checks every access goes through.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "emulator/engine/program.h"
#include "emulator/engine/program_limits.h"

namespace spyre::emulator::engine {

// What a running kernel did wrong. The scheduler adds kernel, core and instruction.
using flex::KernelError;
// An index that data supplied lies outside what it indexes.
using flex::KernelIndexError;

// Spoils one element of the first result of the instruction of that name, once a launch.
struct Injection {
  std::string_view op;
  bool done = false;
};

// A tile that a load has left in memory: rows of `runs` contiguous runs of `run` elements.
struct DirectTile {
  const std::byte* data = nullptr;  // null: it is in the scratchpad
  std::byte* tile = nullptr;        // where it belongs there, row by row without gaps
  int element_bytes = 1;
  int64_t rows = 0, runs = 0, run = 0;
  int64_t row_stride = 0, run_stride = 0;  // elements
};

struct Core {
  int64_t id = 0;
  // What was prepared for one run serves another where these numbers are the same. No other launch
  // of the process, no other program, and no other place of core, registers and scratchpad has
  // them. 0: in none.
  uint64_t launch = 0, program = 0, place = 0;
  std::vector<uint64_t> registers;
  std::byte* scratchpad = nullptr;  // holds the program's tensors, Program::scratchpad_bytes long
  Injection* injection = nullptr;   // usually none
  std::vector<DirectTile> direct_tiles;

  int64_t integer(Register source) const { return std::bit_cast<int64_t>(registers[source]); }
  // A scalar as a lane: its first bytes.
  const void* lane(Register source) const { return &registers[source]; }
};

// The values of extent registers. Throws KernelError for a negative one and for a product that no
// scratchpad could hold.
std::vector<int64_t> extents_of(const Core& core, std::span<const Register> extents);
// The same into a vector that is used again and again.
void read_extents(const Core& core, std::span<const Register> extents, std::vector<int64_t>& out);
// Points of the space that such extents span.
int64_t count_of(std::span<const int64_t> extents);

// Where the operand's first element lies. Throws KernelError unless every element that `extents`
// reach is inside the operand's buffer. With an extent of 0 nothing is reached.
std::byte* elements_of(const Core& core, const Operand& operand, std::span<const int64_t> extents);

void execute(const Chain& chain, Core& core);
void execute(const Reduce& reduce, Core& core);
void execute(const Copy& copy, Core& core);
void execute(const Literal& literal, Core& core);

}  // namespace spyre::emulator::engine
