#include "emulator/address_space.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

#include "emulator/fault_report.h"
#include "flex/driver.h"

namespace spyre::emulator {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;

std::byte* reserve(size_t bytes, int rights) {
  void* base =
      mmap(nullptr, bytes + kHugePage, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  // Align to huge pages; the pages before and after stay reserved and unused.
  const auto start = (reinterpret_cast<uintptr_t>(base) + kHugePage - 1) & ~(kHugePage - 1);
  return reinterpret_cast<std::byte*>(start);
}

template <typename Error>
[[noreturn]] void throw_errno(const char* action, size_t bytes) {
  throw Error(std::string("the emulated card could not ") + action + " " + std::to_string(bytes) +
              " bytes of address space: " + std::strerror(errno));
}

}  // namespace

AddressSpace::AddressSpace(size_t bytes) : bytes_(bytes) {
  handles_ = reserve(bytes, PROT_NONE);
  if (handles_ == nullptr) throw_errno<std::runtime_error>("reserve", bytes);
  engine_ = reserve(bytes, PROT_READ | PROT_WRITE);
  if (engine_ == nullptr) {
    // A host that does not overcommit rejects a writable mapping of this size.
    engine_ = reserve(bytes, PROT_NONE);
    commit_in_steps_ = true;
  }
  if (engine_ == nullptr) throw_errno<std::runtime_error>("reserve", bytes);
  madvise(engine_, bytes, MADV_HUGEPAGE);
  // A forked child may not use the card; inheriting the pages would only make them copy-on-write.
  madvise(engine_, bytes, MADV_DONTFORK);
  report_faults_in(handles_, bytes);
}

AddressSpace::~AddressSpace() {
  stop_reporting_faults_in(handles_);
  munmap(handles_, bytes_);
  munmap(engine_, bytes_);
}

void AddressSpace::commit(uint64_t address, size_t bytes) {
  if (!commit_in_steps_ || address + bytes <= committed_) return;
  const uint64_t end = (address + bytes + kHugePage - 1) & ~(kHugePage - 1);
  if (mprotect(engine_ + committed_, end - committed_, PROT_READ | PROT_WRITE) != 0) {
    throw_errno<flex::OutOfHostMemory>("commit", end - committed_);
  }
  committed_ = end;
}

void AddressSpace::decommit(uint64_t address, size_t bytes) {
  const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t start = (address + page - 1) / page * page;
  const uint64_t end = (address + bytes) / page * page;
  if (end > start) madvise(engine_ + start, end - start, MADV_DONTNEED);
}

}  // namespace spyre::emulator
