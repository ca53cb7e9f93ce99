// Streams: queues of work that run in order, each with a clock in device time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include "flex/copy_descriptor.h"

namespace spyre::flex {

// When host and streams of one card last met. Work submitted by the host starts no earlier, in
// device time, than anything the host has already waited for.
class CardClock {
 public:
  uint64_t now() const { return now_ps_.load(std::memory_order_acquire); }
  void advance_to(uint64_t time_ps);

 private:
  std::atomic<uint64_t> now_ps_{0};
};

// How copies' outcomes are told to the program: set once, before the first stream. Called by the
// thread that synchronises, never by a stream's own, and without any lock held.
using OutcomeReporter = void (*)(const CopyOutcome& outcome);
void set_outcome_reporter(OutcomeReporter reporter);

class Stream;

// A moment in a stream. Recorded again, it means the later moment.
class Event {
 public:
  // Waits for the event. Throws the pending error of its stream's work.
  void synchronize();
  // Whether the moment has come; if so, the host has seen it. Leaves errors to synchronisations.
  bool query();
  bool complete() const;
  // Device time of the moment, after it has come to pass.
  uint64_t time_ps() const;
  bool recorded() const;

 private:
  friend class Stream;
  uint64_t begin_record(Stream& stream);
  void finish_record(uint64_t version, uint64_t time_ps);
  uint64_t newest_version() const;
  // Blocks until `version` or a later one has come to pass.
  uint64_t wait_for(uint64_t version);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Stream* stream_ = nullptr;  // streams live as long as the process
  uint64_t newest_ = 0;
  uint64_t finished_ = 0;
  uint64_t time_ps_ = 0;
};

class Stream {
 public:
  // Does the work; returns the device time it took, in picoseconds.
  using Work = std::function<uint64_t()>;

  Stream(int64_t id, std::shared_ptr<CardClock> card_clock);

  int64_t id() const { return id_; }

  // Queues work for the stream's own thread. Waits while the queue is full. An exception it
  // throws is stored and thrown by the next synchronisation.
  void submit(Work work);
  // Does the work in its turn and returns when it is done; on the calling thread if nothing is
  // queued. Throws what the work throws, else what earlier work threw.
  void run(Work work);
  // Called by work: stores the outcome of a copy, to be reported at the next synchronisation.
  void note(const CopyOutcome& outcome);

  // Whether all work is done; if so, the host has seen it. Leaves errors to synchronisations.
  bool query();
  // Waits for all work, reports its outcomes and throws its error.
  void synchronize();
  // Waits for all work and leaves the rest to the next synchronisation.
  void wait_idle() noexcept;
  // The same without the card's clock: device time is as if nobody had waited.
  void drain() noexcept;

  // The host has waited until device time `time_ps`: reports outcomes and throws pending errors.
  void note_host_wait(uint64_t time_ps);
  void advance_card_clock(uint64_t time_ps) { card_clock_->advance_to(time_ps); }

  void record(const std::shared_ptr<Event>& event);
  void wait(const std::shared_ptr<Event>& event);

 private:
  // What became of work that somebody waits for.
  struct Result {
    bool done = false;
    std::exception_ptr error;
  };
  // Work, or the mark of an event.
  struct Item {
    Work work{};
    std::shared_ptr<Event> event{};
    uint64_t event_version = 0;
    uint64_t submitted_ps = 0;
    Result* result = nullptr;
  };
  bool is_idle() const { return queue_.empty() && !busy_; }
  void wait_for_capacity(std::unique_lock<std::mutex>& lock);
  void push(Item item);
  void work_loop();
  // Runs work outside the lock, marks an event inside, and accounts for it.
  void execute(std::unique_lock<std::mutex>& lock, Item& item);
  void run_work(std::unique_lock<std::mutex>& lock, Item& item);
  void tell_pending(std::unique_lock<std::mutex>& lock, uint64_t time_ps);

  const int64_t id_;
  const std::shared_ptr<CardClock> card_clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  bool busy_ = false;
  bool has_thread_ = false;
  std::exception_ptr pending_error_;
  CopyOutcome pending_outcome_;
  uint64_t clock_ps_ = 0;
};

}  // namespace spyre::flex
