// Records allocations and releases of device memory, and the call stacks that made them, while a
// program asks for it. While it does not, an allocation costs one load.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace spyre::flex {

class Allocation;

enum class MemoryAction {
  kAllocate,
  kFreeRequested,  // the owner has freed the memory
  kFreeCompleted,  // no queued work uses it any more
  kOutOfMemory,
  kSnapshot,
};

// Where an allocation or a release was called.
struct MemoryOrigin {
  int64_t stream = 0;
  std::shared_ptr<void> stack;  // as the gatherer has captured it; null if there is none
};

struct MemoryEvent {
  MemoryAction action = MemoryAction::kAllocate;
  int card = 0;
  uint64_t address = 0;
  int64_t bytes = 0;
  int64_t free_bytes = 0;  // of the card, when it was out of memory
  int64_t time_ns = 0;     // since the Unix epoch
  // The device time that the host had reached.
  uint64_t device_time_ps = 0;
  MemoryOrigin origin;
};

// The stacks that are captured; each includes the ones before.
enum class RecordedStacks { kNone, kLive, kAllocations, kAll };

struct MemoryHistoryOptions {
  bool has_events = true;  // false: only live allocations are recorded
  size_t max_events = 0;   // the oldest are dropped
  RecordedStacks stacks = RecordedStacks::kAll;
  std::set<MemoryAction> skipped{};
};

class MemoryHistory {
 public:
  // Returns the stream of the calling thread on a card, and its stack if requested.
  using Gatherer = std::function<MemoryOrigin(int card, bool has_stack)>;

  static MemoryHistory& get();

  bool is_recording() const { return is_recording_.load(std::memory_order_acquire); }
  // Starts recording, or changes the options.
  void start(MemoryHistoryOptions options, Gatherer gatherer, bool clears);
  // Ends the recording and drops what was recorded.
  void stop();

  // A live allocation that was made during the recording.
  struct LiveAllocation {
    int64_t time_ns = 0;
    uint64_t device_time_ps = 0;
    MemoryOrigin origin;
  };
  struct Content {
    std::vector<MemoryEvent> events;                            // oldest first
    std::map<std::pair<int, uint64_t>, LiveAllocation> live{};  // by card and address
  };
  Content content();

  // Called while is_recording(), without locks: the gatherer may need Python's.
  void allocated(const Allocation& allocation) noexcept;
  void free_requested(const Allocation& allocation) noexcept;
  void free_completed(const Allocation& allocation) noexcept;
  void out_of_memory(int card, int64_t bytes, int64_t free_bytes);
  void snapshot(int card);

 private:
  MemoryOrigin origin(int card, bool has_stack);
  bool has_stacks(RecordedStacks stacks);
  void add(MemoryEvent event);

  std::atomic<bool> is_recording_{false};
  std::mutex mutex_;
  MemoryHistoryOptions options_;
  std::shared_ptr<const Gatherer> gatherer_;
  std::deque<MemoryEvent> events_;
  std::map<std::pair<int, uint64_t>, LiveAllocation> live_;
};

}  // namespace spyre::flex
