// Counts the sticks and contiguous runs of transfers from and to device memory.
#include "emulator/engine/recorder_memory.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "emulator/engine/recorder.h"

namespace spyre::emulator::engine {

// Returns the memory that an execution finds at the view's base: the last array or fixed buffer
// that begins before it, if its end does not come earlier.
ByteRange Recorder::limits_of(const View& view) const {
  if (!is_known_[static_cast<size_t>(view.base)]) return kEverywhere;
  const int64_t base =
      narrowed(static_cast<__int128>(core_.integer(view.base)) * bytes_of(view.type));
  ByteRange limits = kEverywhere;
  const auto consider = [&](int64_t begin, int64_t end) {
    const bool is_closer = begin > limits.begin || (begin == limits.begin && end > limits.end);
    if (begin <= base && is_closer) limits = {begin, end};
  };
  for (const ArrayLocation& array : arrays_) {
    consider(array.address, array.bytes < 0 ? kMaxByteOffset : array.address + array.bytes);
  }
  for (const FixedBuffer& buffer : program_.fixed_buffers) {
    consider(buffer.address, buffer.address + buffer.bytes);
  }
  return base <= limits.end ? limits : kEverywhere;
}

// --- Accesses ------------------------------------------------------------------------------------

ByteRange Recorder::DeviceAccess::hull() const {
  if (box) return box->hull();
  ByteRange hull = ranges.front();
  for (const ByteRange& range : ranges) {
    hull = {std::min(hull.begin, range.begin), std::max(hull.end, range.end)};
  }
  return hull;
}

void Recorder::count_access(size_t at, CoreCounts& execution, DeviceAccess access, const View& view,
                            bool is_write) {
  const ByteRange limits = access.is_known ? limits_of(view) : kEverywhere;
  if (access.is_known) {
    check_uniform(access, limits);
  } else {
    limit_exactness(at, Exactness::kUpperBound);
  }
  const BoxCost cost = cost_of(at, access, limits);
  const int64_t bytes = cost.sticks * kBytesInStick;
  execution.device_bytes += bytes;
  execution.device_runs += cost.runs;
  if (!access.is_known) {
    add_unshared(at, bytes);
    return accessed_.add(limits_of(view), is_write);
  }
  RepeatedLoops loops;
  for (size_t i = 0; i < levels_.size(); ++i) {
    loops.push_back({levels_[i].loop, levels_[i].trips, access.steps[i] / kBytesInStick, 0});
  }
  transfers_.add(at, core_.id, executions_[at], footprint_of(at, access, limits), loops);
  if (program_.cores() == 1) return;
  if (!access.box) return accessed_.add(limits, is_write);
  for (size_t i = 0; i < levels_.size(); ++i) {
    // Approximated loops are reported as conflicts anyway.
    if (levels_[i].is_exact) access.box->add(levels_[i].trips, access.steps[i]);
  }
  access.box->normalise();
  accessed_.add(*access.box, is_write);
}

PlacedFootprint Recorder::footprint_of(size_t at, const DeviceAccess& access, ByteRange limits) {
  if (access.box) {
    const PlacedFootprint placed = footprints_.find(*access.box, limits);
    if (!placed.footprint->cost.is_exact) {
      result_.is_approximate = true;
      limit_exactness(at, Exactness::kEstimate);
    }
    return placed;
  }
  std::vector<ByteRange> ranges;
  for (const ByteRange& range : access.ranges) {
    const ByteRange clipped{std::max(range.begin, limits.begin), std::min(range.end, limits.end)};
    if (clipped.begin < clipped.end) ranges.push_back(clipped);
  }
  return footprints_.find(std::move(ranges));
}

BoxCost Recorder::cost_of(size_t at, const DeviceAccess& access, ByteRange limits) {
  BoxCost worst = footprint_of(at, access, limits).footprint->cost;
  if (access.is_known) return worst;
  const int64_t step = std::gcd(access.alignment, kBytesInStick);
  for (int64_t distance = step; distance < kBytesInStick; distance += step) {
    DeviceAccess moved = access;
    if (moved.box) moved.box->move(distance);
    for (ByteRange& range : moved.ranges) range = {range.begin + distance, range.end + distance};
    const BoxCost cost = footprint_of(at, moved, limits).footprint->cost;
    worst.sticks = std::max(worst.sticks, cost.sticks);
    worst.runs = std::max(worst.runs, cost.runs);
  }
  return worst;
}

// Throws NonUniformLoop unless every iteration transfers as many sticks as the first one.
void Recorder::check_uniform(const DeviceAccess& access, ByteRange limits) const {
  ByteRange hull = access.hull();
  for (size_t i = 0; i < levels_.size(); ++i) {
    if (access.steps[i] == 0 || !levels_[i].is_exact) continue;
    const int64_t distance =
        narrowed(static_cast<__int128>(access.steps[i]) * (levels_[i].trips - 1));
    (distance < 0 ? hull.begin : hull.end) += distance;
    const bool stays_inside = hull.begin >= limits.begin && hull.end <= limits.end;
    if (access.steps[i] % kBytesInStick != 0 || !stays_inside)
      throw NonUniformLoop(levels_[i].loop);
  }
}

// --- Transfers -----------------------------------------------------------------------------------

void Recorder::visit(size_t at, const Transfer& transfer) {
  CoreCounts execution{.executions = 1};
  num_visited_ += kTransferWeight;
  const std::vector<int64_t> space = extents(at, transfer.extents);
  if (count_of(space) == 0) return add(at, execution);
  execution.scratchpad_bytes = operand_bytes(transfer.tile, space);
  for (const View& view : transfer.views) {
    const bool is_partition = !view.lower.empty();
    const bool has_known_shape =
        are_known(view.strides) &&
        (!is_partition ||
         (are_known(transfer.anchor) && are_known(view.lower) && are_known(view.extents)));
    if (!has_known_shape) limit_exactness(at, Exactness::kEstimate);
    if (transfer.points.empty()) {
      count_box(at, transfer, view, execution);
    } else {
      count_points(at, transfer, view, execution);
    }
  }
  add(at, execution);
}

void Recorder::count_scratchpad_view(size_t at, const View& view, int64_t points,
                                     CoreCounts& execution) {
  const int64_t bytes = points * bytes_of(view.type);
  execution.scratchpad_bytes += bytes;
  execution.remote_bytes += remote_bytes(at, view.core, bytes);
}

std::vector<int64_t> Recorder::steps_of(const Transfer& transfer, const View& view) const {
  std::vector<int64_t> steps;
  for (const Level& level : levels_) {
    __int128 step = level.slopes[static_cast<size_t>(view.base)];
    for (size_t i = 0; i < transfer.anchor.size(); ++i) {
      step += static_cast<__int128>(level.slopes[static_cast<size_t>(transfer.anchor[i])]) *
              core_.integer(view.strides[i]);
    }
    steps.push_back(narrowed(step * bytes_of(view.type)));
  }
  return steps;
}

int64_t Recorder::unknown_bytes(const Transfer& transfer, const View& view) const {
  const int64_t element = bytes_of(view.type);
  int64_t bytes = value_of(view.base).is_known ? 0 : element;
  for (size_t i = 0; i < transfer.anchor.size(); ++i) {
    if (value_of(transfer.anchor[i]).is_known) continue;
    bytes =
        std::gcd(bytes, narrowed(static_cast<__int128>(core_.integer(view.strides[i])) * element));
  }
  return bytes;
}

void Recorder::count_box(size_t at, const Transfer& transfer, const View& view,
                         CoreCounts& execution) {
  std::vector<int64_t> space = extents(at, transfer.extents);
  const bool is_partition = !view.lower.empty();
  const int64_t element = bytes_of(view.type);
  __int128 start = core_.integer(view.base);
  for (size_t i = 0; i < space.size(); ++i) {
    const ScalarValue anchor = value_of(transfer.anchor[i]);
    int64_t coordinate = anchor.value;
    if (is_partition) {
      const int64_t lower = core_.integer(view.lower[i]), size = core_.integer(view.extents[i]);
      const __int128 end = std::min(static_cast<__int128>(anchor.value) + space[i],
                                    static_cast<__int128>(lower) + size);
      const int64_t first = std::max(anchor.value, lower);
      if (anchor.is_known && end <= first) return;  // the tile does not overlap the partition
      if (anchor.is_known) space[i] = static_cast<int64_t>(end - first);
      coordinate = first - lower;
    }
    start += static_cast<__int128>(coordinate) * core_.integer(view.strides[i]);
  }
  if (view.space == Space::kScratchpad) {
    return count_scratchpad_view(at, view, count_of(space), execution);
  }
  DeviceAccess access;
  access.alignment = unknown_bytes(transfer, view);
  access.is_known = are_known(transfer.anchor) && value_of(view.base).is_known;
  access.box = DeviceBox(narrowed(start * element), element);
  for (size_t i = 0; i < space.size(); ++i) {
    const auto stride = static_cast<__int128>(core_.integer(view.strides[i]));
    access.box->add(space[i], narrowed(stride * element));
  }
  access.box->normalise();
  access.steps = steps_of(transfer, view);
  count_access(at, execution, std::move(access), view, transfer.store);
}

void Recorder::count_points(size_t at, const Transfer& transfer, const View& view,
                            CoreCounts& execution) {
  const size_t rank = transfer.anchor.size();
  const int64_t element = bytes_of(view.type);
  const bool is_partition = !view.lower.empty();
  DeviceAccess access;
  for (size_t first = 0; rank > 0 && first + rank <= transfer.points.size(); first += rank) {
    __int128 position = core_.integer(view.base);
    bool is_here = true;
    for (size_t i = 0; i < rank; ++i) {
      __int128 coordinate =
          static_cast<__int128>(core_.integer(transfer.anchor[i])) + transfer.points[first + i];
      if (is_partition) {
        coordinate -= core_.integer(view.lower[i]);
        is_here &= coordinate >= 0 && coordinate < core_.integer(view.extents[i]);
      }
      if (is_here) position += coordinate * core_.integer(view.strides[i]);
    }
    if (!is_here) continue;
    const int64_t begin = narrowed(position * element);
    access.ranges.push_back({begin, begin + element});
  }
  if (access.ranges.empty()) return;
  if (view.space == Space::kScratchpad) {
    return count_scratchpad_view(at, view, std::ssize(access.ranges), execution);
  }
  access.alignment = unknown_bytes(transfer, view);
  access.is_known = are_known(transfer.anchor) && value_of(view.base).is_known;
  access.steps = steps_of(transfer, view);
  count_access(at, execution, std::move(access), view, transfer.store);
}

}  // namespace spyre::emulator::engine
