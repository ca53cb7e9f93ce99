// Records what a program submits to the cards: the calls of the host, and the work that they queue.
// A profiler starts and stops the recording; while there is none, submitting work costs one load.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "flex/timeline.h"

namespace spyre::flex {

enum class WorkKind {
  kKernel,
  kFill,
  kCopyToDevice,
  kCopyToHost,
  kCopyOnDevice,
  kCopyBetweenCards,
};

// What the timing model says of a kernel, by name, as JSON values.
using Metrics = std::map<std::string, std::string>;

// Work that was queued on a card. Times are nanoseconds since the Unix epoch.
struct DeviceWork {
  WorkKind kind = WorkKind::kKernel;
  std::string name;
  int card = 0;
  int64_t stream = 0;
  uint64_t bytes = 0;
  std::shared_ptr<const Metrics> metrics{};  // may be null
  uint64_t kernel = 0;                       // by which Python finds the program; 0: none
  // Set by the recorder.
  uint64_t call = 0;
  int64_t begin_ns = 0, end_ns = 0;
  TimeSpan span{};  // on the clock of the card
};

// A wait for work of a card, by the host or by a stream.
struct Synchronization {
  const char* name = "";  // as traces of other devices call it
  int card = 0;
  int64_t stream = 0;                       // in whose row it is shown
  std::optional<int64_t> awaited_stream{};  // none if for all of the card
  uint64_t begin_ps = 0, end_ps = 0;        // of the wait, on the clock of the card
  // Set by the recorder.
  uint64_t call = 0;
  int64_t end_ns = 0;
};

// A call of the host, on its own thread.
struct HostCall {
  const char* name = "";
  uint64_t id = 0;  // unique in a process, from 1
  int64_t thread = 0;
  int64_t begin_ns = 0, end_ns = 0;
  uint64_t op = 0;               // the innermost op of the thread, or 0
  std::vector<uint64_t> scopes;  // the user scopes of the thread, outermost first
  uint64_t bytes = 0;
};

struct Recording {
  std::vector<HostCall> calls;
  std::vector<DeviceWork> work;
  std::vector<Synchronization> synchronizations;
};

// The ops and the user scopes that the calling thread is in, as a profiler numbers them.
struct ThreadScopes {
  std::vector<uint64_t> ops, scopes;
};
ThreadScopes& thread_scopes();

class ActivityRecorder {
 public:
  static ActivityRecorder& get();

  bool is_recording() const { return is_recording_.load(std::memory_order_relaxed); }
  void start();
  Recording stop();

  // Waits on the wall clock until the recorded work of a card has ended, as a program would that
  // waits for the modelled card. Returns at once if nothing is recorded.
  void wait_for_work(int card);

 private:
  friend class CallRecord;
  void add(const HostCall& call);
  void add(DeviceWork work, const TimeSpan& span, int64_t earliest_ns);
  void add(Synchronization synchronization, int64_t earliest_ns);

  // Where the device time of a card lies on the wall clock. The host is slower than the one that
  // the timeline models, so device time is shifted whenever work would start before its submission.
  // It never moves back: work of a stream stays in order, and no two launches overlap in a stream.
  struct CardClock {
    int64_t shift_ns = INT64_MIN;
    int64_t end_ns = 0;
  };

  std::atomic<bool> is_recording_{false};
  std::mutex mutex_;
  Recording recording_;
  std::map<int, CardClock> clocks_;
};

// Records one call of the host from its construction to its destruction, if a recording runs.
class CallRecord {
 public:
  explicit CallRecord(const char* name);
  ~CallRecord();
  CallRecord(const CallRecord&) = delete;
  CallRecord& operator=(const CallRecord&) = delete;

  bool is_active() const { return call_.id != 0; }
  // Adds work that this call has queued, and its span on the card's timeline.
  void add(DeviceWork work, const TimeSpan& span);
  void add(Synchronization synchronization);

 private:
  HostCall call_;
};

}  // namespace spyre::flex
