// How much of anything a program may have, so that a file cannot make its reader or a launch take
// unreasonable amounts of memory. Far above what kernels need.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spyre::emulator::engine {

inline constexpr size_t kMostFileBytes = size_t{256} << 20;
inline constexpr int64_t kMostCores = 1024;
inline constexpr size_t kMostRegisters = 1 << 18;
inline constexpr size_t kMostInstructions = 1 << 20;
inline constexpr size_t kMostArguments = 1 << 12;
inline constexpr size_t kMostTables = 1 << 12;
inline constexpr int32_t kMostChannels = 1 << 12;
inline constexpr size_t kMostRank = 16;
inline constexpr size_t kMostViews = 1 << 12;
inline constexpr size_t kMostSteps = 1 << 12;
inline constexpr size_t kMostRoles = 64;
inline constexpr size_t kMostTerms = 1 << 10;
inline constexpr int64_t kDeepestExpression = 32;
inline constexpr size_t kMostPoints = size_t{1} << 26;
// Of a tile; its elements may lie on each other.
inline constexpr int64_t kMostElements = int64_t{1} << 28;
// Below this no sum of two addresses overflows.
inline constexpr int64_t kHighestAddress = int64_t{1} << 60;

}  // namespace spyre::emulator::engine
