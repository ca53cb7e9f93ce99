// The device format of each torch dtype.
#pragma once

#include <c10/core/ScalarType.h>

#include <string_view>

#include "flex/data_format.h"

namespace spyre {

// Sets whether tensors of float64, complex and other dtypes without a format of the card may exist:
// device memory then holds their host's bits, and their ops run on the CPU.
void set_stores_unsupported_dtypes(bool stores);
bool stores_unsupported_dtypes();
// Returns whether the dtype is one of these, whether or not such tensors may exist.
bool is_raw_dtype(c10::ScalarType dtype);
// Returns a sentence for error messages, with a space before it; empty for other dtypes.
std::string_view way_to_store(c10::ScalarType dtype);

// Returns INVALID for a dtype that the card does not support. Layouts may be created for quantized
// dtypes, but no tensor on a card has one.
DataFormat device_format(c10::ScalarType dtype);

// Returns the format of elements of `dtype` in host memory if the device format is `device`.
DataFormat host_format(c10::ScalarType dtype, DataFormat device);

// Throws "Spyre backend does not support dtype ...".
DataFormat checked_device_format(c10::ScalarType dtype);
// The same for the dtype of a tensor: rejects quantized dtypes as well.
DataFormat checked_tensor_format(c10::ScalarType dtype);

// Returns whether device memory holds the same bits as host memory for this dtype, so that a view
// with another dtype of the same width gives the same values as on the host.
bool holds_host_bits(c10::ScalarType dtype);

// Returns whether the DMA engine can convert between the two dtypes; others need a conversion on
// the host first.
bool dma_converts(c10::ScalarType from, c10::ScalarType to);

}  // namespace spyre
