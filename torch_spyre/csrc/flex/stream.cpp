#include "flex/stream.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace spyre::flex {

namespace {

constexpr size_t kMostQueued = 1024;

}  // namespace

void CardClock::advance_to(uint64_t time_ps) {
  uint64_t seen = now_ps_.load();
  while (seen < time_ps && !now_ps_.compare_exchange_weak(seen, time_ps)) {
  }
}

uint64_t Event::begin_record(Stream& stream) {
  std::lock_guard lock(mutex_);
  stream_ = &stream;
  return ++newest_;
}

void Event::finish_record(uint64_t version, uint64_t time_ps) {
  std::lock_guard lock(mutex_);
  if (version > finished_) {
    finished_ = version;
    time_ps_ = time_ps;
  }
  changed_.notify_all();
}

uint64_t Event::newest_version() const {
  std::lock_guard lock(mutex_);
  return newest_;
}

uint64_t Event::wait_for(uint64_t version) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return finished_ >= version; });
  return time_ps_;
}

void Event::synchronize() {
  const uint64_t version = newest_version();
  if (version == 0) return;
  const uint64_t time = wait_for(version);
  stream_->meet(time);
}

bool Event::complete() const {
  std::lock_guard lock(mutex_);
  return finished_ == newest_;
}

bool Event::recorded() const { return newest_version() > 0; }

uint64_t Event::time_ps() const {
  std::lock_guard lock(mutex_);
  return time_ps_;
}

Stream::Stream(int64_t id, std::shared_ptr<CardClock> card_clock)
    : id_(id), card_clock_(std::move(card_clock)) {}

void Stream::execute(std::unique_lock<std::mutex>& lock, Item& item) {
  busy_ = true;
  // Where this work starts on the device's time line; work that waits for others moves it on.
  clock_ps_ = std::max(clock_ps_, item.submitted_ps);
  lock.unlock();
  uint64_t took_ps = 0;
  std::exception_ptr error;
  try {
    took_ps = item.work();
  } catch (...) {
    error = std::current_exception();
  }
  // What the work holds alive may need locks of its own to go away.
  item.work = nullptr;
  lock.lock();
  clock_ps_ += took_ps;
  if (error && !pending_error_) pending_error_ = error;
  if (item.done != nullptr) *item.done = true;
  busy_ = false;
  changed_.notify_all();
}

void Stream::work_loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !queue_.empty() && !busy_; });
    Item item = std::move(queue_.front());
    queue_.pop_front();
    execute(lock, item);
  }
}

void Stream::enqueue(std::unique_lock<std::mutex>& lock, Item item) {
  if (!has_thread_) {
    // Lives as long as the process: streams are never destroyed.
    std::thread([this] { work_loop(); }).detach();
    has_thread_ = true;
  }
  changed_.wait(lock, [&] { return queue_.size() < kMostQueued; });
  queue_.push_back(std::move(item));
  changed_.notify_all();
}

void Stream::submit(Work work) {
  std::unique_lock lock(mutex_);
  enqueue(lock, {std::move(work), card_clock_->now(), nullptr});
}

void Stream::throw_pending(std::unique_lock<std::mutex>& lock, uint64_t time_ps) {
  card_clock_->advance_to(time_ps);
  const std::exception_ptr error = std::exchange(pending_error_, nullptr);
  lock.unlock();
  if (error) std::rethrow_exception(error);
}

void Stream::run(Work work) {
  std::unique_lock lock(mutex_);
  Item item{std::move(work), card_clock_->now(), nullptr};
  if (queue_.empty() && !busy_) {
    execute(lock, item);
  } else {
    bool done = false;
    item.done = &done;
    enqueue(lock, std::move(item));
    changed_.wait(lock, [&] { return done; });
  }
  throw_pending(lock, clock_ps_);
}

void Stream::meet(uint64_t time_ps) {
  std::unique_lock lock(mutex_);
  throw_pending(lock, time_ps);
}

bool Stream::idle() const {
  std::lock_guard lock(mutex_);
  return queue_.empty() && !busy_;
}

void Stream::synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return queue_.empty() && !busy_; });
  throw_pending(lock, clock_ps_);
}

void Stream::record(const std::shared_ptr<Event>& event) {
  const uint64_t version = event->begin_record(*this);
  const auto mark = [this, event, version]() -> uint64_t {
    uint64_t time = 0;
    {
      std::lock_guard lock(mutex_);
      time = clock_ps_;
    }
    event->finish_record(version, time);
    return 0;
  };
  std::unique_lock lock(mutex_);
  Item item{mark, card_clock_->now(), nullptr};
  if (queue_.empty() && !busy_) return execute(lock, item);
  enqueue(lock, std::move(item));
}

void Stream::wait(const std::shared_ptr<Event>& event) {
  const uint64_t version = event->newest_version();
  if (version == 0) return;
  submit([this, event, version]() -> uint64_t {
    const uint64_t time = event->wait_for(version);
    std::lock_guard lock(mutex_);
    clock_ps_ = std::max(clock_ps_, time);
    return 0;
  });
}

}  // namespace spyre::flex
