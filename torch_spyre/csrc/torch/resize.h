// Storages that change their size or take on a dtype.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

namespace spyre {

// Keeps the leading bytes of the host image.
void resize_storage(const c10::Storage& storage, size_t bytes);

// Tiles a raw storage for elements of `dtype`: by (size, strides) if these cover it from its
// start without gaps, else as one flat run.
void give_dtype(const c10::Storage& storage, c10::ScalarType dtype, c10::IntArrayRef size,
                c10::IntArrayRef strides, int64_t offset);

}  // namespace spyre
