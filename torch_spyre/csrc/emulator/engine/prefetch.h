// Prefetches host memory that this thread will access soon, in small amounts while it computes:
// prefetching everything at once would stall as well.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace spyre::emulator::engine {

// Groups of contiguous bytes, `stride` bytes apart.
struct ExpectedUse {
  const std::byte* first = nullptr;
  int64_t bytes = 0, groups = 0, stride = 0;
};

struct ExpectedUses {
  static constexpr int64_t kLine = 64;
  static constexpr int64_t kLinesAtOnce = 12;
  struct Progress {
    ExpectedUse use;
    int64_t group = 0, at = 0;  // the next to fetch
  };
  // One for each tile that one iteration of a loop may load.
  std::array<Progress, 4> uses;
  size_t next = 0;
};
inline thread_local ExpectedUses expected_uses;

inline void expect_use(const ExpectedUse& use) {
  ExpectedUses& uses = expected_uses;
  uses.uses[uses.next] = {use};
  uses.next = (uses.next + 1) % uses.uses.size();
}

// Must be called between units of work of some hundred nanoseconds.
inline void prefetch_some() {
  for (auto& [use, group, at] : expected_uses.uses) {
    if (group >= use.groups) continue;
    const std::byte* const begin = use.first + group * use.stride;
    const int64_t end = std::min(use.bytes, at + ExpectedUses::kLine * ExpectedUses::kLinesAtOnce);
    // Not into the first-level cache, which holds the current working set.
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
