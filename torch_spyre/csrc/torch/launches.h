// Common parts of launching device programs: cost, options and errors.
#pragma once

#include <c10/util/Exception.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "flex/activity.h"
#include "flex/runtime.h"
#include "torch/launch_site.h"

namespace spyre {

// The cost of a launch on the card, from the timing model.
struct LaunchCost {
  uint64_t time_ps = 0, ddr_read_bytes = 0, ddr_write_bytes = 0;
  // The time that each unit would take at its peak rate.
  uint64_t pt_ps = 0, sfp_ps = 0, lx_ps = 0, ring_ps = 0;
  std::shared_ptr<const flex::Metrics> metrics{};  // for profilers; may be null
  // The number by which Python finds the program and its arguments; 0: none.
  uint64_t kernel = 0;

  LaunchCost& operator+=(const LaunchCost& other) {
    time_ps += other.time_ps;
    ddr_read_bytes += other.ddr_read_bytes;
    ddr_write_bytes += other.ddr_write_bytes;
    pt_ps += other.pt_ps;
    sfp_ps += other.sfp_ps;
    lx_ps += other.lx_ps;
    ring_ps += other.ring_ps;
    return *this;
  }
  uint64_t ddr_bytes() const { return ddr_read_bytes + ddr_write_bytes; }
};

// The configuration of every launch.
struct LaunchOptions {
  bool executes = true;            // false: only the clock advances
  bool charges = true;             // false: only the result is computed
  std::string faulty_instruction;  // fault injection, see flex::Launch
  double watchdog_seconds = 0;
  bool check_counts = false;  // see flex::Launch
  bool blocking = false;      // wait for every launch, so that its errors are thrown there
};

// The errors of kernels: a RuntimeError, and an IndexError for indices that are out of bounds.
struct KernelFailure : c10::Error {
  using c10::Error::Error;
};
struct KernelIndexFailure : c10::IndexError {
  using c10::IndexError::IndexError;
};

// Sets the function that is called with each error of a kernel before it is thrown to the program:
// its type in Python and its message. It returns what to add to the message.
using FailureHook = std::function<std::string(const char* type, const std::string& message)>;
void set_failure_hook(FailureHook hook);

// Returns the instruction named by a value of SPYRE_EMU_INJECT; `function` is for the message.
std::string parse_fault_injection(const char* function, const std::string& inject);

// Runs a launch on the calling thread. Errors of the kernel become errors of PyTorch, with the
// message that `describe` returns.
using Describe = std::function<std::string(const flex::KernelError& error)>;
void execute_launch(flex::Card& card, const flex::LoadedProgram& program,
                    const flex::Launch& launch, const Describe& describe = {});

// Adds the work of the cores, of so many launches in all, to the process's counters, and returns
// its time for the timeline. Work of no time, as in functional mode, takes the host none either.
flex::WorkTime charge(const LaunchCost& cost, uint64_t launches, const flex::Card& card);

// Returns the record of a launch for profilers.
flex::DeviceWork kernel_work(const std::string& name, int card, int64_t stream,
                             const LaunchCost& cost, const std::vector<SourceLine>& lines = {});

}  // namespace spyre
