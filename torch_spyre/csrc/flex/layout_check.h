// Whether a layout has a place for every element of a view.
#pragma once

#include "flex/tensor_layout.h"

namespace spyre {

// Throws std::invalid_argument if an element of (size, strides, offset) has no place of its own in
// the layout, and whatever check_geometry throws.
void check_layout_holds(const TensorLayout& layout, const Sizes& size, const Sizes& strides,
                        int64_t offset = 0);

}  // namespace spyre
