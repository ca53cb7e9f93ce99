#include "flex/device_box.h"

#include <algorithm>
#include <limits>

#include "flex/driver.h"

namespace spyre::flex {
namespace {

// Boxes of more runs that must be enumerated get an upper bound. A scratchpad holds fewer elements.
constexpr int64_t kMaxCountedRuns = int64_t{1} << 22;

// Sums of a few dozen of these do not overflow.
constexpr int64_t kMaxByteAddress = int64_t{1} << 56;

int64_t stick_of(int64_t byte) { return byte >> 7; }
static_assert(kBytesInStick == 1 << 7);

int64_t multiplied(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

}  // namespace

void DeviceBox::add(int64_t extent, int64_t stride) {
  if (extent == 1 || stride == 0) return;
  const __int128 reach = static_cast<__int128>(stride) * extent;
  if (reach > kMaxByteAddress || -reach > kMaxByteAddress || start_ > kMaxByteAddress ||
      -start_ > kMaxByteAddress) {
    throw KernelError("an access to device memory exceeds the address space");
  }
  if (stride < 0) start_ += stride * (extent - 1);
  dimensions_.push_back({extent, stride < 0 ? -stride : stride});
}

void DeviceBox::normalise() {
  std::sort(dimensions_.begin(), dimensions_.end(),
            [](const Dimension& a, const Dimension& b) { return a.stride < b.stride; });
  std::vector<Dimension> merged;
  for (const Dimension& next : dimensions_) {
    if (merged.empty() && next.stride <= run_) {
      run_ += next.stride * (next.extent - 1);
    } else if (!merged.empty() && next.stride == merged.back().stride * merged.back().extent) {
      merged.back().extent *= next.extent;
    } else {
      merged.push_back(next);
    }
  }
  dimensions_ = std::move(merged);
}

ByteRange DeviceBox::hull() const {
  int64_t end = start_ + run_;
  for (const Dimension& dimension : dimensions_) end += dimension.stride * (dimension.extent - 1);
  return {start_, end};
}

int64_t DeviceBox::visited_runs(size_t num_dimensions) const {
  int64_t runs = 1;
  for (size_t i = 0; i < num_dimensions; ++i) runs = multiplied(runs, dimensions_[i].extent);
  return runs;
}

std::vector<int64_t> DeviceBox::shape() const {
  std::vector<int64_t> shape{start_ & (kBytesInStick - 1), run_};
  for (const Dimension& dimension : dimensions_) {
    shape.push_back(dimension.extent);
    shape.push_back(dimension.stride);
  }
  return shape;
}

BoxCost DeviceBox::cost(ByteRange limits) const {
  const ByteRange box_hull = hull();
  if (box_hull.end <= limits.begin || box_hull.begin >= limits.end) return {};
  const bool is_inside = box_hull.begin >= limits.begin && box_hull.end <= limits.end;
  if (!is_inside && visited_runs() <= kMaxCountedRuns)
    return enumerated(dimensions_.size(), limits);
  const BoxCost in_sticks = sticks(), in_runs = maximal_runs();
  return {in_sticks.sticks, in_runs.runs, is_inside && in_sticks.is_exact && in_runs.is_exact};
}

BoxCost DeviceBox::sticks() const {
  // Strides of at most a stick skip no stick.
  int64_t reach = run_;
  size_t num_merged = 0;
  for (; num_merged < dimensions_.size() && dimensions_[num_merged].stride <= kBytesInStick;
       ++num_merged) {
    reach += dimensions_[num_merged].stride * (dimensions_[num_merged].extent - 1);
  }
  const auto sticks_within = [this](int64_t bytes) {
    return stick_of(start_ + bytes - 1) - stick_of(start_) + 1;
  };
  // The last dimension whose blocks share sticks or have different offsets in their sticks, and all
  // dimensions inside it, are enumerated; the blocks of the others cost the same.
  size_t num_enumerated = num_merged;
  int64_t all_sticks = sticks_within(reach);
  for (size_t i = num_merged; i < dimensions_.size(); ++i) {
    const auto [extent, stride] = dimensions_[i];
    const bool is_regular =
        stride % kBytesInStick == 0 && stride >= sticks_within(reach) * kBytesInStick;
    if (!is_regular) num_enumerated = i + 1;
    reach += stride * (extent - 1);
  }
  const bool is_exact = visited_runs(num_enumerated) <= kMaxCountedRuns;
  size_t next = num_merged;
  if (num_enumerated > num_merged && is_exact) {
    all_sticks = enumerated(num_enumerated, hull()).sticks;
    next = num_enumerated;
  }
  for (; next < dimensions_.size(); ++next) {
    all_sticks = multiplied(all_sticks, dimensions_[next].extent);
  }
  return {all_sticks, 0, is_exact || num_enumerated == num_merged};
}

BoxCost DeviceBox::maximal_runs() const {
  // The last dimension whose blocks overlap, and all dimensions inside it, are enumerated.
  size_t num_enumerated = 0;
  int64_t reach = run_;
  for (size_t i = 0; i < dimensions_.size(); ++i) {
    if (dimensions_[i].stride < reach) num_enumerated = i + 1;
    reach += dimensions_[i].stride * (dimensions_[i].extent - 1);
  }
  const bool is_exact = visited_runs(num_enumerated) <= kMaxCountedRuns;
  int64_t runs = 1;
  if (num_enumerated > 0) {
    runs = is_exact ? enumerated(num_enumerated, hull()).runs : visited_runs(num_enumerated);
  }
  reach = run_;
  for (size_t i = 0; i < dimensions_.size(); ++i) {
    const auto [extent, stride] = dimensions_[i];
    if (i >= num_enumerated) {
      runs = multiplied(runs, extent);
      // The last run of a block continues in the next block.
      if (stride == reach) runs -= extent - 1;
    }
    reach += stride * (extent - 1);
  }
  return {0, runs, is_exact};
}

BoxCost DeviceBox::enumerated(size_t num_dimensions, ByteRange limits) const {
  std::vector<ByteRange> ranges;
  visit_runs(num_dimensions, [&](int64_t begin, int64_t end) {
    begin = std::max(begin, limits.begin);
    end = std::min(end, limits.end);
    if (begin < end) ranges.push_back({begin, end});
  });
  merge_ranges(ranges);
  return cost_of_ranges(ranges);
}

void merge_ranges(std::vector<ByteRange>& ranges) {
  const auto is_before = [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; };
  if (!std::is_sorted(ranges.begin(), ranges.end(), is_before)) {
    std::sort(ranges.begin(), ranges.end(), is_before);
  }
  size_t num_merged = 0;
  for (const ByteRange& range : ranges) {
    if (num_merged > 0 && range.begin <= ranges[num_merged - 1].end) {
      ranges[num_merged - 1].end = std::max(ranges[num_merged - 1].end, range.end);
    } else {
      ranges[num_merged++] = range;
    }
  }
  ranges.resize(num_merged);
}

BoxCost cost_of_ranges(std::span<const ByteRange> merged) {
  BoxCost cost;
  int64_t next_stick = std::numeric_limits<int64_t>::min();
  for (const ByteRange& range : merged) {
    ++cost.runs;
    const int64_t end = stick_of(range.end - 1) + 1;
    cost.sticks += end - std::max(stick_of(range.begin), next_stick);
    next_stick = end;
  }
  return cost;
}

}  // namespace spyre::flex
