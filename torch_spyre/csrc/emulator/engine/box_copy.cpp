#include "emulator/engine/box_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "emulator/engine/prefetch.h"
#include "emulator/engine/program_limits.h"
#include "emulator/stop.h"
#include "flex/device_box.h"

namespace spyre::emulator::engine {

namespace {

using Wide = __int128;

// Prefetching more would evict data from the host's caches that is used earlier.
constexpr int64_t kMaxPrefetchedBytes = 128 << 10;

// The distance, in groups of rows, at which a copy prefetches memory, and the maximum number of
// bytes per group: the hardware prefetcher fetches what follows.
constexpr int64_t kGroupsAhead = 4;
constexpr int64_t kMaxFetchedBytes = 1 << 10;

void fetch(const std::byte* memory, int64_t bytes) {
  constexpr int64_t kLine = 64;
  for (int64_t at = 0; at < std::min(bytes, kMaxFetchedBytes); at += kLine) {
    __builtin_prefetch(memory + at);
  }
}

[[noreturn]] void reject_offset(const Region& region, bool before) {
  throw KernelError(std::string("the access goes ") +
                    (before ? "before the begin" : "beyond the end") + " of its " +
                    region.description + " of " + std::to_string(region.bytes) + " bytes");
}

// Copies `count` elements of one dimension; strides are in bytes.
using CopyRun = void (*)(std::byte* to, int64_t to_stride, const std::byte* from,
                         int64_t from_stride, int64_t count);

template <size_t bytes>
void copy_run(std::byte* to, int64_t to_stride, const std::byte* from, int64_t from_stride,
              int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * to_stride, from + i * from_stride, bytes);
  }
}

CopyRun copy_run_of(int element_bytes) {
  switch (element_bytes) {
    case 1:
      return copy_run<1>;
    case 2:
      return copy_run<2>;
    case 4:
      return copy_run<4>;
    default:
      return copy_run<8>;
  }
}

// Copies `count` runs of `bytes` bytes.
void copy_runs(std::byte* to, int64_t to_stride, const std::byte* from, int64_t from_stride,
               size_t bytes, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * to_stride, from + i * from_stride, bytes);
  }
}

// The same for runs of one stick, the most frequent length: the compiler inlines the copy.
void copy_sticks(std::byte* to, int64_t to_stride, const std::byte* from, int64_t from_stride,
                 int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * to_stride, from + i * from_stride, kBytesInStick);
  }
}

// Copies the innermost dimension, clipped to the region.
class Run {
 public:
  Run(const Region& region, const BoxDimension& dimension, bool store)
      : region_(region),
        dimension_(dimension),
        store_(store),
        dense_(dimension.memory_stride == region.element_bytes &&
               dimension.tile_stride == region.element_bytes),
        copy_(copy_run_of(region.element_bytes)) {}

  void copy_whole(int64_t offset, std::byte* tile) const {
    copy_part(offset, tile, 0, dimension_.extent);
  }

  // Copies elements that may lie beyond the end of the region.
  void copy_clipped(int64_t offset, std::byte* tile) const {
    const auto [begin, end] = elements_inside(offset);
    copy_part(offset, tile, begin, end);
    if (store_) return;
    zero(tile, 0, begin);
    zero(tile, end, dimension_.extent);
  }

 private:
  // Returns the range of elements before the end of the region: the last ones if the stride is
  // negative, else the first ones.
  std::pair<int64_t, int64_t> elements_inside(int64_t offset) const {
    const int64_t extent = dimension_.extent, stride = dimension_.memory_stride;
    const int64_t last = region_.bytes - region_.element_bytes;  // offset of the last element
    if (stride == 0) return {0, offset <= last ? extent : 0};
    if (stride > 0) {
      const int64_t count = offset <= last ? (last - offset) / stride + 1 : 0;
      return {0, std::min(count, extent)};
    }
    const int64_t excess = offset - last;
    const int64_t begin = excess <= 0 ? 0 : (excess - stride - 1) / -stride;
    return {std::min(begin, extent), extent};
  }

  void copy_part(int64_t offset, std::byte* tile, int64_t begin, int64_t end) const {
    if (begin >= end) return;
    std::byte* memory = region_.data + offset + begin * dimension_.memory_stride;
    tile += begin * dimension_.tile_stride;
    std::byte* to = store_ ? memory : tile;
    const std::byte* from = store_ ? tile : memory;
    if (dense_) {
      std::memcpy(to, from, static_cast<size_t>((end - begin) * region_.element_bytes));
    } else if (store_) {
      copy_(to, dimension_.memory_stride, from, dimension_.tile_stride, end - begin);
    } else {
      copy_(to, dimension_.tile_stride, from, dimension_.memory_stride, end - begin);
    }
  }

  void zero(std::byte* tile, int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) {
      std::memset(tile + i * dimension_.tile_stride, 0, static_cast<size_t>(region_.element_bytes));
    }
  }

  const Region& region_;
  const BoxDimension& dimension_;
  const bool store_, dense_;
  const CopyRun copy_;
};

// Sorts the dimensions so that the smallest memory stride is innermost, removes dimensions of
// extent 1 and merges dimensions that one stride covers.
void simplify(ShortList<BoxDimension>& dimensions) {
  const auto is_one = [](const BoxDimension& dimension) { return dimension.extent == 1; };
  const auto end = std::remove_if(dimensions.begin(), dimensions.end(), is_one);
  dimensions.resize(static_cast<size_t>(end - dimensions.begin()));
  std::stable_sort(dimensions.begin(), dimensions.end(),
                   [](const BoxDimension& a, const BoxDimension& b) {
                     return std::abs(a.memory_stride) > std::abs(b.memory_stride);
                   });
  ShortList<BoxDimension> merged;
  for (const BoxDimension& inner : dimensions) {
    if (!merged.empty() && merged.back().memory_stride == inner.extent * inner.memory_stride &&
        merged.back().tile_stride == inner.extent * inner.tile_stride) {
      merged.back() = {merged.back().extent * inner.extent, inner.memory_stride, inner.tile_stride};
    } else {
      merged.push_back(inner);
    }
  }
  dimensions = merged;
}

}  // namespace

int64_t offset_of(const Region& region, std::span<const int64_t> coordinates) {
  Wide offset = region.first;
  for (size_t d = 0; d < coordinates.size(); ++d) {
    offset += Wide{coordinates[d]} * region.strides[d];
  }
  if (offset < 0) reject_offset(region, true);
  if (offset > kMaxAddress) reject_offset(region, false);
  return static_cast<int64_t>(offset);
}

void copy_element(const Region& region, int64_t offset, std::byte* tile, bool store) {
  const auto bytes = static_cast<size_t>(region.element_bytes);
  if (offset + region.element_bytes <= region.bytes) {
    std::byte* memory = region.data + offset;
    std::memcpy(store ? memory : tile, store ? tile : memory, bytes);
  } else if (!region.zero_beyond) {
    reject_offset(region, false);
  } else if (!store) {
    std::memset(tile, 0, bytes);
  }
}

BoxCopy::BoxCopy(const ShortList<BoxDimension>& dimensions, int element_bytes, bool store)
    : dimensions_(dimensions), is_empty_(false), store_(store) {
  for (const BoxDimension& dimension : dimensions_) {
    is_empty_ |= dimension.extent == 0;
    const Wide reach = Wide{dimension.extent - 1} * dimension.memory_stride;
    (reach < 0 ? below_ : above_) += reach;
  }
  simplify(dimensions_);
  if (dimensions_.empty()) dimensions_.push_back({1, element_bytes, element_bytes});
}

template <typename Body>
void BoxCopy::for_each(size_t inner, int64_t offset, std::byte* tile, Body body) const {
  const size_t outer = dimensions_.size() - std::min(inner, dimensions_.size());
  ShortList<int64_t> position(outer, 0);
  StopPoll poll;
  while (true) {
    poll();
    body(offset, tile);
    size_t d = outer;
    while (d > 0) {
      const BoxDimension& dimension = dimensions_[d - 1];
      if (++position[d - 1] < dimension.extent) {
        offset += dimension.memory_stride;
        tile += dimension.tile_stride;
        break;
      }
      position[d - 1] = 0;
      offset -= (dimension.extent - 1) * dimension.memory_stride;
      tile -= (dimension.extent - 1) * dimension.tile_stride;
      --d;
    }
    if (d == 0) return;
  }
}

bool BoxCopy::lies_inside(const Region& region, int64_t first) const {
  const Wide highest = first + above_;
  if (first + below_ < 0) reject_offset(region, true);
  const bool is_inside = highest + region.element_bytes <= region.bytes;
  if (highest > kMaxAddress || (!is_inside && !region.zero_beyond)) reject_offset(region, false);
  return is_inside;
}

void BoxCopy::run(const Region& region, int64_t first, std::byte* tile) const {
  if (is_empty_) return;
  const bool is_inside = lies_inside(region, first);
  const BoxDimension& inner = dimensions_.back();
  const bool is_dense =
      inner.memory_stride == region.element_bytes && inner.tile_stride == region.element_bytes;
  if (is_inside && is_dense) return copy_dense_runs(region, first, tile);
  const Run run(region, inner, store_);
  if (is_inside) {
    for_each(1, first, tile, [&](int64_t offset, std::byte* to) { run.copy_whole(offset, to); });
  } else {
    for_each(1, first, tile, [&](int64_t offset, std::byte* to) { run.copy_clipped(offset, to); });
  }
}

void BoxCopy::copy_dense_runs(const Region& region, int64_t first, std::byte* tile) const {
  const int64_t bytes = dimensions_.back().extent * region.element_bytes;
  // A box with fewer dimensions has one row, or one group of rows.
  const auto from_innermost = [&](size_t index) {
    const size_t rank = dimensions_.size();
    return index < rank ? dimensions_[rank - 1 - index] : BoxDimension{1, 0, 0};
  };
  const BoxDimension row = from_innermost(1), group = from_innermost(2);
  const int64_t group_bytes = std::abs(row.memory_stride) * (row.extent - 1) + bytes;
  for_each(3, first, tile, [&](int64_t offset, std::byte* in_tile) {
    for (int64_t i = 0; i < group.extent; ++i) {
      std::byte* const memory = region.data + offset + i * group.memory_stride;
      std::byte* const in_group = in_tile + i * group.tile_stride;
      // The hardware prefetcher does not predict the distance between groups.
      if (i + kGroupsAhead < group.extent) {
        fetch(memory + kGroupsAhead * group.memory_stride, group_bytes);
      }
      std::byte* const to = store_ ? memory : in_group;
      const std::byte* const from = store_ ? in_group : memory;
      const int64_t to_stride = store_ ? row.memory_stride : row.tile_stride;
      const int64_t from_stride = store_ ? row.tile_stride : row.memory_stride;
      if (bytes == kBytesInStick) {
        copy_sticks(to, to_stride, from, from_stride, row.extent);
      } else {
        copy_runs(to, to_stride, from, from_stride, static_cast<size_t>(bytes), row.extent);
      }
    }
  });
}

void BoxCopy::prefetch(const Region& region, int64_t first) const {
  const Wide highest = first + above_ + region.element_bytes;
  if (is_empty_ || first + below_ < 0 || highest > region.bytes) return;
  const size_t rank = dimensions_.size();
  const BoxDimension& inner = dimensions_.back();
  if (inner.memory_stride != region.element_bytes) return;
  ExpectedUse use{region.data + first, inner.extent * inner.memory_stride, 1, 0};
  size_t outer = rank - 1;
  // Rows that are contiguous in memory.
  if (outer > 0 && dimensions_[outer - 1].memory_stride == use.bytes) {
    use.bytes *= dimensions_[--outer].extent;
  }
  if (outer > 0 && dimensions_[outer - 1].memory_stride > 0) {
    use.groups = dimensions_[--outer].extent;
    use.stride = dimensions_[outer].memory_stride;
  }
  if (outer == 0 && use.bytes * use.groups <= kMaxPrefetchedBytes) expect_use(use);
}

void copy_box(const Region& region, const Box& box) {
  BoxCopy(box.dimensions, region.element_bytes, box.store).run(region, box.first, box.tile);
}

}  // namespace spyre::emulator::engine
