#include "emulator/engine/transfers.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>

#include "emulator/engine/box_copy.h"
#include "emulator/engine/prepared.h"
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

std::string text_of(std::span<const int64_t> coordinates) {
  std::string text = "(";
  for (size_t d = 0; d < coordinates.size(); ++d) {
    text += (d > 0 ? ", " : "") + std::to_string(coordinates[d]);
  }
  return text + ")";
}

[[noreturn]] void refuse_uncovered(std::span<const int64_t> coordinates) {
  throw KernelError("no partition of the distributed view holds the coordinates " +
                    text_of(coordinates));
}

// A view of a transfer with its registers read; it holds the coordinates [lower, upper).
struct Part {
  Region region;
  bool partition = false;
  Coordinates lower, upper;

  bool holds(std::span<const int64_t> coordinates) const {
    for (size_t d = 0; partition && d < coordinates.size(); ++d) {
      if (coordinates[d] < lower[d] || coordinates[d] >= upper[d]) return false;
    }
    return true;
  }
  int64_t offset(std::span<const int64_t> coordinates) const {
    if (!partition) return offset_of(region, coordinates);
    Coordinates local(coordinates.begin(), coordinates.end());
    for (size_t d = 0; d < local.size(); ++d) local[d] -= lower[d];
    return offset_of(region, local);
  }
};

Part part_of(const View& view, const Core& core, const Memory& memory) {
  Part part;
  part.region = memory.region(view, core);
  part.partition = !view.lower.empty();
  if (!part.partition) return part;
  part.lower = values_of(core, view.lower);
  const Coordinates extents = values_of(core, view.extents);
  for (size_t d = 0; d < extents.size(); ++d) {
    part.upper.push_back(added(part.lower[d], std::max<int64_t>(extents[d], 0)));
  }
  return part;
}

// One transfer of a box, its registers read.
struct BoxTransfer {
  bool store;
  std::byte* tile;
  const std::vector<int64_t>& tile_strides;  // elements
  Coordinates extents, anchor;

  // In bytes. What does not move has no need of one, and it may be any number.
  int64_t tile_stride(size_t dimension, const Region& region) const {
    return extents[dimension] > 1 ? tile_strides[dimension] * region.element_bytes : 0;
  }

  // Copies the elements [begin, end) of the tile that `part` holds.
  void copy(const Part& part, const Coordinates& begin, const Coordinates& end) const {
    Box box;
    box.store = store;
    box.tile = tile;
    Coordinates first;
    for (size_t d = 0; d < extents.size(); ++d) {
      const int64_t tile_stride = this->tile_stride(d, part.region);
      box.tile += begin[d] * tile_stride;
      box.dimensions.push_back({end[d] - begin[d], part.region.strides[d], tile_stride});
      first.push_back(added(anchor[d], begin[d]));
    }
    box.first = part.offset(first);
    copy_box(part.region, box);
  }
};

// Which elements of the tile a part holds: the box [begin, end), empty if any end <= begin.
struct Overlap {
  Coordinates begin, end;
  bool empty = false;

  bool covers(const Coordinates& extents) const {
    return begin == Coordinates(extents.size(), 0) && end == extents;
  }
};

Overlap overlap_of(const Part& part, const BoxTransfer& transfer) {
  Overlap overlap;
  for (size_t d = 0; d < transfer.extents.size(); ++d) {
    const int64_t anchor = transfer.anchor[d];
    const int64_t end = added(anchor, transfer.extents[d]);
    const int64_t low = part.partition ? std::clamp(part.lower[d], anchor, end) : anchor;
    const int64_t high = part.partition ? std::clamp(part.upper[d], anchor, end) : end;
    overlap.begin.push_back(low - anchor);
    overlap.end.push_back(high - anchor);
    overlap.empty |= low >= high;
  }
  return overlap;
}

// Moves to the next point of the box in row-major order; false after the last.
bool next_point(Coordinates& point, const Coordinates& begin, const Coordinates& end) {
  for (size_t d = point.size(); d-- > 0;) {
    if (++point[d] < end[d]) return true;
    point[d] = begin[d];
  }
  return false;
}

// Every element of the tile must be held by some part.
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
  refuse_uncovered(coordinates);
}

void transfer_box(const std::vector<Part>& parts, const BoxTransfer& transfer) {
  std::vector<Overlap> overlaps;
  for (const Part& part : parts) overlaps.push_back(overlap_of(part, transfer));
  check_coverage(overlaps, transfer);
  // In order, so that the last partition that holds an element wins on a load.
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!overlaps[i].empty) transfer.copy(parts[i], overlaps[i].begin, overlaps[i].end);
  }
}

void transfer_points(const std::vector<Part>& parts, const BoxTransfer& transfer,
                     std::span<const int64_t> points) {
  const size_t rank = transfer.anchor.size();
  const int64_t count = static_cast<int64_t>(points.size() / rank);
  if (transfer.extents[0] != count) {
    throw KernelError("a tile of " + std::to_string(transfer.extents[0]) + " elements has " +
                      std::to_string(count) + " points");
  }
  const int64_t tile_stride = transfer.tile_stride(0, parts[0].region);
  Coordinates coordinates(rank, 0);
  for (int64_t i = 0; i < count; ++i) {
    for (size_t d = 0; d < rank; ++d) {
      coordinates[d] = added(transfer.anchor[d], points[static_cast<size_t>(i) * rank + d]);
    }
    bool held = false;
    for (const Part& part : parts) {
      if (!part.holds(coordinates)) continue;
      held = true;
      copy_element(part.region, part.offset(coordinates), transfer.tile + i * tile_stride,
                   transfer.store);
    }
    if (!held) refuse_uncovered(coordinates);
  }
}

// A published tile as a region of which nothing may be asked that is not there.
Region region_of(const Receive& receive, std::span<const std::byte> published, const Core& core) {
  Region region;
  // Only read: a load.
  region.data = const_cast<std::byte*>(published.data());
  region.bytes = static_cast<int64_t>(published.size());
  region.element_bytes = bytes_of(receive.destination.type);
  region.zero_beyond = false;
  region.what = "published tile";
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
  if (view.space == Space::kGlobal) return 0;  // the same for all cores
  return view.core == kNoRegister ? core.id : core.integer(view.core);
}

// A box between the scratchpad and one view that is no partition, kept from one execution to the
// next: in a loop often only the anchor changes.
struct BoxPlan {
  std::vector<int64_t> extents;
  int64_t owner = 0, base = 0;
  Coordinates strides;
  Region region;
  std::byte* tile = nullptr;
  BoxCopy copy;
  DirectTile direct;  // without its place in memory; no rows: it must be copied
  bool has_run = false;
  int64_t previous = 0;  // where the box was then

  bool is_of(const View& view, const Core& core) const {
    return owner == owner_of(view, core) && base == core.integer(view.base) &&
           strides == values_of(core, view.strides);
  }
};

bool is_plain_box(const Transfer& transfer) {
  return transfer.views.size() == 1 && transfer.views[0].lower.empty() && transfer.points.empty();
}

// The box as rows of runs; no rows if it is none of those. The tile's elements have no gaps.
DirectTile direct_tile_of(const ShortList<BoxDimension>& box, int element_bytes) {
  ShortList<BoxDimension> dimensions;  // of the tile, from the outermost
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
  plan.has_run = false;
  if (count_of(plan.extents) == 0) return;
  check_tile(plan.extents);
  ShortList<BoxDimension> dimensions;
  for (size_t d = 0; d < plan.extents.size(); ++d) {
    // What does not move has no need of a stride, and it may be any number.
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

// Leaves the tile where it is, if the program and its place allow that.
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
  thread_local PreparedPlans<BoxPlan> plans;
  const auto [plan, is_prepared] =
      plans.find(&transfer, core, transfer.extents, moves(transfer.tile));
  if (!is_prepared || !plan.is_of(transfer.views[0], core)) {
    prepare(transfer, core, memory, plan);
    plans.keep(&transfer, core);
  }
  if (count_of(plan.extents) == 0) return;
  const int64_t first = offset_of(plan.region, values_of(core, transfer.anchor));
  if (leave_in_memory(transfer, core, plan, first)) return;
  plan.copy.run(plan.region, first, plan.tile);
  // Loops mostly go on as they went before.
  int64_t next = 0;
  if (plan.has_run && first != plan.previous &&
      !__builtin_add_overflow(first, first - plan.previous, &next)) {
    plan.copy.prefetch(plan.region, next);
  }
  plan.has_run = true;
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
  std::vector<Part> parts;
  for (const View& view : transfer.views) parts.push_back(part_of(view, core, memory));
  if (is_empty(extents)) return;
  check_tile(extents);
  if (transfer.points.empty()) {
    transfer_box(parts, registers);
  } else {
    transfer_points(parts, registers, transfer.points);
  }
}

void receive_tile(const Receive& receive, std::span<const std::byte> published, Core& core) {
  const Coordinates extents = read_tile_extents(core, receive.extents);
  std::byte* tile = elements_of(core, receive.destination, extents);
  if (is_empty(extents)) return;
  check_tile(extents);
  const Part part{region_of(receive, published, core), false, {}, {}};
  const Coordinates origin(extents.size(), 0);
  BoxTransfer{false, tile, receive.destination.strides, extents, origin}.copy(part, origin,
                                                                              extents);
}

}  // namespace spyre::emulator::engine
