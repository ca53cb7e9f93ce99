#include "emulator/dma_tiles.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace spyre::emulator {
namespace {

// Bytes of a tile in its wider format: the size of a first-level cache.
constexpr int64_t kTileBytes = 32 << 10;
// Measured: transposing 16-bit elements is slower with fewer elements along both sides.
constexpr int64_t kTransposedSide = 128;
// Rows of fewer elements are converted together.
constexpr int64_t kWideRow = 64;

struct alignas(64) TileBuffer {
  std::byte bytes[kTileBytes];
};

// Calls `action` with a value of an unsigned type of that many bytes.
template <typename Action>
void with_element_type(int bytes, Action action) {
  switch (bytes) {
    case 1:
      return action(uint8_t{});
    case 2:
      return action(uint16_t{});
    case 4:
      return action(uint32_t{});
    default:
      return action(uint64_t{});
  }
}

struct Strides {
  int64_t row;
  int64_t column;
};

void move_elements(int bytes, const std::byte* src, Strides from, std::byte* dst, Strides to,
                   int64_t rows, int64_t columns) {
  with_element_type(bytes, [&](auto element) {
    for (int64_t row = 0; row < rows; ++row) {
      const std::byte* src_row = src + row * from.row;
      std::byte* dst_row = dst + row * to.row;
      for (int64_t column = 0; column < columns; ++column) {
        std::memcpy(dst_row + column * to.column, src_row + column * from.column, sizeof(element));
      }
    }
  });
}

void fill(int bytes, const std::byte* value, std::byte* dst, int64_t stride, int64_t count) {
  with_element_type(bytes, [&](auto element) {
    constexpr int64_t kSize = sizeof(element);
    std::memcpy(&element, value, kSize);
    if (stride == kSize) {  // Separate branch, so that it vectorises.
      for (int64_t i = 0; i < count; ++i) std::memcpy(dst + i * kSize, &element, kSize);
    } else {
      for (int64_t i = 0; i < count; ++i) std::memcpy(dst + i * stride, &element, kSize);
    }
  });
}

// Rows of columns: a side whose columns are contiguous is accessed directly, the other one through
// a contiguous buffer.
uint64_t run_rows(const Panel& panel, const std::byte* src, std::byte* dst, int64_t rows,
                  int64_t columns) {
  const int src_bytes = panel.kernel->src_bytes;
  const int dst_bytes = panel.kernel->dst_bytes;
  RowBlock block{.src = src,
                 .dst = dst,
                 .rows = rows,
                 .width = columns,
                 .src_pitch = panel.row.src_stride,
                 .dst_pitch = panel.row.dst_stride};
  TileBuffer gathered;
  TileBuffer converted;
  const bool is_gathered = panel.column.src_stride != src_bytes;
  const bool is_dense = panel.column.dst_stride == dst_bytes;
  if (is_gathered) {
    block.src = gathered.bytes;
    block.src_pitch = columns * src_bytes;
    move_elements(src_bytes, src, {panel.row.src_stride, panel.column.src_stride}, gathered.bytes,
                  {block.src_pitch, src_bytes}, rows, columns);
  }
  if (is_dense && (!is_gathered || columns >= kWideRow)) return panel.kernel->convert(block);
  block.dst = converted.bytes;
  block.dst_pitch = columns * dst_bytes;
  if (is_gathered) {
    // Contiguous in both buffers: convert as one row, because short rows would not fill vectors.
    block.rows = 1;
    block.width = rows * columns;
  }
  const uint64_t num_out_of_range = panel.kernel->convert(block);
  if (is_dense) {
    for (int64_t row = 0; row < rows; ++row) {
      std::memcpy(dst + row * panel.row.dst_stride, converted.bytes + row * columns * dst_bytes,
                  static_cast<size_t>(columns * dst_bytes));
    }
    return num_out_of_range;
  }
  move_elements(dst_bytes, converted.bytes, {columns * dst_bytes, dst_bytes}, dst,
                {panel.row.dst_stride, panel.column.dst_stride}, rows, columns);
  return num_out_of_range;
}

// The columns of a row all receive the same source element.
uint64_t run_fill(const Panel& panel, const std::byte* src, std::byte* dst, int64_t rows,
                  int64_t columns) {
  const int src_bytes = panel.kernel->src_bytes;
  const int dst_bytes = panel.kernel->dst_bytes;
  TileBuffer gathered;
  TileBuffer converted;
  move_elements(src_bytes, src, {0, panel.row.src_stride}, gathered.bytes, {0, src_bytes}, 1, rows);
  const uint64_t num_out_of_range = panel.kernel->convert({.src = gathered.bytes,
                                                           .dst = converted.bytes,
                                                           .rows = 1,
                                                           .width = rows,
                                                           .src_pitch = 0,
                                                           .dst_pitch = 0});
  for (int64_t row = 0; row < rows; ++row) {
    fill(dst_bytes, converted.bytes + row * dst_bytes, dst + row * panel.row.dst_stride,
         panel.column.dst_stride, columns);
  }
  return num_out_of_range * static_cast<uint64_t>(columns);
}

// The source is contiguous along rows, the destination along columns: read and convert in source
// order, transpose the tile in a buffer, write in destination order.
uint64_t run_transposed(const Panel& panel, const std::byte* src, std::byte* dst, int64_t rows,
                        int64_t columns) {
  const int src_bytes = panel.kernel->src_bytes;
  const int dst_bytes = panel.kernel->dst_bytes;
  TileBuffer gathered;
  TileBuffer converted;
  RowBlock load{.src = src,
                .dst = converted.bytes,
                .rows = columns,
                .width = rows,
                .src_pitch = panel.column.src_stride,
                .dst_pitch = rows * dst_bytes};
  if (panel.row.src_stride != src_bytes) {
    load.src = gathered.bytes;
    load.src_pitch = rows * src_bytes;
    move_elements(src_bytes, src, {panel.column.src_stride, panel.row.src_stride}, gathered.bytes,
                  {load.src_pitch, src_bytes}, columns, rows);
  }
  const uint64_t num_out_of_range = panel.kernel->convert(load);
  if (panel.column.dst_stride == dst_bytes) {
    const size_t size_index =
        static_cast<size_t>(std::countr_zero(static_cast<unsigned>(dst_bytes)));
    active_kernels().transposes[size_index]({.src = converted.bytes,
                                             .dst = dst,
                                             .rows = columns,
                                             .width = rows,
                                             .src_pitch = load.dst_pitch,
                                             .dst_pitch = panel.row.dst_stride});
  } else {
    move_elements(dst_bytes, converted.bytes, {dst_bytes, load.dst_pitch}, dst,
                  {panel.row.dst_stride, panel.column.dst_stride}, rows, columns);
  }
  return num_out_of_range;
}

int64_t elements_per_tile(const ConversionKernel& kernel) {
  return kTileBytes / std::max(kernel.src_bytes, kernel.dst_bytes);
}

}  // namespace

Panel plan_panel(const ConversionKernel& kernel, const CopyLoop& row, const CopyLoop& column) {
  const bool transposed = row.src_stride > 0 && row.src_stride < column.src_stride;
  const int64_t elements = elements_per_tile(kernel);
  const int64_t min_rows = transposed ? std::min(row.size, kTransposedSide) : 1;
  const int64_t tile_columns = std::min(column.size, elements / min_rows);
  return {.kernel = &kernel,
          .row = row,
          .column = column,
          .run_tile = column.src_stride == 0 ? run_fill
                      : transposed           ? run_transposed
                                             : run_rows,
          .tile_rows = std::min(row.size, elements / tile_columns),
          .tile_columns = tile_columns};
}

uint64_t convert_listed(const ConversionKernel& kernel, const std::byte* src, std::byte* dst,
                        const int64_t* src_offsets, const int64_t* dst_offsets, int64_t count) {
  TileBuffer gathered;
  TileBuffer converted;
  uint64_t num_out_of_range = 0;
  const int64_t batch_size = elements_per_tile(kernel);
  for (int64_t first = 0; first < count; first += batch_size) {
    const int64_t batch = std::min(batch_size, count - first);
    with_element_type(kernel.src_bytes, [&](auto element) {
      constexpr int64_t kSize = sizeof(element);
      for (int64_t i = 0; i < batch; ++i) {
        std::memcpy(gathered.bytes + i * kSize, src + src_offsets[first + i] * kSize, kSize);
      }
    });
    num_out_of_range += kernel.convert({.src = gathered.bytes,
                                        .dst = converted.bytes,
                                        .rows = 1,
                                        .width = batch,
                                        .src_pitch = 0,
                                        .dst_pitch = 0});
    with_element_type(kernel.dst_bytes, [&](auto element) {
      constexpr int64_t kSize = sizeof(element);
      for (int64_t i = 0; i < batch; ++i) {
        std::memcpy(dst + dst_offsets[first + i] * kSize, converted.bytes + i * kSize, kSize);
      }
    });
  }
  return num_out_of_range;
}

}  // namespace spyre::emulator
