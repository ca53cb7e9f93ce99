#include <algorithm>
#include <array>
#include <bit>

#include "emulator/engine/core.h"
#include "emulator/engine/lanes.h"

namespace spyre::emulator::engine {

namespace {

constexpr size_t kBlock = 256;

template <typename Lane>
void to_lanes(std::span<const int64_t> values, Lane* lanes) {
  for (size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_same_v<Lane, float>) {
      lanes[i] = std::bit_cast<float>(static_cast<uint32_t>(values[i]));
    } else {
      lanes[i] = static_cast<Lane>(values[i]);
    }
  }
}

}  // namespace

void execute(const Literal& literal, Core& core) {
  const ElementType type = literal.destination.type;
  const StoreLanes store = store_lanes(type);
  std::byte* out = core.scratchpad + literal.destination.address;
  alignas(64) std::array<std::byte, kBlock * 8> lanes;
  for (size_t at = 0; at < literal.values.size(); at += kBlock) {
    const size_t count = std::min(kBlock, literal.values.size() - at);
    const std::span<const int64_t> values(literal.values.data() + at, count);
    const auto n = static_cast<int64_t>(count);
    if (is_float(type)) {
      auto* floats = reinterpret_cast<float*>(lanes.data());
      to_lanes(values, floats);
      round_lanes(type)(floats, n);
    } else if (lane_bytes(type) == 8) {
      to_lanes(values, reinterpret_cast<int64_t*>(lanes.data()));
    } else {
      to_lanes(values, reinterpret_cast<int32_t*>(lanes.data()));
    }
    store(lanes.data(), out, 1, n);
    out += count * static_cast<size_t>(bytes_of(type));
  }
}

}  // namespace spyre::emulator::engine
