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

// Returns the coefficient of the variable: 0 if it is not used, nothing if the expression is not
// linear in it.
std::optional<int64_t> coefficient_of(const Expression& expression, int64_t variable);

// Returns one more than the highest variable in any expression.
size_t num_variables_used(const IndirectTransfer& transfer);

// Computes the coordinates of an indirect access. `core` and `memory` must outlive it.
class Subscripts {
 public:
  Subscripts(const IndirectTransfer& transfer, const Core& core, const Memory& memory);

  // Computes the coordinates at a point of the variable space. Throws KernelIndexError if they are
  // outside the view's extents.
  void coordinates(std::span<const int64_t> variables, std::vector<int64_t>& out) const;

  // If the last variable occurs in one direct coordinate only, and linearly: that coordinate and
  // the coefficient.
  struct Run {
    size_t dimension;
    int64_t step;
  };
  std::optional<Run> last_variable_run() const;

  // Throws KernelIndexError unless the coordinate is within the view's extents. It was computed at
  // a point of the variable space, which tells where an index was read.
  void check_coordinate(size_t dimension, int64_t coordinate,
                        std::span<const int64_t> variables = {}) const;

 private:
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
