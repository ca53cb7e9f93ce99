// The state of one core while it executes a program, and the bounds checks of its accesses.
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

// An error of a running kernel. The scheduler adds kernel, core and instruction.
using flex::KernelError;
// An index read from data is out of bounds.
using flex::KernelIndexError;

// Fault injection: changes one element of the first result of the instruction `op`, once per
// launch.
struct Injection {
  std::string_view op;
  bool done = false;
};

// A tile that a load did not copy: `rows` rows of `runs` contiguous runs of `run` elements in
// memory.
struct DirectTile {
  const std::byte* data = nullptr;  // nullptr: it is in the scratchpad
  std::byte* tile = nullptr;        // its address in the scratchpad, row-major without gaps
  int element_bytes = 1;
  int64_t rows = 0, runs = 0, run = 0;
  int64_t row_stride = 0, run_stride = 0;  // elements
};

struct Core {
  int64_t id = 0;
  // Cached plans are valid for executions with the same ids. They identify the launch, the program,
  // and the addresses of core, registers and scratchpad within the process. 0: none.
  uint64_t launch = 0, program = 0, address_id = 0;
  std::vector<uint64_t> registers;
  std::byte* scratchpad = nullptr;  // holds the program's tensors, Program::scratchpad_bytes long
  Injection* injection = nullptr;   // nullptr: no fault injection
  std::vector<DirectTile> direct_tiles;

  int64_t integer(Register source) const { return std::bit_cast<int64_t>(registers[source]); }
  // Returns the address of a scalar as a lane: its first bytes.
  const void* lane(Register source) const { return &registers[source]; }
};

// Returns the values of extent registers. Throws KernelError for a negative extent and if their
// product exceeds 2^40.
std::vector<int64_t> extents_of(const Core& core, std::span<const Register> extents);
// The same, into a vector that the caller reuses.
void read_extents(const Core& core, std::span<const Register> extents, std::vector<int64_t>& out);
// Returns the number of points of the iteration space.
int64_t count_of(std::span<const int64_t> extents);

// Returns the address of the operand's first element. Throws KernelError unless every element
// within `extents` is inside the operand's buffer. An extent of 0 accesses no elements.
std::byte* elements_of(const Core& core, const Operand& operand, std::span<const int64_t> extents);

void execute(const Chain& chain, Core& core);
void execute(const Reduce& reduce, Core& core);
void execute(const Copy& copy, Core& core);
void execute(const Literal& literal, Core& core);
void execute(const Sort& sort, Core& core);
void execute(const Indexed& indexed, Core& core);

}  // namespace spyre::emulator::engine
