#include "torch/host_allocator.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "torch/device.h"

namespace spyre {

namespace {

constexpr size_t kPageBytes = 4096;

class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, c10::Device(c10::DeviceType::CPU)};
    const size_t rounded = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    void* memory = std::aligned_alloc(kPageBytes, rounded);
    TORCH_CHECK_WITH(OutOfMemoryError, memory != nullptr, "could not allocate ", bytes,
                     " bytes of pinned host memory");
    std::lock_guard lock(mutex_);
    blocks_[reinterpret_cast<uintptr_t>(memory)] = {{memory, &std::free}, rounded};
    statistics_.active_requests.increase(1);
    statistics_.active_bytes.increase(rounded);
    statistics_.allocations.increase(1);
    statistics_.allocated_bytes.increase(rounded);
    ++statistics_.num_host_alloc;
    return {memory, memory, &free_block, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }

  void copy_data(void* dst, const void* src, std::size_t bytes) const override {
    default_copy_data(dst, src, bytes);
  }

  // Queued copies own the block that they use, so that no deferred release is needed.
  bool record_event(void* pointer, void*, c10::Stream) override { return find(pointer) != nullptr; }

  // There is no cache: freed blocks are returned to the system.
  void empty_cache() override {}

  at::HostStats get_stats() override {
    std::lock_guard lock(mutex_);
    return statistics_;
  }

  void reset_accumulated_stats() override {
    std::lock_guard lock(mutex_);
    for (auto* stat : stats()) stat->reset_accumulated();
    statistics_.num_host_alloc = statistics_.num_host_free = 0;
  }

  void reset_peak_stats() override {
    std::lock_guard lock(mutex_);
    for (auto* stat : stats()) stat->reset_peak();
  }

  // Returns the block that contains an address; null if there is none.
  std::shared_ptr<void> find(const void* pointer) {
    std::lock_guard lock(mutex_);
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    auto block = blocks_.upper_bound(address);
    if (block == blocks_.begin()) return nullptr;
    --block;
    return address < block->first + block->second.bytes ? block->second.memory : nullptr;
  }

  static void free_block(void* memory);

 private:
  struct Block {
    std::shared_ptr<void> memory;
    size_t bytes = 0;
  };
  std::array<at::Stat*, 4> stats() {
    return {&statistics_.active_requests, &statistics_.active_bytes, &statistics_.allocations,
            &statistics_.allocated_bytes};
  }

  std::mutex mutex_;
  std::map<uintptr_t, Block> blocks_;
  at::HostStats statistics_;
};

// Never destroyed: pinned tensors may outlive static destruction.
PinnedAllocator& instance() {
  static auto* allocator = new PinnedAllocator();
  return *allocator;
}

void PinnedAllocator::free_block(void* memory) {
  PinnedAllocator& self = instance();
  Block block;  // destroyed after the lock is released, unless a queued copy owns it
  std::lock_guard lock(self.mutex_);
  const auto block_entry = self.blocks_.find(reinterpret_cast<uintptr_t>(memory));
  block = std::move(block_entry->second);
  self.blocks_.erase(block_entry);
  for (at::Stat* count : {&self.statistics_.active_requests, &self.statistics_.allocations}) {
    count->decrease(1);
  }
  for (at::Stat* sum : {&self.statistics_.active_bytes, &self.statistics_.allocated_bytes}) {
    sum->decrease(block.bytes);
  }
  ++self.statistics_.num_host_free;
}

[[maybe_unused]] const bool registered = [] {
  at::setHostAllocator(kSpyre, &instance());
  return true;
}();

}  // namespace

at::HostAllocator* pinned_allocator() { return &instance(); }

std::shared_ptr<void> pinned_block(const void* pointer) { return instance().find(pointer); }

bool is_pinned(const void* pointer) { return pinned_block(pointer) != nullptr; }

}  // namespace spyre
