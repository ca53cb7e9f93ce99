#include "flex/device_box.h"

#include <algorithm>
#include <limits>

#include "flex/driver.h"

namespace spyre::flex {
namespace {

// For boxes of more runs that are not stick-aligned, the cost is an upper bound.
constexpr int64_t kMaxCountedRuns = int64_t{1} << 20;

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

int64_t DeviceBox::runs() const {
  int64_t runs = 1;
  for (const Dimension& dimension : dimensions_) runs = multiplied(runs, dimension.extent);
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
  if (is_inside || runs() > kMaxCountedRuns) return {sticks(), runs()};
  return counted(limits);
}

int64_t DeviceBox::sticks() const {
  // Strides of at most a stick skip no stick.
  int64_t run = run_;
  size_t first = 0;
  for (; first < dimensions_.size() && dimensions_[first].stride <= kBytesInStick; ++first) {
    run += dimensions_[first].stride * (dimensions_[first].extent - 1);
  }
  const int64_t per_run = stick_of(start_ + run - 1) - stick_of(start_) + 1;
  int64_t reach = per_run * kBytesInStick;
  int64_t sticks = per_run;
  bool is_uniform = true;  // every run has the same offset in its sticks and shares none
  for (size_t i = first; i < dimensions_.size(); ++i) {
    const Dimension& dimension = dimensions_[i];
    is_uniform &= dimension.stride % kBytesInStick == 0 && dimension.stride >= reach;
    reach += dimension.stride * (dimension.extent - 1);
    sticks = multiplied(sticks, dimension.extent);
  }
  if (is_uniform || runs() > kMaxCountedRuns) return sticks;
  return counted(hull()).sticks;
}

BoxCost DeviceBox::counted(ByteRange limits) const {
  BoxCost cost;
  std::vector<ByteRange> ranges;  // in sticks
  visit_runs([&](int64_t begin, int64_t end) {
    begin = std::max(begin, limits.begin);
    end = std::min(end, limits.end);
    if (begin >= end) return;
    ++cost.runs;
    ranges.push_back({stick_of(begin), stick_of(end - 1) + 1});
  });
  std::sort(ranges.begin(), ranges.end(),
            [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  int64_t counted_to = std::numeric_limits<int64_t>::min();
  for (const ByteRange& range : ranges) {
    const int64_t begin = std::max(range.begin, counted_to);
    if (range.end > begin) cost.sticks += range.end - begin;
    counted_to = std::max(counted_to, range.end);
  }
  return cost;
}

}  // namespace spyre::flex
