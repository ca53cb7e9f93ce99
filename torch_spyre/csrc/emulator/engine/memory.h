// The address space of a running program: device memory in segments of virtual addresses, and a
// window of scratchpad memory per core.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "emulator/engine/core.h"
#include "emulator/engine/program.h"
#include "emulator/engine/short_list.h"

namespace spyre::emulator::engine {

// Host memory that backs device memory.
struct Buffer {
  std::byte* data = nullptr;
  int64_t bytes = 0;
};

// A view with the values of its registers: elements at data + first + sum of coordinate * stride.
struct Region {
  std::byte* data = nullptr;
  int64_t bytes = 0;    // of the segment; elements beyond it read as zero and are not written
  int64_t first = 0;    // bytes from `data`: the element at coordinate 0
  int64_t address = 0;  // of `data` in the address space of the program
  int element_bytes = 1;
  bool zero_beyond = true;             // false: an access beyond the end is an error
  const char* description = "memory";  // for messages
  ShortList<int64_t> strides;          // bytes
};

class Memory {
 public:
  // The buffers are in the order of the program's array arguments and fixed buffers. `windows` is
  // empty if the program has no views of scratchpads, else one window for each core.
  Memory(const Program& program, std::span<const Buffer> arrays, std::span<const Buffer> fixed,
         std::span<const Buffer> windows);

  // The byte address of each array argument.
  const std::vector<int64_t>& array_addresses() const { return array_addresses_; }

  // Throws KernelError unless the view's base lies in a segment.
  Region region(const View& view, const Core& core) const;

 private:
  struct Segment {
    int64_t begin;
    Buffer buffer;
    int64_t end() const { return begin + buffer.bytes; }
  };
  const Segment& segment_at(int64_t address) const;

  std::vector<Segment> segments_;  // ascending
  std::vector<int64_t> array_addresses_;
  std::vector<Buffer> windows_;
};

// Converts elements to bytes. Throws KernelError when that overflows; `quantity` is the name of the
// value for the message.
int64_t in_bytes(int64_t elements, int element_bytes, const char* quantity);

// Returns whether any view of the program accesses scratchpads.
bool views_scratchpads(const Program& program);

}  // namespace spyre::emulator::engine
