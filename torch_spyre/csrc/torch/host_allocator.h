// Pinned host memory: memory the card may read and write while the program goes on.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

namespace spyre {

at::HostAllocator* pinned_allocator();
bool is_pinned(const void* pointer);
// The pinned memory around an address, to hold while a copy is queued; null if it is not pinned.
std::shared_ptr<void> pinned_block(const void* pointer);

}  // namespace spyre
