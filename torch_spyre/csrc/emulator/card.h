// The emulated card: a driver that needs no hardware.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "emulator/address_space.h"
#include "emulator/block_allocator.h"
#include "emulator/engine/scratchpads.h"
#include "emulator/interval_set.h"
#include "flex/driver.h"

namespace spyre::emulator {

class EmulatedCard final : public flex::Card {
 public:
  explicit EmulatedCard(const flex::CardDescription& description);

  const flex::CardDescription& description() const override { return description_; }
  uint64_t allocate(size_t bytes) override;
  void retire(uint64_t address) noexcept override;
  void release(uint64_t address) noexcept override;
  void* handle(uint64_t address) const override { return memory_.handle(address); }
  flex::MemoryStatistics memory_statistics() const override;
  void report_memory_to(flex::MemoryLevels& levels) override;
  std::vector<flex::MemoryBlock> memory_blocks() const override;
  void reset_peak_statistics() override;
  void reset_accumulated_statistics() override;
  void count_retry() override;
  void count_out_of_memory() override;
  void set_memory_limit(int64_t bytes) override;
  void release_cached_memory() override;
  CopyOutcome transfer(const flex::Transfer& transfer, const flex::MemoryRange& src,
                       const flex::MemoryRange& dst) override;
  void transfer_bytes(const flex::MemoryRange& src, const flex::MemoryRange& dst) override;
  std::shared_ptr<const flex::LoadedProgram> load_program(std::span<const std::byte> file) override;
  void launch(const flex::LoadedProgram& program, const flex::Launch& launch) override;

  // Returns the host address of the data; only for the engine and the DMA.
  std::byte* engine(uint64_t address) const;

 private:
  struct Owned {
    int64_t requested = 0;
    bool retired = false;
  };
  // Commits and, if requested, poisons the memory of a block that was just allocated.
  void prepare(uint64_t address, int64_t size);
  // Returns the committed bytes of a free range that count towards the cache limit.
  int64_t cached_in(uint64_t start, uint64_t end) const;
  // Decommits the bytes above the cache limit, from the end of a free block.
  void trim_cache(uint64_t start, uint64_t end);
  void decommit(uint64_t start, uint64_t end);
  void update_reserved();
  void report_memory() const;
  int64_t free_below_limit() const;

  const flex::CardDescription description_;
  AddressSpace memory_;
  mutable std::mutex mutex_;
  BlockAllocator blocks_;
  std::unordered_map<uint64_t, Owned> owned_;
  // Memory that may be committed on the host: it was allocated and not decommitted since.
  IntervalSet committed_;
  // The sum of cached_in over all free blocks.
  int64_t cached_bytes_ = 0;
  flex::MemoryStatistics statistics_;
  flex::MemoryLevels* levels_ = nullptr;
  int64_t limit_bytes_;
  engine::ScratchpadPool scratchpads_;
};

}  // namespace spyre::emulator
