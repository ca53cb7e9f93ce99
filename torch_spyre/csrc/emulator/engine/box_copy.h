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

// Copies boxes of one shape at different offsets.
class BoxCopy {
 public:
  BoxCopy() = default;
  BoxCopy(const ShortList<BoxDimension>& dimensions, int element_bytes, bool store);

  // The tile's elements must be inside their buffer. Elements beyond the region's end read as zero
  // and are not written. Throws KernelError, before anything is copied, for an element before the
  // region's begin, or beyond its end where the region does not allow that. `first` is as in Box.
  void run(const Region& region, int64_t first, std::byte* tile) const;
  // Returns whether all elements of a box at `first` are inside the region. Throws as `run` does.
  bool lies_inside(const Region& region, int64_t first) const;
  // Prefetches the memory of a box at `first`, unless it is large or out of bounds.
  void prefetch(const Region& region, int64_t first) const;

 private:
  using Wide = __int128;
  // Calls body(offset, tile) for each point of all but the `inner` last dimensions.
  template <typename Body>
  void for_each(size_t inner, int64_t offset, std::byte* tile, Body body) const;
  void copy_dense_runs(const Region& region, int64_t first, std::byte* tile) const;

  ShortList<BoxDimension> dimensions_;
  Wide below_ = 0, above_ = 0;  // the box's extent before and after its first element, in bytes
  bool is_empty_ = true;
  bool store_ = false;
};

// Copies one box, as BoxCopy::run does.
void copy_box(const Region& region, const Box& box);

// Copies one element at an offset that `offset_of` returned.
void copy_element(const Region& region, int64_t offset, std::byte* tile, bool store);

// Returns the byte offset of the element at the coordinates. Throws KernelError when it overflows.
int64_t offset_of(const Region& region, std::span<const int64_t> coordinates);

}  // namespace spyre::emulator::engine
