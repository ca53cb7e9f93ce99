// Keeps the emulated card from filling the host's memory, which would end the process.
#pragma once

#include <cstddef>

namespace spyre::emulator {

// Throws flex::OutOfHostMemory if writing [start, start + bytes) would need more pages than the
// host has left. Pages that are there already need nothing.
void check_host_memory(const void* start, size_t bytes);

// What the host can still give, in bytes: of the machine, and of the process's control group.
size_t available_host_memory();

}  // namespace spyre::emulator
