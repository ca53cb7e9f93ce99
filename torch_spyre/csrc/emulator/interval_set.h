// A set of addresses, stored as disjoint intervals.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace spyre::emulator {

class IntervalSet {
 public:
  uint64_t total() const { return total_; }

  void add(uint64_t start, uint64_t end) {
    // Merge every interval that touches the new one.
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

  // Returns the size of the intersection with [start, end).
  uint64_t total_in(uint64_t start, uint64_t end) const {
    uint64_t sum = 0;
    visit_backwards(start, end, [&](uint64_t first, uint64_t last) {
      sum += last - first;
      return true;
    });
    return sum;
  }

  // Returns the last intervals in [start, end), in descending order, with a total size of `amount`;
  // the earliest one is truncated.
  std::vector<std::pair<uint64_t, uint64_t>> last_in(uint64_t start, uint64_t end,
                                                     uint64_t amount) const {
    std::vector<std::pair<uint64_t, uint64_t>> result;
    visit_backwards(start, end, [&](uint64_t first, uint64_t last) {
      first = std::max(first, last - std::min(last, amount));
      amount -= last - first;
      result.emplace_back(first, last);
      return amount > 0;
    });
    return result;
  }

  // Returns whether the range contained any address of the set.
  bool remove(uint64_t start, uint64_t end) {
    auto next = intervals_.upper_bound(start);
    if (next != intervals_.begin() && std::prev(next)->second > start) --next;
    bool has_removed = false;
    while (next != intervals_.end() && next->first < end) {
      const auto [first, last] = *next;
      has_removed = true;
      total_ -= last - first;
      next = intervals_.erase(next);
      if (first < start) insert(first, start);
      if (last > end) insert(end, last);
    }
    return has_removed;
  }

 private:
  // Calls visit(first, last) until it returns false.
  template <typename Visit>
  void visit_backwards(uint64_t start, uint64_t end, Visit visit) const {
    auto next = intervals_.lower_bound(end);
    while (next != intervals_.begin()) {
      --next;
      if (next->second <= start) return;
      if (!visit(std::max(next->first, start), std::min(next->second, end))) return;
    }
  }

  void insert(uint64_t start, uint64_t end) {
    intervals_.emplace(start, end);
    total_ += end - start;
  }

  std::map<uint64_t, uint64_t> intervals_;
  uint64_t total_ = 0;
};

}  // namespace spyre::emulator
