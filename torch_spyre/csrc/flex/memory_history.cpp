#include "flex/memory_history.h"

#include <chrono>
#include <utility>

#include "flex/runtime.h"

namespace spyre::flex {

namespace {

int64_t now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

MemoryEvent event_now(MemoryAction action, int card) {
  return {.action = action,
          .card = card,
          .time_ns = now_ns(),
          .device_time_ps = Runtime::get().host_time_ps(card),
          .origin = {}};
}

MemoryEvent event_of(MemoryAction action, const Allocation& allocation) {
  MemoryEvent event = event_now(action, allocation.card_index());
  event.address = allocation.address();
  event.bytes = static_cast<int64_t>(allocation.bytes());
  return event;
}

std::pair<int, uint64_t> key_of(const Allocation& allocation) {
  return {allocation.card_index(), allocation.address()};
}

}  // namespace

MemoryHistory& MemoryHistory::get() {
  static auto* history = new MemoryHistory();  // streams' threads may outlive static objects
  return *history;
}

void MemoryHistory::start(MemoryHistoryOptions options, Gatherer gatherer, bool clears) {
  const std::lock_guard lock(mutex_);
  options_ = std::move(options);
  gatherer_ = std::make_shared<const Gatherer>(std::move(gatherer));
  if (clears) events_.clear();
  while (events_.size() > options_.max_events) events_.pop_front();
  is_recording_.store(true, std::memory_order_release);
}

void MemoryHistory::stop() {
  std::deque<MemoryEvent> events;
  std::map<std::pair<int, uint64_t>, LiveAllocation> live;
  // Stacks are released without the lock: that may need Python's.
  const std::lock_guard lock(mutex_);
  is_recording_.store(false, std::memory_order_release);
  events.swap(events_);
  live.swap(live_);
}

MemoryHistory::Content MemoryHistory::content() {
  const std::lock_guard lock(mutex_);
  return {{events_.begin(), events_.end()}, live_};
}

bool MemoryHistory::has_stacks(RecordedStacks stacks) {
  const std::lock_guard lock(mutex_);
  return options_.stacks >= stacks;
}

MemoryOrigin MemoryHistory::origin(int card, bool has_stack) {
  std::shared_ptr<const Gatherer> gatherer;
  {
    const std::lock_guard lock(mutex_);
    gatherer = gatherer_;
  }
  return gatherer == nullptr ? MemoryOrigin{} : (*gatherer)(card, has_stack);
}

void MemoryHistory::add(MemoryEvent event) {
  if (!options_.has_events || options_.skipped.contains(event.action)) return;
  if (options_.max_events == 0) return;
  if (events_.size() == options_.max_events) events_.pop_front();
  events_.push_back(std::move(event));
}

void MemoryHistory::allocated(const Allocation& allocation) noexcept {
  try {
    MemoryEvent event = event_of(MemoryAction::kAllocate, allocation);
    event.origin = origin(event.card, has_stacks(RecordedStacks::kLive));
    const std::lock_guard lock(mutex_);
    if (!is_recording()) return;
    live_[key_of(allocation)] = {event.time_ns, event.device_time_ps, event.origin};
    if (options_.stacks < RecordedStacks::kAllocations) event.origin.stack = nullptr;
    add(std::move(event));
  } catch (...) {
    // The allocation has succeeded: it is the history that lacks an event.
  }
}

void MemoryHistory::free_requested(const Allocation& allocation) noexcept {
  try {
    MemoryEvent event = event_of(MemoryAction::kFreeRequested, allocation);
    event.origin = origin(event.card, has_stacks(RecordedStacks::kAll));
    const std::lock_guard lock(mutex_);
    if (is_recording()) add(std::move(event));
  } catch (...) {
    // As above.
  }
}

void MemoryHistory::free_completed(const Allocation& allocation) noexcept {
  try {
    LiveAllocation ended;
    MemoryEvent event = event_of(MemoryAction::kFreeCompleted, allocation);
    const std::lock_guard lock(mutex_);
    if (!is_recording()) return;
    const auto known = live_.find(key_of(allocation));
    if (known != live_.end()) {
      ended = std::move(known->second);
      live_.erase(known);
      event.origin.stream = ended.origin.stream;
    }
    add(std::move(event));
  } catch (...) {
    // As above.
  }
}

void MemoryHistory::out_of_memory(int card, int64_t bytes, int64_t free_bytes) {
  MemoryEvent event = event_now(MemoryAction::kOutOfMemory, card);
  event.bytes = bytes;
  event.free_bytes = free_bytes;
  event.origin = origin(card, has_stacks(RecordedStacks::kAllocations));
  const std::lock_guard lock(mutex_);
  if (is_recording()) add(std::move(event));
}

void MemoryHistory::snapshot(int card) {
  MemoryEvent event = event_now(MemoryAction::kSnapshot, card);
  const std::lock_guard lock(mutex_);
  if (is_recording()) add(std::move(event));
}

}  // namespace spyre::flex
