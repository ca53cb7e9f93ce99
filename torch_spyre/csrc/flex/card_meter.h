// Counters of the work and the memory of one card, in memory that other processes read.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "flex/driver.h"
#include "flex/timeline.h"
#include "flex/work_amounts.h"

namespace spyre::flex {

// The counters of one card. While `sequence` is odd they are being written; a reader that meets an
// odd or a changed number reads again. The memory levels change independently of it.
// `torch_spyre/monitor/segment.py` reads this layout.
struct alignas(64) CardRecord {
  using Counter = std::atomic<uint64_t>;

  Counter sequence{0};
  uint64_t index = 0;  // of the card in the machine
  uint64_t total_bytes = 0;
  MemoryLevels memory;
  Counter end_ps{0};  // when all finished work has ended, in device time
  Counter num_executing{0};
  // How long work has been executed: the sum of the times (CLOCK_MONOTONIC) when the card became
  // idle, less those when it began to work. If it works now, the current time is missing.
  Counter executed_ns{0};
  std::array<Counter, kNumAmounts> running{}, finished{};
};
static_assert(CardRecord::Counter::is_always_lock_free && sizeof(CardRecord::Counter) == 8);
static_assert(sizeof(CardRecord) == 320);

// Work, as it is counted.
struct MeteredWork {
  Amounts amounts;
  uint64_t end_ps = 0;
};

// Counts the work of one card while it is executed. Any thread may call it.
class CardMeter {
 public:
  CardMeter(CardRecord& record, uint64_t memory_bytes_per_second)
      : record_(record), memory_bytes_per_second_(memory_bytes_per_second) {}

  // Returns work with its time on the timeline.
  MeteredWork measure(const WorkTime& time, const TimeSpan& span) const;
  void begin(const MeteredWork& work);
  void finish(const MeteredWork& work);

 private:
  class Update;

  CardRecord& record_;
  const uint64_t memory_bytes_per_second_;
  std::mutex mutex_;  // held by the thread that writes the record
};

}  // namespace spyre::flex
