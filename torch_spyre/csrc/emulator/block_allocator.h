// Tracks which address ranges of a card's memory are free; does not access the memory. Best-fit
// allocation that merges adjacent free blocks on release; every operation is O(log n).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>

namespace spyre::emulator {

class BlockAllocator {
 public:
  struct Block {
    uint64_t bytes = 0;
    bool free = true;
  };

  BlockAllocator(uint64_t bytes, uint64_t alignment);

  uint64_t rounded(uint64_t bytes) const;
  // Returns the address, or no value if no free block is large enough.
  std::optional<uint64_t> allocate(uint64_t bytes);
  // Returns the address of the merged free block that contains the released one.
  uint64_t release(uint64_t address);
  uint64_t size_of(uint64_t address) const;
  // Returns the bytes of the free block directly after an allocated one; 0 if there is none.
  uint64_t free_bytes_after(uint64_t address) const;

  uint64_t free_bytes() const { return free_bytes_; }
  uint64_t largest_free_block() const;
  size_t free_block_count() const { return by_size_.size(); }
  const std::map<uint64_t, Block>& blocks() const { return blocks_; }

 private:
  using Iterator = std::map<uint64_t, Block>::iterator;
  void insert_free(Iterator block);
  void erase_free(Iterator block);

  uint64_t alignment_;
  uint64_t free_bytes_ = 0;
  std::map<uint64_t, Block> blocks_;
  std::set<std::pair<uint64_t, uint64_t>> by_size_;  // (bytes, address) of free blocks
};

}  // namespace spyre::emulator
