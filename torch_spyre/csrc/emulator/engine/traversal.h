// The strided traversal of an operand's elements along a flattened iteration space.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "emulator/engine/core.h"

namespace spyre::emulator::engine {

// Drops dimensions of extent 1 and merges adjacent dimensions that one stride covers, so that runs
// are as long as this operand allows, independent of the other operands.
class Traversal {
 public:
  // Traverses the dimensions in `order`; the last one varies fastest.
  void set(std::span<const int64_t> extents, std::span<const int64_t> strides,
           std::span<const int32_t> order) {
    rank_ = 0;
    for (const int32_t dimension : order) {
      const int64_t extent = extents[static_cast<size_t>(dimension)];
      if (extent == 1) continue;
      add(extent, strides[static_cast<size_t>(dimension)]);
    }
  }

  // Returns whether the points [begin, begin + n) all have the same element.
  bool is_constant(int64_t begin, int64_t n) const {
    if (rank_ == 0) return true;
    const size_t inner = rank_ - 1;
    return strides_[inner] == 0 && begin % extents_[inner] + n <= extents_[inner];
  }
  // Returns whether consecutive points have consecutive elements.
  bool is_dense() const { return rank_ == 1 && strides_[0] == 1; }
  // Returns whether consecutive points may have the same element.
  bool has_constant_runs() const { return rank_ == 0 || strides_[rank_ - 1] == 0; }

  // Calls visit(offset in elements, stride, count) for each run of the points [begin, begin + n).
  template <typename Visit>
  void visit_runs(int64_t begin, int64_t n, Visit visit) const {
    if (rank_ == 0) return visit(int64_t{0}, int64_t{0}, n);
    const size_t inner = rank_ - 1;
    const int64_t stride = strides_[inner];
    if (inner == 0) return visit(begin * stride, stride, n);
    std::array<int64_t, kMaxRank> coordinates;
    int64_t remaining = begin;
    int64_t offset = 0;
    for (size_t i = rank_; i-- > 0;) {
      const int64_t coordinate = i == 0 ? remaining : remaining % extents_[i];
      remaining /= extents_[i];
      coordinates[i] = coordinate;
      offset += coordinate * strides_[i];
    }
    int64_t in_row = coordinates[inner];
    while (true) {
      const int64_t count = std::min(n, extents_[inner] - in_row);
      visit(offset, stride, count);
      n -= count;
      if (n == 0) return;
      offset -= in_row * stride;
      in_row = 0;
      for (size_t i = inner; i-- > 0;) {
        offset += strides_[i];
        if (++coordinates[i] < extents_[i]) break;
        offset -= extents_[i] * strides_[i];
        coordinates[i] = 0;
      }
    }
  }

 private:
  void add(int64_t extent, int64_t stride) {
    // No product overflows: strides were checked against the size of a buffer, or are 0 or 1.
    if (rank_ > 0 && strides_[rank_ - 1] == extent * stride) {
      extents_[rank_ - 1] *= extent;
      strides_[rank_ - 1] = stride;
      return;
    }
    extents_[rank_] = extent;
    strides_[rank_] = stride;
    ++rank_;
  }

  size_t rank_ = 0;
  std::array<int64_t, kMaxRank> extents_;
  std::array<int64_t, kMaxRank> strides_;
};

}  // namespace spyre::emulator::engine
