#include "emulator/engine/reducer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "emulator/engine/value_blocks.h"

namespace spyre::emulator::engine {
namespace {

const std::byte* advanced(const void* lanes, int64_t count, int lane) {
  return static_cast<const std::byte*>(lanes) + count * lane;
}
std::byte* advanced(void* lanes, int64_t count, int lane) {
  return static_cast<std::byte*>(lanes) + count * lane;
}

}  // namespace

void Reducer::prepare(const Reduce& reduce) {
  reduce_ = &reduce;
  if (reduce.values.size() > kMaxReducedValues) {
    throw KernelError("a reduction has " + std::to_string(reduce.values.size()) +
                      " values, more than " + std::to_string(kMaxReducedValues));
  }
  lanes_.clear();
  for (const int32_t value : reduce.values) {
    lanes_.push_back(lane_bytes(type_of_value(reduce, value)));
  }
  steps_.clear();
  if (reduce.combine) {
    const ElementType type = type_of_value(reduce, reduce.values[0]);
    const Combine combine = combine_of(*reduce.combine).value();
    combine_ = combine_lanes(combine, type);
    start_ = start_reduction(combine, type);
    accumulate_ = reduce_lanes(combine, type);
    finish_ = finish_lanes(combine, type);
    if (combine_ == nullptr) {
      throw KernelError("no such reduction of " + std::string(name_of(type)));
    }
    return;
  }
  for (const ChainStep& step : reduce.combiner) {
    steps_.push_back(vector_function(step.op, step.operand, step.result));
    if (steps_.back() == nullptr) {
      throw KernelError("the vector unit has no such instruction for " +
                        std::string(name_of(step.operand)) + " to " +
                        std::string(name_of(step.result)));
    }
  }
}

int64_t Reducer::bytes() const { return static_cast<int64_t>(steps_.size()) * block_bytes(8); }

void Reducer::combine(std::byte* scratch, void* const* left, const void* const* right,
                      int64_t n) const {
  if (reduce_->combine) return combine_(left[0], right[0], n);
  const size_t values = lanes_.size();
  const auto value = [&](int32_t number) -> const void* {
    const auto at = static_cast<size_t>(number);
    if (at < values) return left[at];
    if (at < 2 * values) return right[at - values];
    return scratch + static_cast<int64_t>(at - 2 * values) * block_bytes(8);
  };
  for (size_t i = 0; i < steps_.size(); ++i) {
    const ChainStep& step = reduce_->combiner[i];
    std::array<const void*, 8> inputs;
    for (size_t k = 0; k < step.inputs.size(); ++k) inputs[k] = value(step.inputs[k]);
    steps_[i](inputs.data(), scratch + static_cast<int64_t>(i) * block_bytes(8), n);
  }
  // A combiner may return accumulators in another order, (a, b) -> (b, a). Copying them one by one
  // would then overwrite a source before it is read.
  std::array<const void*, kMaxReducedValues> results{};
  bool is_permuted = false;
  for (size_t i = 0; i < values; ++i) {
    results[i] = value(reduce_->results[i]);
    is_permuted |= reduce_->results[i] < static_cast<int32_t>(values) &&
                   reduce_->results[i] != static_cast<int32_t>(i);
  }
  if (!is_permuted) return copy(left, results.data(), n);
  std::vector<std::byte> staging;
  for (size_t i = 0; i < values; ++i) {
    const auto* const bytes = static_cast<const std::byte*>(results[i]);
    staging.insert(staging.end(), bytes, bytes + n * lanes_[i]);
  }
  int64_t at = 0;
  for (size_t i = 0; i < values; ++i) {
    std::memcpy(left[i], staging.data() + at, static_cast<size_t>(n * lanes_[i]));
    at += n * lanes_[i];
  }
}

void Reducer::copy(void* const* to, const void* const* from, int64_t n) const {
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (to[i] != from[i]) std::memcpy(to[i], from[i], static_cast<size_t>(n * lanes_[i]));
  }
}

void Reducer::start(void* const* accumulators) const {
  if (reduce_->combine) start_(accumulators[0]);
}

void Reducer::accumulate(std::byte* scratch, void* const* accumulators, const void* const* elements,
                         int64_t first, int64_t n) const {
  if (reduce_->combine) return accumulate_(accumulators[0], elements[0], first, n);
  int64_t done = 0;
  while (done < n) {
    const int64_t accumulator = (first + done) % kReductionAccumulators;
    const int64_t count = std::min(n - done, kReductionAccumulators - accumulator);
    std::array<void*, kMaxReducedValues> left{};
    std::array<const void*, kMaxReducedValues> right{};
    for (size_t i = 0; i < lanes_.size(); ++i) {
      left[i] = advanced(accumulators[i], accumulator, lanes_[i]);
      right[i] = advanced(elements[i], done, lanes_[i]);
    }
    // The first element of an accumulator is its value.
    if (first + done < kReductionAccumulators) {
      copy(left.data(), right.data(), count);
    } else {
      combine(scratch, left.data(), right.data(), count);
    }
    done += count;
  }
}

bool Reducer::can_accumulate_elements(ElementType type) {
  accumulate_elements_ =
      reduce_->combine ? reduce_elements(combine_of(*reduce_->combine).value(), type) : nullptr;
  return accumulate_elements_ != nullptr;
}

void Reducer::finish(std::byte* scratch, void* const* accumulators, int64_t elements) const {
  if (reduce_->combine) return finish_(accumulators[0]);
  int64_t used = std::min<int64_t>(elements, kReductionAccumulators);
  for (int64_t half = kReductionAccumulators / 2; half > 0; half /= 2) {
    if (used <= half) continue;
    std::array<const void*, kMaxReducedValues> right{};
    for (size_t i = 0; i < lanes_.size(); ++i) {
      right[i] = advanced(accumulators[i], half, lanes_[i]);
    }
    combine(scratch, accumulators, right.data(), used - half);
    used = half;
  }
}

bool Reducer::is_faulty(const Core& core) const {
  if (core.injection == nullptr || core.injection->done) return false;
  if (reduce_->combine) return vector_op_info(*reduce_->combine)->name == core.injection->op;
  return std::any_of(reduce_->combiner.begin(), reduce_->combiner.end(), [&](const auto& step) {
    return vector_op_info(step.op)->name == core.injection->op;
  });
}

}  // namespace spyre::emulator::engine
