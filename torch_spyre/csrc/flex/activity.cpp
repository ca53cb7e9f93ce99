#include "flex/activity.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace spyre::flex {

namespace {

constexpr uint64_t kPicosecondsPerNanosecond = 1000;

std::atomic<uint64_t> num_calls{0};

int64_t now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

int64_t thread_id() { return static_cast<int64_t>(syscall(SYS_gettid)); }

uint64_t innermost(const std::vector<uint64_t>& ids) { return ids.empty() ? 0 : ids.back(); }

}  // namespace

ThreadScopes& thread_scopes() {
  thread_local ThreadScopes scopes;
  return scopes;
}

ActivityRecorder& ActivityRecorder::get() {
  static auto* recorder = new ActivityRecorder();  // streams' threads may outlive static objects
  return *recorder;
}

void ActivityRecorder::start() {
  const std::lock_guard lock(mutex_);
  recording_ = {};
  clocks_.clear();
  is_recording_ = true;
}

Recording ActivityRecorder::stop() {
  const std::lock_guard lock(mutex_);
  is_recording_ = false;
  return std::exchange(recording_, {});
}

void ActivityRecorder::add(const HostCall& call) {
  const std::lock_guard lock(mutex_);
  if (is_recording_) recording_.calls.push_back(call);
}

void ActivityRecorder::add(DeviceWork work, const TimeSpan& span, int64_t earliest_ns) {
  const std::lock_guard lock(mutex_);
  if (!is_recording_) return;
  CardClock& clock = clocks_[work.card];
  const auto begin_ns = static_cast<int64_t>(span.begin_ps / kPicosecondsPerNanosecond);
  const auto end_ns = static_cast<int64_t>(span.end_ps / kPicosecondsPerNanosecond);
  clock.shift_ns = std::max(clock.shift_ns, earliest_ns - begin_ns);
  work.begin_ns = begin_ns + clock.shift_ns;
  work.end_ns = end_ns + clock.shift_ns;
  work.span = span;
  clock.end_ns = std::max(clock.end_ns, work.end_ns);
  recording_.work.push_back(std::move(work));
}

void ActivityRecorder::add(Synchronization synchronization, int64_t earliest_ns) {
  const std::lock_guard lock(mutex_);
  if (!is_recording_) return;
  synchronization.end_ns = earliest_ns;
  const auto clock = clocks_.find(synchronization.card);
  if (clock != clocks_.end()) {
    const auto end_ns = static_cast<int64_t>(synchronization.end_ps / kPicosecondsPerNanosecond);
    synchronization.end_ns = std::max(earliest_ns, end_ns + clock->second.shift_ns);
  }
  recording_.synchronizations.push_back(synchronization);
}

void ActivityRecorder::wait_for_work(int card) {
  if (!is_recording()) return;
  int64_t end_ns = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto clock = clocks_.find(card);
    if (clock != clocks_.end()) end_ns = clock->second.end_ns;
  }
  const int64_t remaining_ns = end_ns - now_ns();
  if (remaining_ns > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(remaining_ns));
}

CallRecord::CallRecord(const char* name) {
  if (!ActivityRecorder::get().is_recording()) return;
  const ThreadScopes& scopes = thread_scopes();
  call_.name = name;
  call_.id = ++num_calls;
  call_.thread = thread_id();
  call_.op = innermost(scopes.ops);
  call_.scopes = scopes.scopes;
  call_.begin_ns = now_ns();
}

CallRecord::~CallRecord() {
  if (!is_active()) return;
  call_.end_ns = now_ns();
  ActivityRecorder::get().add(call_);
}

void CallRecord::add(DeviceWork work, const TimeSpan& span) {
  if (!is_active()) return;
  work.call = call_.id;
  call_.bytes += work.bytes;
  ActivityRecorder::get().add(std::move(work), span, call_.begin_ns);
}

void CallRecord::add(Synchronization synchronization) {
  if (!is_active()) return;
  synchronization.call = call_.id;
  ActivityRecorder::get().add(synchronization, call_.begin_ns);
}

}  // namespace spyre::flex
