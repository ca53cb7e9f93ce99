// Gathers and scatters: the coordinates of each element of the tile are computed separately.
#include <algorithm>
#include <cstring>
#include <string>

#include "emulator/engine/box_copy.h"
#include "emulator/engine/subscripts.h"
#include "emulator/engine/transfers.h"
#include "emulator/stop.h"

namespace spyre::emulator::engine {

namespace {

class IndirectCopy {
 public:
  IndirectCopy(const IndirectTransfer& transfer, Core& core, const Memory& memory)
      : transfer_(transfer),
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
    const auto run = subscripts_.last_variable_run();
    if (run) return copy_runs(*run);
    do {
      copy_point(tile_at(variables_));
    } while (next_point(variables_.size()));
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

  // Copies the whole range of the last variable as one run.
  void copy_runs(const Subscripts::Run& run) {
    const int64_t count = extents_.back();
    int64_t memory_stride = 0, reach = 0;
    if (count > 1 &&
        (__builtin_mul_overflow(run.step, region_.strides[run.dimension], &memory_stride) ||
         __builtin_mul_overflow(run.step, count - 1, &reach))) {
      throw KernelError("a coordinate overflows");
    }
    do {
      subscripts_.coordinates(variables_, coordinates_);
      int64_t last = 0;
      if (__builtin_add_overflow(coordinates_[run.dimension], reach, &last)) {
        throw KernelError("a coordinate overflows");
      }
      // Coordinates are monotonic, so checking both ends is enough.
      subscripts_.check_coordinate(run.dimension, last);
      copy_run({count, memory_stride, tile_strides_.back()});
    } while (next_point(variables_.size() - 1));
  }

  void copy_run(const BoxDimension& dimension) {
    const int64_t offset = offset_of(region_, coordinates_);
    std::byte* tile = tile_at(variables_);
    const int64_t bytes = dimension.extent * region_.element_bytes;
    const bool dense = dimension.memory_stride == region_.element_bytes &&
                       dimension.tile_stride == region_.element_bytes;
    if (!dense || offset + bytes > region_.bytes) {
      return copy_box(region_,
                      {ShortList<BoxDimension>(1, dimension), tile, offset, transfer_.store});
    }
    std::byte* memory = region_.data + offset;
    std::memcpy(transfer_.store ? memory : tile, transfer_.store ? tile : memory,
                static_cast<size_t>(bytes));
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
