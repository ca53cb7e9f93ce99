// Streams and events: order, waiting, errors, device time.
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.h"
#include "flex/stream.h"

using namespace spyre::flex;

namespace {

std::shared_ptr<Timeline> make_timeline() { return std::make_shared<Timeline>(204'800'000'000); }

// Streams are never destroyed, as in the runtime, because their threads never end.
Stream& make_stream(const std::shared_ptr<Timeline>& timeline) {
  static auto* streams = new std::vector<std::unique_ptr<Stream>>();
  streams->push_back(std::make_unique<Stream>(1, timeline));
  return *streams->back();
}

// Blocks a stream until it is opened.
class Gate {
 public:
  explicit Gate(Stream& stream) {
    stream.submit([this] {
      while (!open_) std::this_thread::yield();
    });
  }
  void open() { open_ = true; }

 private:
  std::atomic<bool> open_{false};
};

void nothing() {}

WorkTime cores(uint64_t duration_ps) { return {Unit::kCores, duration_ps}; }

}  // namespace

TEST("work of one stream runs in the order of submission") {
  Stream& stream = make_stream(make_timeline());
  std::vector<int> order;
  for (int i = 0; i < 3000; ++i) {
    stream.submit([&order, i] { order.push_back(i); });
  }
  stream.synchronize();
  CHECK_EQUAL(order.size(), size_t{3000});
  for (int i = 0; i < 3000; ++i) CHECK_EQUAL(order[i], i);
  CHECK(stream.query());
}

TEST("run waits for work that was queued before") {
  Stream& stream = make_stream(make_timeline());
  std::atomic<int> done{0};
  stream.submit([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    done = 1;
  });
  int result = -1;
  stream.run([&] { result = done; });
  CHECK_EQUAL(result, 1);
}

TEST("an error is raised once at the next synchronisation, and the stream stays usable") {
  Stream& stream = make_stream(make_timeline());
  bool ran = false;
  stream.submit([] { throw std::runtime_error("broken"); });
  stream.submit([&] { ran = true; });
  CHECK_THROWS(std::runtime_error, stream.synchronize());
  CHECK(ran);
  stream.synchronize();
  CHECK_THROWS(std::logic_error, stream.run([] { throw std::logic_error("again"); }));
  stream.synchronize();
}

TEST("a stream waits for an event of another") {
  auto timeline = make_timeline();
  Stream &first = make_stream(timeline), &second = make_stream(timeline);
  auto event = std::make_shared<Event>();
  std::atomic<bool> go{false}, first_done{false};
  first.submit(
      [&] {
        while (!go) std::this_thread::yield();
        first_done = true;
      },
      cores(1000));
  first.record(event);
  second.wait(event);
  bool in_order = false;
  second.submit([&] { in_order = first_done; }, cores(5));
  CHECK(!event->complete());
  go = true;
  second.synchronize();
  CHECK(in_order);
  CHECK(event->complete());
  CHECK_EQUAL(event->time_ps(), uint64_t{1000});
  auto later = std::make_shared<Event>();
  second.record(later);
  later->synchronize();
  CHECK_EQUAL(later->time_ps(), uint64_t{1005});
}

TEST("an event that was never recorded blocks no stream") {
  Stream& stream = make_stream(make_timeline());
  auto event = std::make_shared<Event>();
  CHECK(event->complete());
  event->synchronize();
  stream.wait(event);
  stream.synchronize();
}

TEST("work submitted after a synchronisation starts no earlier in device time") {
  auto timeline = make_timeline();
  Stream &first = make_stream(timeline), &second = make_stream(timeline);
  first.run(nothing, cores(700));
  auto event = std::make_shared<Event>();
  second.run(nothing, cores(10));
  second.record(event);
  event->synchronize();
  CHECK_EQUAL(event->time_ps(), uint64_t{710});
}

TEST("many threads may submit to one stream") {
  Stream& stream = make_stream(make_timeline());
  int count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const auto work = [&count] { ++count; };
        if (i % 10 == 0) {
          stream.run(work);
        } else {
          stream.submit(work);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stream.synchronize();
  CHECK_EQUAL(count, 4000);
}

TEST("other threads see an event only after it is queued") {
  Stream& stream = make_stream(make_timeline());
  auto event = std::make_shared<Event>();
  Gate gate(stream);
  for (int i = 0; i < 1024; ++i) stream.submit(nothing);
  std::thread recorder([&] { stream.record(event); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  // The queue is full: a wait that saw the event now could be queued before it and never end.
  CHECK(!event->recorded());
  std::thread waiter([&] { stream.wait(event); });
  gate.open();
  recorder.join();
  waiter.join();
  stream.synchronize();
  CHECK(event->recorded() && event->complete());
}

TEST("many threads may record and wait for one event without deadlock") {
  auto timeline = make_timeline();
  Stream &first = make_stream(timeline), &second = make_stream(timeline);
  auto event = std::make_shared<Event>();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Stream &mine = t % 2 == 0 ? first : second, &other = t % 2 == 0 ? second : first;
      for (int i = 0; i < 1500; ++i) {
        mine.record(event);
        mine.wait(event);
        if (i % 100 == 0) event->synchronize();
        if (i % 10 == 0) other.submit(nothing);
        event->query();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  first.synchronize();
  second.synchronize();
  CHECK(event->complete());
}

TEST("run raises the error of its work in its caller") {
  Stream& stream = make_stream(make_timeline());
  std::atomic<int> swapped{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        const bool fails = t % 2 == 0;
        bool failed = false;
        try {
          stream.run([&] {
            if (fails) throw t;
          });
        } catch (int thrower) {
          failed = thrower == t;
        }
        if (failed != fails) ++swapped;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQUAL(swapped.load(), 0);
  stream.synchronize();
}

TEST("an error of earlier work stays pending while run throws its own") {
  Stream& stream = make_stream(make_timeline());
  stream.submit([] { throw std::runtime_error("earlier"); });
  CHECK_THROWS(std::logic_error, stream.run([] { throw std::logic_error("own"); }));
  CHECK_THROWS(std::runtime_error, stream.run(nothing));
  stream.synchronize();
}

TEST("the synchronisation after wait_idle throws the pending error") {
  Stream& stream = make_stream(make_timeline());
  stream.submit([] { throw std::runtime_error("broken"); });
  stream.wait_idle();
  CHECK(stream.query());
  CHECK_THROWS(std::runtime_error, stream.synchronize());
}

TEST("a query that returns true advances the host's time as a wait does") {
  for (const bool by_event : {true, false}) {
    auto timeline = make_timeline();
    Stream& stream = make_stream(timeline);
    auto event = std::make_shared<Event>();
    stream.submit(nothing, cores(700));
    stream.record(event);
    while (!(by_event ? event->query() : stream.query())) std::this_thread::yield();
    CHECK_EQUAL(timeline->host_ps(), uint64_t{700});
  }
}

TEST("a stream is idle after a wait for its last event") {
  Stream& stream = make_stream(make_timeline());
  for (int i = 0; i < 3000; ++i) {
    auto event = std::make_shared<Event>();
    stream.submit(nothing);
    stream.record(event);
    event->synchronize();
    CHECK(stream.query());
  }
}

TEST("the outcome of a copy is reported once, by the synchronising thread") {
  Stream& stream = make_stream(make_timeline());
  static uint64_t reported = 0;
  static std::thread::id teller;
  set_outcome_reporter([](const spyre::CopyOutcome& outcome) {
    reported += outcome.narrowed_out_of_range;
    teller = std::this_thread::get_id();
  });
  for (int i = 0; i < 3; ++i) {
    stream.submit([&] { stream.add_outcome({.narrowed_out_of_range = 2}); });
  }
  stream.wait_idle();
  CHECK_EQUAL(reported, uint64_t{0});
  auto event = std::make_shared<Event>();
  stream.record(event);
  event->synchronize();
  CHECK_EQUAL(reported, uint64_t{6});
  CHECK(teller == std::this_thread::get_id());
  stream.synchronize();
  CHECK_EQUAL(reported, uint64_t{6});
  set_outcome_reporter(nullptr);
}
