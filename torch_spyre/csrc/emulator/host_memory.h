// Prevents the emulated card from exhausting the host's memory, which would end the process.
#pragma once

#include <atomic>
#include <cstddef>

namespace spyre::emulator {

// Returns the available bytes: the minimum of the machine's and of the process's control group's.
size_t available_host_memory();

class HostMemoryGuard {
 public:
  explicit HostMemoryGuard(size_t (*available)() = &available_host_memory)
      : available_(available) {}

  // Throws flex::OutOfHostMemory if writing [start, start + bytes) would need more pages than the
  // host has available. Resident pages do not count. Small writes are checked once their sum
  // reaches a threshold.
  void check(const void* start, size_t bytes);

 private:
  size_t (*available_)();
  std::atomic<size_t> unchecked_{0};
};

// Checks with the guard of this process.
void check_host_memory(const void* start, size_t bytes);

}  // namespace spyre::emulator
