// The timeline of a card: spans of work on its units, in the order of submission.
#include <algorithm>
#include <random>
#include <vector>

#include "check.h"
#include "flex/timeline.h"

using namespace spyre::flex;

namespace {

constexpr uint64_t kPeak = 200'000'000'000;  // 0.2 bytes per ps

}  // namespace

TEST("work of one unit does not overlap") {
  Timeline timeline(kPeak);
  const TimeSpan first = timeline.submit({Unit::kCores, 100}, 0);
  const TimeSpan second = timeline.submit({Unit::kCores, 50}, 0);
  CHECK_EQUAL(first.begin_ps, uint64_t{0});
  CHECK_EQUAL(first.end_ps, uint64_t{100});
  CHECK_EQUAL(second.begin_ps, uint64_t{100});
  CHECK_EQUAL(second.end_ps, uint64_t{150});
}

TEST("different units work at the same time") {
  Timeline timeline(kPeak);
  timeline.submit({Unit::kCores, 100}, 0);
  CHECK_EQUAL(timeline.submit({Unit::kLinkToDevice, 70}, 0).begin_ps, uint64_t{0});
  CHECK_EQUAL(timeline.submit({Unit::kLinkToHost, 70}, 0).begin_ps, uint64_t{0});
}

TEST("work starts in the first idle span that is long enough") {
  Timeline timeline(kPeak);
  timeline.submit({Unit::kCores, 10}, 0);     // 0 to 10
  timeline.submit({Unit::kCores, 10}, 30);    // 30 to 40
  timeline.submit({Unit::kCores, 100}, 100);  // 100 to 200
  CHECK_EQUAL(timeline.submit({Unit::kCores, 20}, 0).begin_ps, uint64_t{10});
  CHECK_EQUAL(timeline.submit({Unit::kCores, 61}, 0).begin_ps, uint64_t{200});
  CHECK_EQUAL(timeline.submit({Unit::kCores, 60}, 35).begin_ps, uint64_t{40});
}

TEST("work starts after the host has submitted it") {
  Timeline timeline(kPeak);
  const TimeSpan first = timeline.submit({Unit::kCores, 3, 5}, 0);
  const TimeSpan second = timeline.submit({Unit::kCores, 3, 5}, 0);
  CHECK_EQUAL(first.begin_ps, uint64_t{5});
  CHECK_EQUAL(second.begin_ps, uint64_t{10});
  timeline.advance_host_to(1000);
  timeline.advance_host_to(900);
  CHECK_EQUAL(timeline.host_ps(), uint64_t{1000});
  CHECK_EQUAL(timeline.submit({Unit::kCores, 3, 5}, 0).begin_ps, uint64_t{1005});
}

TEST("spans of random work are disjoint, and none could start earlier") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    Timeline timeline(kPeak);
    std::vector<TimeSpan> spans;
    for (int i = 0; i < 40; ++i) {
      const uint64_t earliest = random() % 300, duration = 1 + random() % 30;
      const TimeSpan span = timeline.submit({Unit::kCores, duration}, earliest);
      CHECK_EQUAL(span.end_ps - span.begin_ps, duration);
      const auto is_idle = [&](uint64_t begin) {
        for (const TimeSpan& busy : spans) {
          if (begin < busy.end_ps && busy.begin_ps < begin + duration) return false;
        }
        return true;
      };
      CHECK(span.begin_ps >= earliest && is_idle(span.begin_ps));
      for (uint64_t begin = earliest; begin < span.begin_ps; ++begin) CHECK(!is_idle(begin));
      spans.push_back(span);
    }
  }
}

TEST("units that use less than the bandwidth of the memory do not slow each other down") {
  Timeline timeline(kPeak);
  timeline.submit({Unit::kCores, 1000, 0, 150}, 0);
  const TimeSpan copy = timeline.submit({Unit::kLinkToDevice, 1000, 0, 50}, 0);
  CHECK_EQUAL(copy.end_ps, uint64_t{1000});
}

TEST("work that is submitted later gets the bandwidth that is left") {
  Timeline timeline(kPeak);
  timeline.submit({Unit::kCores, 1000, 0, 150}, 0);
  timeline.submit({Unit::kLinkToDevice, 1000, 0, 25}, 0);
  // Half of the rate of 0.05 is left for 1000 ps, then all of it.
  const TimeSpan copy = timeline.submit({Unit::kLinkToHost, 1000, 0, 50}, 0);
  CHECK_EQUAL(copy.end_ps, uint64_t{1500});
}

TEST("work waits while others use all of the bandwidth") {
  Timeline timeline(kPeak);
  timeline.submit({Unit::kCores, 1000, 0, 200}, 0);
  const TimeSpan copy = timeline.submit({Unit::kLinkToDevice, 100, 0, 5}, 0);
  CHECK_EQUAL(copy.begin_ps, uint64_t{0});
  CHECK_EQUAL(copy.end_ps, uint64_t{1100});
}

TEST("random work on all units never exceeds the bandwidth of the memory") {
  std::mt19937 random(11);
  for (int trial = 0; trial < 100; ++trial) {
    Timeline timeline(kPeak);
    double bytes = 0;
    uint64_t end = 0;
    for (int i = 0; i < 30; ++i) {
      const auto unit = static_cast<Unit>(random() % kNumUnits);
      const uint64_t duration = 100 + random() % 1000;
      const uint64_t moved = random() % (duration / 5);
      const TimeSpan span = timeline.submit({unit, duration, 0, moved}, 0);
      CHECK(span.end_ps - span.begin_ps >= duration);
      bytes += static_cast<double>(moved);
      end = std::max(end, span.end_ps);
    }
    CHECK(bytes <= 0.2 * static_cast<double>(end));
  }
}
