// Which device format each torch dtype takes.
#pragma once

#include <c10/core/ScalarType.h>

#include "flex/data_format.h"

namespace spyre {

// INVALID for a dtype the card has no form for. Layouts may be asked for with a quantized dtype; no
// tensor on a card has one.
DataFormat device_format(c10::ScalarType dtype);

// How elements of `dtype` lie in host memory when the device side is `device`.
DataFormat host_format(c10::ScalarType dtype, DataFormat device);

// Throws "Spyre backend does not support dtype ...".
DataFormat checked_device_format(c10::ScalarType dtype);
// The same for the dtype of a tensor: refuses quantized ones too.
DataFormat checked_tensor_format(c10::ScalarType dtype);

// Whether device memory of this format holds the same bits as host memory of its dtype does, so
// that a view in another dtype of the same width means the same.
bool holds_host_bits(c10::ScalarType dtype);

// Whether one copy may convert between the two dtypes in the DMA engine; others need a
// conversion on the host first.
bool dma_converts(c10::ScalarType from, c10::ScalarType to);

}  // namespace spyre
