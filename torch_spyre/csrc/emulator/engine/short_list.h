// A list of at most kMaxRank items, stored inline.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "emulator/engine/program_limits.h"

namespace spyre::emulator::engine {

// Sizes are not checked here: `read_program` checks the rank of every instruction.
template <typename Item>
class ShortList {
 public:
  ShortList() = default;
  ShortList(size_t size, const Item& item) : size_(size) { std::fill_n(begin(), size, item); }
  template <typename Iterator>
  ShortList(Iterator first, Iterator last) : size_(static_cast<size_t>(last - first)) {
    std::copy(first, last, begin());
  }

  void push_back(const Item& item) { items_[size_++] = item; }
  void resize(size_t size) { size_ = size; }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Item* begin() { return items_.data(); }
  Item* end() { return items_.data() + size_; }
  const Item* begin() const { return items_.data(); }
  const Item* end() const { return items_.data() + size_; }
  Item& operator[](size_t index) { return items_[index]; }
  const Item& operator[](size_t index) const { return items_[index]; }
  Item& back() { return items_[size_ - 1]; }
  const Item& back() const { return items_[size_ - 1]; }

  operator std::span<const Item>() const { return {items_.data(), size_}; }
  bool operator==(const ShortList& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

 private:
  size_t size_ = 0;
  std::array<Item, kMaxRank> items_;
};

}  // namespace spyre::emulator::engine
