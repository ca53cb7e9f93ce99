// The device memory traffic of a copy or fill within a card, as the timing model needs it.
#pragma once

#include <compare>
#include <cstdint>

#include "flex/driver.h"

namespace spyre::flex {

// Traffic of one side of a copy, in whole sticks.
struct MemoryTraffic {
  int64_t bytes = 0;
  int64_t runs = 0;  // contiguous ranges

  auto operator<=>(const MemoryTraffic&) const = default;
};

struct CopyTraffic {
  MemoryTraffic read, written;
  // Whether elements of one stick go to several sticks or come from several, as in a transpose.
  bool is_restickify = false;

  auto operator<=>(const CopyTraffic&) const = default;
};

enum class CopySource { kDevice, kImmediate };

// Returns the traffic of a transfer to device memory. A fill has its value as an immediate.
CopyTraffic traffic_of(const Transfer& transfer, CopySource source);

}  // namespace spyre::flex
