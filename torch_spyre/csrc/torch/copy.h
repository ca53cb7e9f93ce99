// Copies between host and cards.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace spyre {

// dst.copy_(src), at least one of them on a card. Broadcasts, converts dtypes, honours strides,
// offsets, layouts and lazy negation.
void copy_tensor(const at::Tensor& src, const at::Tensor& dst, bool non_blocking);

// Converts src to dst, of another dtype, by a kernel. Returns false if there is none for these.
using ConversionKernel = std::function<bool(const at::Tensor& src, const at::Tensor& dst)>;
// Called first by copies between tensors of one card; empty: no kernel.
void set_conversion_kernel(ConversionKernel kernel);

// all.fill_(value)
void fill_elements(const at::Tensor& all, const at::Scalar& value);

// A CPU copy with the values, sizes and (where dense) strides of a device tensor.
at::Tensor to_cpu(const at::Tensor& tensor);

// The logical content of a storage as a flat CPU tensor of its dtype; of bytes, if it is raw.
at::Tensor host_image(const c10::Storage& storage);
// Writes such an image back.
void set_host_image(const c10::Storage& storage, const at::Tensor& image);

// What a copy of int64 values beyond 32 bits does: raise, or warn.
void set_int64_overflow_raises(bool raises);
// Whether copying int64 data to a card warns, once, that it is stored in 32 bits.
void set_downcast_warning(bool enabled);
bool downcast_warning();

}  // namespace spyre
