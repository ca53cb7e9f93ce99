// Counts the work of a program without executing it. The timing model computes the device time from
// these counts. Scalars and control flow are evaluated for every core; tensors are not accessed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "emulator/engine/program.h"

namespace spyre::emulator::engine {

// A count of one instruction: the sum over all cores, and the maximum of any core.
struct Count {
  int64_t total = 0, busiest = 0;
};

struct InstructionCounts {
  int64_t cores = 0;  // the number of cores that execute it
  Count executions;
  Count elements;        // points of the iteration space
  Count lanes;           // elements, each execution padded to whole vectors
  Count reduced_sticks;  // sticks of results, each execution padded, of reductions over the
                         // innermost dimension
  Count macs;
  int64_t batch = 0, rows = 0, columns = 0, inner = 0;  // of the largest matmul
  Count scratchpad_bytes;
  Count remote_bytes;  // transferred from or to another core's scratchpad
  Count device_bytes;  // transferred from or to device memory, in whole sticks
  // As device_bytes, but sticks that several cores transfer in the same iteration of the same
  // instruction count once.
  int64_t distinct_device_bytes = 0;
  // As device_bytes, but a tile that the instruction transfers repeatedly counts once.
  int64_t unique_device_bytes = 0;
  int64_t device_runs = 0;  // contiguous runs
  // The indices that an indirect transfer reads.
  Count index_bytes;
  int64_t index_runs = 0;
};

struct Recording {
  std::vector<InstructionCounts> instructions;  // by index in Program::code
  // True if the amount of work depends on data. Then both arms of a branch are counted, one
  // iteration of a loop, and one point of an extent.
  bool is_data_dependent = false;
  // True if several cores may access the same device memory and one of them writes it.
  bool has_conflict = false;
};

// The device memory of an array argument; bytes < 0 if its size is not known.
struct ArrayLocation {
  int64_t address = 0, bytes = -1;
};

// Assigns addresses to arrays of these sizes: consecutive and stick-aligned, from 0x10000 on, or
// after the program's fixed buffers if they would overlap.
std::vector<ArrayLocation> locate_arrays(const Program& program, std::span<const int64_t> bytes);

// The number of lanes of the card's vector unit, for elements of up to 16 bits and for wider ones.
struct VectorLanes {
  int64_t narrow, wide;

  int64_t for_bytes(int64_t element_bytes) const { return element_bytes > 2 ? wide : narrow; }
};

// Counts the work of a launch with these arguments: `arrays` and `scalars` each in the order of the
// program's arguments. Accesses beyond the end of an array cost nothing. Throws KernelError for a
// program that no launch could execute.
Recording record(const Program& program, std::span<const ArrayLocation> arrays,
                 std::span<const uint64_t> scalars, VectorLanes lanes);

}  // namespace spyre::emulator::engine
