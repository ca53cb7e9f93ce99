// Counts the work of a program without executing it. The timing model computes the device time from
// these counts. Scalars and control flow are evaluated for every core; tensors are not accessed.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <span>
#include <tuple>
#include <vector>

#include "emulator/engine/program.h"

namespace spyre::emulator::engine {

// A count of one instruction: the sum over all cores, and the maximum of any core.
struct Count {
  int64_t total = 0, busiest = 0;
};

struct MatmulShape {
  int64_t batch = 0, rows = 0, columns = 0, inner = 0;

  int64_t macs() const { return batch * rows * columns * inner; }
  // By the number of multiply-accumulates.
  auto operator<=>(const MatmulShape& other) const {
    return std::tuple(macs(), batch, rows, columns, inner) <=>
           std::tuple(other.macs(), other.batch, other.rows, other.columns, other.inner);
  }
  bool operator==(const MatmulShape&) const = default;
};

// How the counts of an instruction relate to those of a launch with the same arguments.
enum class Exactness : uint8_t {
  kExact,
  // Counts of device memory and of other cores are upper bounds, all others exact. A tile's address
  // depends on data: it is counted with the offset in its sticks, of those possible, that needs the
  // most, and as if it were inside its array and its cores different.
  kUpperBound,
  // Loops, branches, extents, strides or subscripts depend on data, or a loop or box was too large
  // to enumerate.
  kEstimate,
};

// The traffic of an execution is counted in the sticks and maximal contiguous runs of the bytes
// that it transfers, without those beyond the end of an array: each byte once, even if several
// elements of the tile are the same. In an indirect transfer data decides on the position of the
// part of the tile that one index selects. Every such part, a row, is counted on its own: rows are
// not merged with each other, nor with those of other cores.
struct InstructionCounts {
  int64_t cores = 0;  // the number of cores that execute it
  Count executions;
  Count elements;        // points of the iteration space
  Count lanes;           // elements, each execution padded to whole vectors
  Count reduced_sticks;  // sticks of results, each execution padded, of reductions over the
                         // innermost dimension
  Count macs;
  Count exchanges;  // elements that pass a stage of a sorting network, each stage padded to whole
                    // vectors
  MatmulShape largest_matmul;
  Count scratchpad_bytes;
  Count remote_bytes;  // transferred from or to another core's scratchpad
  Count device_bytes;  // transferred from or to device memory, in whole sticks
  // As device_bytes, but sticks that several cores, or several partitions of a view, transfer in
  // the same execution of the instruction, each core's n-th, count once.
  int64_t distinct_device_bytes = 0;
  // As device_bytes, but sticks that the instruction transfers repeatedly, on any core, count once.
  int64_t unique_device_bytes = 0;
  Count device_runs;
  // The indices that an indirect transfer reads: all of one subscript together.
  Count index_bytes;
  Count index_runs;
  Exactness exactness = Exactness::kExact;
};

struct Recording {
  std::vector<InstructionCounts> instructions;  // by index in Program::code
  // True if the amount of work depends on data. Then both arms of a branch are counted, one
  // iteration of a loop, and one point of an extent.
  bool is_data_dependent = false;
  // True if a loop was too long to visit, and its later iterations are counted as the first ones,
  // or a box had too many runs to enumerate.
  bool is_approximate = false;
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

struct CoreCounts;
// Receives the counts of one core, by instruction. May be called again for the same core: the last
// call counts.
using CoreVisitor = std::function<void(int64_t core, std::span<const CoreCounts> counts)>;

// Counts the work of a launch with these arguments: `arrays` and `scalars` each in the order of the
// program's arguments. Accesses beyond the end of an array cost nothing. Throws KernelError for a
// program that no launch could execute.
Recording record(const Program& program, std::span<const ArrayLocation> arrays,
                 std::span<const uint64_t> scalars, VectorLanes lanes,
                 const CoreVisitor& visit_core = {});

}  // namespace spyre::emulator::engine
