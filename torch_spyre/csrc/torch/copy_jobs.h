// Queues transfers between host and device memory and within it, with their device time.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "flex/copy_traffic.h"
#include "torch/launches.h"

namespace spyre {

// The tensors of these functions have formats that the DMA engine converts, and equal sizes.

// Only a copy of pinned memory can be non-blocking.
void copy_to_device(const at::Tensor& src, const at::Tensor& dst, bool non_blocking);
void copy_to_host(const at::Tensor& src, const at::Tensor& dst, bool non_blocking);
// Copies on one card, or from one card to another.
void copy_on_device(const at::Tensor& src, const at::Tensor& dst);
// Copies the bytes of a whole storage to another of the same size.
void copy_storage(const at::Tensor& src, const at::Tensor& dst);
// Writes the one element of a CPU tensor to every element of `dst`.
void fill_on_device(const at::Tensor& element, const at::Tensor& dst);

// Returns the cost of a copy or fill within device memory, from the timing model.
using CopyCostModel = std::function<LaunchCost(const flex::CopyTraffic& traffic)>;
// Sets the model. It is called once for equal traffic. Without one, copies take no time.
void set_copy_cost_model(CopyCostModel model);

// Sets whether a copy of int64 values outside the range of 32 bits raises an error or warns.
void set_int64_overflow_raises(bool raises);
// Sets whether the first copy of int64 data to a card warns that it is stored in 32 bits.
void set_downcast_warning(bool enabled);
bool downcast_warning();

}  // namespace spyre
