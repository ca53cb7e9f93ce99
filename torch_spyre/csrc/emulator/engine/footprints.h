// The sticks of device memory that executions of instructions transfer. Footprints that differ only
// by whole sticks are computed once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "flex/device_box.h"

namespace spyre::emulator::engine {

using flex::BoxCost;
using flex::ByteRange;
using flex::DeviceBox;

// A set of bytes, relative to the first byte of a stick.
class Footprint {
 public:
  Footprint(const DeviceBox& box, ByteRange limits);
  // `ranges` must be merged.
  explicit Footprint(std::span<const ByteRange> ranges);

  // Returns the sticks as merged ranges of stick numbers. Not thread-safe.
  const std::vector<ByteRange>& sticks() const;

  BoxCost cost;
  int64_t end_stick = 0;  // after the last stick

 private:
  DeviceBox box_{0, 0};
  ByteRange limits_{0, 0};
  mutable std::vector<ByteRange> sticks_;
};

// A footprint in device memory.
struct PlacedFootprint {
  int64_t stick = 0;  // that the footprint is relative to
  const Footprint* footprint = nullptr;

  int64_t num_sticks() const { return footprint->cost.sticks; }
  auto operator<=>(const PlacedFootprint&) const = default;
};

// Interns footprints. Thread-safe.
class FootprintTable {
 public:
  // Returns the bytes of the box within the limits.
  PlacedFootprint find(DeviceBox box, ByteRange limits);
  // Returns the bytes of the ranges, in any order.
  PlacedFootprint find(std::vector<ByteRange> ranges);

 private:
  struct Hash {
    size_t operator()(const std::vector<int64_t>& key) const;
  };
  std::mutex mutex_;
  std::unordered_map<std::vector<int64_t>, std::unique_ptr<Footprint>, Hash> footprints_;
};

// Counts the sticks of several footprints, each stick once.
class StickUnion {
 public:
  // Sorts the footprints.
  int64_t count(std::vector<PlacedFootprint>& footprints);

 private:
  // By the footprints, relative to the first.
  std::map<std::vector<PlacedFootprint>, int64_t> known_;
};

}  // namespace spyre::emulator::engine
