#include "emulator/engine/footprints.h"

#include <algorithm>

namespace spyre::emulator::engine {
namespace {

int64_t stick_of(int64_t byte) { return byte >> 7; }
static_assert(kBytesInStick == 1 << 7);

ByteRange sticks_of(ByteRange bytes) {
  return {stick_of(bytes.begin), stick_of(bytes.end - 1) + 1};
}

// Begins keys of ranges; keys of boxes begin with an offset in a stick.
constexpr int64_t kRanges = -1;

}  // namespace

Footprint::Footprint(const DeviceBox& box, ByteRange limits)
    : cost(box.cost(limits)), box_(box), limits_(limits) {
  if (cost.sticks > 0) end_stick = sticks_of(limits).end;
}

Footprint::Footprint(std::span<const ByteRange> ranges) : cost(cost_of_ranges(ranges)) {
  for (const ByteRange& range : ranges) sticks_.push_back(sticks_of(range));
  flex::merge_ranges(sticks_);
  if (!sticks_.empty()) end_stick = sticks_.back().end;
}

const std::vector<ByteRange>& Footprint::sticks() const {
  if (!sticks_.empty() || cost.sticks == 0) return sticks_;
  box_.visit_runs([&](int64_t begin, int64_t end) {
    begin = std::max(begin, limits_.begin);
    end = std::min(end, limits_.end);
    if (begin >= end) return;
    const ByteRange sticks = sticks_of({begin, end});
    if (!sticks_.empty() && sticks_.back().end >= sticks.begin &&
        sticks_.back().begin <= sticks.begin) {
      sticks_.back().end = std::max(sticks_.back().end, sticks.end);
    } else {
      sticks_.push_back(sticks);
    }
  });
  flex::merge_ranges(sticks_);
  return sticks_;
}

size_t FootprintTable::Hash::operator()(const std::vector<int64_t>& key) const {
  uint64_t hash = key.size();
  for (const int64_t value : key) {
    hash ^= static_cast<uint64_t>(value) + 0x9E3779B97F4A7C15u + (hash << 6) + (hash >> 2);
    hash *= 0xBF58476D1CE4E5B9u;
  }
  return hash ^ hash >> 29;
}

PlacedFootprint FootprintTable::find(DeviceBox box, ByteRange limits) {
  const ByteRange hull = box.hull();
  const int64_t stick = stick_of(hull.begin), origin = stick * kBytesInStick;
  const bool is_inside = hull.begin >= limits.begin && hull.end <= limits.end;
  limits = {std::max(limits.begin, hull.begin) - origin, std::min(limits.end, hull.end) - origin};
  std::vector<int64_t> key = box.shape();
  // Keys of clipped boxes have an odd length.
  if (!is_inside) key.insert(key.end(), {limits.begin, limits.end, 0});
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Footprint>& footprint = footprints_[std::move(key)];
  if (footprint == nullptr) {
    box.move(-origin);
    footprint = std::make_unique<Footprint>(box, limits);
  }
  return {stick, footprint.get()};
}

PlacedFootprint FootprintTable::find(std::vector<ByteRange> ranges) {
  flex::merge_ranges(ranges);
  const int64_t stick = ranges.empty() ? 0 : stick_of(ranges.front().begin);
  std::vector<int64_t> key{kRanges};
  for (ByteRange& range : ranges) {
    range.begin -= stick * kBytesInStick;
    range.end -= stick * kBytesInStick;
    key.insert(key.end(), {range.begin, range.end});
  }
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Footprint>& footprint = footprints_[std::move(key)];
  if (footprint == nullptr) footprint = std::make_unique<Footprint>(ranges);
  return {stick, footprint.get()};
}

int64_t StickUnion::count(std::vector<PlacedFootprint>& footprints) {
  std::sort(footprints.begin(), footprints.end());
  footprints.erase(std::unique(footprints.begin(), footprints.end()), footprints.end());
  if (footprints.empty()) return 0;
  if (footprints.size() == 1) return footprints[0].num_sticks();
  std::vector<PlacedFootprint> key = footprints;
  for (PlacedFootprint& placed : key) placed.stick -= footprints[0].stick;
  const auto [entry, is_new] = known_.try_emplace(std::move(key), 0);
  if (!is_new) return entry->second;
  std::vector<ByteRange> sticks;
  for (const PlacedFootprint& placed : entry->first) {
    for (const ByteRange& range : placed.footprint->sticks()) {
      sticks.push_back({range.begin + placed.stick, range.end + placed.stick});
    }
  }
  flex::merge_ranges(sticks);
  for (const ByteRange& range : sticks) entry->second += range.end - range.begin;
  return entry->second;
}

}  // namespace spyre::emulator::engine
