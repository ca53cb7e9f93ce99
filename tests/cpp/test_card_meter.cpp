// What a card counts for monitors: amounts of work, time, memory.
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "check.h"
#include "emulator/card.h"
#include "flex/card_meter.h"
#include "flex/stream.h"

using namespace spyre;
using namespace spyre::flex;
using enum spyre::flex::Amount;

namespace {

constexpr uint64_t kRate = 200'000'000'000;  // bytes per second: 5 ps per byte

uint64_t running(const CardRecord& record, Amount amount) {
  return record.running[static_cast<size_t>(amount)];
}
uint64_t finished(const CardRecord& record, Amount amount) {
  return record.finished[static_cast<size_t>(amount)];
}

WorkTime kernel(uint64_t duration_ps, uint64_t pt_ps, uint64_t read_bytes) {
  WorkTime time{.unit = Unit::kCores, .duration_ps = duration_ps, .memory_bytes = read_bytes};
  time.amounts[kPtPs] = pt_ps;
  time.amounts[kDdrReadBytes] = read_bytes;
  time.amounts[kLaunches] = 1;
  return time;
}

uint64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
}

// A consistent copy of the counters, as another process reads them.
struct Copy {
  uint64_t num_executing, executed_ns, launches, read_bytes, running_launches;
};
Copy read(const CardRecord& record) {
  while (true) {
    const uint64_t before = record.sequence.load(std::memory_order_acquire);
    const Copy copy{record.num_executing, record.executed_ns, finished(record, kLaunches),
                    finished(record, kDdrReadBytes), running(record, kLaunches)};
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && record.sequence.load() == before) return copy;
  }
}

}  // namespace

TEST("work is running between its begin and its end, and finished afterwards") {
  CardRecord record;
  CardMeter meter(record, kRate);
  const MeteredWork work = meter.measure(kernel(100, 60, 10), {1000, 1120});
  meter.begin(work);
  CHECK_EQUAL(running(record, kPtPs), 60u);
  CHECK_EQUAL(finished(record, kPtPs), 0u);
  CHECK_EQUAL(record.num_executing.load(), 1u);
  CHECK_EQUAL(record.end_ps.load(), 0u);
  meter.finish(work);
  CHECK_EQUAL(running(record, kPtPs), 0u);
  CHECK_EQUAL(finished(record, kPtPs), 60u);
  CHECK_EQUAL(finished(record, kCoresPs), 120u);  // as long as its span, which others lengthened
  CHECK_EQUAL(finished(record, kLinkPs), 0u);
  CHECK_EQUAL(finished(record, kDdrPs), 50u);
  CHECK_EQUAL(finished(record, kDdrReadBytes), 10u);
  CHECK_EQUAL(finished(record, kLaunches), 1u);
  CHECK_EQUAL(record.num_executing.load(), 0u);
  CHECK_EQUAL(record.end_ps.load(), 1120u);
  CHECK_EQUAL(record.sequence.load(), 4u);
}

TEST("work that ends earlier in device time does not move the end back") {
  CardRecord record;
  CardMeter meter(record, kRate);
  for (const uint64_t end : {500, 300}) {
    const MeteredWork work = meter.measure(kernel(100, 0, 0), {end - 100, end});
    meter.begin(work);
    meter.finish(work);
  }
  CHECK_EQUAL(record.end_ps.load(), 500u);
}

TEST("the executed time is that in which any work was executed") {
  CardRecord record;
  CardMeter meter(record, kRate);
  const MeteredWork work;
  const uint64_t start = now_ns();
  meter.begin(work);
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  meter.begin(work);
  // While work is executed, the current time is missing.
  CHECK(record.executed_ns + now_ns() >= 3'000'000);
  meter.finish(work);
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  meter.finish(work);
  const uint64_t elapsed = now_ns() - start, executed = record.executed_ns;
  CHECK(executed >= 6'000'000 && executed <= elapsed);
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  CHECK_EQUAL(record.executed_ns.load(), executed);
}

TEST("counters are consistent while several threads write them") {
  CardRecord record;
  CardMeter meter(record, kRate);
  constexpr uint64_t kPerThread = 20'000;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      const MeteredWork work = meter.measure(kernel(10, 0, 7), {0, 10});
      for (uint64_t k = 0; k < kPerThread; ++k) {
        meter.begin(work);
        meter.finish(work);
      }
    });
  }
  uint64_t num_looks = 0;
  while (read(record).launches < 3 * kPerThread) {
    const Copy copy = read(record);
    CHECK_EQUAL(copy.read_bytes, 7 * copy.launches);
    CHECK_EQUAL(copy.num_executing, copy.running_launches);
    CHECK(copy.num_executing <= 3);
    const uint64_t executed = copy.executed_ns + (copy.num_executing > 0 ? now_ns() : 0);
    CHECK(executed < 60'000'000'000);
    ++num_looks;
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(num_looks > 0);
  CHECK_EQUAL(read(record).num_executing, 0u);
}

TEST("a stream counts work when it executes it, with its span, and no waits") {
  CardRecord record;
  CardMeter meter(record, kRate);
  const auto timeline = std::make_shared<Timeline>(kRate);
  // Streams are never destroyed, as in the runtime, because their threads never end.
  auto& stream = *new Stream(1, timeline, 0, &meter);
  auto& other = *new Stream(2, timeline, 0, &meter);
  uint64_t executing_inside = 0, running_inside = 0;
  const TimeSpan first =
      stream.run([&] { executing_inside = record.num_executing; }, kernel(100, 10, 0));
  stream.submit([&] { running_inside = running(record, kPtPs); }, kernel(100, 20, 0));
  const auto event = std::make_shared<Event>();
  stream.record(event);
  other.wait(event);
  stream.submit([] { throw std::runtime_error("broken"); }, kernel(100, 40, 0));
  CHECK_THROWS(std::runtime_error, stream.synchronize());
  other.synchronize();
  CHECK_EQUAL(executing_inside, 1u);
  CHECK_EQUAL(running_inside, 20u);
  CHECK_EQUAL(finished(record, kLaunches), 3u);  // work that failed has been executed too
  CHECK_EQUAL(finished(record, kPtPs), 70u);
  CHECK_EQUAL(finished(record, kCoresPs), 300u);
  CHECK_EQUAL(record.end_ps.load(), first.end_ps + 200);
  CHECK_EQUAL(record.num_executing.load(), 0u);
}

TEST("a card reports the memory that is allocated, was allocated at most, and is reserved") {
  CardDescription description;
  description.physical_bytes = description.usable_bytes = int64_t{64} << 20;
  description.host_link_bytes_per_second = 1;
  description.cached_bytes_limit = int64_t{64} << 20;
  emulator::EmulatedCard card(description);
  const uint64_t before = card.allocate(1000);
  MemoryLevels levels;
  card.report_memory_to(levels);
  CHECK_EQUAL(levels.allocated.load(), 1024);
  const uint64_t second = card.allocate(int64_t{8} << 20);
  const auto check_levels = [&] {
    const MemoryStatistics statistics = card.memory_statistics();
    CHECK_EQUAL(levels.allocated.load(), statistics.allocated_bytes.current);
    CHECK_EQUAL(levels.peak.load(), statistics.allocated_bytes.peak);
    CHECK_EQUAL(levels.reserved.load(), statistics.reserved_bytes.current);
  };
  check_levels();
  card.retire(second);
  check_levels();
  CHECK_EQUAL(levels.allocated.load(), 1024);
  card.release(second);
  check_levels();
  CHECK(levels.reserved > levels.allocated);
  card.release_cached_memory();
  check_levels();
  CHECK_EQUAL(levels.reserved.load(), 1024);
  card.reset_peak_statistics();
  check_levels();
  CHECK_EQUAL(levels.peak.load(), 1024);
  card.retire(before);
  card.release(before);
}
