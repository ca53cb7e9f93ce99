// Transfers of tiles between memory and scratchpads.
#pragma once

#include "emulator/engine/core.h"
#include "emulator/engine/memory.h"

namespace spyre::emulator::engine {

// Throws KernelError for a tile that no scratchpad could hold, repeated elements included.
void check_tile(std::span<const int64_t> extents);

// Both throw KernelError; a bad index in an indirect access is a KernelIndexError.
void execute(const Transfer& transfer, Core& core, const Memory& memory);
void execute(const IndirectTransfer& transfer, Core& core, const Memory& memory);

// Copies the slice of a published tile that the instruction describes. Throws KernelError.
void receive_tile(const Receive& receive, std::span<const std::byte> published, Core& core);

}  // namespace spyre::emulator::engine
