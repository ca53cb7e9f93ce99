// The descriptor that a DMA engine executes: loop nests that copy and convert elements between two
// buffers. Its public name is DCI, "data conversion info".
#pragma once

#include <cstdint>
#include <vector>

#include "flex/data_format.h"

namespace spyre {

// One loop of a nest. Strides count elements of the respective side's format.
struct CopyLoop {
  int64_t size = 1;
  int64_t src_stride = 0;
  int64_t dst_stride = 0;
};

// For every index tuple of `loops` (innermost first):
//   dst[dst_offset + sum(i * dst_stride)] = convert(src[src_offset + sum(i * src_stride)])
struct CopyNest {
  std::vector<CopyLoop> loops;
  int64_t src_offset = 0;
  int64_t dst_offset = 0;
};

struct CopyDescriptor {
  DataFormat src_format = DataFormat::INVALID;
  DataFormat dst_format = DataFormat::INVALID;
  std::vector<CopyNest> nests;
};

// Conditions that a copy reports.
struct CopyOutcome {
  // The number of int64 values outside the range of the card's 32 bits; they were stored modulo
  // 2^32.
  uint64_t narrowed_out_of_range = 0;
};

}  // namespace spyre
