// Copies between host and cards.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace spyre {

// dst.copy_(src), at least one of them on a card. Broadcasts, converts dtypes, honours strides,
// offsets, layouts and lazy negation.
void copy_tensor(const at::Tensor& src, const at::Tensor& dst, bool non_blocking);

// Converts src to the dtype of dst with a kernel. Returns false if there is no such kernel.
using ConversionKernel = std::function<bool(const at::Tensor& src, const at::Tensor& dst)>;
// Sets the kernel that copies between tensors of one card try first; empty: no kernel.
void set_conversion_kernel(ConversionKernel kernel);

// all.fill_(value)
void fill_elements(const at::Tensor& all, const at::Scalar& value);

// Returns a CPU copy with the values, sizes and (if dense) strides of a device tensor.
at::Tensor to_cpu(const at::Tensor& tensor);

// Returns the logical content of a storage as a flat CPU tensor of its dtype; of bytes, if it is
// raw.
at::Tensor host_image(const c10::Storage& storage);
// Writes the logical content of a storage.
void set_host_image(const c10::Storage& storage, const at::Tensor& image);

}  // namespace spyre
