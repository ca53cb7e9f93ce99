// PyTorch's allocator of device memory.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <functional>
#include <memory>
#include <string>

#include "flex/runtime.h"

namespace spyre {

c10::DeviceAllocator* device_allocator();

// Sets the function that is called when a card is full, before an allocation fails: Python's
// garbage collector.
void set_memory_pressure_hook(std::function<void()> hook);

// Sets the function that describes what holds the memory of a card, for the message of an
// allocation that fails; an empty text adds nothing.
void set_out_of_memory_report(std::function<std::string(int card)> report);

// Returns a pointer to `bytes` bytes of the card; null for 0 bytes.
c10::DataPtr allocate_on(c10::DeviceIndex card, size_t bytes);

// Returns the allocation of a pointer from allocate_on; null for a null pointer. Throws for other
// pointers.
std::shared_ptr<flex::Allocation> allocation_of(const c10::DataPtr& pointer);

}  // namespace spyre
