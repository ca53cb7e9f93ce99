#include "flex/timeline.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace spyre::flex {

namespace {

constexpr uint64_t kForever = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kKilobytesPerByteAndPs = 1'000'000'000;

uint64_t scaled(uint64_t amount, uint64_t numerator, uint64_t denominator, bool rounds_up) {
  const auto product = static_cast<unsigned __int128>(amount) * numerator;
  return static_cast<uint64_t>((product + (rounds_up ? denominator - 1 : 0)) / denominator);
}

}  // namespace

Timeline::Timeline(uint64_t memory_bytes_per_second)
    : peak_rate_(std::max<uint64_t>(1, memory_bytes_per_second / 1000)) {}

void Timeline::advance_host_to(uint64_t time_ps) {
  uint64_t current = host_ps_.load();
  while (current < time_ps && !host_ps_.compare_exchange_weak(current, time_ps)) {
  }
}

Timeline::OtherUse Timeline::use_of_others(Unit unit, uint64_t time_ps) const {
  OtherUse use{0, kForever};
  for (size_t i = 0; i < kNumUnits; ++i) {
    if (i == static_cast<size_t>(unit)) continue;
    const auto next = busy_[i].upper_bound(time_ps);
    if (next != busy_[i].end()) use.until_ps = std::min(use.until_ps, next->first);
    if (next == busy_[i].begin()) continue;
    const BusySpan& current = std::prev(next)->second;
    if (current.end_ps <= time_ps) continue;
    use.rate += current.memory_rate;
    use.until_ps = std::min(use.until_ps, current.end_ps);
  }
  return use;
}

uint64_t Timeline::end_of(const WorkTime& work, uint64_t memory_rate, uint64_t begin_ps) const {
  uint64_t time = begin_ps, remaining = work.duration_ps;
  while (true) {
    const OtherUse others = use_of_others(work.unit, time);
    const uint64_t left = peak_rate_ - std::min(peak_rate_, others.rate);
    const uint64_t used = std::min(memory_rate, left);
    if (used == memory_rate || used > 0) {
      const uint64_t needed =
          used == memory_rate ? remaining : scaled(remaining, memory_rate, used, true);
      if (others.until_ps - time >= needed) return time + needed;
      const uint64_t passed = others.until_ps - time;
      remaining -= used == memory_rate ? passed : scaled(passed, used, memory_rate, false);
    }
    time = others.until_ps;
  }
}

void Timeline::add_span(BusySpans& busy, uint64_t begin, BusySpan span) {
  auto after = busy.lower_bound(begin);
  const auto continues = [&](const BusySpan& other) {
    return other.memory_rate == span.memory_rate;
  };
  if (after != busy.end() && after->first == span.end_ps && continues(after->second)) {
    span.end_ps = after->second.end_ps;
    after = busy.erase(after);
  }
  if (after != busy.begin()) {
    BusySpan& before = std::prev(after)->second;
    if (before.end_ps == begin && continues(before)) {
      before.end_ps = span.end_ps;
      return;
    }
  }
  busy.emplace_hint(after, begin, span);
}

TimeSpan Timeline::submit(const WorkTime& work, uint64_t earliest_ps) {
  std::lock_guard lock(mutex_);
  if (work.host_ps > 0) host_ps_.fetch_add(work.host_ps);
  const uint64_t host = host_ps();
  earliest_ps = std::max(earliest_ps, host);
  const uint64_t launch = host - work.host_ps;
  if (work.duration_ps == 0) return {earliest_ps, earliest_ps, launch, host};
  // No work can start before the host's time any more.
  for (BusySpans& spans : busy_) {
    while (!spans.empty() && spans.begin()->second.end_ps <= host) spans.erase(spans.begin());
  }
  BusySpans& busy = busy_[static_cast<size_t>(work.unit)];
  const uint64_t memory_rate = std::min(
      peak_rate_, scaled(work.memory_bytes, kKilobytesPerByteAndPs, work.duration_ps, true));
  uint64_t begin = earliest_ps;
  auto next = busy.upper_bound(begin);
  if (next != busy.begin()) begin = std::max(begin, std::prev(next)->second.end_ps);
  uint64_t end = end_of(work, memory_rate, begin);
  for (; next != busy.end() && next->first < end; ++next) {
    begin = next->second.end_ps;
    end = end_of(work, memory_rate, begin);
  }
  add_span(busy, begin, {end, memory_rate});
  return {begin, end, launch, host};
}

}  // namespace spyre::flex
