#include "emulator/stop.h"

#include <time.h>

#include <string>

namespace spyre::emulator {

namespace {

thread_local const StopConditions* conditions_here = nullptr;

// Returns the time of std::chrono::steady_clock, some milliseconds late: reading the exact time
// takes as long as a short loop iteration.
std::chrono::steady_clock::time_point rough_time() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::chrono::steady_clock::time_point(std::chrono::seconds(now.tv_sec) +
                                               std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace

StopConditions::StopConditions(const flex::StopRequest& request, double watchdog_seconds)
    : request_(request), watchdog_seconds_(watchdog_seconds) {}

void StopConditions::check() const {
  if (request_.is_set()) throw flex::WorkInterrupted();
  if (watchdog_seconds_ <= 0) return;
  const std::chrono::duration<double> passed = rough_time() - start_;
  if (passed.count() <= watchdog_seconds_) return;
  throw flex::KernelError("the kernel was stopped: it has run for more than " +
                          std::to_string(watchdog_seconds_) +
                          " seconds (SPYRE_EMU_WATCHDOG sets the limit)");
}

const StopConditions* stop_conditions_here() { return conditions_here; }

StopScope::StopScope(const StopConditions* conditions) : outer_(conditions_here) {
  conditions_here = conditions;
}

StopScope::~StopScope() { conditions_here = outer_; }

void check_stop() {
  if (conditions_here != nullptr) conditions_here->check();
}

}  // namespace spyre::emulator
