#include "emulator/fault_report.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

namespace spyre::emulator {

namespace {

constexpr size_t kMaxRanges = 64;

struct Range {
  std::atomic<uintptr_t> start{0};
  std::atomic<uintptr_t> end{0};
};

std::array<Range, kMaxRanges> ranges;
struct sigaction previous;
std::once_flag installed;

bool is_device_address(uintptr_t address) {
  for (const Range& range : ranges) {
    if (address >= range.start.load() && address < range.end.load()) return true;
  }
  return false;
}

// Only async-signal-safe calls here.
void on_fault(int, siginfo_t* info, void*) {
  if (is_device_address(reinterpret_cast<uintptr_t>(info->si_addr))) {
    static constexpr char kMessage[] =
        "torch_spyre: host code accessed a Spyre device address. A tensor's data_ptr() on the card "
        "is a handle, not host memory: copy the tensor with .cpu() first.\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  }
  // Restore the previous handler: the access faults again on return.
  sigaction(SIGSEGV, &previous, nullptr);
  // A signal that another process sent would be lost.
  if (info->si_code <= 0) raise(SIGSEGV);
}

void install() {
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &previous);
}

}  // namespace

void report_faults_in(const void* start, size_t bytes) {
  std::call_once(installed, install);
  const auto first = reinterpret_cast<uintptr_t>(start);
  for (Range& range : ranges) {
    uintptr_t unused = 0;
    if (range.start.compare_exchange_strong(unused, first)) {
      range.end = first + bytes;
      return;
    }
  }
}

void stop_reporting_faults_in(const void* start) {
  for (Range& range : ranges) {
    if (range.start == reinterpret_cast<uintptr_t>(start)) {
      range.end = 0;
      range.start = 0;
      return;
    }
  }
}

}  // namespace spyre::emulator
