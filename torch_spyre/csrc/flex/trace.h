// TORCH_SPYRE_DEBUG: trace lines of the C++ side.
#pragma once

#include <sstream>
#include <string>

namespace spyre {

void set_trace(bool enabled);
bool trace_enabled();
void write_trace(const std::string& line);

// Builds the line only if somebody wants it.
template <typename... Parts>
void trace(const Parts&... parts) {
  if (!trace_enabled()) return;
  std::ostringstream line;
  (line << ... << parts);
  write_trace(line.str());
}

}  // namespace spyre
