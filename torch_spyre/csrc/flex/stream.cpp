#include "flex/stream.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <thread>
#include <utility>

#include "flex/activity.h"
#include "flex/interruption.h"

namespace spyre::flex {

namespace {

// The name that traces of hardware have for a call that waits for the card.
constexpr const char* kWaitCall = "aiuScheduleWait";
constexpr const char* kStreamWaitCall = "aiuStreamWaitEvent";

constexpr size_t kMaxQueued = 1024;
// A thread that waits for capacity is woken once per so many items, not for every item. It also
// polls: the running item may be waiting for an item that is queued after it.
constexpr uint64_t kItemsPerWake = 128;
constexpr auto kCapacityCheck = std::chrono::milliseconds(1);
// How often a waiting thread checks for signals, and waiting work whether it has to stop.
constexpr auto kSignalCheck = std::chrono::milliseconds(20);
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
std::atomic<ErrorFilter> error_filter{nullptr};

// Ends work that waits for another stream when it has to stop.
void check_stop_request() {
  if (stop_request_here().is_set()) throw WorkInterrupted();
}

}  // namespace

void set_outcome_reporter(OutcomeReporter reporter) { outcome_reporter = reporter; }

void set_error_filter(ErrorFilter filter) { error_filter = filter; }

uint64_t Event::begin_record(Stream& stream, uint64_t time_ps) {
  std::lock_guard lock(mutex_);
  stream_ = &stream;
  newest_ = {newest_.version + 1, time_ps, stream.id()};
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

void Event::wait_for(uint64_t version, void (*poll)()) {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kSignalCheck, [&] { return finished_ >= version; })) {
    lock.unlock();
    poll();
    lock.lock();
  }
}

void Event::synchronize() {
  CallRecord record(kWaitCall);
  std::unique_lock lock(mutex_);
  const Position position = newest_;
  Stream* stream = stream_;
  lock.unlock();
  if (position.version == 0) return;
  const uint64_t interruptions = num_interruptions();
  const uint64_t begin_ps = stream->host_ps();
  wait_for(position.version, &check_signals);
  record.add({.name = "Event Sync",
              .card = stream->card(),
              .stream = stream->id(),
              .awaited_stream = stream->id(),
              .begin_ps = begin_ps,
              .end_ps = std::max(begin_ps, position.time_ps)});
  stream->finish_host_wait(position.time_ps, interruptions);
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

Stream::Stream(int64_t id, std::shared_ptr<Timeline> timeline, int card, CardMeter* meter)
    : id_(id), card_(card), timeline_(std::move(timeline)), meter_(meter) {}

TimeSpan Stream::reserve(const WorkTime& time) {
  const TimeSpan span = timeline_->submit(time, end_ps_);
  end_ps_ = span.end_ps;
  return span;
}

std::optional<MeteredWork> Stream::measure(const WorkTime& time, const TimeSpan& span) const {
  if (meter_ == nullptr) return std::nullopt;
  return meter_->measure(time, span);
}

void Stream::run_work(std::unique_lock<std::mutex>& lock, Item& item) {
  busy_ = true;
  running_since_ = item.num_interruptions;
  lock.unlock();
  if (item.metered) meter_->begin(*item.metered);
  std::exception_ptr error;
  try {
    const WorkScope scope(item.num_interruptions);
    item.work();
  } catch (...) {
    error = std::current_exception();
  }
  if (item.metered) meter_->finish(*item.metered);
  // Destroy the work without the lock: destructors of what it owns may need other locks.
  item.work = nullptr;
  lock.lock();
  busy_ = false;
  if (item.result != nullptr) {
    *item.result = {true, error};
  } else if (error && !pending_error_ && item.num_interruptions == num_interruptions()) {
    // After an interruption the failure of older work is of no interest.
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
  const auto has_capacity = [&] { return queue_.size() < kMaxQueued; };
  auto next_check = std::chrono::steady_clock::now() + kSignalCheck;
  while (!changed_.wait_for(lock, kCapacityCheck, has_capacity)) {
    if (std::chrono::steady_clock::now() < next_check) continue;
    lock.unlock();
    check_signals();
    lock.lock();
    next_check = std::chrono::steady_clock::now() + kSignalCheck;
  }
}

template <typename Ready>
void Stream::wait_until(std::unique_lock<std::mutex>& lock, Ready ready) {
  while (!changed_.wait_for(lock, kSignalCheck, ready)) {
    lock.unlock();
    check_signals();
    lock.lock();
  }
}

void Stream::push(Item item) {
  if (!has_thread_) {
    // Lives as long as the process: streams are never destroyed.
    std::thread([this] { work_loop(); }).detach();
    has_thread_ = true;
  }
  item.num_interruptions = num_interruptions();
  queue_.push_back(std::move(item));
  changed_.notify_all();
}

TimeSpan Stream::submit(Work work, const WorkTime& time) {
  std::unique_lock lock(mutex_);
  wait_for_capacity(lock);
  const TimeSpan span = reserve(time);
  push({.work = std::move(work), .metered = measure(time, span)});
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
  if (!error) return;
  const ErrorFilter filter = error_filter;
  std::rethrow_exception(filter == nullptr ? error : filter(error));
}

TimeSpan Stream::run(Work work, const WorkTime& time) {
  std::unique_lock lock(mutex_);
  Result result;
  Item item{.work = std::move(work), .result = &result};
  if (!is_idle()) wait_for_capacity(lock);
  const TimeSpan span = reserve(time);
  item.metered = measure(time, span);
  if (is_idle()) {
    item.num_interruptions = num_interruptions();
    execute(lock, item);
  } else {
    push(std::move(item));
    // If the check for signals throws, it has interrupted all work: no thread uses `result` then.
    wait_until(lock, [&] { return result.done; });
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

void Stream::finish_host_wait(uint64_t time_ps, uint64_t interruptions) {
  std::unique_lock lock(mutex_);
  report_pending(lock, time_ps);
  lock.lock();
  if (last_drop_ > interruptions) throw WorkInterrupted();
}

bool Stream::query() {
  std::lock_guard lock(mutex_);
  if (!is_idle()) return false;
  timeline_->advance_host_to(end_ps_);
  return true;
}

void Stream::synchronize() {
  CallRecord record(kWaitCall);
  const uint64_t begin_ps = host_ps();
  finish();
  record.add({.name = "Stream Sync",
              .card = card_,
              .stream = id_,
              .awaited_stream = id_,
              .begin_ps = begin_ps,
              .end_ps = host_ps()});
}

void Stream::finish() {
  const uint64_t interruptions = num_interruptions();
  std::unique_lock lock(mutex_);
  wait_until(lock, [&] { return is_idle(); });
  const uint64_t end_ps = end_ps_;
  lock.unlock();
  finish_host_wait(end_ps, interruptions);
}

void Stream::wait_idle() {
  std::unique_lock lock(mutex_);
  wait_until(lock, [&] { return is_idle(); });
  timeline_->advance_host_to(end_ps_);
}

void Stream::drain() {
  std::unique_lock lock(mutex_);
  wait_until(lock, [&] { return is_idle(); });
}

void Stream::drop_queue(uint64_t interruption) {
  const std::lock_guard lock(mutex_);
  const bool is_running = busy_ && running_since_ < interruption;
  const auto is_old = [&](const Item& item) { return item.num_interruptions < interruption; };
  const auto end = std::ranges::find_if_not(queue_, is_old);
  if (is_running || end != queue_.begin()) last_drop_ = interruption;
  std::move(queue_.begin(), end, std::back_inserter(dropped_));
  queue_.erase(queue_.begin(), end);
}

void Stream::finish_drop(uint64_t interruption) {
  std::unique_lock lock(mutex_);
  const auto has_stopped = [&] { return !busy_ || running_since_ >= interruption; };
  // Poll: the end of work is not announced if other work follows.
  while (!changed_.wait_for(lock, kCapacityCheck, has_stopped)) {
  }
  std::deque<Item> dropped = std::exchange(dropped_, {});
  for (Item& item : dropped) {
    if (item.result != nullptr) {
      *item.result = {true, std::make_exception_ptr(WorkInterrupted())};
    }
    if (item.event) item.event->finish_record(item.event_version);
  }
  changed_.notify_all();
  lock.unlock();
  // Destroy the work without the lock: destructors of what it owns may need other locks.
  dropped.clear();
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
  CallRecord record(kStreamWaitCall);
  const Event::Position position = event->newest();
  if (position.version == 0) return;
  std::unique_lock lock(mutex_);
  wait_for_capacity(lock);
  Synchronization synchronization{.name = "Stream Wait Event",
                                  .card = card_,
                                  .stream = id_,
                                  .awaited_stream = position.stream,
                                  .begin_ps = end_ps_};
  end_ps_ = std::max(end_ps_, position.time_ps);
  synchronization.end_ps = end_ps_;
  record.add(synchronization);
  push({.work = [event, version = position.version] {
    event->wait_for(version, &check_stop_request);
  }});
}

}  // namespace spyre::flex
