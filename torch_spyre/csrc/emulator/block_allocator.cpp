#include "emulator/block_allocator.h"

#include <algorithm>
#include <stdexcept>

namespace spyre::emulator {

BlockAllocator::BlockAllocator(uint64_t bytes, uint64_t alignment) : alignment_(alignment) {
  insert_free(blocks_.emplace(0, Block{bytes / alignment * alignment, true}).first);
}

uint64_t BlockAllocator::rounded(uint64_t bytes) const {
  return (bytes + alignment_ - 1) / alignment_ * alignment_;
}

void BlockAllocator::insert_free(Iterator block) {
  by_size_.emplace(block->second.bytes, block->first);
  free_bytes_ += block->second.bytes;
}

void BlockAllocator::erase_free(Iterator block) {
  by_size_.erase({block->second.bytes, block->first});
  free_bytes_ -= block->second.bytes;
}

std::optional<uint64_t> BlockAllocator::allocate(uint64_t bytes) {
  const uint64_t size = rounded(bytes);
  const auto fit = by_size_.lower_bound({size, 0});
  if (size < bytes || fit == by_size_.end()) return {};
  const Iterator block = blocks_.find(fit->second);
  erase_free(block);
  const uint64_t remaining = block->second.bytes - size;
  block->second = {size, false};
  if (remaining > 0) {
    insert_free(
        blocks_.emplace_hint(std::next(block), block->first + size, Block{remaining, true}));
  }
  return block->first;
}

uint64_t BlockAllocator::release(uint64_t address) {
  Iterator block = blocks_.find(address);
  if (block == blocks_.end() || block->second.free) {
    throw std::logic_error("BlockAllocator: release of memory that is not allocated");
  }
  block->second.free = true;

  const auto merge = [this](Iterator left, Iterator right) {
    left->second.bytes += right->second.bytes;
    blocks_.erase(right);
  };
  if (const Iterator after = std::next(block); after != blocks_.end() && after->second.free) {
    erase_free(after);
    merge(block, after);
  }
  if (block != blocks_.begin()) {
    if (const Iterator before = std::prev(block); before->second.free) {
      erase_free(before);
      merge(before, block);
      block = before;
    }
  }
  insert_free(block);
  return block->first;
}

uint64_t BlockAllocator::size_of(uint64_t address) const { return blocks_.at(address).bytes; }

uint64_t BlockAllocator::free_bytes_after(uint64_t address) const {
  const auto next = std::next(blocks_.find(address));
  return next != blocks_.end() && next->second.free ? next->second.bytes : 0;
}

uint64_t BlockAllocator::largest_free_block() const {
  return by_size_.empty() ? 0 : by_size_.rbegin()->first;
}

}  // namespace spyre::emulator
