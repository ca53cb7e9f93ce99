// Host memory that this thread will need soon, fetched bit by bit while it computes: fetching all
// of it at once would only move the wait to another place.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace spyre::emulator::engine {

struct ExpectedUses {
  static constexpr size_t kLine = 64;
  static constexpr size_t kLinesAtOnce = 8;
  // As many as tiles may be on their way in one trip of a loop.
  std::array<std::span<const std::byte>, 4> ranges;
  size_t next = 0;
};
inline thread_local ExpectedUses expected_uses;

inline void expect_use(std::span<const std::byte> range) {
  ExpectedUses& uses = expected_uses;
  uses.ranges[uses.next] = range;
  uses.next = (uses.next + 1) % uses.ranges.size();
}

// To be called between pieces of work of some hundred nanoseconds.
inline void prefetch_some() {
  for (std::span<const std::byte>& range : expected_uses.ranges) {
    if (range.empty()) continue;
    const size_t bytes = std::min(range.size(), ExpectedUses::kLine * ExpectedUses::kLinesAtOnce);
    for (size_t at = 0; at < bytes; at += ExpectedUses::kLine) __builtin_prefetch(&range[at]);
    range = range.subspan(bytes);
    return;
  }
}

}  // namespace spyre::emulator::engine
