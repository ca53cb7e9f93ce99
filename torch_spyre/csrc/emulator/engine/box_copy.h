// Copies a strided box of elements between memory and a scratchpad.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/engine/memory.h"

namespace spyre::emulator::engine {

struct BoxDimension {
  int64_t extent;
  int64_t memory_stride, tile_stride;  // bytes
};

struct Box {
  ShortList<BoxDimension> dimensions;  // outermost first
  std::byte* tile = nullptr;
  int64_t first = 0;  // bytes from the region's begin to the box's first element
  bool store = false;
};

// The tile's elements must be inside their buffer. Elements beyond the region's end read as zero
// and are not written. Throws KernelError, before anything is copied, for an element before the
// region's begin, or beyond its end where the region does not allow that.
void copy_box(const Region& region, Box box);

// One element, its offset as `offset_of` gives it.
void copy_element(const Region& region, int64_t offset, std::byte* tile, bool store);

// Byte offset of the element at the coordinates. Throws KernelError when it overflows.
int64_t offset_of(const Region& region, std::span<const int64_t> coordinates);

}  // namespace spyre::emulator::engine
