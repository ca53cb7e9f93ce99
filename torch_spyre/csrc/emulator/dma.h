// Copy-and-convert loops of the emulated DMA engine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "flex/copy_descriptor.h"

namespace spyre::emulator {

// Returns whether a copy can convert elements of `src` to elements of `dst`.
bool can_convert(DataFormat src, DataFormat dst);

// Runs every nest. `src` and `dst` must not overlap. Large copies use the thread pool; the
// result does not depend on the number of threads. Throws std::invalid_argument for a pair of
// formats that can_convert() rejects.
CopyOutcome execute_copy(const CopyDescriptor& descriptor, const void* src, void* dst);

// Copies `count` single elements between listed element offsets, for the rare views that
// cannot be described by a few nests. No destination offset may appear twice.
CopyOutcome copy_elements(DataFormat src_format, DataFormat dst_format, const void* src, void* dst,
                          const int64_t* src_offsets, const int64_t* dst_offsets, size_t count);

}  // namespace spyre::emulator
