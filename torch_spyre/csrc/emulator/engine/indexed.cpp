// Gathers and scatters inside the scratchpad. Rows of points with one index move at once; for
// other points, the indices of a block are read and checked at once.
#include "emulator/engine/indexed.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "emulator/engine/lanes.h"
#include "emulator/stop.h"

namespace spyre::emulator::engine {

namespace {

constexpr int64_t kBlock = 256;  // lanes that are converted at once
constexpr size_t kMaxLaneBytes = 8;

template <typename Integer>
void widen(const std::byte* from, int64_t stride, std::span<int64_t> to) {
  for (int64_t& value : to) {
    Integer element;
    std::memcpy(&element, from, sizeof element);
    value = element;
    from += stride * static_cast<int64_t>(sizeof element);
  }
}

void read_integers(ElementType type, const std::byte* from, int64_t stride, std::span<int64_t> to) {
  switch (type) {
    case ElementType::I8:
      return widen<int8_t>(from, stride, to);
    case ElementType::I16:
      return widen<int16_t>(from, stride, to);
    case ElementType::I32:
      return widen<int32_t>(from, stride, to);
    default:
      return widen<int64_t>(from, stride, to);
  }
}

template <size_t bytes>
void copy_strided(const std::byte* from, int64_t from_step, std::byte* to, int64_t to_step,
                  int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to, from, bytes);
    from += from_step;
    to += to_step;
  }
}

// Steps are in bytes.
void copy_elements(int64_t bytes, const std::byte* from, int64_t from_step, std::byte* to,
                   int64_t to_step, int64_t count) {
  if (from_step == bytes && to_step == bytes) {
    std::memmove(to, from, static_cast<size_t>(count * bytes));
    return;
  }
  switch (bytes) {
    case 1:
      return copy_strided<1>(from, from_step, to, to_step, count);
    case 2:
      return copy_strided<2>(from, from_step, to, to_step, count);
    case 4:
      return copy_strided<4>(from, from_step, to, to_step, count);
    default:
      return copy_strided<8>(from, from_step, to, to_step, count);
  }
}

// Combines elements of a table with lanes, and rounds the results to the table's type.
class Combiner {
 public:
  Combiner(const Operand& tile, const Operand& table, VectorOp op)
      : combine_(combine_lanes(combine_of(op).value(), table.type)),
        load_tile_(load_lanes(tile.type)),
        load_table_(load_lanes(table.type)),
        store_table_(store_lanes(table.type)),
        round_(round_lanes(table.type)),
        are_lanes_(table.type == ElementType::F32 || table.type == ElementType::I32 ||
                   table.type == ElementType::I64) {}

  void load(const std::byte* tile, int64_t stride, int64_t count) {
    load_tile_(tile, stride, values_.data(), count);
  }
  const std::byte* value(int64_t i, int64_t lane) const { return values_.data() + i * lane; }

  // Combines `count` elements of the table with values.
  void add(std::byte* table, int64_t stride, const std::byte* values, int64_t count) {
    if (are_lanes_ && (stride == 1 || count == 1)) {
      combine_(table, values, count);
      if (round_ != nullptr) round_(reinterpret_cast<float*>(table), count);
      return;
    }
    load_table_(table, stride, lanes_.data(), count);
    combine_(lanes_.data(), values, count);
    if (round_ != nullptr) round_(reinterpret_cast<float*>(lanes_.data()), count);
    store_table_(lanes_.data(), table, stride, count);
  }

 private:
  using Lanes = std::array<std::byte, kBlock * kMaxLaneBytes>;

  const CombineLanes combine_;
  const LoadLanes load_tile_, load_table_;
  const StoreLanes store_table_;
  const RoundLanes round_;
  const bool are_lanes_;  // elements in memory are lanes
  alignas(64) Lanes values_;
  alignas(64) Lanes lanes_;
};

class IndexedMove {
 public:
  IndexedMove(const Indexed& indexed, Core& core, std::span<const int64_t> extents)
      : indexed_(indexed), core_(core), extents_(extents), rank_(extents.size()) {
    const IndexedTable table(indexed, core, extents);
    first_ = core.integer(indexed.first);
    length_ = table.extents.back();
    size_ = core.integer(indexed.size);
    index_ = elements_of(core, indexed.index, extents);
    tile_ = elements_of(core, indexed.tile, extents);
    if (length_ > 0) table_ = elements_of(core, table.operand, table.extents);
  }

  void run() {
    const Row row = row_of_innermost();
    std::array<int64_t, kMaxRank> point{};
    point_ = {point.data(), rank_};
    while (true) {
      poll_();
      if (row.index == 0) {
        move_row(row);
      } else {
        move_points(row);
      }
      if (!advance()) return;
    }
  }

 private:
  // The innermost dimension: its extent, and strides in elements.
  struct Row {
    int64_t extent, index, tile, table;
  };

  Row row_of_innermost() const {
    if (rank_ == 0) return {1, 0, 1, 1};
    const size_t d = rank_ - 1;
    const bool is_moving = extents_[d] > 1;
    return {extents_[d], is_moving ? indexed_.index.strides[d] : 0, indexed_.tile.strides[d],
            indexed_.table.strides[d]};
  }

  // Moves to the next row; false after the last one.
  bool advance() {
    if (rank_ < 2) return false;
    for (size_t d = rank_ - 1; d-- > 0;) {
      move_bases(d, 1);
      if (++point_[d] < extents_[d]) return true;
      move_bases(d, -point_[d]);
      point_[d] = 0;
    }
    return false;
  }

  void move_bases(size_t d, int64_t count) {
    index_ += count * indexed_.index.strides[d] * bytes_of(indexed_.index.type);
    tile_ += count * indexed_.tile.strides[d] * tile_bytes();
    table_ += count * indexed_.table.strides[d] * table_bytes();
  }

  int64_t tile_bytes() const { return bytes_of(indexed_.tile.type); }
  int64_t table_bytes() const { return bytes_of(indexed_.table.type); }

  // Returns the table's elements at an index, which is checked; nullptr if there are none.
  std::byte* selected(int64_t index, int64_t column) const {
    if (index < 0 || index >= size_) fail(index, column);
    int64_t distance = 0;
    const bool overflows = __builtin_sub_overflow(index, first_, &distance);
    if (overflows || distance < 0 || distance >= length_) return nullptr;
    return table_ + distance * indexed_.step * table_bytes();
  }

  [[noreturn]] void fail(int64_t index, int64_t column) const {
    std::vector<int64_t> position;
    for (size_t d = 0; d < rank_; ++d) {
      const int64_t at = d + 1 == rank_ ? column : point_[d];
      int64_t coordinate = 0;
      if (__builtin_add_overflow(core_.integer(indexed_.origin[d]), at, &coordinate))
        coordinate = -1;
      position.push_back(coordinate);
    }
    throw KernelIndexError(
        "index " + std::to_string(index) + " is out of range of size " + std::to_string(size_),
        flex::InvalidIndex{.value = index,
                           .size = size_,
                           .dimension = flex::InvalidIndex::kInScratchpad,
                           .position = std::move(position)});
  }

  // Moves a row whose points have one index.
  void move_row(const Row& row) {
    int64_t index = 0;
    read_integers(indexed_.index.type, index_, 0, {&index, 1});
    std::byte* const table = selected(index, 0);
    if (table == nullptr) return;
    if (!indexed_.combine) {
      const int64_t bytes = tile_bytes();
      const int64_t tile_step = row.tile * bytes, table_step = row.table * bytes;
      if (indexed_.scatter)
        return copy_elements(bytes, tile_, tile_step, table, table_step, row.extent);
      return copy_elements(bytes, table, table_step, tile_, tile_step, row.extent);
    }
    Combiner& combiner = this->combiner();
    // Elements of stride 0 are one, which is combined with one value after the other.
    const int64_t width = row.table == 0 ? 1 : kBlock;
    for (int64_t at = 0; at < row.extent; at += width) {
      const int64_t count = std::min(width, row.extent - at);
      combiner.load(tile_ + at * row.tile * tile_bytes(), row.tile, count);
      combiner.add(table + at * row.table * table_bytes(), row.table, combiner.value(0, 1), count);
    }
  }

  void move_points(const Row& row) {
    std::array<int64_t, kBlock> indices;
    const int64_t index_step = row.index * bytes_of(indexed_.index.type);
    for (int64_t at = 0; at < row.extent; at += kBlock) {
      if (at > 0) poll_();
      const int64_t count = std::min(kBlock, row.extent - at);
      const std::span<int64_t> block(indices.data(), static_cast<size_t>(count));
      read_integers(indexed_.index.type, index_ + at * index_step, row.index, block);
      if (indexed_.combine) {
        combine_points(row, block, at);
      } else {
        copy_points(row, block, at);
      }
    }
  }

  void copy_points(const Row& row, std::span<const int64_t> indices, int64_t at) {
    switch (tile_bytes()) {
      case 1:
        return copy_points_of<1>(row, indices, at);
      case 2:
        return copy_points_of<2>(row, indices, at);
      case 4:
        return copy_points_of<4>(row, indices, at);
      default:
        return copy_points_of<8>(row, indices, at);
    }
  }

  template <int64_t bytes>
  void copy_points_of(const Row& row, std::span<const int64_t> indices, int64_t at) {
    std::byte* tile = tile_ + at * row.tile * bytes;
    int64_t column = at;
    for (const int64_t index : indices) {
      if (std::byte* table = selected(index, column)) {
        table += column * row.table * bytes;
        std::memcpy(indexed_.scatter ? table : tile, indexed_.scatter ? tile : table, bytes);
      }
      tile += row.tile * bytes;
      ++column;
    }
  }

  void combine_points(const Row& row, std::span<const int64_t> indices, int64_t at) {
    Combiner& combiner = this->combiner();
    const int64_t lane = lane_bytes(indexed_.table.type);
    const auto count = static_cast<int64_t>(indices.size());
    combiner.load(tile_ + at * row.tile * tile_bytes(), row.tile, count);
    for (int64_t i = 0; i < count; ++i) {
      std::byte* table = selected(indices[static_cast<size_t>(i)], at + i);
      if (table == nullptr) continue;
      table += (at + i) * row.table * table_bytes();
      combiner.add(table, 1, combiner.value(i, lane), 1);
    }
  }

  Combiner& combiner() {
    if (!combiner_) combiner_.emplace(indexed_.tile, indexed_.table, *indexed_.combine);
    return *combiner_;
  }

  const Indexed& indexed_;
  const Core& core_;
  const std::span<const int64_t> extents_;
  const size_t rank_;
  int64_t first_ = 0, length_ = 0, size_ = 0;
  std::byte *index_ = nullptr, *tile_ = nullptr, *table_ = nullptr;
  std::span<int64_t> point_;
  std::optional<Combiner> combiner_;
  StopPoll poll_;
};

}  // namespace

IndexedTable::IndexedTable(const Indexed& indexed, const Core& core,
                           std::span<const int64_t> points)
    : operand(indexed.table), extents(points.begin(), points.end()) {
  operand.strides.push_back(indexed.step);
  extents.push_back(std::max<int64_t>(0, core.integer(indexed.length)));
}

void execute(const Indexed& indexed, Core& core) {
  thread_local std::vector<int64_t> extents;
  read_extents(core, indexed.extents, extents);
  if (count_of(extents) == 0) return;
  IndexedMove(indexed, core, extents).run();
}

}  // namespace spyre::emulator::engine
