// Subscripts of indirect accesses: expressions of variables, and indices read from memory.
#pragma once

#include <optional>
#include <vector>

#include "emulator/engine/core.h"
#include "emulator/engine/memory.h"

namespace spyre::emulator::engine {

// Throws KernelError for a division by zero and for overflow.
int64_t evaluate(const Expression& expression, const Core& core,
                 std::span<const int64_t> variables);

// Returns one more than the highest variable in any expression.
size_t num_variables_used(const IndirectTransfer& transfer);

// Computes the coordinates of an indirect access. `core` and `memory` must outlive it.
class Subscripts {
 public:
  Subscripts(const IndirectTransfer& transfer, const Core& core, const Memory& memory);

  // Computes the coordinates at a point of the variable space. Throws KernelIndexError if they are
  // outside the view's extents.
  void coordinates(std::span<const int64_t> variables, std::vector<int64_t>& out) const;

  // Computes one of them.
  int64_t coordinate(size_t dimension, std::span<const int64_t> variables) const;

  // The extent of the view in a dimension, if it is known.
  std::optional<int64_t> extent(size_t dimension) const;
  // The extent of the view that holds the indices of `dimension`, in its dimension `d`.
  std::optional<int64_t> index_extent(size_t dimension, size_t d) const;

 private:
  // Throws KernelIndexError unless the coordinate is within the view's extents. It was computed at
  // a point of the variable space, which tells where an index was read.
  void check_coordinate(size_t dimension, int64_t coordinate,
                        std::span<const int64_t> variables) const;
  struct Index {
    Region region;
    std::vector<int64_t> extents;  // empty: unknown
  };
  std::vector<int64_t> index_position(size_t dimension, std::span<const int64_t> variables) const;
  int64_t read_index(size_t dimension, std::span<const int64_t> variables) const;

  const IndirectTransfer& transfer_;
  const Core& core_;
  std::vector<int64_t> extents_;  // of the view; empty: unknown
  std::vector<Index> indices_;    // one for each subscript, empty for direct ones
};

}  // namespace spyre::emulator::engine
