#include "emulator/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "emulator/stop.h"

namespace spyre::emulator {
namespace {

// Guided self-scheduling: a thread takes 1 / (threads * kChunkDivisor) of the remaining items.
// Ranges shrink towards the end, so that a thread that starts late or is preempted causes little
// delay.
constexpr int64_t kChunkDivisor = 2;
constexpr auto kIdleSpin = std::chrono::microseconds(40);

std::atomic<int> configured_threads = 0;
std::atomic<bool> is_forked_child = false;
thread_local bool inside_body = false;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Spins until `ready()` or until the spin time is over.
template <typename Ready>
bool spin_until(Ready ready) {
  const auto deadline = std::chrono::steady_clock::now() + kIdleSpin;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return ready();
}

// One parallel_for, on its caller's stack. The pool's mutex guards `helpers_needed` and `failure`;
// `helpers_active` counts the workers that hold a reference.
struct Job {
  const std::function<void(int64_t, int64_t)>& body;
  int64_t count;
  int64_t grain;
  int64_t threads;
  int helpers_needed;
  const StopConditions* stop;  // of the calling thread
  std::atomic<int64_t> next = 0;
  std::atomic<int> helpers_active = 0;
  std::exception_ptr failure = nullptr;
};

// A thread of the pool.
class Worker {
 public:
  template <typename Work>
  explicit Worker(Work work) {
    std::thread thread([this, work] { work(*this); });
    thread_ = thread.native_handle();
    thread.detach();
  }

  void record_cpu() { cpu_.store(sched_getcpu(), std::memory_order_relaxed); }

  // If all CPUs are busy when a thread wakes, Linux leaves it on its waker's CPU, where it competes
  // with the waker for many milliseconds, even after another CPU has become idle.
  void move_away_from(int cpu) {
    if (cpu_.load(std::memory_order_relaxed) != cpu || cpu < 0) return;
    cpu_.store(kUnknown, std::memory_order_relaxed);
    cpu_set_t other_cpus = allowed_cpus();
    if (cpu >= CPU_SETSIZE || CPU_COUNT(&other_cpus) < 2) return;
    CPU_CLR(cpu, &other_cpus);
    // A failure is harmless: the thread stays where it is, which only costs time.
    pthread_setaffinity_np(thread_, sizeof(other_cpus), &other_cpus);
  }

 private:
  static constexpr int kUnknown = -1;

  // Returns the affinity mask of the thread that makes the first call.
  static const cpu_set_t& allowed_cpus() {
    static const cpu_set_t cpus = [] {
      cpu_set_t set;
      CPU_ZERO(&set);
      sched_getaffinity(0, sizeof(set), &set);
      return set;
    }();
    return cpus;
  }

  std::atomic<int> cpu_ = kUnknown;
  pthread_t thread_;
};

class Pool {
 public:
  void run(Job& job) {
    const int helpers = job.helpers_needed;
    {
      const std::lock_guard lock(mutex_);
      start_workers(helpers);
      for (const int cpu = sched_getcpu(); const auto& worker : workers_) {
        worker->move_away_from(cpu);
      }
      jobs_.push_back(&job);
      waiting_jobs_.fetch_add(1, std::memory_order_relaxed);
    }
    for (int i = 0; i < helpers; ++i) work_arrived_.notify_one();
    run_ranges(job);
    wait_for_helpers(job);
    if (job.failure) std::rethrow_exception(job.failure);
  }

 private:
  void start_workers(int count) {
    while (std::ssize(workers_) < count) {
      workers_.push_back(std::make_unique<Worker>([this](Worker& worker) { work(worker); }));
    }
  }

  [[noreturn]] void work(Worker& self) {
    inside_body = true;
    const auto work_is_waiting = [this] {
      return waiting_jobs_.load(std::memory_order_relaxed) > 0;
    };
    while (true) {
      spin_until(work_is_waiting);
      Job& job = next_job();
      self.record_cpu();
      run_ranges_as_helper(job);
      const std::lock_guard lock(mutex_);
      if (job.helpers_active.fetch_sub(1) == 1) helpers_left_.notify_all();
    }
  }

  Job& next_job() {
    std::unique_lock lock(mutex_);
    work_arrived_.wait(lock, [this] { return !jobs_.empty(); });
    Job& job = *jobs_.front();
    job.helpers_active.fetch_add(1, std::memory_order_relaxed);
    if (--job.helpers_needed == 0) remove(job);
    return job;
  }

  struct Range {
    int64_t begin, end;
  };
  // Returns an empty range if no items remain.
  static Range next_range(Job& job) {
    Range range{.begin = job.next.load(std::memory_order_relaxed), .end = 0};
    do {
      const int64_t remaining = job.count - range.begin;
      if (remaining <= 0) return {};
      const int64_t grains = remaining / (job.grain * job.threads * kChunkDivisor);
      range.end = range.begin + std::min(remaining, std::max<int64_t>(grains, 1) * job.grain);
    } while (!job.next.compare_exchange_weak(range.begin, range.end, std::memory_order_relaxed));
    return range;
  }

  void run_ranges(Job& job) {
    while (true) {
      const auto [begin, end] = next_range(job);
      if (begin == end) return;
      try {
        job.body(begin, end);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!job.failure) job.failure = std::current_exception();
        job.next = job.count;
      }
    }
  }

  void run_ranges_as_helper(Job& job) {
    const StopScope scope(job.stop);
    run_ranges(job);
  }

  // Returns when no helper holds a reference to the job; helpers that have not started are not
  // waited for.
  void wait_for_helpers(Job& job) {
    {
      const std::lock_guard lock(mutex_);
      if (job.helpers_needed > 0) remove(job);
    }
    spin_until([&job] { return job.helpers_active.load(std::memory_order_relaxed) == 0; });
    std::unique_lock lock(mutex_);
    helpers_left_.wait(lock, [&job] { return job.helpers_active == 0; });
  }

  void remove(Job& job) {
    std::erase(jobs_, &job);
    waiting_jobs_.fetch_sub(1, std::memory_order_relaxed);
  }

  std::mutex mutex_;
  std::condition_variable work_arrived_;
  std::condition_variable helpers_left_;
  std::vector<Job*> jobs_;
  std::atomic<int> waiting_jobs_ = 0;
  std::vector<std::unique_ptr<Worker>> workers_;
};

// Never destroyed: workers may still wait in it while the process exits.
Pool& pool() {
  static Pool* const instance = [] {
    pthread_atfork(nullptr, nullptr, [] { is_forked_child = true; });
    return new Pool;
  }();
  return *instance;
}

// Marks the calling thread while it runs bodies, so that nested calls stay inline.
struct InsideBody {
  InsideBody() { inside_body = true; }
  ~InsideBody() { inside_body = false; }
};

}  // namespace

void set_host_threads(int count) {
  if (count < 1) throw std::invalid_argument("the number of host threads must be at least 1");
  configured_threads = count;
}

int host_threads() {
  static const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int count = configured_threads.load(std::memory_order_relaxed);
  return count > 0 ? count : cores;
}

int threads_here() { return inside_body || is_forked_child ? 1 : host_threads(); }

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t grains = (count + grain - 1) / grain;
  const int64_t threads = std::min<int64_t>(threads_here(), grains);
  if (threads == 1) return body(0, count);
  Job job{.body = body,
          .count = count,
          .grain = grain,
          .threads = threads,
          .helpers_needed = static_cast<int>(threads - 1),
          .stop = stop_conditions_here()};
  const InsideBody mark;
  pool().run(job);
}

}  // namespace spyre::emulator
