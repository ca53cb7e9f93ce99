// Offsets of many points of an indirect transfer at once.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "emulator/engine/core.h"
#include "emulator/engine/memory.h"
#include "emulator/engine/subscripts.h"

namespace spyre::emulator::engine {

// The integers from `low` to `high`.
struct ValueRange {
  __int128 low = 0, high = 0;
};

// Values of an expression at consecutive values of one variable: a single value if they are equal.
struct RowValues {
  std::vector<int64_t> values;
  ValueRange range;
  bool is_uniform = true;  // `range.low` is the value
};

// Points that are contiguous in memory, by their position in the row.
struct ContiguousRun {
  int64_t begin = 0, count = 0;
  int64_t offset = 0;  // bytes, relative to the base of the row
};

// The byte offsets of the points of a row: points that differ in the variable `varied` only.
// `core` and `memory` must outlive it.
class RowOffsets {
 public:
  RowOffsets(const IndirectTransfer& transfer, const Core& core, const Memory& memory,
             const Region& region, const Subscripts& subscripts, size_t varied);

  // The largest number of points of one call of `compute`.
  static constexpr int64_t kMaxPoints = 1024;

  // Computes the offsets of `count` points, the first at `variables`, for which the caller sets
  // all other variables. Returns false if some point may be invalid or outside of memory: such
  // points have to be computed one by one. The reads of indices must not depend on what the
  // transfer stores: see `reads_what_it_stores`.
  bool compute(std::span<const int64_t> variables, int64_t count);

  int64_t base() const { return base_; }
  // Relative to the base.
  std::span<const int64_t> offsets() const { return offsets_; }
  // Runs that cover the points, ascending; empty unless they are the same for every row.
  const std::vector<ContiguousRun>& runs() const { return runs_; }

 private:
  // How the coordinate of a dimension depends on the variables.
  enum class Dependence {
    kOuter,  // not on the varied variable
    kRow,    // on the varied variable only
    kBoth,
  };
  Dependence dependence_of(const Subscript& subscript) const;
  bool evaluate_row(const Expression& expression, std::span<const int64_t> variables, int64_t count,
                    size_t depth);
  bool add_dimension(size_t dimension, std::span<const int64_t> variables, int64_t count);
  bool load_indices(size_t dimension, std::span<const int64_t> variables, int64_t count);
  bool add_offsets(const RowValues& row, int64_t stride);
  bool lies_inside(const ValueRange& range, std::optional<int64_t> extent) const;
  void find_runs();

  const IndirectTransfer& transfer_;
  const Core& core_;
  const Region& region_;
  const Subscripts& subscripts_;
  const size_t varied_;
  std::vector<Dependence> dependences_;
  std::vector<Region> index_regions_;  // one for each subscript, empty for direct ones
  bool has_equal_rows_ = true;         // no dimension depends on both
  // The points for which the parts that are equal in all rows were computed.
  int64_t row_begin_ = -1, row_count_ = -1;
  std::vector<int64_t> row_offsets_;
  ValueRange row_range_;
  // Results.
  int64_t base_ = 0;
  ValueRange range_;
  std::vector<int64_t> offsets_;
  std::vector<ContiguousRun> runs_;
  std::vector<RowValues> stack_;
  RowValues index_;
};

// Returns whether a store of the transfer may change an index that it reads.
bool reads_what_it_stores(const IndirectTransfer& transfer, const Core& core, const Memory& memory,
                          const Region& region);

}  // namespace spyre::emulator::engine
