// Loads and stores of lanes, and combining lanes for reductions.
//
// The functions are selected for the host's instruction set and for the current meaning of F16
// (spyre::ieee_fp16()); the results are bitwise identical for all instruction sets. The functions
// require the default floating-point settings: see DefaultFloatingPoint.
#pragma once

#include <cfenv>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "emulator/engine/element_type.h"
#include "emulator/engine/vector_ops.h"

namespace spyre::emulator::engine {

// Loads the element at src + i * stride, in elements, into lane i. Elements may be unaligned.
// Strides 1 and 0 (one element for all lanes) are fast. n >= 1, any n.
using LoadLanes = void (*)(const std::byte* src, int64_t stride_elements, void* lanes, int64_t n);
// Stores lanes to elements, without rounding: the type must be able to represent the values.
using StoreLanes = void (*)(const void* lanes, std::byte* dst, int64_t stride_elements, int64_t n);

LoadLanes load_lanes(ElementType type);
StoreLanes store_lanes(ElementType type);

// Rounds float lanes in place to the nearest value that the float type can represent.
// F16 (SEN169): ties away from zero, overflow saturates to the maximum; while ieee_fp16() is on,
// and for BF16: ties to even, overflow gives infinity. F8: ties to even, overflow saturates to the
// maximum; F8E5M2 has no negative zero. NaN stays NaN without sign and payload, also for F32, where
// nothing else changes.
using RoundLanes = void (*)(float* lanes, int64_t n);
RoundLanes round_lanes(ElementType type);  // nullptr for integer types

// The operation of a reduction on two lanes. MAXIMUM and MINIMUM return NaN if an operand is NaN,
// MAXNUM and MINNUM the other operand; -0 is less than +0. These four, ADD and MUL exist for
// floats; all except MAXNUM and MINNUM for integers, where MAXIMUM and MINIMUM compare as signed
// integers.
enum class Combine : uint8_t {
  ADD = 0,
  MUL = 1,
  MAXIMUM = 2,
  MINIMUM = 3,
  MAXNUM = 4,
  MINNUM = 5,
  AND = 6,
  OR = 7,
  XOR = 8,
  UNSIGNED_MAXIMUM = 9,
  UNSIGNED_MINIMUM = 10,
};
inline constexpr int kCombineCount = 11;

// Returns the operation of a vector instruction in a reduction; nothing if it has none.
std::optional<Combine> combine_of(VectorOp op);

// accumulators[i] = combine(accumulators[i], inputs[i]). Floats stay unrounded float32 values, to
// be rounded once at the end with round_lanes; integers wrap in their type. nullptr: no such
// function.
using CombineLanes = void (*)(void* accumulators, const void* inputs, int64_t n);
CombineLanes combine_lanes(Combine combine, ElementType type);

// Reduces a run of lanes in a fixed order: lane k of the run is combined with accumulator k % 64,
// in order of k; a tree then combines accumulator l with l + 32, l + 16, ..., l + 1.
inline constexpr int kReductionAccumulators = 64;

// Fills the 64 accumulators with the neutral element (-0 for a float ADD).
using StartReduction = void (*)(void* accumulators);
StartReduction start_reduction(Combine combine, ElementType type);

// Accumulates n lanes; the first one has position `first` in the run.
using ReduceLanes = void (*)(void* accumulators, const void* inputs, int64_t first, int64_t n);
ReduceLanes reduce_lanes(Combine combine, ElementType type);

// The same for contiguous elements in memory; nullptr: no such function.
ReduceLanes reduce_elements(Combine combine, ElementType type);

// Combines the accumulators with the tree; the result is in accumulators[0].
using FinishLanes = void (*)(void* accumulators);
FinishLanes finish_lanes(Combine combine, ElementType type);

// During its lifetime, the thread rounds to nearest and preserves subnormal numbers, as all lane
// and vector functions require. The destructor restores the previous settings.
class DefaultFloatingPoint {
 public:
  DefaultFloatingPoint();
  ~DefaultFloatingPoint();
  DefaultFloatingPoint(const DefaultFloatingPoint&) = delete;
  DefaultFloatingPoint& operator=(const DefaultFloatingPoint&) = delete;

 private:
#if defined(__x86_64__)
  const uint32_t before_;  // the MXCSR register
#else
  std::fenv_t before_;
#endif
};

}  // namespace spyre::emulator::engine
