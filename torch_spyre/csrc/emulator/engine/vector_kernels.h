// The interface of the files compiled per instruction set to vector_ops.cpp and lanes.cpp.
#pragma once

#include <string_view>

#include "emulator/engine/lanes.h"
#include "emulator/engine/vector_ops.h"

namespace spyre::emulator::engine {

struct VectorKernels {
  std::string_view name;  // as in emulator::KernelSet
  // Each returns nullptr if there is no such function. `ieee_fp16`: F16 is binary16, not SEN169.
  VectorFunction (*float_function)(VectorOp op, ElementType result, bool ieee_fp16);
  VectorFunction (*float_function_with_scalar)(VectorOp op, ElementType result, bool ieee_fp16);
  VectorFunction (*integer_function)(VectorOp op, ElementType type);
  VectorFunction (*cast_function)(VectorOp op, ElementType operand, ElementType result,
                                  bool ieee_fp16);
  LoadLanes (*load_lanes)(ElementType type, bool ieee_fp16);
  StoreLanes (*store_lanes)(ElementType type, bool ieee_fp16);
  RoundLanes (*round_lanes)(ElementType type, bool ieee_fp16);
  CombineLanes (*combine_lanes)(Combine combine, ElementType type);
  StartReduction (*start_reduction)(Combine combine, ElementType type);
  ReduceLanes (*reduce_lanes)(Combine combine, ElementType type);
  FinishLanes (*finish_lanes)(Combine combine, ElementType type);
  VectorFunction (*sen169_memory_form)(VectorOp op, MemoryForm form);
  ReduceLanes (*reduce_sen169)(Combine combine);
};

// Returns the kernels of the instruction set that emulator::active_kernels() selects.
const VectorKernels& active_vector_kernels();

// Returns the number of quarter turns in an angle of any size, modulo 4, and the remainder between
// -pi/4 and pi/4; NaN for infinity. It is slow: the vector kernels use it only beyond 2^33.
struct FarAngle {
  int64_t quarters;
  double remainder;
};
FarAngle reduce_far_angle(float angle);

}  // namespace spyre::emulator::engine
