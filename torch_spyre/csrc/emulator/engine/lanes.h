// Moving elements between memory and lanes, and combining lanes for reductions.
//
// Every function here is chosen for the host's instruction set and for the current meaning of F16
// (spyre::ieee_fp16()) when it is asked for; all choices give the same bits. The functions
// expect the default floating-point settings: see DefaultFloatingPoint.
#pragma once

#include <cfenv>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "emulator/engine/element_type.h"
#include "emulator/engine/vector_ops.h"

namespace spyre::emulator::engine {

// Lane i becomes the element at src + i * stride_elements, in elements from `src`; elements may lie
// at any address. Strides 1 and 0 (one element for all lanes) are fast. n >= 1, any n.
using LoadLanes = void (*)(const std::byte* src, int64_t stride_elements, void* lanes, int64_t n);
// The reverse. Nothing is rounded: the lanes must hold values that the type can represent.
using StoreLanes = void (*)(const void* lanes, std::byte* dst, int64_t stride_elements, int64_t n);

LoadLanes load_lanes(ElementType type);
StoreLanes store_lanes(ElementType type);

// Rounds float lanes that hold any value to the nearest that a float type can represent, in place.
// F16 (SEN169): ties away from zero, too large becomes the largest; while ieee_fp16() is on, and
// for BF16: ties to even, too large becomes infinity. F8: ties to even, too large becomes the
// largest; F8E5M2 has no negative zero. NaN stays NaN and loses sign and payload. F32: nothing but
// the latter.
using RoundLanes = void (*)(float* lanes, int64_t n);
RoundLanes round_lanes(ElementType type);  // nullptr for integer types

// What a reduction does with two lanes. MAXIMUM and MINIMUM give NaN when one of the two is NaN,
// MAXNUM and MINNUM the other; -0 is less than +0. Those six (with ADD and MUL) exist for floats,
// all but MAXNUM and MINNUM for integers, where MAXIMUM and MINIMUM compare as signed numbers.
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

// Returns how a vector instruction combines lanes in a reduction; none if it is not a reduction.
std::optional<Combine> combine_of(VectorOp op);

// accumulators[i] = combine(accumulators[i], inputs[i]). Floats stay unrounded float32 values, to
// be rounded once at the end with round_lanes; integers wrap in their type. nullptr: no such
// function.
using CombineLanes = void (*)(void* accumulators, const void* inputs, int64_t n);
CombineLanes combine_lanes(Combine combine, ElementType type);

// Reduces a run of lanes in a fixed order: lane k of the run goes to accumulator k % 64, in order
// of k; a tree then combines accumulator l with l + 32, l + 16, ..., l + 1.
inline constexpr int kReductionAccumulators = 64;

// Fills the 64 accumulators with the value that changes nothing (-0 for a float ADD).
using StartReduction = void (*)(void* accumulators);
StartReduction start_reduction(Combine combine, ElementType type);

// Takes n lanes, the first of which has position `first` in the run.
using ReduceLanes = void (*)(void* accumulators, const void* inputs, int64_t first, int64_t n);
ReduceLanes reduce_lanes(Combine combine, ElementType type);

// The same for elements in memory, one after the other. nullptr where there is no such function.
ReduceLanes reduce_elements(Combine combine, ElementType type);

// The tree: the result is left in accumulators[0].
using FinishLanes = void (*)(void* accumulators);
FinishLanes finish_lanes(Combine combine, ElementType type);

// While one exists, its thread rounds to nearest and keeps subnormal numbers, as all lane and
// vector functions expect; the settings the thread had come back with its end.
class DefaultFloatingPoint {
 public:
  DefaultFloatingPoint();
  ~DefaultFloatingPoint();
  DefaultFloatingPoint(const DefaultFloatingPoint&) = delete;
  DefaultFloatingPoint& operator=(const DefaultFloatingPoint&) = delete;

 private:
#if defined(__x86_64__)
  const uint32_t before_;  // the register of vector instructions: there are no others here
#else
  std::fenv_t before_;
#endif
};

}  // namespace spyre::emulator::engine
