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

// Streams live for ever in the product; here too, since their threads do.
Stream& make_stream(const std::shared_ptr<CardClock>& clock) {
  static auto* streams = new std::vector<std::unique_ptr<Stream>>();
  streams->push_back(std::make_unique<Stream>(1, clock));
  return *streams->back();
}

}  // namespace

TEST("work of one stream runs in the order of submission") {
  Stream& stream = make_stream(std::make_shared<CardClock>());
  std::vector<int> order;
  for (int i = 0; i < 3000; ++i) {
    stream.submit([&order, i]() -> uint64_t {
      order.push_back(i);
      return 1;
    });
  }
  stream.synchronize();
  CHECK_EQUAL(order.size(), size_t{3000});
  for (int i = 0; i < 3000; ++i) CHECK_EQUAL(order[i], i);
  CHECK(stream.idle());
}

TEST("run waits for its turn behind queued work") {
  Stream& stream = make_stream(std::make_shared<CardClock>());
  std::atomic<int> done{0};
  stream.submit([&]() -> uint64_t {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    done = 1;
    return 0;
  });
  int seen = -1;
  stream.run([&]() -> uint64_t {
    seen = done;
    return 0;
  });
  CHECK_EQUAL(seen, 1);
}

TEST("an error surfaces at the next synchronisation, once, and the stream goes on") {
  Stream& stream = make_stream(std::make_shared<CardClock>());
  bool ran = false;
  stream.submit([]() -> uint64_t { throw std::runtime_error("broken"); });
  stream.submit([&]() -> uint64_t {
    ran = true;
    return 0;
  });
  CHECK_THROWS(std::runtime_error, stream.synchronize());
  CHECK(ran);
  stream.synchronize();
  CHECK_THROWS(std::logic_error, stream.run([]() -> uint64_t { throw std::logic_error("again"); }));
  stream.synchronize();
}

TEST("a stream waits for an event of another") {
  auto clock = std::make_shared<CardClock>();
  Stream &first = make_stream(clock), &second = make_stream(clock);
  auto event = std::make_shared<Event>();
  std::atomic<bool> go{false}, first_done{false};
  first.submit([&]() -> uint64_t {
    while (!go) std::this_thread::yield();
    first_done = true;
    return 1000;
  });
  first.record(event);
  second.wait(event);
  bool in_order = false;
  second.submit([&]() -> uint64_t {
    in_order = first_done;
    return 5;
  });
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

TEST("an event that was never recorded holds nobody up") {
  Stream& stream = make_stream(std::make_shared<CardClock>());
  auto event = std::make_shared<Event>();
  CHECK(event->complete());
  event->synchronize();
  stream.wait(event);
  stream.synchronize();
}

TEST("work submitted after a synchronisation starts no earlier in device time") {
  auto clock = std::make_shared<CardClock>();
  Stream &first = make_stream(clock), &second = make_stream(clock);
  first.run([]() -> uint64_t { return 700; });
  auto event = std::make_shared<Event>();
  second.run([]() -> uint64_t { return 10; });
  second.record(event);
  event->synchronize();
  CHECK_EQUAL(event->time_ps(), uint64_t{710});
}

TEST("many threads may submit to one stream") {
  Stream& stream = make_stream(std::make_shared<CardClock>());
  int count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const auto work = [&count]() -> uint64_t {
          ++count;
          return 0;
        };
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
