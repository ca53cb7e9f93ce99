// Keeps the emulated card from filling the host's memory, which would end the process.
#pragma once

#include <atomic>
#include <cstddef>

namespace spyre::emulator {

// What the host can still give, in bytes: of the machine, and of the process's control group.
size_t available_host_memory();

class HostMemoryGuard {
 public:
  explicit HostMemoryGuard(size_t (*available)() = &available_host_memory)
      : available_(available) {}

  // Throws flex::OutOfHostMemory if writing [start, start + bytes) would need more pages than the
  // host has left. Pages that are there already need nothing. Small writes are looked at when
  // enough of them have come together.
  void check(const void* start, size_t bytes);

 private:
  size_t (*available_)();
  std::atomic<size_t> unchecked_{0};
};

// The same with the one guard of this process.
void check_host_memory(const void* start, size_t bytes);

}  // namespace spyre::emulator
