// Counts the sticks and contiguous runs of transfers from and to device memory.
#include "emulator/engine/recorder_memory.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "emulator/engine/recorder.h"

namespace spyre::emulator::engine {

namespace {

uint64_t hash_of(size_t at, const DeviceBox& box) {
  uint64_t hash = mixed(at, box.hull().begin);
  for (const int64_t size : box.shape()) hash = mixed(hash, size);
  return hash;
}

}  // namespace

ByteRange Recorder::limits_of(const View& view) const {
  if (!is_known_[static_cast<size_t>(view.base)]) return kEverywhere;
  const int64_t base =
      narrowed(static_cast<__int128>(core_.integer(view.base)) * bytes_of(view.type));
  for (const ArrayLocation& array : arrays_) {
    const int64_t end = array.bytes < 0 ? kMaxByteOffset : array.address + array.bytes;
    if (base < array.address) continue;
    // An empty array occupies its address; an array of unknown size ends where the next one begins.
    if (base < std::max(end, array.address + 1) &&
        std::none_of(
            arrays_.begin(), arrays_.end(),
            [&](const ArrayLocation& other) {
              return array.bytes < 0 && other.address > array.address && other.address <= base;
            })) {
      return {array.address, end};
    }
  }
  for (const FixedBuffer& buffer : program_.fixed_buffers) {
    if (base >= buffer.address && base < buffer.address + buffer.bytes) {
      return {buffer.address, buffer.address + buffer.bytes};
    }
  }
  return kEverywhere;
}

// --- Boxes ---------------------------------------------------------------------------------------

void Recorder::visit(size_t at, const Transfer& transfer) {
  CoreCounts& counts = count_execution(at);
  num_visited_ += kTransferWeight;
  const std::vector<int64_t> space = extents(transfer.extents);
  if (count_of(space) == 0) return;
  count_operand(counts, transfer.tile, space);
  for (const View& view : transfer.views) {
    if (transfer.points.empty()) {
      count_box(at, transfer, view);
    } else {
      count_points(at, transfer, view);
    }
  }
}

void Recorder::count_box(size_t at, const Transfer& transfer, const View& view) {
  std::vector<int64_t> space = extents(transfer.extents);
  const bool is_partition = !view.lower.empty();
  const int64_t element = bytes_of(view.type);
  ScalarValue base = value_of(view.base);
  __int128 start = base.value;
  bool is_known = base.is_known;
  std::vector<int64_t> strides;
  for (size_t i = 0; i < space.size(); ++i) {
    const ScalarValue anchor = value_of(transfer.anchor[i]), stride = value_of(view.strides[i]);
    is_known &= anchor.is_known && stride.is_known;
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
    strides.push_back(stride.value);
    start += static_cast<__int128>(coordinate) * stride.value;
  }
  const int64_t points = count_of(space);
  if (view.space == Space::kScratchpad) {
    add_for_all_trips(counts_[at].scratchpad_bytes, points * element);
    return count_remote(counts_[at], view.core, points * element);
  }
  DeviceAccess access{DeviceBox(is_known ? narrowed(start * element) : 0, element), is_known, {}};
  for (size_t i = 0; i < space.size(); ++i) {
    access.box.add(space[i], narrowed(static_cast<__int128>(strides[i]) * element));
  }
  access.box.normalise();
  for (const Level& level : levels_) {
    __int128 step = level.slopes[static_cast<size_t>(view.base)];
    for (size_t i = 0; i < space.size(); ++i) {
      step +=
          static_cast<__int128>(level.slopes[static_cast<size_t>(transfer.anchor[i])]) * strides[i];
    }
    access.steps.push_back(narrowed(step * element));
  }
  count_device(at, std::move(access), view, transfer.store);
}

void Recorder::count_device(size_t at, DeviceAccess access, const View& view, bool is_write) {
  const ByteRange limits = limits_of(view);
  CoreCounts& counts = counts_[at];
  InstructionCounts& all = result_.instructions[at];
  if (access.is_known) check_uniform(access, limits);
  const BoxCost cost = cost_of(access.box, access.is_known ? limits : kEverywhere);
  const int64_t bytes = cost.sticks * kBytesInStick;
  add_for_all_trips(counts.device_bytes, bytes);
  add_for_all_trips(all.device_runs, cost.runs);
  if (!access.is_known || is_first_move(at, access))
    add_for_all_trips(all.distinct_device_bytes, bytes);
  if (access.is_known) {
    count_unique(at, hash_of(at, access.box), bytes, access.steps);
  } else {
    add_for_all_trips(all.unique_device_bytes, bytes);
  }
  if (program_.cores() == 1) return;
  if (!access.is_known) return accessed_.add(limits, is_write);
  for (size_t i = 0; i < levels_.size(); ++i) {
    // Approximated loops are reported as conflicts anyway.
    if (levels_[i].is_exact) access.box.add(levels_[i].trips, access.steps[i]);
  }
  access.box.normalise();
  accessed_.add(access.box, is_write);
}

// Throws NonUniformLoop unless every iteration transfers as many sticks as the first one.
void Recorder::check_uniform(const DeviceAccess& access, ByteRange limits) const {
  ByteRange hull = access.box.hull();
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

BoxCost Recorder::cost_of(const DeviceBox& box, ByteRange limits) {
  const ByteRange hull = box.hull();
  if (hull.begin < limits.begin || hull.end > limits.end) return box.cost(limits);
  const auto [entry, is_new] = costs_.try_emplace(box.shape());
  if (is_new) entry->second = box.cost(limits);
  return entry->second;
}

// Returns whether no previous core transferred the same bytes in the same iterations of the
// instruction.
bool Recorder::is_first_move(size_t at, const DeviceAccess& access) {
  if (program_.cores() == 1 || moved_tiles_.size() >= kMaxTrackedTiles) return true;
  uint64_t hash = mixed(mixed(hash_of(at, access.box), visits_[at]), multiplier_);
  for (const int64_t step : access.steps) hash = mixed(hash, step);
  return moved_tiles_.insert(hash).second;
}

void Recorder::count_unique(size_t at, uint64_t tile, int64_t bytes,
                            std::span<const int64_t> steps) {
  int64_t tiles = 1;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i] == 0) continue;
    tile = mixed(tile, steps[i]);
    tiles *= levels_[i].trips;
  }
  const bool is_tracked = unique_tiles_.size() < kMaxTrackedTiles;
  if (is_tracked && !unique_tiles_.insert(tile).second) return;
  result_.instructions[at].unique_device_bytes += bytes * tiles;
}

// --- Lists of points -----------------------------------------------------------------------------

void Recorder::count_points(size_t at, const Transfer& transfer, const View& view) {
  const size_t rank = transfer.anchor.size();
  const int64_t element = bytes_of(view.type);
  const ByteRange limits = limits_of(view);
  const bool is_partition = !view.lower.empty();
  std::vector<int64_t> sticks;
  int64_t runs = 0, points = 0;
  int64_t last_end = std::numeric_limits<int64_t>::min();
  uint64_t hash = mixed(at, visits_[at]);
  bool is_known = value_of(view.base).is_known;
  for (size_t first = 0; first + rank <= transfer.points.size();
       first += std::max<size_t>(rank, 1)) {
    __int128 position = core_.integer(view.base);
    bool is_here = true;
    for (size_t i = 0; i < rank; ++i) {
      const ScalarValue anchor = value_of(transfer.anchor[i]);
      is_known &= anchor.is_known;
      __int128 coordinate = static_cast<__int128>(anchor.value) + transfer.points[first + i];
      if (is_partition) {
        coordinate -= core_.integer(view.lower[i]);
        is_here &= coordinate >= 0 && coordinate < core_.integer(view.extents[i]);
      }
      if (is_here) position += coordinate * core_.integer(view.strides[i]);
    }
    if (!is_here) continue;
    ++points;
    const int64_t begin = narrowed(position * element);
    hash = mixed(hash, begin);
    if (begin < limits.begin || begin + element > limits.end) continue;
    runs += begin != last_end;
    last_end = begin + element;
    sticks.push_back(begin / kBytesInStick);
  }
  if (view.space == Space::kScratchpad) {
    add_for_all_trips(counts_[at].scratchpad_bytes, points * element);
    return count_remote(counts_[at], view.core, points * element);
  }
  std::sort(sticks.begin(), sticks.end());
  const auto distinct = std::unique(sticks.begin(), sticks.end()) - sticks.begin();
  const int64_t bytes = distinct * kBytesInStick;
  add_for_all_trips(counts_[at].device_bytes, bytes);
  add_for_all_trips(result_.instructions[at].device_runs, runs);
  if (!is_known || moved_tiles_.insert(hash).second) {
    add_for_all_trips(result_.instructions[at].distinct_device_bytes, bytes);
    result_.instructions[at].unique_device_bytes += bytes;
  }
  if (program_.cores() > 1) accessed_.add(limits, transfer.store);
}

}  // namespace spyre::emulator::engine
