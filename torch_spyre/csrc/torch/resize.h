// Resizing of storages, and assigning a dtype to raw storages.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

namespace spyre {

// Resizes a storage. Preserves the leading bytes of the host image.
void resize_storage(const c10::Storage& storage, size_t bytes);

// Lays out a raw storage for elements of `dtype`: with the default layout of (size, strides) if
// they cover the storage from its start without gaps, else as a flat tensor.
void assign_dtype(const c10::Storage& storage, c10::ScalarType dtype, c10::IntArrayRef size,
                  c10::IntArrayRef strides, int64_t offset);

// Gives a storage the layout of a flat tensor, unless it has that already.
void make_flat(const c10::Storage& storage);

}  // namespace spyre
