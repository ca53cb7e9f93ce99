// Says what happened when host code touches a device address, before the process ends.
#pragma once

#include <cstddef>

namespace spyre::emulator {

void report_faults_in(const void* start, size_t bytes);
void forget_faults_in(const void* start);

}  // namespace spyre::emulator
