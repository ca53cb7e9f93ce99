#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.h"
#include "emulator/thread_pool.h"

namespace spyre::emulator {
namespace {

class WithThreads {
 public:
  explicit WithThreads(int count) : before_(host_threads()) { set_host_threads(count); }
  ~WithThreads() { set_host_threads(before_); }

 private:
  int before_;
};

void check_covers_once(int64_t count, int64_t grain) {
  std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
  std::atomic<bool> ranges_fit = true;
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    if (begin >= end || (end != count && (end - begin) % grain != 0)) ranges_fit = false;
    for (int64_t i = begin; i < end; ++i) visits[static_cast<size_t>(i)] += 1;
  });
  CHECK(ranges_fit);
  CHECK(std::all_of(visits.begin(), visits.end(), [](const auto& visit) { return visit == 1; }));
}

TEST("thread pool: every index is visited once, in whole grains") {
  for (const int threads : {1, 2, 4, 9}) {
    const WithThreads with(threads);
    for (const int64_t count : {0, 1, 2, 7, 64, 1000, 12345}) {
      for (const int64_t grain : {1, 3, 64, 5000}) check_covers_once(count, grain);
    }
  }
}

TEST("thread pool: a call inside a body uses one thread") {
  const WithThreads with(4);
  CHECK_EQUAL(threads_here(), 4);
  std::atomic<int> most = 0;
  parallel_for(64, 1, [&](int64_t, int64_t) { most = std::max(most.load(), threads_here()); });
  CHECK_EQUAL(most.load(), 1);
  CHECK_EQUAL(threads_here(), 4);
}

void stay_on(int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  CHECK_EQUAL(sched_setaffinity(0, sizeof(cpus), &cpus), 0);
}

TEST("thread pool: a helper leaves the CPU of its caller") {
  if (std::thread::hardware_concurrency() < 2) return;
  const WithThreads with(2);
  std::atomic<std::thread::id> moved_here;
  std::atomic<bool> has_left = false;
  std::thread caller([&] {
    const int cpu = sched_getcpu();
    stay_on(cpu);
    const auto caller_id = std::this_thread::get_id();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!has_left && std::chrono::steady_clock::now() < deadline) {
      parallel_for(8, 1, [&](int64_t, int64_t) {
        if (std::this_thread::get_id() == caller_id) {
          // Gives the helper time to start.
          std::this_thread::sleep_for(std::chrono::microseconds(200));
        } else if (moved_here.load() == std::thread::id()) {
          stay_on(cpu);
          moved_here = std::this_thread::get_id();
        } else if (moved_here.load() == std::this_thread::get_id() && sched_getcpu() != cpu) {
          has_left = true;
        }
      });
    }
  });
  caller.join();
  CHECK(moved_here.load() != std::thread::id());
  CHECK(has_left);
}

TEST("thread pool: many short calls in a row") {
  const WithThreads with(4);
  std::atomic<int64_t> sum = 0;
  for (int i = 0; i < 20000; ++i) {
    parallel_for(4, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  }
  CHECK_EQUAL(sum.load(), 80000);
}

TEST("thread pool: helpers take part in long calls") {
  const WithThreads with(3);
  std::mutex mutex;
  std::vector<std::thread::id> seen;
  std::atomic<int> arrived = 0;
  // Every range waits until three threads execute one, which requires helpers.
  parallel_for(3, 1, [&](int64_t, int64_t) {
    arrived += 1;
    while (arrived < 3) std::this_thread::yield();
    const std::lock_guard lock(mutex);
    seen.push_back(std::this_thread::get_id());
  });
  std::sort(seen.begin(), seen.end());
  CHECK(std::unique(seen.begin(), seen.end()) == seen.end());
}

TEST("thread pool: a nested call runs inline") {
  const WithThreads with(4);
  std::atomic<int> calls = 0;
  std::atomic<bool> stayed = true;
  parallel_for(8, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const std::thread::id outer = std::this_thread::get_id();
      parallel_for(100, 1, [&](int64_t from, int64_t to) {
        calls += 1;
        if (std::this_thread::get_id() != outer || from != 0 || to != 100) stayed = false;
      });
    }
  });
  CHECK_EQUAL(calls.load(), 8);
  CHECK(stayed);
}

TEST("thread pool: several threads may call at once") {
  const WithThreads with(4);
  std::atomic<int64_t> sum = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 6; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        parallel_for(100, 7, [&](int64_t begin, int64_t end) { sum += end - begin; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK_EQUAL(sum.load(), 6 * 300 * 100);
}

TEST("thread pool: an exception of a body is rethrown in the caller, and the pool stays usable") {
  const WithThreads with(4);
  for (int64_t bad = 0; bad < 8; ++bad) {
    const auto throw_once = [&](int64_t begin, int64_t end) {
      if (begin <= bad && bad < end) throw std::domain_error("bad range");
    };
    CHECK_THROWS(std::domain_error, parallel_for(8, 1, throw_once));
    CHECK_THROWS(std::domain_error, parallel_for(8, 100, throw_once));
    check_covers_once(100, 3);
  }
}

TEST("thread pool: a nested call after an exception still runs inline once") {
  const WithThreads with(4);
  const auto always = [](int64_t, int64_t) { throw std::domain_error("always"); };
  CHECK_THROWS(std::domain_error, parallel_for(1, 1, always));
  CHECK_THROWS(std::domain_error, parallel_for(64, 1, always));
  check_covers_once(1000, 1);
}

TEST("thread pool: a forked child runs inline") {
  const WithThreads with(4);
  check_covers_once(100, 1);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    const std::thread::id self = std::this_thread::get_id();
    bool inline_call = false;
    parallel_for(100, 1, [&](int64_t begin, int64_t end) {
      inline_call = begin == 0 && end == 100 && std::this_thread::get_id() == self;
    });
    _exit(inline_call ? 0 : 1);
  }
  int status = -1;
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  check_covers_once(100, 1);
}

TEST("thread pool: fewer than one thread is rejected") {
  CHECK_THROWS(std::invalid_argument, set_host_threads(0));
}

}  // namespace
}  // namespace spyre::emulator
