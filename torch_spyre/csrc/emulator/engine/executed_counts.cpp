#include "emulator/engine/executed_counts.h"

#include <algorithm>
#include <map>

#include "emulator/engine/box_copy.h"
#include "emulator/engine/high_water.h"
#include "emulator/engine/subscripts.h"

namespace spyre::emulator::engine {
namespace {

using Points = std::vector<std::vector<int64_t>>;

// Returns the values of the variables at every element of the tile. Empty if the list of points
// does not have the length of the tile, which the execution reports.
Points points_of(const IndirectTransfer& transfer, std::span<const int64_t> extents) {
  Points points;
  const int64_t count = count_of(extents);
  if (!transfer.points.empty()) {
    const auto num_listed = static_cast<int64_t>(transfer.points.size());
    if (count == 0 || num_listed % count != 0) return {};
    for (auto at = transfer.points.begin(); at != transfer.points.end(); at += num_listed / count) {
      points.emplace_back(at, at + num_listed / count);
    }
    return points;
  }
  std::vector<int64_t> point(extents.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    points.push_back(point);
    for (size_t d = point.size(); d-- > 0;) {
      if (++point[d] < extents[d]) break;
      point[d] = 0;
    }
  }
  return points;
}

// Returns the variables whose values decide which indices are read.
std::vector<size_t> variables_of_indices(const IndirectTransfer& transfer) {
  std::vector<bool> is_used(num_variables_used(transfer), false);
  for (const Subscript& subscript : transfer.subscripts) {
    if (!subscript.indirect) continue;
    for (const Expression& expression : subscript.expressions) {
      for (const Term& term : expression) {
        if (term.kind == TermKind::kVariable) is_used[static_cast<size_t>(term.value)] = true;
      }
    }
  }
  std::vector<size_t> variables;
  for (size_t v = 0; v < is_used.size(); ++v) {
    if (is_used[v]) variables.push_back(v);
  }
  return variables;
}

bool has_indices(const IndirectTransfer& transfer) {
  return std::ranges::any_of(transfer.subscripts, &Subscript::indirect);
}

}  // namespace

ExecutedCore::ExecutedCore(const Program& program, const Memory& memory, VectorLanes lanes,
                           FootprintTable& footprints, int64_t id)
    : id(id),
      counts(program.code.size()),
      transfers(program.code.size()),
      unshared_bytes(program.code.size(), 0),
      program_(program),
      memory_(memory),
      lanes_(lanes),
      footprints_(footprints) {}

void ExecutedCore::count(size_t instruction, const Core& core) {
  execution_ = {};
  placed_.clear();
  unshared_bytes_ = 0;
  const Action& action = program_.code[instruction].action;
  int64_t end = 0;
  try {
    std::visit([&](const auto& work) { count_work(instruction, core, work); }, action);
    end = scratchpad_end(action, core);
  } catch (const KernelError&) {
    return;  // the execution fails with the same error
  }
  scratchpad_high_water = std::max(scratchpad_high_water, end);
  if (execution_.executions == 0) return;
  for (const PlacedFootprint& placed : placed_) {
    transfers[instruction].push_back({counts[instruction].executions, placed});
  }
  counts[instruction].add(execution_, 1);
  unshared_bytes[instruction] += unshared_bytes_;
}

template <typename Work>
void ExecutedCore::count_work(size_t, const Core& core, const Work& work) {
  if constexpr (requires { work_of(work, core, lanes_); }) execution_ = work_of(work, core, lanes_);
}

void ExecutedCore::count_work(size_t, const Core& core, const Receive& receive) {
  execution_ = work_of(receive, core, lanes_);
  if (core.integer(receive.producer) == core.id) return;
  execution_.remote_bytes =
      count_of(extents_of(core, receive.extents)) * bytes_of(receive.destination.type);
}

// --- Views ---------------------------------------------------------------------------------------

void ExecutedCore::count_device(const PlacedFootprint& placed) {
  execution_.device_bytes += placed.num_sticks() * kBytesInStick;
  execution_.device_runs += placed.footprint->cost.runs;
}

void ExecutedCore::count_scratchpad(const View& view, const Core& core, int64_t points) {
  const int64_t bytes = points * bytes_of(view.type);
  execution_.scratchpad_bytes += bytes;
  if (view.core != kNoRegister && core.integer(view.core) != core.id) {
    execution_.remote_bytes += bytes;
  }
}

PlacedFootprint ExecutedCore::clipped(const Region& region, std::vector<ByteRange> ranges) {
  std::erase_if(ranges, [&](ByteRange& range) {
    range.end = std::min(range.end, region.bytes);
    range = {range.begin + region.address, range.end + region.address};
    return range.begin >= range.end;
  });
  return footprints_.find(std::move(ranges));
}

void ExecutedCore::count_work(size_t, const Core& core, const Transfer& transfer) {
  execution_.executions = 1;
  const std::vector<int64_t> extents = extents_of(core, transfer.extents);
  if (count_of(extents) == 0) return;
  execution_.scratchpad_bytes = operand_bytes(transfer.tile, extents);
  for (const View& view : transfer.views) {
    if (transfer.points.empty()) {
      count_box(transfer, view, core);
    } else {
      count_points(transfer, view, core);
    }
  }
}

void ExecutedCore::count_box(const Transfer& transfer, const View& view, const Core& core) {
  const Region region = memory_.region(view, core);
  ShortList<int64_t> first, extents;
  int64_t points = 1;
  for (size_t d = 0; d < transfer.extents.size(); ++d) {
    int64_t begin = core.integer(transfer.anchor[d]);
    int64_t end = begin + core.integer(transfer.extents[d]), origin = 0;
    if (!view.lower.empty()) {
      origin = core.integer(view.lower[d]);
      begin = std::max(begin, origin);
      end = std::min(end, origin + core.integer(view.extents[d]));
    }
    if (begin >= end) return;
    first.push_back(begin - origin);
    extents.push_back(end - begin);
    points *= end - begin;
  }
  if (view.space == Space::kScratchpad) return count_scratchpad(view, core, points);
  DeviceBox box(region.address + offset_of(region, first), region.element_bytes);
  for (size_t d = 0; d < extents.size(); ++d) box.add(extents[d], region.strides[d]);
  box.normalise();
  placed_.push_back(footprints_.find(box, {region.address, region.address + region.bytes}));
  count_device(placed_.back());
}

void ExecutedCore::count_points(const Transfer& transfer, const View& view, const Core& core) {
  const Region region = memory_.region(view, core);
  const size_t rank = transfer.anchor.size();
  std::vector<ByteRange> ranges;
  ShortList<int64_t> coordinates(rank, 0);
  for (size_t at = 0; at < transfer.points.size(); at += rank) {
    bool is_here = true;
    for (size_t d = 0; d < rank; ++d) {
      coordinates[d] = core.integer(transfer.anchor[d]) + transfer.points[at + d];
      if (view.lower.empty()) continue;
      coordinates[d] -= core.integer(view.lower[d]);
      is_here &= coordinates[d] >= 0 && coordinates[d] < core.integer(view.extents[d]);
    }
    if (!is_here) continue;
    const int64_t offset = offset_of(region, coordinates);
    ranges.push_back({offset, offset + region.element_bytes});
  }
  if (ranges.empty()) return;
  if (view.space == Space::kScratchpad) return count_scratchpad(view, core, std::ssize(ranges));
  placed_.push_back(clipped(region, std::move(ranges)));
  count_device(placed_.back());
}

// --- Indirect transfers --------------------------------------------------------------------------

void ExecutedCore::count_indices(const Subscript& subscript, const Core& core,
                                 const Points& points) {
  const View& view = subscript.index;
  if (view.space == Space::kScratchpad) {
    execution_.scratchpad_bytes += std::ssize(points) * bytes_of(view.type);
    return;
  }
  const Region region = memory_.region(view, core);
  std::vector<int64_t> position(subscript.expressions.size());
  std::vector<ByteRange> ranges;
  for (const std::vector<int64_t>& point : points) {
    for (size_t d = 0; d < position.size(); ++d) {
      position[d] = evaluate(subscript.expressions[d], core, point);
    }
    const int64_t offset = offset_of(region, position);
    const ByteRange range{offset, offset + region.element_bytes};
    const bool is_repeated = !ranges.empty() && ranges.back().begin == range.begin;
    if (!is_repeated) ranges.push_back(range);
  }
  const PlacedFootprint placed = clipped(region, std::move(ranges));
  execution_.index_bytes += placed.num_sticks() * kBytesInStick;
  execution_.index_runs += placed.footprint->cost.runs;
}

void ExecutedCore::count_work(size_t, const Core& core, const IndirectTransfer& transfer) {
  execution_.executions = 1;
  const std::vector<int64_t> extents = extents_of(core, transfer.variables);
  if (count_of(extents) == 0) return;
  const Points points = points_of(transfer, extents);
  execution_.scratchpad_bytes = operand_bytes(transfer.tile, extents);
  for (const Subscript& subscript : transfer.subscripts) {
    if (subscript.indirect) count_indices(subscript, core, points);
  }
  const View& view = transfer.view;
  if (view.space == Space::kScratchpad) return count_scratchpad(view, core, std::ssize(points));
  const Region region = memory_.region(view, core);
  const Subscripts subscripts(transfer, core, memory_);
  const std::vector<size_t> deciding = variables_of_indices(transfer);
  std::map<std::vector<int64_t>, std::vector<ByteRange>> rows;  // by the deciding variables
  std::vector<int64_t> coordinates(transfer.subscripts.size()), key(deciding.size());
  std::vector<ByteRange>* row = nullptr;
  for (const std::vector<int64_t>& point : points) {
    bool is_same_row = row != nullptr;
    for (size_t i = 0; i < deciding.size(); ++i) {
      is_same_row &= key[i] == point[deciding[i]];
      key[i] = point[deciding[i]];
    }
    if (!is_same_row) row = &rows[key];
    subscripts.coordinates(point, coordinates);
    const int64_t offset = offset_of(region, coordinates);
    if (!row->empty() && row->back().end == offset) {
      row->back().end += region.element_bytes;
    } else {
      row->push_back({offset, offset + region.element_bytes});
    }
  }
  for (auto& [values, ranges] : rows) {
    const PlacedFootprint placed = clipped(region, std::move(ranges));
    count_device(placed);
    // Data decides on the position of a row.
    if (has_indices(transfer)) {
      unshared_bytes_ += placed.num_sticks() * kBytesInStick;
    } else {
      placed_.push_back(placed);
    }
  }
}

// --- All cores -----------------------------------------------------------------------------------

ExecutedCore& ExecutedCounts::add_part(int64_t core) {
  const std::lock_guard lock(mutex_);
  return parts_.emplace_back(program_, memory_, lanes_, footprints_, core);
}

std::vector<InstructionCounts> ExecutedCounts::total() {
  std::vector<InstructionCounts> total(program_.code.size());
  for (size_t i = 0; i < total.size(); ++i) {
    std::map<int64_t, CoreCounts> by_core;
    for (const ExecutedCore& part : parts_) by_core[part.id].add(part.counts[i], 1);
    for (const auto& [core, counts] : by_core) {
      if (counts.executions > 0) add_core(total[i], counts);
    }
    add_shared(i, total[i]);
  }
  return total;
}

int64_t ExecutedCounts::scratchpad_high_water() const {
  int64_t bytes = 0;
  for (const ExecutedCore& part : parts_) bytes = std::max(bytes, part.scratchpad_high_water);
  return bytes;
}

void ExecutedCounts::add_shared(size_t instruction, InstructionCounts& all) const {
  // By execution, and by part if the parts are those of the only core.
  std::map<std::pair<int64_t, size_t>, std::vector<PlacedFootprint>> by_execution;
  std::vector<PlacedFootprint> transfers;
  for (size_t i = 0; i < parts_.size(); ++i) {
    all.distinct_device_bytes += parts_[i].unshared_bytes[instruction];
    for (const auto& [execution, placed] : parts_[i].transfers[instruction]) {
      by_execution[{execution, program_.cores() == 1 ? i : 0}].push_back(placed);
      transfers.push_back(placed);
    }
  }
  StickUnion sticks;
  all.unique_device_bytes = all.distinct_device_bytes + sticks.count(transfers) * kBytesInStick;
  for (auto& [execution, footprints] : by_execution) {
    all.distinct_device_bytes += sticks.count(footprints) * kBytesInStick;
  }
}

}  // namespace spyre::emulator::engine
