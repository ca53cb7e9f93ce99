#include "flex/card_meter.h"

#include <time.h>

#include <algorithm>

namespace spyre::flex {

namespace {

constexpr uint64_t kPicosecondsPerSecond = 1'000'000'000'000;
constexpr uint64_t kNanosecondsPerSecond = 1'000'000'000;

// CLOCK_MONOTONIC is the same clock in all processes.
uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * kNanosecondsPerSecond +
         static_cast<uint64_t>(now.tv_nsec);
}

// Only the thread that updates the record writes it: that needs no atomic addition.
void add(CardRecord::Counter& counter, uint64_t amount) {
  counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

}  // namespace

class CardMeter::Update {
 public:
  explicit Update(CardMeter& meter) : lock_(meter.mutex_), sequence_(meter.record_.sequence) {
    add(sequence_, 1);
    std::atomic_thread_fence(std::memory_order_release);
  }
  ~Update() {
    sequence_.store(sequence_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

 private:
  const std::lock_guard<std::mutex> lock_;
  CardRecord::Counter& sequence_;
};

MeteredWork CardMeter::measure(const WorkTime& time, const TimeSpan& span) const {
  MeteredWork work{time.amounts, span.end_ps};
  const Amount unit = time.unit == Unit::kCores ? Amount::kCoresPs : Amount::kLinkPs;
  work.amounts[unit] = span.end_ps - span.begin_ps;
  const auto memory_ps = static_cast<unsigned __int128>(time.memory_bytes) * kPicosecondsPerSecond;
  const uint64_t rate = std::max<uint64_t>(memory_bytes_per_second_, 1);
  work.amounts[Amount::kDdrPs] = static_cast<uint64_t>(memory_ps / rate);
  return work;
}

void CardMeter::begin(const MeteredWork& work) {
  const Update update(*this);
  for (size_t i = 0; i < kNumAmounts; ++i) add(record_.running[i], work.amounts.values()[i]);
  const bool was_idle = record_.num_executing.load(std::memory_order_relaxed) == 0;
  add(record_.num_executing, 1);
  if (was_idle) add(record_.executed_ns, -now_ns());
}

void CardMeter::finish(const MeteredWork& work) {
  const Update update(*this);
  for (size_t i = 0; i < kNumAmounts; ++i) {
    const uint64_t amount = work.amounts.values()[i];
    add(record_.running[i], -amount);
    add(record_.finished[i], amount);
  }
  const uint64_t end_ps = record_.end_ps.load(std::memory_order_relaxed);
  record_.end_ps.store(std::max(end_ps, work.end_ps), std::memory_order_relaxed);
  add(record_.num_executing, uint64_t{0} - 1);
  const bool is_idle = record_.num_executing.load(std::memory_order_relaxed) == 0;
  if (is_idle) add(record_.executed_ns, now_ns());
}

}  // namespace spyre::flex
