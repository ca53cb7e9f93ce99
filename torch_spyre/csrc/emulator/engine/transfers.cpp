#include "emulator/engine/transfers.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>

#include "emulator/engine/box_copy.h"
#include "emulator/engine/plan_cache.h"
#include "emulator/engine/program_limits.h"

namespace spyre::emulator::engine {

namespace {

using Coordinates = ShortList<int64_t>;

Coordinates values_of(const Core& core, std::span<const Register> registers) {
  Coordinates values;
  for (Register source : registers) values.push_back(core.integer(source));
  return values;
}

Coordinates read_tile_extents(const Core& core, std::span<const Register> registers) {
  thread_local std::vector<int64_t> extents;
  read_extents(core, registers, extents);
  return Coordinates(extents.begin(), extents.end());
}

bool is_empty(const Coordinates& extents) {
  return std::find(extents.begin(), extents.end(), 0) != extents.end();
}

int64_t added(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) throw KernelError("a coordinate overflows");
  return sum;
}

std::string format_coordinates(std::span<const int64_t> coordinates) {
  std::string text = "(";
  for (size_t d = 0; d < coordinates.size(); ++d) {
    text += (d > 0 ? ", " : "") + std::to_string(coordinates[d]);
  }
  return text + ")";
}

[[noreturn]] void reject_uncovered(std::span<const int64_t> coordinates) {
  throw KernelError("no partition of the distributed view holds the coordinates " +
                    format_coordinates(coordinates));
}

// A view of a transfer with the values of its registers. It holds the coordinates [lower, upper),
// or all coordinates if it is not bounded.
struct Partition {
  Region region;
  bool is_bounded = false;
  Coordinates lower, upper;

  bool holds(std::span<const int64_t> coordinates) const {
    for (size_t d = 0; is_bounded && d < coordinates.size(); ++d) {
      if (coordinates[d] < lower[d] || coordinates[d] >= upper[d]) return false;
    }
    return true;
  }
  int64_t offset(std::span<const int64_t> coordinates) const {
    if (!is_bounded) return offset_of(region, coordinates);
    Coordinates local(coordinates.begin(), coordinates.end());
    for (size_t d = 0; d < local.size(); ++d) local[d] -= lower[d];
    return offset_of(region, local);
  }
};

Partition partition_of(const View& view, const Core& core, const Memory& memory) {
  Partition partition;
  partition.region = memory.region(view, core);
  partition.is_bounded = !view.lower.empty();
  if (!partition.is_bounded) return partition;
  partition.lower = values_of(core, view.lower);
  const Coordinates extents = values_of(core, view.extents);
  for (size_t d = 0; d < extents.size(); ++d) {
    partition.upper.push_back(added(partition.lower[d], std::max<int64_t>(extents[d], 0)));
  }
  return partition;
}

// A transfer of a box, with the values of its registers.
struct BoxTransfer {
  bool store;
  std::byte* tile;
  const std::vector<int64_t>& tile_strides;  // elements
  Coordinates extents, anchor;

  // Returns the stride in bytes. The stride of a dimension of extent 1 is not used and may have any
  // value.
  int64_t tile_stride(size_t dimension, const Region& region) const {
    return extents[dimension] > 1 ? tile_strides[dimension] * region.element_bytes : 0;
  }

  // Copies the elements [begin, end) of the tile that `partition` holds.
  void copy(const Partition& partition, const Coordinates& begin, const Coordinates& end) const {
    Box box;
    box.store = store;
    box.tile = tile;
    Coordinates first;
    for (size_t d = 0; d < extents.size(); ++d) {
      const int64_t tile_stride = this->tile_stride(d, partition.region);
      box.tile += begin[d] * tile_stride;
      box.dimensions.push_back({end[d] - begin[d], partition.region.strides[d], tile_stride});
      first.push_back(added(anchor[d], begin[d]));
    }
    box.first = partition.offset(first);
    copy_box(partition.region, box);
  }
};

// The elements of the tile that a partition holds: the box [begin, end), empty if any end <= begin.
struct Overlap {
  Coordinates begin, end;
  bool empty = false;

  bool covers(const Coordinates& extents) const {
    return begin == Coordinates(extents.size(), 0) && end == extents;
  }
};

Overlap overlap_of(const Partition& partition, const BoxTransfer& transfer) {
  Overlap overlap;
  for (size_t d = 0; d < transfer.extents.size(); ++d) {
    const int64_t anchor = transfer.anchor[d];
    const int64_t end = added(anchor, transfer.extents[d]);
    const int64_t low = partition.is_bounded ? std::clamp(partition.lower[d], anchor, end) : anchor;
    const int64_t high = partition.is_bounded ? std::clamp(partition.upper[d], anchor, end) : end;
    overlap.begin.push_back(low - anchor);
    overlap.end.push_back(high - anchor);
    overlap.empty |= low >= high;
  }
  return overlap;
}

// Advances to the next point of the box in row-major order; returns false after the last one.
bool next_point(Coordinates& point, const Coordinates& begin, const Coordinates& end) {
  for (size_t d = point.size(); d-- > 0;) {
    if (++point[d] < end[d]) return true;
    point[d] = begin[d];
  }
  return false;
}

// Throws KernelError unless the partitions hold every element of the tile.
void check_coverage(const std::vector<Overlap>& overlaps, const BoxTransfer& transfer) {
  const Coordinates& extents = transfer.extents;
  for (const Overlap& overlap : overlaps) {
    if (overlap.covers(extents)) return;
  }
  std::vector<bool> covered(static_cast<size_t>(count_of(extents)), false);
  for (const Overlap& overlap : overlaps) {
    if (overlap.empty) continue;
    Coordinates point = overlap.begin;
    do {
      int64_t flat = 0;
      for (size_t d = 0; d < point.size(); ++d) flat = flat * extents[d] + point[d];
      covered[static_cast<size_t>(flat)] = true;
    } while (next_point(point, overlap.begin, overlap.end));
  }
  const auto missing = std::ranges::find(covered, false);
  if (missing == covered.end()) return;
  int64_t flat = missing - covered.begin();
  Coordinates coordinates = transfer.anchor;
  for (size_t d = extents.size(); d-- > 0;) {
    coordinates[d] += flat % extents[d];
    flat /= extents[d];
  }
  reject_uncovered(coordinates);
}

void transfer_box(const std::vector<Partition>& partitions, const BoxTransfer& transfer) {
  std::vector<Overlap> overlaps;
  for (const Partition& partition : partitions) overlaps.push_back(overlap_of(partition, transfer));
  check_coverage(overlaps, transfer);
  // Partitions are processed in order: if several hold an element, a load reads it from the last.
  for (size_t i = 0; i < partitions.size(); ++i) {
    if (!overlaps[i].empty) transfer.copy(partitions[i], overlaps[i].begin, overlaps[i].end);
  }
}

void transfer_points(const std::vector<Partition>& partitions, const BoxTransfer& transfer,
                     std::span<const int64_t> points) {
  const size_t rank = transfer.anchor.size();
  const int64_t count = static_cast<int64_t>(points.size() / rank);
  if (transfer.extents[0] != count) {
    throw KernelError("a tile of " + std::to_string(transfer.extents[0]) + " elements has " +
                      std::to_string(count) + " points");
  }
  const int64_t tile_stride = transfer.tile_stride(0, partitions[0].region);
  Coordinates coordinates(rank, 0);
  for (int64_t i = 0; i < count; ++i) {
    for (size_t d = 0; d < rank; ++d) {
      coordinates[d] = added(transfer.anchor[d], points[static_cast<size_t>(i) * rank + d]);
    }
    bool is_covered = false;
    for (const Partition& partition : partitions) {
      if (!partition.holds(coordinates)) continue;
      is_covered = true;
      copy_element(partition.region, partition.offset(coordinates), transfer.tile + i * tile_stride,
                   transfer.store);
    }
    if (!is_covered) reject_uncovered(coordinates);
  }
}

// Returns a published tile as a region. Accesses beyond its end are errors.
Region region_of(const Receive& receive, std::span<const std::byte> published, const Core& core) {
  Region region;
  // The region is only read.
  region.data = const_cast<std::byte*>(published.data());
  region.bytes = static_cast<int64_t>(published.size());
  region.element_bytes = bytes_of(receive.destination.type);
  region.zero_beyond = false;
  region.description = "published tile";
  if (receive.source_offset != kNoRegister) {
    region.first =
        in_bytes(core.integer(receive.source_offset), region.element_bytes, "the offset");
  }
  for (int64_t stride : receive.source_strides) {
    region.strides.push_back(in_bytes(stride, region.element_bytes, "a stride"));
  }
  return region;
}

int64_t owner_of(const View& view, const Core& core) {
  if (view.space == Space::kGlobal) return 0;  // shared by all cores
  return view.core == kNoRegister ? core.id : core.integer(view.core);
}

// A cached transfer of a box between the scratchpad and one view that is not a partition. In a loop
// often only the anchor changes.
struct BoxPlan {
  std::vector<int64_t> extents;
  int64_t owner = 0, base = 0;
  Coordinates strides;
  Region region;
  std::byte* tile = nullptr;
  BoxCopy copy;
  DirectTile direct;  // without its address in memory; no rows: the tile must be copied
  bool has_previous = false;
  int64_t previous = 0;  // the offset of the box in the previous execution

  bool matches(const View& view, const Core& core) const {
    return owner == owner_of(view, core) && base == core.integer(view.base) &&
           strides == values_of(core, view.strides);
  }
};

bool is_plain_box(const Transfer& transfer) {
  return transfer.views.size() == 1 && transfer.views[0].lower.empty() && transfer.points.empty();
}

// Returns the box as rows of runs, or without rows if it has another form. The tile is contiguous.
DirectTile direct_tile_of(const ShortList<BoxDimension>& box, int element_bytes) {
  ShortList<BoxDimension> dimensions;  // of the tile, outermost first
  for (const BoxDimension& dimension : box) {
    if (dimension.extent > 1) dimensions.push_back(dimension);
    if (dimension.memory_stride < 0) return {};
  }
  std::ranges::sort(dimensions, std::greater(), &BoxDimension::tile_stride);
  if (dimensions.size() < 2 || dimensions.size() > 3) return {};
  const BoxDimension &rows = dimensions[0], &run = dimensions.back();
  if (run.memory_stride != element_bytes || run.tile_stride != element_bytes) return {};
  DirectTile direct;
  direct.element_bytes = element_bytes;
  direct.rows = rows.extent;
  direct.row_stride = rows.memory_stride / element_bytes;
  direct.runs = dimensions.size() == 3 ? dimensions[1].extent : 1;
  direct.run_stride = dimensions.size() == 3 ? dimensions[1].memory_stride / element_bytes : 0;
  direct.run = run.extent;
  return direct;
}

void prepare(const Transfer& transfer, Core& core, const Memory& memory, BoxPlan& plan) {
  const View& view = transfer.views[0];
  plan.owner = owner_of(view, core);
  plan.base = core.integer(view.base);
  plan.strides = values_of(core, view.strides);
  plan.tile = elements_of(core, transfer.tile, plan.extents);
  plan.region = memory.region(view, core);
  plan.has_previous = false;
  if (count_of(plan.extents) == 0) return;
  check_tile(plan.extents);
  ShortList<BoxDimension> dimensions;
  for (size_t d = 0; d < plan.extents.size(); ++d) {
    // The stride of a dimension of extent 1 is not used and may have any value.
    const bool is_moving = plan.extents[d] > 1;
    const int64_t tile_stride =
        is_moving ? transfer.tile.strides[d] * plan.region.element_bytes : 0;
    dimensions.push_back({plan.extents[d], plan.region.strides[d], tile_stride});
  }
  plan.copy = BoxCopy(dimensions, plan.region.element_bytes, transfer.store);
  plan.direct = {};
  if (transfer.direct_tile != kNoDirectTile && core.injection == nullptr) {
    plan.direct = direct_tile_of(dimensions, plan.region.element_bytes);
    plan.direct.tile = plan.tile;
  }
}

// Makes the tile a direct tile instead of copying it. Returns false if that is not possible.
bool leave_in_memory(const Transfer& transfer, Core& core, const BoxPlan& plan, int64_t first) {
  if (transfer.direct_tile == kNoDirectTile) return false;
  DirectTile& direct = core.direct_tiles[static_cast<size_t>(transfer.direct_tile)];
  direct.data = nullptr;
  if (plan.direct.rows == 0 || !plan.copy.lies_inside(plan.region, first)) return false;
  direct = plan.direct;
  direct.data = plan.region.data + first;
  return true;
}

void transfer_plain_box(const Transfer& transfer, Core& core, const Memory& memory) {
  thread_local PlanCache<BoxPlan> plans;
  const auto [plan, is_prepared] =
      plans.find(&transfer, core, transfer.extents, moves(transfer.tile));
  if (!is_prepared || !plan.matches(transfer.views[0], core)) {
    prepare(transfer, core, memory, plan);
    plans.store(&transfer, core);
  }
  if (count_of(plan.extents) == 0) return;
  const int64_t first = offset_of(plan.region, values_of(core, transfer.anchor));
  if (leave_in_memory(transfer, core, plan, first)) return;
  plan.copy.run(plan.region, first, plan.tile);
  // Predict that the next execution in a loop advances by the same distance.
  int64_t next = 0;
  if (plan.has_previous && first != plan.previous &&
      !__builtin_add_overflow(first, first - plan.previous, &next)) {
    plan.copy.prefetch(plan.region, next);
  }
  plan.has_previous = true;
  plan.previous = first;
}

}  // namespace

void check_tile(std::span<const int64_t> extents) {
  if (count_of(extents) <= kMaxElements) return;
  throw KernelError("a tile has " + std::to_string(count_of(extents)) + " elements, more than " +
                    std::to_string(kMaxElements));
}

void execute(const Transfer& transfer, Core& core, const Memory& memory) {
  if (is_plain_box(transfer)) return transfer_plain_box(transfer, core, memory);
  const Coordinates extents = read_tile_extents(core, transfer.extents);
  std::byte* tile = elements_of(core, transfer.tile, extents);
  const BoxTransfer registers{transfer.store, tile, transfer.tile.strides, extents,
                              values_of(core, transfer.anchor)};
  std::vector<Partition> partitions;
  for (const View& view : transfer.views) partitions.push_back(partition_of(view, core, memory));
  if (is_empty(extents)) return;
  check_tile(extents);
  if (transfer.points.empty()) {
    transfer_box(partitions, registers);
  } else {
    transfer_points(partitions, registers, transfer.points);
  }
}

void receive_tile(const Receive& receive, std::span<const std::byte> published, Core& core) {
  const Coordinates extents = read_tile_extents(core, receive.extents);
  std::byte* tile = elements_of(core, receive.destination, extents);
  if (is_empty(extents)) return;
  check_tile(extents);
  const Partition partition{region_of(receive, published, core), false, {}, {}};
  const Coordinates origin(extents.size(), 0);
  BoxTransfer{false, tile, receive.destination.strides, extents, origin}.copy(partition, origin,
                                                                              extents);
}

}  // namespace spyre::emulator::engine
