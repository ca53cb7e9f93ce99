// How a reduction combines accumulators with elements: one operation on float32 or integers, or a
// combiner of several steps on several values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/engine/core.h"

namespace spyre::emulator::engine {

// The most values that one reduction may fold.
inline constexpr size_t kFoldValues = 8;

// Pointers come in arrays, one for each value of the reduction. `scratch` has room for `bytes()`.
class Fold {
 public:
  void prepare(const Reduce& reduce);
  int64_t bytes() const;

  // left[i] = combine(left[i], right[i]) for n <= kBlockLanes lanes.
  void combine(std::byte* scratch, void* const* left, const void* const* right, int64_t n) const;
  void copy(void* const* to, const void* const* from, int64_t n) const;

  // A row: start, take its elements `first` ... in order, finish; the result is in lane 0.
  void start(void* const* accumulators) const;
  void take(std::byte* scratch, void* const* accumulators, const void* const* elements,
            int64_t first, int64_t n) const;
  // All elements of a row, one after the other in memory, if it can for that type.
  bool can_take_elements(ElementType type);
  void take_elements(void* const* accumulators, const std::byte* elements, int64_t n) const {
    take_elements_(accumulators[0], elements, 0, n);
  }
  void finish(std::byte* scratch, void* const* accumulators, int64_t elements) const;

  // Returns whether the launch asks for a fault in this result.
  bool is_faulty(const Core& core) const;

 private:
  const Reduce* reduce_ = nullptr;
  std::vector<int> lanes_;  // bytes, of each value
  CombineLanes combine_ = nullptr;
  StartReduction start_ = nullptr;
  ReduceLanes take_ = nullptr, take_elements_ = nullptr;
  FinishLanes finish_ = nullptr;
  std::vector<VectorFunction> steps_;
};

}  // namespace spyre::emulator::engine
