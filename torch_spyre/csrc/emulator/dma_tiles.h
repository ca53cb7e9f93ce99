// The inner loops of a copy: how the emulated DMA copies one tile of two loops of a nest.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/convert.h"
#include "flex/copy_descriptor.h"

namespace spyre::emulator {

struct Panel;
// Copies `rows` x `columns` elements and returns how many were out of range of the destination.
using TileFunction = uint64_t (*)(const Panel& panel, const std::byte* src, std::byte* dst,
                                  int64_t rows, int64_t columns);

// The two loops of a nest that determine the access pattern, in tiles of at most `tile_rows` x
// `tile_columns`. Strides are in bytes.
struct Panel {
  const ConversionKernel* kernel;
  CopyLoop row;
  CopyLoop column;
  TileFunction run_tile;
  int64_t tile_rows;
  int64_t tile_columns;
};

// `column` is the destination's fastest loop. `row` is the source's fastest loop if that is
// another one, else any other loop.
Panel plan_panel(const ConversionKernel& kernel, const CopyLoop& row, const CopyLoop& column);

// Converts single elements between listed element offsets; returns the same count as a tile
// function.
uint64_t convert_listed(const ConversionKernel& kernel, const std::byte* src, std::byte* dst,
                        const int64_t* src_offsets, const int64_t* dst_offsets, int64_t count);

}  // namespace spyre::emulator
