#include "emulator/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "flex/driver.h"

namespace spyre::emulator {

namespace {

// Smaller writes do not read the system's counters; far below the margin.
constexpr size_t kMinCheckedBytes = size_t{16} << 20;
// Reserve for other allocations of the process and the system.
constexpr size_t kMargin = size_t{256} << 20;
constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

size_t machine_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  size_t kibibytes = 0;
  while (file >> name >> kibibytes) {
    if (name == "MemAvailable:") return kibibytes * 1024;
    std::getline(file, unit);
  }
  return kUnlimited;
}

// Memory left in the version 2 control group, as seen inside a container.
size_t group_memory() {
  size_t limit = 0, used = 0, value = 0, reclaimable = 0;
  std::ifstream limit_file("/sys/fs/cgroup/memory.max"), used_file("/sys/fs/cgroup/memory.current");
  if (!(limit_file >> limit) || !(used_file >> used)) return kUnlimited;
  std::ifstream statistics("/sys/fs/cgroup/memory.stat");
  for (std::string name; statistics >> name >> value;) {
    if (name == "inactive_file") reclaimable = value;
  }
  const size_t fixed = used - std::min(used, reclaimable);
  return limit - std::min(limit, fixed);
}

size_t missing_bytes(const void* start, size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(start) / page * page;
  const size_t pages = (reinterpret_cast<uintptr_t>(start) + bytes - first + page - 1) / page;
  std::vector<unsigned char> resident(pages);
  if (mincore(reinterpret_cast<void*>(first), pages * page, resident.data()) != 0) return bytes;
  return page * std::count_if(resident.begin(), resident.end(),
                              [](unsigned char state) { return (state & 1) == 0; });
}

}  // namespace

size_t available_host_memory() { return std::min(machine_memory(), group_memory()); }

void HostMemoryGuard::check(const void* start, size_t bytes) {
  if (bytes < kMinCheckedBytes) {
    if (unchecked_.fetch_add(bytes) + bytes < kMinCheckedBytes) return;
    unchecked_ = 0;
  }
  const size_t available = available_();
  if (available >= bytes + kMargin) return;
  const size_t missing = missing_bytes(start, bytes);
  if (missing == 0 || available >= missing + kMargin) return;
  unchecked_ = kMinCheckedBytes;  // check the next write too, whatever its size
  throw flex::OutOfHostMemory(
      "the emulated card needs " + std::to_string(missing >> 20) + " MiB more of host memory for " +
      "this tensor's data, and the host has " + std::to_string(available >> 20) +
      " MiB left. The card has enough memory, this machine has not: use smaller tensors, or free "
      "some.");
}

void check_host_memory(const void* start, size_t bytes) {
  static HostMemoryGuard guard;
  guard.check(start, bytes);
}

}  // namespace spyre::emulator
