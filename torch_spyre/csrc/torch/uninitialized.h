// Uninitialised memory in PyTorch's deterministic mode.
#pragma once

#include <ATen/core/Tensor.h>

namespace spyre {

// Fills the tensor with NaN or the largest integer, if the program uses deterministic algorithms
// and torch.utils.deterministic.fill_uninitialized_memory is set. Returns the tensor.
at::Tensor fill_if_deterministic(const at::Tensor& tensor);

}  // namespace spyre
