// A strided box of elements in device memory, and its transfer cost in sticks and contiguous runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "flex/data_format.h"

namespace spyre::flex {

// Bytes [begin, end) of device memory.
struct ByteRange {
  int64_t begin, end;
};

// The sticks that hold a set of bytes, and the number of its maximal contiguous runs. Not exact: an
// upper bound, for a set with too many runs to enumerate.
struct BoxCost {
  int64_t sticks = 0;
  int64_t runs = 0;
  bool is_exact = true;
};

// Sorts the ranges and merges those that overlap or touch.
void merge_ranges(std::vector<ByteRange>& ranges);
// Returns the cost of ranges that `merge_ranges` has merged.
BoxCost cost_of_ranges(std::span<const ByteRange> merged);

class DeviceBox {
 public:
  DeviceBox(int64_t start, int64_t element_bytes) : start_(start), run_(element_bytes) {}

  // Adds a dimension, in any order; strides are bytes and may be 0 or negative. Throws KernelError
  // for addresses outside of the address space.
  void add(int64_t extent, int64_t stride);
  // Sorts dimensions by stride and merges contiguous ones. Must be called after `add`, before any
  // other method.
  void normalise();

  // Returns the smallest range that contains the box.
  ByteRange hull() const;
  // Returns the number of runs that `visit_runs` visits.
  int64_t visited_runs() const { return visited_runs(dimensions_.size()); }
  // Returns the cost of the intersection with `limits`.
  BoxCost cost(ByteRange limits) const;
  // Calls visit(begin, end) for contiguous bytes of the box; they may overlap and touch.
  template <typename Visit>
  void visit_runs(Visit visit) const {
    visit_runs(dimensions_.size(), visit);
  }
  // Returns a key that is equal for boxes that differ only by whole sticks.
  std::vector<int64_t> shape() const;
  // Moves all elements.
  void move(int64_t bytes) { start_ += bytes; }

 private:
  struct Dimension {
    int64_t extent, stride;
  };
  int64_t visited_runs(size_t num_dimensions) const;
  // Returns the cost of the innermost dimensions, clipped to `limits`, run by run.
  BoxCost enumerated(size_t num_dimensions, ByteRange limits) const;
  BoxCost sticks() const;
  BoxCost maximal_runs() const;
  // Visits the runs of the innermost dimensions at coordinate 0 of the others.
  template <typename Visit>
  void visit_runs(size_t num_dimensions, Visit visit) const {
    std::vector<int64_t> coordinates(num_dimensions, 0);
    int64_t at = start_;
    while (true) {
      visit(at, at + run_);
      size_t i = 0;
      for (; i < num_dimensions; ++i) {
        at += dimensions_[i].stride;
        if (++coordinates[i] < dimensions_[i].extent) break;
        at -= dimensions_[i].stride * dimensions_[i].extent;
        coordinates[i] = 0;
      }
      if (i == num_dimensions) return;
    }
  }

  int64_t start_;
  int64_t run_;                        // contiguous bytes
  std::vector<Dimension> dimensions_;  // innermost first, after `normalise`
};

}  // namespace spyre::flex
