#include "flex/stream.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "flex/activity.h"

namespace spyre::flex {

namespace {

// The name that traces of hardware have for a call that waits for the card.
constexpr const char* kWaitCall = "aiuScheduleWait";

constexpr size_t kMaxQueued = 1024;
// A thread that waits for capacity is woken once per so many items, not for every item. It also
// polls: the running item may be waiting for an item that is queued after it.
constexpr uint64_t kItemsPerWake = 128;
constexpr auto kCapacityCheck = std::chrono::milliseconds(1);
// How long an idle stream's thread polls for work before it sleeps: work often follows soon, and
// waking a thread takes longer than a small kernel.
constexpr auto kIdleSpin = std::chrono::microseconds(50);

void pause_briefly() {
#if defined(__x86_64__)
  for (int i = 0; i < 16; ++i) __builtin_ia32_pause();
#endif
}

// Polls `ready()` until it holds or kIdleSpin is over, releasing the lock in between.
template <typename Ready>
void spin_until(std::unique_lock<std::mutex>& lock, Ready ready) {
  static const bool has_cores = std::thread::hardware_concurrency() > 1;
  if (!has_cores || ready()) return;
  const auto deadline = std::chrono::steady_clock::now() + kIdleSpin;
  while (!ready() && std::chrono::steady_clock::now() < deadline) {
    lock.unlock();
    pause_briefly();
    lock.lock();
  }
}

std::atomic<OutcomeReporter> outcome_reporter{nullptr};

}  // namespace

void set_outcome_reporter(OutcomeReporter reporter) { outcome_reporter = reporter; }

uint64_t Event::begin_record(Stream& stream, uint64_t time_ps) {
  std::lock_guard lock(mutex_);
  stream_ = &stream;
  newest_ = {newest_.version + 1, time_ps};
  return newest_.version;
}

void Event::finish_record(uint64_t version) {
  std::lock_guard lock(mutex_);
  finished_ = std::max(finished_, version);
  changed_.notify_all();
}

Event::Position Event::newest() const {
  std::lock_guard lock(mutex_);
  return newest_;
}

void Event::wait_for(uint64_t version) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return finished_ >= version; });
}

void Event::synchronize() {
  const CallRecord record(kWaitCall);
  std::unique_lock lock(mutex_);
  const Position position = newest_;
  Stream* stream = stream_;
  lock.unlock();
  if (position.version == 0) return;
  wait_for(position.version);
  stream->finish_host_wait(position.time_ps);
}

bool Event::query() {
  std::unique_lock lock(mutex_);
  if (finished_ != newest_.version) return false;
  Stream* stream = stream_;
  const uint64_t time = newest_.time_ps;
  lock.unlock();
  if (stream != nullptr) stream->advance_host_to(time);
  return true;
}

bool Event::complete() const {
  std::lock_guard lock(mutex_);
  return finished_ == newest_.version;
}

bool Event::recorded() const { return newest().version > 0; }

uint64_t Event::time_ps() const { return newest().time_ps; }

Stream::Stream(int64_t id, std::shared_ptr<Timeline> timeline)
    : id_(id), timeline_(std::move(timeline)) {}

TimeSpan Stream::reserve(const WorkTime& time) {
  const TimeSpan span = timeline_->submit(time, end_ps_);
  end_ps_ = span.end_ps;
  return span;
}

void Stream::run_work(std::unique_lock<std::mutex>& lock, Item& item) {
  busy_ = true;
  lock.unlock();
  std::exception_ptr error;
  try {
    item.work();
  } catch (...) {
    error = std::current_exception();
  }
  // Destroy the work without the lock: destructors of what it owns may need other locks.
  item.work = nullptr;
  lock.lock();
  busy_ = false;
  if (item.result != nullptr) {
    *item.result = {true, error};
  } else if (error && !pending_error_) {
    pending_error_ = error;
  }
}

void Stream::execute(std::unique_lock<std::mutex>& lock, Item& item) {
  if (item.work) run_work(lock, item);
  // With the lock held: a thread that has waited for the last event finds the stream idle.
  if (item.event) item.event->finish_record(item.event_version);
  // No thread can continue between two items of the queue. A spurious wakeup would take CPU time
  // from the work.
  if (queue_.empty() || item.result != nullptr) changed_.notify_all();
}

void Stream::work_loop() {
  std::unique_lock lock(mutex_);
  uint64_t num_dequeued = 0;
  while (true) {
    const auto has_work = [&] { return !queue_.empty() && !busy_; };
    spin_until(lock, has_work);
    changed_.wait(lock, has_work);
    Item item = std::move(queue_.front());
    queue_.pop_front();
    if (++num_dequeued % kItemsPerWake == 0) changed_.notify_all();
    execute(lock, item);
  }
}

void Stream::wait_for_capacity(std::unique_lock<std::mutex>& lock) {
  while (!changed_.wait_for(lock, kCapacityCheck, [&] { return queue_.size() < kMaxQueued; })) {
  }
}

void Stream::push(Item item) {
  if (!has_thread_) {
    // Lives as long as the process: streams are never destroyed.
    std::thread([this] { work_loop(); }).detach();
    has_thread_ = true;
  }
  queue_.push_back(std::move(item));
  changed_.notify_all();
}

TimeSpan Stream::submit(Work work, const WorkTime& time) {
  std::unique_lock lock(mutex_);
  wait_for_capacity(lock);
  const TimeSpan span = reserve(time);
  push({.work = std::move(work)});
  return span;
}

void Stream::add_outcome(const CopyOutcome& outcome) {
  std::lock_guard lock(mutex_);
  pending_outcome_.narrowed_out_of_range += outcome.narrowed_out_of_range;
}

void Stream::report_pending(std::unique_lock<std::mutex>& lock, uint64_t time_ps) {
  timeline_->advance_host_to(time_ps);
  const std::exception_ptr error = std::exchange(pending_error_, nullptr);
  const CopyOutcome outcome = std::exchange(pending_outcome_, {});
  lock.unlock();
  const OutcomeReporter reporter = outcome_reporter;
  if (reporter != nullptr && outcome.narrowed_out_of_range > 0) reporter(outcome);
  if (error) std::rethrow_exception(error);
}

TimeSpan Stream::run(Work work, const WorkTime& time) {
  std::unique_lock lock(mutex_);
  Result result;
  Item item{.work = std::move(work), .result = &result};
  if (!is_idle()) wait_for_capacity(lock);
  const TimeSpan span = reserve(time);
  if (is_idle()) {
    execute(lock, item);
  } else {
    push(std::move(item));
    changed_.wait(lock, [&] { return result.done; });
  }
  if (result.error) {
    // Throw the error of this work; the next synchronisation throws that of earlier work.
    timeline_->advance_host_to(span.end_ps);
    lock.unlock();
    std::rethrow_exception(result.error);
  }
  report_pending(lock, span.end_ps);
  return span;
}

void Stream::finish_host_wait(uint64_t time_ps) {
  std::unique_lock lock(mutex_);
  report_pending(lock, time_ps);
}

bool Stream::query() {
  std::lock_guard lock(mutex_);
  if (!is_idle()) return false;
  timeline_->advance_host_to(end_ps_);
  return true;
}

void Stream::synchronize() {
  const CallRecord record(kWaitCall);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_idle(); });
  report_pending(lock, end_ps_);
}

void Stream::wait_idle() noexcept {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_idle(); });
  timeline_->advance_host_to(end_ps_);
}

void Stream::drain() noexcept {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_idle(); });
}

void Stream::record(const std::shared_ptr<Event>& event) {
  std::unique_lock lock(mutex_);
  if (!is_idle()) wait_for_capacity(lock);
  // Other threads see the new version only once it is queued, so that a wait for it in this stream
  // is queued after it.
  Item item{.event = event, .event_version = event->begin_record(*this, reserve({}).end_ps)};
  if (is_idle()) return execute(lock, item);
  push(std::move(item));
}

void Stream::wait(const std::shared_ptr<Event>& event) {
  const Event::Position position = event->newest();
  if (position.version == 0) return;
  std::unique_lock lock(mutex_);
  wait_for_capacity(lock);
  end_ps_ = std::max(end_ps_, position.time_ps);
  push({.work = [event, version = position.version] { event->wait_for(version); }});
}

}  // namespace spyre::flex
