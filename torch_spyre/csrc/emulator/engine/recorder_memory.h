// Common parts of the recorder's counts of device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/engine/core.h"
#include "flex/device_box.h"

namespace spyre::emulator::engine {

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

}  // namespace spyre::emulator::engine
