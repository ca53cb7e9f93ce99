// Prints an explanation when host code accesses a device address, before the process is terminated.
#pragma once

#include <cstddef>

namespace spyre::emulator {

void report_faults_in(const void* start, size_t bytes);
void stop_reporting_faults_in(const void* start);

}  // namespace spyre::emulator
