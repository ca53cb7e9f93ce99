// Pinned host memory, which the card can access asynchronously.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

namespace spyre {

at::HostAllocator* pinned_allocator();
bool is_pinned(const void* pointer);
// Returns the pinned block that contains an address, to own while a copy is queued; null if the
// address is not pinned.
std::shared_ptr<void> pinned_block(const void* pointer);

}  // namespace spyre
