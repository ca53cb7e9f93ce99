// Limits of what a program may have, so that a file cannot make its reader or a launch take
// unreasonable amounts of memory. Far above what kernels need.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spyre::emulator::engine {

// Lengths of lists.
#include "emulator/engine/generated/limits.inc"

inline constexpr size_t kMaxFileBytes = size_t{256} << 20;
inline constexpr int32_t kMaxChannels = 1 << 12;
inline constexpr int64_t kMaxExpressionDepth = 32;
// Elements of a tile; they may overlap.
inline constexpr int64_t kMaxElements = int64_t{1} << 28;
// Below this no sum of two addresses overflows.
inline constexpr int64_t kMaxAddress = int64_t{1} << 60;

}  // namespace spyre::emulator::engine
