// Streams: queues of work that is executed in order. The card's timeline gives all work its device
// time when it is submitted; a stream knows when, in device time, its submitted work ends.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "flex/card_meter.h"
#include "flex/copy_descriptor.h"
#include "flex/timeline.h"

namespace spyre::flex {

// Reports the outcomes of copies to the program. Set once, before the first stream exists. It is
// called by the synchronising thread, never by a stream's thread, and without holding a lock.
using OutcomeReporter = void (*)(const CopyOutcome& outcome);
void set_outcome_reporter(OutcomeReporter reporter);

// Returns the error to throw for an error of work. Set once, before the first stream exists. Called
// as an outcome reporter is.
using ErrorFilter = std::exception_ptr (*)(std::exception_ptr error);
void set_error_filter(ErrorFilter filter);

class Stream;

// A position in a stream. Recording it again replaces the position.
class Event {
 public:
  // Waits for the event. Throws the pending error of its stream's work.
  void synchronize();
  // Returns whether the stream has reached the event; if so, this counts as a wait of the host.
  // Errors are thrown by the next synchronisation.
  bool query();
  bool complete() const;
  // Returns the device time of the event, which is known when it is recorded.
  uint64_t time_ps() const;
  bool recorded() const;

 private:
  friend class Stream;
  struct Position {
    uint64_t version = 0;  // 0: never recorded
    uint64_t time_ps = 0;
    int64_t stream = 0;
  };
  uint64_t begin_record(Stream& stream, uint64_t time_ps);
  void finish_record(uint64_t version);
  Position newest() const;
  // Blocks until the stream has reached `version` or a later one. Throws what `poll`, which is
  // called now and then without the lock, throws.
  void wait_for(uint64_t version, void (*poll)());

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Stream* stream_ = nullptr;  // streams live as long as the process
  Position newest_;
  uint64_t finished_ = 0;
};

class Stream {
 public:
  using Work = std::function<void()>;

  // The meter counts the work that the stream executes; nullptr: nothing is counted.
  Stream(int64_t id, std::shared_ptr<Timeline> timeline, int card = 0, CardMeter* meter = nullptr);

  int64_t id() const { return id_; }

  // Queues work for the stream's thread. Waits while the queue is full. The next synchronisation
  // throws the exception of the work. Returns when the work runs, in device time.
  TimeSpan submit(Work work, const WorkTime& time = {});
  // Executes the work in order and returns, when it is done, its span in device time; on the
  // calling thread if the queue is empty. Throws the exception of the work, else that of earlier
  // work.
  TimeSpan run(Work work, const WorkTime& time = {});
  // Called by work: stores the outcome of a copy until the next synchronisation reports it.
  void add_outcome(const CopyOutcome& outcome);

  // Returns whether all work is done; if so, this counts as a wait of the host. Errors are thrown
  // by the next synchronisation.
  bool query();
  // Waits for all work, reports its outcomes and throws its error. Throws WorkInterrupted if work
  // was interrupted meanwhile, by another thread.
  void synchronize();
  // The same, as a part of a wait for several streams: profilers do not show it.
  void finish();
  // Waits for all work. The next synchronisation reports outcomes and errors.
  void wait_idle();
  // The same, without advancing the host's device time.
  void drain();

  // Called after the host has waited until device time `time_ps`: reports outcomes and throws
  // pending errors, or WorkInterrupted if work was interrupted since there were `interruptions`.
  void finish_host_wait(uint64_t time_ps, uint64_t interruptions);
  void advance_host_to(uint64_t time_ps) { timeline_->advance_host_to(time_ps); }
  uint64_t host_ps() const { return timeline_->host_ps(); }
  int card() const { return card_; }

  // Removes the queued work that was submitted before the interruption of this number. Running work
  // stops by itself.
  void drop_queue(uint64_t interruption);
  // Waits until no such work runs any more. Then ends the waits for dropped work and events.
  void finish_drop(uint64_t interruption);

  void record(const std::shared_ptr<Event>& event);
  void wait(const std::shared_ptr<Event>& event);

 private:
  // The result of work that a thread waits for.
  struct Result {
    bool done = false;
    std::exception_ptr error;
  };
  // Work, or a recorded event.
  struct Item {
    Work work{};
    std::shared_ptr<Event> event{};
    uint64_t event_version = 0;
    Result* result = nullptr;
    uint64_t num_interruptions = 0;  // when it was submitted
    std::optional<MeteredWork> metered{};
  };
  bool is_idle() const { return queue_.empty() && !busy_; }
  // Waits until `ready()` holds. Now and then checks for signals, without the lock.
  template <typename Ready>
  void wait_until(std::unique_lock<std::mutex>& lock, Ready ready);
  void wait_for_capacity(std::unique_lock<std::mutex>& lock);
  // Gives work its time span, after all work of this stream.
  TimeSpan reserve(const WorkTime& time);
  std::optional<MeteredWork> measure(const WorkTime& time, const TimeSpan& span) const;
  void push(Item item);
  void work_loop();
  // Executes work without the lock, or finishes an event with it.
  void execute(std::unique_lock<std::mutex>& lock, Item& item);
  void run_work(std::unique_lock<std::mutex>& lock, Item& item);
  void report_pending(std::unique_lock<std::mutex>& lock, uint64_t time_ps);

  const int64_t id_;
  const int card_;
  const std::shared_ptr<Timeline> timeline_;
  CardMeter* const meter_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  bool busy_ = false;
  uint64_t running_since_ = 0;  // if busy: the number of interruptions when it was submitted
  std::deque<Item> dropped_;    // removed from the queue; waits for them have not ended yet
  uint64_t last_drop_ = 0;      // the last interruption that stopped or dropped work
  bool has_thread_ = false;
  std::exception_ptr pending_error_;
  CopyOutcome pending_outcome_;
  uint64_t end_ps_ = 0;  // when all submitted work has ended, in device time
};

}  // namespace spyre::flex
