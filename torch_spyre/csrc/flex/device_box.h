// A strided box of elements in device memory, and its transfer cost in sticks and contiguous runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "flex/data_format.h"

namespace spyre::flex {

// Bytes [begin, end) of device memory.
struct ByteRange {
  int64_t begin, end;
};

struct BoxCost {
  int64_t sticks = 0;
  int64_t runs = 0;
};

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
  int64_t runs() const;
  // Returns the cost of the intersection with `limits`.
  BoxCost cost(ByteRange limits) const;
  // Calls visit(begin, end) for each run.
  template <typename Visit>
  void visit_runs(Visit visit) const {
    std::vector<int64_t> coordinates(dimensions_.size(), 0);
    int64_t at = start_;
    while (true) {
      visit(at, at + run_);
      size_t i = 0;
      for (; i < dimensions_.size(); ++i) {
        at += dimensions_[i].stride;
        if (++coordinates[i] < dimensions_[i].extent) break;
        at -= dimensions_[i].stride * dimensions_[i].extent;
        coordinates[i] = 0;
      }
      if (i == dimensions_.size()) return;
    }
  }
  // Returns a key that is equal for boxes of equal cost, if no limit clips them.
  std::vector<int64_t> shape() const;

 private:
  struct Dimension {
    int64_t extent, stride;
  };
  int64_t sticks() const;
  BoxCost counted(ByteRange limits) const;

  int64_t start_;
  int64_t run_;                        // contiguous bytes
  std::vector<Dimension> dimensions_;  // innermost first, after `normalise`
};

}  // namespace spyre::flex
