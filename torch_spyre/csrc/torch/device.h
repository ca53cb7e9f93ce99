// The current card and the current streams of a thread, as PyTorch devices.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include "flex/runtime.h"

namespace spyre {

inline constexpr c10::DeviceType kSpyre = c10::DeviceType::PrivateUse1;

// Returns the current card of the thread: the one it set, else the default of the process.
c10::DeviceIndex current_device();
// Sets the current card of the thread. Throws for an invalid index.
void set_device(int64_t index);
void set_device_unchecked(c10::DeviceIndex index) noexcept;

// Replaces a missing index by the current card; throws for other device types and for cards that do
// not exist.
c10::Device resolve(c10::Device device);

// Converts a device index from Python; -1 is the current card. Checks it before it is narrowed to
// PyTorch's eight bits.
c10::DeviceIndex card_index(int64_t number);

c10::Stream current_stream(c10::DeviceIndex index);
// Returns the stream that was current before.
c10::Stream exchange_stream(c10::Stream stream);
flex::Stream& queue_of(const c10::Stream& stream);
flex::Stream& current_queue(c10::DeviceIndex index);

}  // namespace spyre
