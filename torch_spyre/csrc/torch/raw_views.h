// Views in another dtype of storages of raw elements: complex as real, and the like.
#pragma once

#include <ATen/core/Tensor.h>

namespace spyre {

at::Tensor view_as_complex(const at::Tensor& self);

// Returns a view in another dtype, which may have another size; one of the two is raw.
at::Tensor view_raw_dtype(const at::Tensor& self, at::ScalarType dtype);

}  // namespace spyre
