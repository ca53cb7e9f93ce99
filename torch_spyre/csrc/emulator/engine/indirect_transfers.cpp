// Gathers and scatters. The offsets of a row of points are computed at once where that is possible,
// else those of each point.
#include <algorithm>
#include <cstring>
#include <string>

#include "emulator/engine/box_copy.h"
#include "emulator/engine/row_offsets.h"
#include "emulator/engine/subscripts.h"
#include "emulator/engine/transfers.h"
#include "emulator/stop.h"

namespace spyre::emulator::engine {

namespace {

constexpr size_t kStickBytes = 128;

class IndirectCopy {
 public:
  IndirectCopy(const IndirectTransfer& transfer, Core& core, const Memory& memory)
      : transfer_(transfer),
        core_(core),
        memory_(memory),
        extents_(extents_of(core, transfer.variables)),
        region_(memory.region(transfer.view, core)),
        subscripts_(transfer, core, memory),
        coordinates_(transfer.subscripts.size(), 0),
        tile_(elements_of(core, transfer.tile, extents_)),
        empty_(std::ranges::find(extents_, 0) != extents_.end()) {
    if (empty_) return;
    check_tile(extents_);
    variables_.assign(transfer.points.empty() ? extents_.size() : point_rank(), 0);
    for (size_t d = 0; d < extents_.size(); ++d) {
      // The stride of a dimension of extent 1 is not used and may have any value.
      tile_strides_.push_back(extents_[d] > 1 ? transfer.tile.strides[d] * region_.element_bytes
                                              : 0);
    }
  }

  void run() {
    if (empty_) return;
    if (!transfer_.points.empty()) return copy_points();
    copy_rows();
  }

 private:
  // Returns the number of variables of each listed point.
  size_t point_rank() const {
    const auto count = static_cast<size_t>(extents_[0]);
    const size_t rank = transfer_.points.size() / count;
    if (transfer_.points.size() % count != 0 || rank < num_variables_used(transfer_)) {
      throw KernelError("a tile of " + std::to_string(count) + " elements has a list of " +
                        std::to_string(transfer_.points.size()) + " variables");
    }
    return rank;
  }

  void copy_point(std::byte* tile) {
    subscripts_.coordinates(variables_, coordinates_);
    copy_element(region_, offset_of(region_, coordinates_), tile, transfer_.store);
  }

  void copy_points() {
    auto point = transfer_.points.begin();
    for (int64_t i = 0; i < extents_[0]; ++i) {
      for (int64_t& variable : variables_) variable = *point++;
      copy_point(tile_ + i * tile_strides_[0]);
    }
  }

  // Copies rows along the last variable with more than one value, in parts.
  void copy_rows() {
    const auto varied_end =
        std::find_if(extents_.rbegin(), extents_.rend(), [](int64_t extent) { return extent > 1; });
    const auto rank = static_cast<size_t>(extents_.rend() - varied_end);
    if (rank == 0) return copy_point(tile_);
    const size_t varied = rank - 1;
    const bool is_bulk = !reads_what_it_stores(transfer_, core_, memory_, region_);
    RowOffsets row(transfer_, core_, memory_, region_, subscripts_, varied);
    do {
      for (int64_t begin = 0; begin < extents_[varied]; begin += RowOffsets::kMaxPoints) {
        poll_();
        variables_[varied] = begin;
        const int64_t count = std::min(extents_[varied] - begin, RowOffsets::kMaxPoints);
        if (is_bulk && row.compute(variables_, count)) {
          copy_row(row, tile_strides_[varied]);
        } else {
          copy_points_of_row(varied, count);
        }
      }
      variables_[varied] = 0;
    } while (next_point(varied));
  }

  void copy_points_of_row(size_t varied, int64_t count) {
    const int64_t end = variables_[varied] + count;
    for (; variables_[varied] < end; ++variables_[varied]) {
      copy_point(tile_at(variables_));
      poll_();
    }
  }

  void copy_row(const RowOffsets& row, int64_t tile_stride) const {
    std::byte* memory = region_.data + row.base();
    std::byte* tile = tile_at(variables_);
    // Long runs are copied whole.
    const auto count = static_cast<int64_t>(row.offsets().size());
    const bool has_runs = tile_stride == region_.element_bytes && !row.runs().empty() &&
                          count >= 4 * static_cast<int64_t>(row.runs().size());
    if (has_runs) {
      for (const ContiguousRun& run : row.runs()) {
        copy_bytes(memory + run.offset, tile + run.begin * tile_stride,
                   static_cast<size_t>(run.count * region_.element_bytes));
      }
      return;
    }
    switch (region_.element_bytes) {
      case 1:
        return copy_elements<1>(row.offsets(), memory, tile, tile_stride);
      case 2:
        return copy_elements<2>(row.offsets(), memory, tile, tile_stride);
      case 4:
        return copy_elements<4>(row.offsets(), memory, tile, tile_stride);
      default:
        return copy_elements<8>(row.offsets(), memory, tile, tile_stride);
    }
  }

  void copy_bytes(std::byte* memory, std::byte* tile, size_t bytes) const {
    std::byte* to = transfer_.store ? memory : tile;
    const std::byte* from = transfer_.store ? tile : memory;
    // A constant size saves the call: most runs are a stick.
    if (bytes == kStickBytes) {
      std::memcpy(to, from, kStickBytes);
    } else {
      std::memcpy(to, from, bytes);
    }
  }

  template <size_t bytes>
  void copy_elements(std::span<const int64_t> offsets, std::byte* memory, std::byte* tile,
                     int64_t tile_stride) const {
    if (transfer_.store) {
      for (int64_t offset : offsets) {
        std::memcpy(memory + offset, tile, bytes);
        tile += tile_stride;
      }
    } else {
      for (int64_t offset : offsets) {
        std::memcpy(tile, memory + offset, bytes);
        tile += tile_stride;
      }
    }
  }

  std::byte* tile_at(const std::vector<int64_t>& point) const {
    std::byte* tile = tile_;
    for (size_t d = 0; d < point.size(); ++d) tile += point[d] * tile_strides_[d];
    return tile;
  }

  // Advances the first `count` variables, the last of them fastest; false after the last point.
  bool next_point(size_t count) {
    poll_();
    for (size_t d = count; d-- > 0;) {
      if (++variables_[d] < extents_[d]) return true;
      variables_[d] = 0;
    }
    return false;
  }

  const IndirectTransfer& transfer_;
  const Core& core_;
  const Memory& memory_;
  const std::vector<int64_t> extents_;  // of the variable space, or the length of the list
  const Region region_;
  const Subscripts subscripts_;
  std::vector<int64_t> variables_, coordinates_, tile_strides_;
  std::byte* const tile_;
  const bool empty_;
  StopPoll poll_;
};

}  // namespace

void execute(const IndirectTransfer& transfer, Core& core, const Memory& memory) {
  IndirectCopy(transfer, core, memory).run();
}

}  // namespace spyre::emulator::engine
