// Detects data races of a program's cores in device memory.
#pragma once

#include <cstdint>
#include <vector>

#include "flex/device_box.h"

namespace spyre::emulator::engine {

using flex::BoxCost;
using flex::ByteRange;
using flex::DeviceBox;

// The bytes that each core reads and writes. Exact up to a million runs per core; beyond that,
// nearby ranges are merged, which can only cause false positives.
class AccessedMemory {
 public:
  // Cores are added one after the other.
  void begin_core(int64_t core);
  void add(ByteRange range, bool is_write);
  void add(const DeviceBox& box, bool is_write);

  // Returns whether two cores access the same byte and one of them writes it.
  bool has_conflict();

 private:
  struct Access {
    int64_t begin, end;
    int32_t core;
    bool is_write;
  };
  void compact();

  std::vector<Access> accesses_;
  size_t first_of_core_ = 0;
  size_t compact_at_ = 0;
  int32_t core_ = 0;
};

}  // namespace spyre::emulator::engine
