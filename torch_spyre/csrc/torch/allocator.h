// Device memory for PyTorch.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <functional>
#include <memory>

#include "flex/runtime.h"

namespace spyre {

c10::DeviceAllocator* device_allocator();

// Called once when a card is full, before giving up: Python's garbage collector.
void set_memory_pressure_hook(std::function<void()> hook);

// A pointer to `bytes` bytes of the card; null for 0 bytes.
c10::DataPtr allocate_on(c10::DeviceIndex card, size_t bytes);

// The memory behind a pointer from allocate_on; null for a null pointer. Throws for others.
std::shared_ptr<flex::Allocation> allocation_of(const c10::DataPtr& pointer);

}  // namespace spyre
