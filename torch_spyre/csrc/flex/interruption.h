// Interruption of the process's work, as by Ctrl-C: running kernels stop, queued work is dropped.
#pragma once

#include <cstdint>

#include "flex/driver.h"

namespace spyre::flex {

// Called about every kSignalCheck by a thread that waits for a stream, without holding a lock. It
// may call Runtime::interrupt and throw, which ends the wait. Set once, before the first stream
// exists.
using SignalCheck = void (*)();
void set_signal_check(SignalCheck check);
void check_signals();

// Returns how often the process's work was interrupted.
uint64_t num_interruptions();
// Makes all work that was submitted before stop, and returns the new number.
uint64_t count_interruption();

// Returns the stop request of the work that this thread executes for a stream.
StopRequest stop_request_here();

// Marks this thread as executing work that was submitted after `num_interruptions`.
class WorkScope {
 public:
  explicit WorkScope(uint64_t num_interruptions);
  ~WorkScope();
  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;

 private:
  const StopRequest outer_;
};

}  // namespace spyre::flex
