// Trace output of the C++ code, enabled by TORCH_SPYRE_DEBUG.
#pragma once

#include <sstream>
#include <string>

namespace spyre {

void set_trace(bool enabled);
bool trace_enabled();
void write_trace(const std::string& line);

// Formats and writes a line if tracing is enabled.
template <typename... Parts>
void trace(const Parts&... parts) {
  if (!trace_enabled()) return;
  std::ostringstream line;
  (line << ... << parts);
  write_trace(line.str());
}

}  // namespace spyre
