// The device memory of one emulated card: two address ranges of the same size.
//
// The handle range is mapped without access rights; PyTorch sees its addresses, so a stray
// host access faults. The data is in the engine range, at a fixed distance.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spyre::emulator {

class AddressSpace {
 public:
  explicit AddressSpace(size_t bytes);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  size_t bytes() const { return bytes_; }
  std::byte* engine(uint64_t address) const { return engine_ + address; }
  void* handle(uint64_t address) const { return handles_ + address; }

  // Makes [address, address + bytes) accessible. Free on hosts that overcommit memory; on others it
  // may throw flex::OutOfHostMemory.
  void commit(uint64_t address, size_t bytes);
  // Returns the whole pages inside the range to the host; they read as zero afterwards.
  void decommit(uint64_t address, size_t bytes);

 private:
  size_t bytes_;
  std::byte* handles_ = nullptr;
  std::byte* engine_ = nullptr;
  bool commit_in_steps_ = false;
  uint64_t committed_ = 0;
};

}  // namespace spyre::emulator
