// Combines accumulators with elements in a reduction: with one operation on float32 or integers, or
// with a combiner of several steps on several values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/engine/core.h"

namespace spyre::emulator::engine {

// The maximum number of values that one reduction may have.
inline constexpr size_t kMaxReducedValues = 8;

// Arrays of pointers hold one pointer per value of the reduction. `scratch` must hold `bytes()`
// bytes.
class Reducer {
 public:
  void prepare(const Reduce& reduce);
  int64_t bytes() const;

  // left[i] = combine(left[i], right[i]) for n <= kBlockLanes lanes.
  void combine(std::byte* scratch, void* const* left, const void* const* right, int64_t n) const;
  void copy(void* const* to, const void* const* from, int64_t n) const;

  // To reduce a row, call `start`, `accumulate` for its elements in order (`first` is the position
  // of the first of them in the row), and `finish`. The result is in lane 0.
  void start(void* const* accumulators) const;
  void accumulate(std::byte* scratch, void* const* accumulators, const void* const* elements,
                  int64_t first, int64_t n) const;
  // Returns whether `accumulate_elements` supports elements of this type. It accumulates all
  // elements of a row that is contiguous in memory.
  bool can_accumulate_elements(ElementType type);
  void accumulate_elements(void* const* accumulators, const std::byte* elements, int64_t n) const {
    accumulate_elements_(accumulators[0], elements, 0, n);
  }
  void finish(std::byte* scratch, void* const* accumulators, int64_t elements) const;

  // Returns whether a fault must be injected into this result.
  bool is_faulty(const Core& core) const;

 private:
  const Reduce* reduce_ = nullptr;
  std::vector<int> lanes_;  // bytes of a lane, by value
  CombineLanes combine_ = nullptr;
  StartReduction start_ = nullptr;
  ReduceLanes accumulate_ = nullptr, accumulate_elements_ = nullptr;
  FinishLanes finish_ = nullptr;
  std::vector<VectorFunction> steps_;
};

}  // namespace spyre::emulator::engine
