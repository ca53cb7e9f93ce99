// Host memory that this thread will need soon, fetched bit by bit while it computes: fetching all
// of it at once would only move the wait to another place.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace spyre::emulator::engine {

// Groups of contiguous bytes, one every `stride`.
struct ExpectedUse {
  const std::byte* first = nullptr;
  int64_t bytes = 0, groups = 0, stride = 0;
};

struct ExpectedUses {
  static constexpr int64_t kLine = 64;
  static constexpr int64_t kLinesAtOnce = 12;
  struct Progress {
    ExpectedUse use;
    int64_t group = 0, at = 0;  // what comes next
  };
  // As many as tiles may be on their way in one trip of a loop.
  std::array<Progress, 4> uses;
  size_t next = 0;
};
inline thread_local ExpectedUses expected_uses;

inline void expect_use(const ExpectedUse& use) {
  ExpectedUses& uses = expected_uses;
  uses.uses[uses.next] = {use};
  uses.next = (uses.next + 1) % uses.uses.size();
}

// To be called between pieces of work of some hundred nanoseconds.
inline void prefetch_some() {
  for (auto& [use, group, at] : expected_uses.uses) {
    if (group >= use.groups) continue;
    const std::byte* const begin = use.first + group * use.stride;
    const int64_t end = std::min(use.bytes, at + ExpectedUses::kLine * ExpectedUses::kLinesAtOnce);
    // Not to the nearest cache, which holds what is being computed.
    constexpr int kForReading = 0, kNear = 2;
    for (; at < end; at += ExpectedUses::kLine) __builtin_prefetch(begin + at, kForReading, kNear);
    if (at >= use.bytes) {
      at = 0;
      ++group;
    }
    return;
  }
}

}  // namespace spyre::emulator::engine
