// Creates device tensors and views of them.
#pragma once

#include <ATen/core/Tensor.h>

#include "torch/storage.h"

namespace spyre {

at::Tensor empty_on_device(at::IntArrayRef size, at::IntArrayRef strides, at::ScalarType dtype,
                           c10::Device device);
// Returns a tensor with this layout, which must have a device offset for every element.
at::Tensor empty_with_layout(at::IntArrayRef size, at::IntArrayRef strides, at::ScalarType dtype,
                             c10::Device device, const TensorLayout& layout);

// Returns a view with the storage and layout of the base. Throws if it exceeds the base.
at::Tensor view_as(const at::Tensor& base, at::IntArrayRef size, at::IntArrayRef strides,
                   int64_t offset);
// Returns a view of the same memory with another layout, whose strides refer to (size, strides).
at::Tensor view_with_layout(const at::Tensor& base, at::IntArrayRef size, at::IntArrayRef strides,
                            int64_t offset, const TensorLayout& layout);
// Changes the layout of the tensor without moving data.
void set_layout(const at::Tensor& tensor, const TensorLayout& layout);

}  // namespace spyre
