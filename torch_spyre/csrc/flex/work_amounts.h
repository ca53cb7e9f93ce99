// The amounts of work that a card counts for monitors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace spyre::flex {

// `torch_spyre/monitor/segment.py` has the same names in the same order.
enum class Amount {
  kCoresPs,  // time of the cores, and of the host link
  kLinkPs,
  kPtPs,  // the time that each unit would take at its peak rate
  kSfpPs,
  kDdrPs,
  kLxPs,
  kRingPs,
  kDdrReadBytes,
  kDdrWriteBytes,
  kToDeviceBytes,
  kToHostBytes,
  kLaunches,
};
inline constexpr size_t kNumAmounts = 12;

class Amounts {
 public:
  uint64_t& operator[](Amount amount) { return values_[static_cast<size_t>(amount)]; }
  uint64_t operator[](Amount amount) const { return values_[static_cast<size_t>(amount)]; }
  const std::array<uint64_t, kNumAmounts>& values() const { return values_; }

 private:
  std::array<uint64_t, kNumAmounts> values_{};
};

}  // namespace spyre::flex
