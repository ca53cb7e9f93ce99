// The timeline of one card in device time: when its units are busy, and how far the host is.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "flex/work_amounts.h"

namespace spyre::flex {

// The units of a card that do one thing at a time; different units work at the same time. The cores
// execute one kernel, or one copy within device memory, at a time.
enum class Unit { kCores, kLinkToDevice, kLinkToHost };
inline constexpr size_t kNumUnits = 3;

struct TimeSpan {
  uint64_t begin_ps = 0, end_ps = 0;
  // When the host began to submit the work, and when it had done so.
  uint64_t launch_ps = 0, submit_ps = 0;
};

// The device time that work needs: of a unit, and before that of the host, which submits it.
struct WorkTime {
  Unit unit = Unit::kCores;
  uint64_t duration_ps = 0;  // if no other unit uses the device memory
  uint64_t host_ps = 0;
  uint64_t memory_bytes = 0;  // read and written in device memory
  // For monitors; those that follow from the fields above are added by the meter.
  Amounts amounts{};
};

// Work gets its time span when it is submitted, because its duration does not depend on the data:
// spans depend on the order of submission only, not on the speed of the host's threads. All units
// share the bandwidth of device memory; work that is submitted later gets what is left.
class Timeline {
 public:
  // `memory_bytes_per_second`: the peak bandwidth of device memory.
  explicit Timeline(uint64_t memory_bytes_per_second);

  // The device time that the host has reached: by submitting work, and by waiting for it. Work that
  // the host submits starts no earlier.
  uint64_t host_ps() const { return host_ps_.load(std::memory_order_acquire); }
  void advance_host_to(uint64_t time_ps);

  // Lets the host submit work that cannot start before `earliest_ps`, and reserves the first idle
  // span of its unit. Spans of work that was submitted before do not move.
  TimeSpan submit(const WorkTime& work, uint64_t earliest_ps);

 private:
  struct BusySpan {
    uint64_t end_ps;
    uint64_t memory_rate;  // kilobytes of device memory per second
  };
  // The busy spans of a unit by their begin. Adjacent ones of the same rate are merged.
  using BusySpans = std::map<uint64_t, BusySpan>;

  // The memory rate of all units but one, and the time until which it does not change.
  struct OtherUse {
    uint64_t rate, until_ps;
  };
  OtherUse use_of_others(Unit unit, uint64_t time_ps) const;
  // Returns when work that begins at `begin_ps` ends, given what other units use of the memory.
  uint64_t end_of(const WorkTime& work, uint64_t memory_rate, uint64_t begin_ps) const;
  static void add_span(BusySpans& busy, uint64_t begin, BusySpan span);

  const uint64_t peak_rate_;  // kilobytes per second
  std::atomic<uint64_t> host_ps_{0};
  std::mutex mutex_;
  std::array<BusySpans, kNumUnits> busy_;
};

}  // namespace spyre::flex
