// Common parts of the recorder's counts of device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/engine/core.h"
#include "flex/device_box.h"

namespace spyre::emulator::engine {

// Tiles beyond this number are not compared with those of other cores.
inline constexpr size_t kMaxTrackedTiles = size_t{1} << 22;
// The recording time of a transfer, in scalar instructions.
inline constexpr int64_t kTransferWeight = 8;
inline constexpr int64_t kMaxByteOffset = int64_t{1} << 60;
inline constexpr flex::ByteRange kEverywhere{-kMaxByteOffset, kMaxByteOffset};

// Throws KernelError for an address outside of the address space.
inline int64_t narrowed(__int128 address) {
  if (address > kMaxByteOffset || address < -kMaxByteOffset) {
    throw KernelError("an access to device memory exceeds the address space");
  }
  return static_cast<int64_t>(address);
}

// Returns a hash of the values so far and the next one.
inline uint64_t mixed(uint64_t hash, int64_t value) {
  hash ^= static_cast<uint64_t>(value) + 0x9E3779B97F4A7C15u + (hash << 6) + (hash >> 2);
  return hash * 0xBF58476D1CE4E5B9u ^ hash >> 29;
}

}  // namespace spyre::emulator::engine
