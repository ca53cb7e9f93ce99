// Whether cores of a program may disturb each other through device memory.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/engine/device_box.h"

namespace spyre::emulator::engine {

// Which bytes each core reads and writes. Exact up to a million runs a core; beyond, ranges close
// to each other are taken as one, which can only find conflicts that are none.
class AccessedMemory {
 public:
  // Cores come one after the other.
  void begin_core(int64_t core);
  void add(ByteRange range, bool is_write);
  void add(const DeviceBox& box, bool is_write);

  // Whether two cores touch the same byte and one of them writes it.
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
