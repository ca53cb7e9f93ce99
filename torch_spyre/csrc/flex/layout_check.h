// Checks that a layout has a device offset for every element of a view.
#pragma once

#include "flex/tensor_layout.h"

namespace spyre {

// Throws std::invalid_argument if an element of (size, strides, offset) has no device offset in the
// layout. Throws what check_geometry throws.
void check_layout_holds(const TensorLayout& layout, const Sizes& size, const Sizes& strides,
                        int64_t offset = 0);

}  // namespace spyre
