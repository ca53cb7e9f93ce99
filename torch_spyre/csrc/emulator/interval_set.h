// A set of addresses kept as disjoint intervals.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace spyre::emulator {

class IntervalSet {
 public:
  uint64_t total() const { return total_; }

  void add(uint64_t start, uint64_t end) {
    // Swallow every interval that touches the new one.
    auto next = intervals_.upper_bound(start);
    if (next != intervals_.begin() && std::prev(next)->second >= start) --next;
    while (next != intervals_.end() && next->first <= end) {
      if (next->first <= start && next->second >= end) return;
      start = std::min(start, next->first);
      end = std::max(end, next->second);
      total_ -= next->second - next->first;
      next = intervals_.erase(next);
    }
    intervals_.emplace_hint(next, start, end);
    total_ += end - start;
  }

  // Whether anything was there.
  bool remove(uint64_t start, uint64_t end) {
    auto next = intervals_.upper_bound(start);
    if (next != intervals_.begin() && std::prev(next)->second > start) --next;
    bool found = false;
    while (next != intervals_.end() && next->first < end) {
      const auto [first, last] = *next;
      found = true;
      total_ -= last - first;
      next = intervals_.erase(next);
      if (first < start) insert(first, start);
      if (last > end) insert(end, last);
    }
    return found;
  }

 private:
  void insert(uint64_t start, uint64_t end) {
    intervals_.emplace(start, end);
    total_ += end - start;
  }

  std::map<uint64_t, uint64_t> intervals_;
  uint64_t total_ = 0;
};

}  // namespace spyre::emulator
