// Kernels that consist of copies, for ops that also have a compiled kernel: the registry of native
// ops (torch_spyre/ops/registry.py) decides which of the two is registered.
#pragma once

#include <ATen/core/Tensor.h>

namespace spyre {

at::Tensor select_scatter(const at::Tensor& self, const at::Tensor& source, int64_t dim,
                          int64_t index);
at::Tensor slice_scatter(const at::Tensor& self, const at::Tensor& source, int64_t dim,
                         std::optional<int64_t> start, std::optional<int64_t> end, int64_t step);

}  // namespace spyre
