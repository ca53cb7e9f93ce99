#include "emulator/card.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "emulator/convert.h"
#include "emulator/dma.h"
#include "emulator/host_memory.h"
#include "emulator/thread_pool.h"

namespace spyre::emulator {

namespace {

// Smaller free blocks are not worth a system call: they stay committed and do not count towards the
// limit of the cache.
constexpr int64_t kMinDecommitBytes = int64_t{2} << 20;
using engine::kPoison;

std::byte* memory_of(const flex::MemoryRange& range) {
  if (range.card == nullptr) return static_cast<std::byte*>(range.host);
  return static_cast<EmulatedCard*>(range.card)->engine(range.address);
}

void check_inside(int64_t last_element, DataFormat format, const flex::MemoryRange& range) {
  const int64_t bits = (last_element + 1) * bits_per_element(format);
  if (last_element < 0 || bits > static_cast<int64_t>(range.bytes) * 8) {
    throw std::out_of_range("the copy accesses element " + std::to_string(last_element) + " of a " +
                            std::to_string(range.bytes) + "-byte buffer");
  }
}

void check_inside(const flex::Transfer& transfer, const flex::MemoryRange& src,
                  const flex::MemoryRange& dst) {
  const CopyDescriptor& descriptor = transfer.descriptor;
  for (const CopyNest& nest : descriptor.nests) {
    int64_t src_last = nest.src_offset, dst_last = nest.dst_offset;
    for (const CopyLoop& loop : nest.loops) {
      src_last += (loop.size - 1) * loop.src_stride;
      dst_last += (loop.size - 1) * loop.dst_stride;
    }
    check_inside(src_last, descriptor.src_format, src);
    check_inside(dst_last, descriptor.dst_format, dst);
  }
  for (int64_t element : transfer.src_elements) check_inside(element, descriptor.src_format, src);
  for (int64_t element : transfer.dst_elements) check_inside(element, descriptor.dst_format, dst);
}

// Throws unless the host has enough memory for the pages that the transfer will write.
void check_host_capacity(const flex::Transfer& transfer, const std::byte* dst) {
  const int64_t bits = bits_per_element(transfer.descriptor.dst_format);
  const auto check = [&](int64_t first, int64_t last, int64_t elements) {
    const int64_t span = last + 1 - first;
    check_host_memory(dst + first * bits / 8, std::min(elements, span) * bits / 8);
  };
  for (const CopyNest& nest : transfer.descriptor.nests) {
    int64_t elements = 1, last = nest.dst_offset;
    for (const CopyLoop& loop : nest.loops) {
      elements *= loop.size;
      last += (loop.size - 1) * loop.dst_stride;
    }
    check(nest.dst_offset, last, elements);
  }
  if (transfer.dst_elements.empty()) return;
  const auto [first, last] =
      std::minmax_element(transfer.dst_elements.begin(), transfer.dst_elements.end());
  check(*first, *last, static_cast<int64_t>(transfer.dst_elements.size()));
}

}  // namespace

EmulatedCard::EmulatedCard(const flex::CardDescription& description)
    : description_(description),
      memory_(static_cast<size_t>(description.physical_bytes)),
      blocks_(static_cast<uint64_t>(description.usable_bytes), kBytesInStick),
      limit_bytes_(description.usable_bytes),
      scratchpads_(description.scratchpad_bytes, description.poison) {}

std::byte* EmulatedCard::engine(uint64_t address) const { return memory_.engine(address); }

int64_t EmulatedCard::free_below_limit() const {
  const int64_t free = static_cast<int64_t>(blocks_.free_bytes());
  return std::max<int64_t>(0, free - (description_.usable_bytes - limit_bytes_));
}

uint64_t EmulatedCard::allocate(size_t bytes) {
  std::lock_guard lock(mutex_);
  std::optional<uint64_t> address;
  if (bytes <= static_cast<size_t>(description_.physical_bytes) &&
      static_cast<int64_t>(blocks_.rounded(bytes)) <= free_below_limit()) {
    address = blocks_.allocate(bytes);
  }
  if (!address) throw flex::OutOfDeviceMemory("out of device memory");
  const auto size = static_cast<int64_t>(blocks_.size_of(*address));
  try {
    prepare(*address, size);
    owned_[*address] = {static_cast<int64_t>(bytes), false};
  } catch (...) {
    blocks_.release(*address);
    throw;
  }
  const uint64_t end = *address + size, block_end = end + blocks_.free_bytes_after(*address);
  cached_bytes_ += cached_in(end, block_end) - cached_in(*address, block_end);
  committed_.add(*address, end);
  statistics_.allocations.add(1);
  statistics_.allocated_bytes.add(size);
  statistics_.requested_bytes.add(static_cast<int64_t>(bytes));
  statistics_.active_blocks.add(1);
  statistics_.active_bytes.add(size);
  update_reserved();
  return *address;
}

void EmulatedCard::prepare(uint64_t address, int64_t size) {
  memory_.commit(address, size);
  if (!description_.poison) return;
  check_host_memory(memory_.engine(address), size);
  std::memset(memory_.engine(address), kPoison, size);
}

void EmulatedCard::retire(uint64_t address) noexcept {
  std::lock_guard lock(mutex_);
  Owned& owned = owned_.at(address);
  owned.retired = true;
  statistics_.allocations.remove(1);
  statistics_.allocated_bytes.remove(static_cast<int64_t>(blocks_.size_of(address)));
  statistics_.requested_bytes.remove(owned.requested);
  report_memory();
}

void EmulatedCard::release(uint64_t address) noexcept {
  std::lock_guard lock(mutex_);
  const auto size = static_cast<int64_t>(blocks_.size_of(address));
  // Needs no additional host memory: the block was filled when it was allocated.
  if (description_.poison) std::memset(memory_.engine(address), kPoison, size);
  owned_.erase(address);
  const uint64_t start = blocks_.release(address), end = start + blocks_.size_of(start);
  statistics_.active_blocks.remove(1);
  statistics_.active_bytes.remove(size);
  cached_bytes_ +=
      cached_in(start, end) - cached_in(start, address) - cached_in(address + size, end);
  trim_cache(start, end);
  update_reserved();
}

int64_t EmulatedCard::cached_in(uint64_t start, uint64_t end) const {
  if (end - start < static_cast<uint64_t>(kMinDecommitBytes)) return 0;
  return static_cast<int64_t>(committed_.total_in(start, end));
}

void EmulatedCard::trim_cache(uint64_t start, uint64_t end) {
  const int64_t excess = cached_bytes_ - description_.cached_bytes_limit;
  if (excess <= 0) return;
  // Decommit large ranges from the end of the block: allocations use a block from its start.
  const int64_t amount = (excess + kMinDecommitBytes - 1) / kMinDecommitBytes * kMinDecommitBytes;
  for (const auto& [first, last] : committed_.last_in(start, end, amount)) {
    cached_bytes_ -= static_cast<int64_t>(last - first);
    decommit(first, last);
  }
}

void EmulatedCard::update_reserved() {
  const auto now = static_cast<int64_t>(committed_.total());
  const int64_t change = now - statistics_.reserved_bytes.current;
  if (change > 0) statistics_.reserved_bytes.add(change);
  if (change < 0) statistics_.reserved_bytes.remove(-change);
  report_memory();
}

void EmulatedCard::report_memory_to(flex::MemoryLevels& levels) {
  std::lock_guard lock(mutex_);
  levels_ = &levels;
  report_memory();
}

void EmulatedCard::report_memory() const {
  if (levels_ == nullptr) return;
  levels_->allocated.store(statistics_.allocated_bytes.current, std::memory_order_relaxed);
  levels_->peak.store(statistics_.allocated_bytes.peak, std::memory_order_relaxed);
  levels_->reserved.store(statistics_.reserved_bytes.current, std::memory_order_relaxed);
}

void EmulatedCard::decommit(uint64_t start, uint64_t end) {
  if (committed_.remove(start, end)) memory_.decommit(start, end - start);
}

void EmulatedCard::release_cached_memory() {
  std::lock_guard lock(mutex_);
  for (const auto& [address, block] : blocks_.blocks()) {
    if (block.free) decommit(address, address + block.bytes);
  }
  cached_bytes_ = 0;
  update_reserved();
}

flex::MemoryStatistics EmulatedCard::memory_statistics() const {
  std::lock_guard lock(mutex_);
  flex::MemoryStatistics statistics = statistics_;
  statistics.free_bytes = free_below_limit();
  statistics.limit_bytes = limit_bytes_;
  statistics.total_bytes = description_.usable_bytes;
  statistics.largest_free_block = static_cast<int64_t>(blocks_.largest_free_block());
  statistics.free_blocks = static_cast<int64_t>(blocks_.free_block_count());
  return statistics;
}

std::vector<flex::MemoryBlock> EmulatedCard::memory_blocks() const {
  using State = flex::MemoryBlock::State;
  std::lock_guard lock(mutex_);
  std::vector<flex::MemoryBlock> list;
  list.reserve(blocks_.blocks().size());
  for (const auto& [address, block] : blocks_.blocks()) {
    const auto bytes = static_cast<int64_t>(block.bytes);
    if (block.free) {
      list.push_back({address, bytes, 0, State::kFree});
      continue;
    }
    const Owned& owned = owned_.at(address);
    list.push_back(
        {address, bytes, owned.requested, owned.retired ? State::kPendingFree : State::kAllocated});
  }
  return list;
}

void EmulatedCard::reset_peak_statistics() {
  std::lock_guard lock(mutex_);
  for (flex::Gauge* gauge : statistics_.gauges()) gauge->reset_peak();
  report_memory();
}

void EmulatedCard::reset_accumulated_statistics() {
  std::lock_guard lock(mutex_);
  for (flex::Gauge* gauge : statistics_.gauges()) gauge->reset_accumulated();
  statistics_.retries = statistics_.out_of_memory = 0;
}

void EmulatedCard::count_retry() {
  std::lock_guard lock(mutex_);
  ++statistics_.retries;
}

void EmulatedCard::count_out_of_memory() {
  std::lock_guard lock(mutex_);
  ++statistics_.out_of_memory;
}

void EmulatedCard::set_memory_limit(int64_t bytes) {
  std::lock_guard lock(mutex_);
  limit_bytes_ = std::clamp<int64_t>(bytes, 0, description_.usable_bytes);
}

CopyOutcome EmulatedCard::transfer(const flex::Transfer& transfer, const flex::MemoryRange& src,
                                   const flex::MemoryRange& dst) {
  check_inside(transfer, src, dst);
  if (dst.card != nullptr) check_host_capacity(transfer, memory_of(dst));
  if (transfer.src_elements.empty()) {
    return execute_copy(transfer.descriptor, memory_of(src), memory_of(dst));
  }
  return copy_elements(transfer.descriptor.src_format, transfer.descriptor.dst_format,
                       memory_of(src), memory_of(dst), transfer.src_elements.data(),
                       transfer.dst_elements.data(), transfer.src_elements.size());
}

void EmulatedCard::transfer_bytes(const flex::MemoryRange& src, const flex::MemoryRange& dst) {
  if (src.bytes != dst.bytes) throw std::invalid_argument("a copy of bytes needs equal sizes");
  const auto count = static_cast<int64_t>(src.bytes);
  if (dst.card != nullptr) check_host_memory(memory_of(dst), dst.bytes);
  const CopyDescriptor bytes{DataFormat::SENINT8, DataFormat::SENINT8, {{{{count, 1, 1}}, 0, 0}}};
  execute_copy(bytes, memory_of(src), memory_of(dst));
}

namespace {

class EmulatedDriver final : public flex::Driver {
 public:
  void configure(const flex::DriverOptions& options) override {
    if (options.host_threads > 0) set_host_threads(options.host_threads);
    set_cpu_capability(options.cpu_capability);
  }
  std::unique_ptr<flex::Card> open(int, const flex::CardDescription& description) override {
    return std::make_unique<EmulatedCard>(description);
  }
};

const flex::DriverRegistration registration("EMU", []() -> std::unique_ptr<flex::Driver> {
  return std::make_unique<EmulatedDriver>();
});

}  // namespace

}  // namespace spyre::emulator
