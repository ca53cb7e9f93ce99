#include "torch/allocator.h"

#include <c10/util/Exception.h>

#include <utility>

#include "flex/memory_history.h"
#include "torch/device.h"

namespace spyre {

namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;
using c10::CachingAllocator::StatType;

struct Owner {
  std::shared_ptr<flex::Allocation> allocation;
};

// Tells PyTorch's profiler of `bytes` more at the allocation's address, or less if negative.
void report_to_profiler(const flex::Allocation& allocation, int64_t bytes) {
  if (!c10::memoryProfilingEnabled()) return;
  const auto memory = allocation.card().memory_statistics();
  c10::reportMemoryUsageToProfiler(
      allocation.handle(), bytes, static_cast<size_t>(memory.allocated_bytes.current),
      static_cast<size_t>(memory.reserved_bytes.current),
      {kSpyre, static_cast<c10::DeviceIndex>(allocation.card_index())});
}

void delete_owner(void* context) {
  auto* owner = static_cast<Owner*>(context);
  owner->allocation->retire();
  report_to_profiler(*owner->allocation, -static_cast<int64_t>(owner->allocation->bytes()));
  delete owner;
}

std::function<void()> memory_pressure_hook;
std::function<std::string(int)> out_of_memory_report;

// Records the failure in the history of memory, and returns what held the memory; empty if no
// history is recorded.
std::string recorded_report(int card, size_t bytes, int64_t free_bytes) {
  flex::MemoryHistory& history = flex::MemoryHistory::get();
  if (!history.is_recording()) return {};
  history.out_of_memory(card, static_cast<int64_t>(bytes), free_bytes);
  return out_of_memory_report ? out_of_memory_report(card) : std::string();
}

[[noreturn]] void throw_out_of_memory(int index, size_t bytes) {
  flex::Card& card = flex::Runtime::get().card(index);
  card.count_out_of_memory();
  const auto memory = card.memory_statistics();
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(bytes),
                                   static_cast<size_t>(memory.allocated_bytes.current),
                                   static_cast<size_t>(memory.reserved_bytes.current),
                                   {kSpyre, static_cast<c10::DeviceIndex>(index)});
  const auto show = [](int64_t amount) { return c10::CachingAllocator::format_size(amount); };
  TORCH_CHECK_WITH(
      OutOfMemoryError, false, "Spyre out of memory. Tried to allocate ", show(bytes), " (", bytes,
      " bytes) on spyre:", index, ", which has ", show(memory.free_bytes), " free (",
      memory.free_bytes, " bytes; largest free block ", show(memory.largest_free_block), ") of ",
      show(memory.total_bytes), " total",
      memory.limit_bytes < memory.total_bytes
          ? ", limited to " + show(memory.limit_bytes) + " by set_per_process_memory_fraction"
          : std::string(),
      ". Free tensors you no longer need, or use a smaller batch.",
      recorded_report(index, bytes, memory.free_bytes));
}

// Waits for queued work and collects cycles of Python objects, which may own memory. The next
// synchronisation throws errors of the queued work.
void relieve_memory_pressure(int card) {
  flex::Runtime::get().wait_idle(card);
  if (memory_pressure_hook) memory_pressure_hook();
}

// Returns null if the card is out of memory.
std::shared_ptr<flex::Allocation> try_allocate(int card, size_t bytes) {
  try {
    return flex::Runtime::get().allocate(card, bytes);
  } catch (const flex::OutOfDeviceMemory&) {
    return nullptr;
  } catch (const flex::OutOfHostMemory& error) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
  }
}

// Bounds the freed memory that queued work still uses. Otherwise a program that runs far ahead of
// the card would allocate new memory for every tensor, and the first access to a page is slow.
// Small allocations are ignored: the length of the queue bounds their number.
void bound_freed_memory_in_use(int card, size_t bytes) {
  constexpr size_t kSmall = 1 << 20;
  constexpr int64_t kMaxFreedInUse = 64 << 20;
  if (bytes < kSmall) return;
  const auto memory = flex::Runtime::get().card(card).memory_statistics();
  const int64_t freed_in_use = memory.active_bytes.current - memory.allocated_bytes.current;
  if (freed_in_use > kMaxFreedInUse) flex::Runtime::get().drain(card);
}

std::shared_ptr<flex::Allocation> allocate_or_throw(int card, size_t bytes) {
  bound_freed_memory_in_use(card, bytes);
  if (auto allocation = try_allocate(card, bytes)) return allocation;
  relieve_memory_pressure(card);
  auto allocation = try_allocate(card, bytes);
  if (allocation == nullptr) throw_out_of_memory(card, bytes);
  flex::Runtime::get().card(card).count_retry();
  return allocation;
}

Stat stat_of(const flex::Gauge& gauge) {
  Stat stat;
  stat.current = gauge.current;
  stat.peak = gauge.peak;
  stat.allocated = gauge.total_added;
  stat.freed = gauge.total_removed;
  return stat;
}

class SpyreAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override { return allocate_on(current_device(), bytes); }

  // There is no raw deleter: a handle without its context cannot be freed.
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }

  void copy_data(void*, const void*, std::size_t) const override {
    TORCH_CHECK(false, "Spyre memory cannot be copied by address; use Tensor.copy_");
  }

  bool initialized() override { return flex::Runtime::get().started(); }

  void emptyCache(c10::MempoolId_t) override {
    auto& runtime = flex::Runtime::get();
    if (!runtime.started()) return;
    for (int card = 0; card < runtime.card_count(); ++card) {
      // Queued work owns the memory that it uses.
      runtime.drain(card);
      runtime.card(card).release_cached_memory();
    }
  }

  // Queued work owns the memory that it uses. For other users of the stream, retain the block until
  // all work that is queued now is done.
  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override {
    auto allocation = allocation_of(pointer);
    if (allocation == nullptr) return;
    queue_of(stream).submit([allocation] {});
  }

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const auto memory = flex::Runtime::get().card(device).memory_statistics();
    c10::CachingDeviceAllocator::DeviceStats stats;
    const auto set = [](StatArray& array, const flex::Gauge& gauge) {
      array[static_cast<size_t>(StatType::AGGREGATE)] = stat_of(gauge);
    };
    set(stats.allocation, memory.allocations);
    set(stats.allocated_bytes, memory.allocated_bytes);
    set(stats.requested_bytes, memory.requested_bytes);
    set(stats.active, memory.active_blocks);
    set(stats.active_bytes, memory.active_bytes);
    set(stats.reserved_bytes, memory.reserved_bytes);
    stats.num_alloc_retries = memory.retries;
    stats.num_ooms = memory.out_of_memory;
    return stats;
  }

  void resetAccumulatedStats(c10::DeviceIndex device) override {
    flex::Runtime::get().card(device).reset_accumulated_statistics();
  }

  void resetPeakStats(c10::DeviceIndex device) override {
    flex::Runtime::get().card(device).reset_peak_statistics();
  }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    const auto memory = flex::Runtime::get().card(device).memory_statistics();
    return {memory.free_bytes, memory.total_bytes};
  }
};

SpyreAllocator allocator;
REGISTER_ALLOCATOR(kSpyre, &allocator)

}  // namespace

c10::DeviceAllocator* device_allocator() { return &allocator; }

void set_memory_pressure_hook(std::function<void()> hook) {
  memory_pressure_hook = std::move(hook);
}

void set_out_of_memory_report(std::function<std::string(int card)> report) {
  out_of_memory_report = std::move(report);
}

c10::DataPtr allocate_on(c10::DeviceIndex card, size_t bytes) {
  const c10::Device device(kSpyre, card);
  flex::Runtime::get().card(card);  // throws if the card does not exist, even for an empty tensor
  if (bytes == 0) return {nullptr, device};
  auto owner = std::make_unique<Owner>(Owner{allocate_or_throw(card, bytes)});
  report_to_profiler(*owner->allocation, static_cast<int64_t>(owner->allocation->bytes()));
  void* handle = owner->allocation->handle();
  return {handle, owner.release(), &delete_owner, device};
}

std::shared_ptr<flex::Allocation> allocation_of(const c10::DataPtr& pointer) {
  if (pointer.get() == nullptr) return nullptr;
  auto* owner = pointer.cast_context<Owner>(&delete_owner);
  TORCH_CHECK(owner != nullptr, "this spyre storage does not own device memory");
  return owner->allocation;
}

}  // namespace spyre
