#include "torch/uninitialized.h"

#include <ATen/Context.h>

#include <limits>

#include "torch/copy.h"

namespace spyre {

namespace {

at::Scalar value_of_uninitialized(at::ScalarType dtype) {
  if (c10::isFloatingType(dtype)) return std::numeric_limits<double>::quiet_NaN();
  switch (dtype) {
    case at::kBool:
      return true;
    case at::kByte:
      return std::numeric_limits<uint8_t>::max();
    case at::kChar:
      return std::numeric_limits<int8_t>::max();
    case at::kShort:
      return std::numeric_limits<int16_t>::max();
    default:
      // Cards store int64 in 32 bits.
      return std::numeric_limits<int32_t>::max();
  }
}

}  // namespace

at::Tensor fill_if_deterministic(const at::Tensor& tensor) {
  const at::Context& context = at::globalContext();
  if (context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory()) {
    fill_elements(tensor, value_of_uninitialized(tensor.scalar_type()));
  }
  return tensor;
}

}  // namespace spyre
