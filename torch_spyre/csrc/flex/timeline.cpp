#include "flex/timeline.h"

#include <algorithm>
#include <iterator>

namespace spyre::flex {

namespace {

using BusySpans = std::map<uint64_t, uint64_t>;

// Returns the begin of the first idle span of this length at or after `earliest_ps`.
uint64_t first_idle(const BusySpans& busy, uint64_t earliest_ps, uint64_t duration_ps) {
  uint64_t begin = earliest_ps;
  auto next = busy.upper_bound(begin);
  if (next != busy.begin()) begin = std::max(begin, std::prev(next)->second);
  for (; next != busy.end() && next->first < begin + duration_ps; ++next) begin = next->second;
  return begin;
}

void add_span(BusySpans& busy, uint64_t begin, uint64_t end) {
  auto after = busy.lower_bound(begin);
  if (after != busy.end() && after->first == end) {
    end = after->second;
    after = busy.erase(after);
  }
  if (after != busy.begin() && std::prev(after)->second == begin) {
    std::prev(after)->second = end;
    return;
  }
  busy.emplace_hint(after, begin, end);
}

}  // namespace

void Timeline::advance_host_to(uint64_t time_ps) {
  uint64_t current = host_ps_.load();
  while (current < time_ps && !host_ps_.compare_exchange_weak(current, time_ps)) {
  }
}

TimeSpan Timeline::submit(const WorkTime& work, uint64_t earliest_ps) {
  std::lock_guard lock(mutex_);
  if (work.host_ps > 0) host_ps_.fetch_add(work.host_ps);
  const uint64_t host = host_ps();
  earliest_ps = std::max(earliest_ps, host);
  if (work.duration_ps == 0) return {earliest_ps, earliest_ps};
  BusySpans& busy = busy_[static_cast<size_t>(work.unit)];
  // No work can start before the host's time any more.
  while (!busy.empty() && busy.begin()->second <= host) busy.erase(busy.begin());
  const uint64_t begin = first_idle(busy, earliest_ps, work.duration_ps);
  add_span(busy, begin, begin + work.duration_ps);
  return {begin, begin + work.duration_ps};
}

}  // namespace spyre::flex
