// Sorts of rows in the scratchpad. The result does not depend on the network of the card that the
// timing model charges: keys and indices have one order, so the host uses its own algorithms.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "emulator/engine/core.h"
#include "emulator/engine/lanes.h"
#include "emulator/stop.h"

namespace spyre::emulator::engine {
namespace {

// An element: the key in the high half, the index or the position in the low half.
using Packed = uint64_t;

// A row of elements with stride 0 can be much longer than the scratchpad.
constexpr int64_t kMaxLength = 1 << 24;
constexpr uint32_t kSignBit = 0x80000000U;
constexpr uint32_t kInfinity = 0x7F800000U;

uint32_t high_half(Packed packed) { return static_cast<uint32_t>(packed >> 32); }
Packed pack(uint32_t key, uint32_t low) { return Packed{key} << 32 | low; }

// Returns an unsigned integer that has the order of the float: zeros are equal, NaN is the largest.
uint32_t ordered_float(uint32_t bits) {
  if ((bits & ~kSignBit) > kInfinity) return UINT32_MAX;
  if (bits == kSignBit) bits = 0;
  const auto all_if_negative = static_cast<uint32_t>(static_cast<int32_t>(bits) >> 31);
  return bits ^ (all_if_negative | kSignBit);
}

// Sorts by the high halves, and leaves equal ones in order. Skips digits that all elements share.
class RadixSort {
 public:
  void sort(std::vector<Packed>& elements) {
    constexpr int kDigitBits = 8;
    constexpr size_t kDigits = size_t{1} << kDigitBits;
    uint32_t varying = 0;
    for (const Packed element : elements) varying |= high_half(element ^ elements[0]);
    other_.resize(elements.size());
    for (int shift = 0; shift < 32; shift += kDigitBits) {
      if ((varying >> shift & (kDigits - 1)) == 0) continue;
      std::array<uint32_t, kDigits> begin{};
      const int position = 32 + shift;
      for (const Packed element : elements) ++begin[element >> position & (kDigits - 1)];
      uint32_t sum = 0;
      for (uint32_t& count : begin) sum += std::exchange(count, sum);
      for (const Packed element : elements) {
        other_[begin[element >> position & (kDigits - 1)]++] = element;
      }
      elements.swap(other_);
    }
  }

 private:
  std::vector<Packed> other_;
};

// Moves the `kept` smallest elements, sorted, to the front, and drops the others.
void keep_smallest(std::vector<Packed>& elements, size_t kept) {
  const auto end = elements.begin() + static_cast<std::ptrdiff_t>(kept);
  // Elements below the largest of the candidates replace it; the candidates are reduced to `kept`
  // when there are twice as many.
  const size_t capacity = std::max<size_t>(2 * kept, 64);
  if (elements.size() > capacity) {
    size_t count = capacity;
    const auto reduce = [&] {
      std::nth_element(elements.begin(), end - 1,
                       elements.begin() + static_cast<std::ptrdiff_t>(count));
      count = kept;
      return elements[kept - 1];
    };
    Packed limit = reduce();
    for (size_t i = capacity; i < elements.size(); ++i) {
      const Packed element = elements[i];
      if (element >= limit) continue;
      elements[count++] = element;
      if (count == capacity) limit = reduce();
    }
    elements.resize(count);
  }
  std::partial_sort(elements.begin(), end, elements.end());
  elements.resize(kept);
}

// The rows of one instruction.
class RowSorter {
 public:
  RowSorter(const Sort& sort, int64_t length, int64_t first, int64_t kept)
      : sort_(sort),
        load_keys_(load_lanes(sort.keys.type)),
        load_indices_(load_lanes(sort.indices.type)),
        is_float_(is_float(sort.keys.type)),
        length_(static_cast<size_t>(length)),
        first_(static_cast<size_t>(first)),
        kept_(static_cast<size_t>(kept)),
        bytes_(static_cast<size_t>(bytes_of(sort.keys.type))) {}

  void sort(const std::byte* keys, const std::byte* indices, std::byte* sorted_keys,
            std::byte* sorted_indices) {
    load(keys, indices);
    order_positions();
    const int64_t from = sort_.keys.strides.back(), to = sort_.sorted_keys.strides.back();
    switch (bytes_) {
      case 1:
        gather<uint8_t>(keys, from, sorted_keys, to);
        break;
      case 2:
        gather<uint16_t>(keys, from, sorted_keys, to);
        break;
      default:
        gather<uint32_t>(keys, from, sorted_keys, to);
    }
    gather<uint32_t>(indices, sort_.indices.strides.back(), sorted_indices,
                     sort_.sorted_indices.strides.back());
  }

 private:
  struct Entry {
    Packed element;  // key and index
    uint32_t position;
    auto operator<=>(const Entry&) const = default;
  };

  // Packs the keys with the indices.
  void load(const std::byte* keys, const std::byte* indices) {
    const auto n = static_cast<int64_t>(length_);
    keys_.resize(length_);
    indices_.resize(length_);
    load_keys_(keys, sort_.keys.strides.back(), keys_.data(), n);
    load_indices_(indices, sort_.indices.strides.back(), indices_.data(), n);
    if (is_float_) {
      for (uint32_t& key : keys_) key = ordered_float(key);
    } else {
      for (uint32_t& key : keys_) key ^= kSignBit;
    }
    if (sort_.descending) {
      for (uint32_t& key : keys_) key = ~key;
    }
  }

  bool are_indices_ascending() const {
    bool is_ascending = true;
    for (size_t i = 1; i < length_; ++i) is_ascending &= indices_[i - 1] < indices_[i];
    return is_ascending;
  }

  // Sets positions_ to those of the kept elements in order.
  void order_positions() {
    const auto run = static_cast<size_t>(sort_.run);
    if (run > 1) return order_runs(run);
    if (!are_indices_ascending()) return order_entries();
    packed_.resize(length_);
    for (uint32_t i = 0; i < length_; ++i) packed_[i] = pack(keys_[i], i);
    const size_t end = first_ + kept_;
    if (2 * end <= length_) {
      keep_smallest(packed_, end);
    } else if (length_ < kMinRadix) {
      std::ranges::sort(packed_);
    } else {
      radix_.sort(packed_);
    }
    positions_.resize(kept_);
    for (size_t i = 0; i < kept_; ++i) positions_[i] = static_cast<uint32_t>(packed_[first_ + i]);
  }

  void load_entries() {
    entries_.resize(length_);
    for (uint32_t i = 0; i < length_; ++i) {
      const uint32_t index = static_cast<uint32_t>(indices_[i]) ^ kSignBit;
      entries_[i] = {pack(keys_[i], index), i};
    }
  }

  void order_entries() {
    load_entries();
    const auto end = entries_.begin() + static_cast<std::ptrdiff_t>(first_ + kept_);
    if (end != entries_.end()) std::nth_element(entries_.begin(), end, entries_.end());
    std::sort(entries_.begin(), end);
    take_positions();
  }

  // Merges pairs of runs until one is left.
  void order_runs(size_t run) {
    load_entries();
    merged_.resize(length_);
    for (; run < length_; run *= 2) {
      for (size_t begin = 0; begin < length_; begin += 2 * run) {
        const auto at = [&](size_t i) {
          return entries_.begin() + static_cast<std::ptrdiff_t>(std::min(i, length_));
        };
        std::merge(at(begin), at(begin + run), at(begin + run), at(begin + 2 * run),
                   merged_.begin() + static_cast<std::ptrdiff_t>(begin));
      }
      entries_.swap(merged_);
    }
    take_positions();
  }

  void take_positions() {
    positions_.resize(kept_);
    for (size_t i = 0; i < kept_; ++i) positions_[i] = entries_[first_ + i].position;
  }

  template <typename Element>
  void gather(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride) const {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(Element));
    for (size_t i = 0; i < kept_; ++i) {
      std::memcpy(to + static_cast<int64_t>(i) * to_stride * kBytes,
                  from + positions_[i] * from_stride * kBytes, sizeof(Element));
    }
  }

  // Shorter rows are sorted faster by comparisons.
  static constexpr size_t kMinRadix = 128;

  const Sort& sort_;
  const LoadLanes load_keys_, load_indices_;
  const bool is_float_;
  const size_t length_, first_, kept_, bytes_;
  std::vector<uint32_t> keys_, positions_;
  std::vector<int32_t> indices_;
  std::vector<Packed> packed_;
  std::vector<Entry> entries_, merged_;
  RadixSort radix_;
};

}  // namespace

void execute(const Sort& sort, Core& core) {
  std::vector<int64_t> extents = extents_of(core, sort.extents);
  const int64_t length = extents.back();
  const int64_t first = core.integer(sort.first), kept = core.integer(sort.kept);
  const bool is_inside = kept >= 0 && kept <= length && first >= 0 && first <= length - kept;
  // The network of the card drops the first elements only of a row of two blocks.
  if (!is_inside || (first > 0 && (first < length - kept || length > 2 * kept))) {
    throw KernelError("a sort of " + std::to_string(length) + " elements keeps " +
                      std::to_string(kept) + " from element " + std::to_string(first) + " on");
  }
  if (length > kMaxLength) {
    throw KernelError("a sort of rows of " + std::to_string(length) + " elements, at most " +
                      std::to_string(kMaxLength));
  }
  const std::byte* keys = elements_of(core, sort.keys, extents);
  const std::byte* indices = elements_of(core, sort.indices, extents);
  extents.back() = kept;
  if (count_of(extents) == 0) return;
  std::byte* sorted_keys = elements_of(core, sort.sorted_keys, extents);
  std::byte* sorted_indices = elements_of(core, sort.sorted_indices, extents);
  RowSorter sorter(sort, length, first, kept);
  const size_t rank = extents.size() - 1;
  std::vector<int64_t> row(rank, 0);
  StopPoll poll;
  const auto address = [&](auto* begin, const Operand& operand) {
    int64_t offset = 0;
    for (size_t d = 0; d < rank; ++d) offset += row[d] * operand.strides[d];
    return begin + offset * bytes_of(operand.type);
  };
  while (true) {
    poll();
    sorter.sort(address(keys, sort.keys), address(indices, sort.indices),
                address(sorted_keys, sort.sorted_keys),
                address(sorted_indices, sort.sorted_indices));
    size_t d = rank;
    while (d-- > 0) {
      if (++row[d] < extents[d]) break;
      row[d] = 0;
    }
    if (d > rank) return;
  }
}

}  // namespace spyre::emulator::engine
