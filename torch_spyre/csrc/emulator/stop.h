// Stops a running kernel: the program was interrupted, or the kernel has run for too long. Code
// that may take long calls check_stop or a StopPoll.
#pragma once

#include <chrono>
#include <cstdint>

#include "flex/driver.h"

namespace spyre::emulator {

// When a launch has to stop.
class StopConditions {
 public:
  // `watchdog_seconds`: the longest time from now on; 0: no limit.
  StopConditions(const flex::StopRequest& request, double watchdog_seconds);

  // Throws flex::WorkInterrupted or flex::KernelError if the launch has to stop.
  void check() const;

 private:
  const flex::StopRequest request_;
  const double watchdog_seconds_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The conditions of the launch for which this thread works; nullptr: none.
const StopConditions* stop_conditions_here();

// Sets the conditions of this thread during its lifetime.
class StopScope {
 public:
  explicit StopScope(const StopConditions* conditions);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  const StopConditions* const outer_;
};

// Checks the conditions of this thread.
void check_stop();

// Checks the conditions of this thread once in kInterval calls, for steps that take about as long
// as reading the clock.
class StopPoll {
 public:
  static constexpr uint32_t kInterval = 256;

  void operator()() {
    if (++num_calls_ % kInterval == 0) check_stop();
  }

 private:
  uint32_t num_calls_ = 0;
};

}  // namespace spyre::emulator
