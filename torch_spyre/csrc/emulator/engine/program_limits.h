// Limits of programs, so that a file cannot make its reader or a launch use unreasonable amounts of
// memory. They are far above what kernels need.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spyre::emulator::engine {

// Maximum lengths of lists.
#include "emulator/engine/generated/limits.inc"

inline constexpr size_t kMaxFileBytes = size_t{256} << 20;
inline constexpr int32_t kMaxChannels = 1 << 12;
inline constexpr int64_t kMaxExpressionDepth = 32;
// Maximum number of elements of a tile; they may overlap.
inline constexpr int64_t kMaxElements = int64_t{1} << 28;
// Sums of two addresses up to this one do not overflow.
inline constexpr int64_t kMaxAddress = int64_t{1} << 60;

}  // namespace spyre::emulator::engine
