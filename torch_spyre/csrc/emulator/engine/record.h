// What a program does, without doing it: the counts that its time is computed from. Scalars and
// control flow are followed on every core; tensors are not touched.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emulator/engine/program.h"

namespace spyre::emulator::engine {

// Of one instruction. Where there are two, one is the sum over all cores and one that of the core
// that has most of it.
struct Count {
  int64_t total = 0, busiest = 0;
};

struct InstructionCounts {
  int64_t cores = 0;  // that executed it
  Count executions;
  Count elements;        // points of the iteration space
  Count lanes;           // the same, each execution padded to whole vectors
  Count reduced_sticks;  // of results, each execution padded; where the innermost dimension is
                         // reduced
  Count macs;
  int64_t batch = 0, rows = 0, columns = 0, inner = 0;  // of the largest matmul
  Count scratchpad_bytes;
  Count remote_bytes;  // that cross from or to another core's scratchpad
  Count device_bytes;  // whole sticks
  // Sticks that several cores move in the same trip of the same instruction count once.
  int64_t distinct_device_bytes = 0;
  int64_t device_runs = 0;  // contiguous
  // Of indices that an indirect transfer reads to know where to go.
  Count index_bytes;
  int64_t index_runs = 0;
};

struct Recording {
  std::vector<InstructionCounts> instructions;  // as many as the program has
  // How often something is done depends on data: both arms of a branch are counted, one trip of a
  // loop, and one point of an extent.
  bool is_data_dependent = false;
  // Whether cores may touch the same device memory, and one of them writes it.
  bool has_conflict = false;
};

// An array argument as its memory lies: bytes < 0 if it has no known end.
struct ArrayPlace {
  int64_t address = 0, bytes = -1;
};

// Arrays one after the other from 0x10000 on, each at a whole stick; after the program's fixed
// buffers if one of these is there.
std::vector<ArrayPlace> place_arrays(const Program& program, std::span<const int64_t> bytes);

// Lanes of the card's vector unit, for elements of up to 16 bits and for wider ones.
struct VectorLanes {
  int64_t narrow, wide;

  int64_t for_bytes(int64_t element_bytes) const { return element_bytes > 2 ? wide : narrow; }
};

// `arrays` and `scalars` are those of the program's arguments, each in their order. Memory beyond
// the end of an array costs nothing. Throws KernelError for what no launch could execute.
Recording record(const Program& program, std::span<const ArrayPlace> arrays,
                 std::span<const uint64_t> scalars, VectorLanes lanes);

}  // namespace spyre::emulator::engine
