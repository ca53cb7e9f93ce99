#include "flex/trace.h"

#include <atomic>
#include <cstdio>

namespace spyre {

namespace {

std::atomic<bool> enabled_{false};

}  // namespace

void set_trace(bool enabled) { enabled_ = enabled; }

bool trace_enabled() { return enabled_.load(std::memory_order_relaxed); }

void write_trace(const std::string& line) {
  // One call per line, so that lines of several threads do not interleave.
  std::fputs(("[spyre] " + line + "\n").c_str(), stdout);
}

}  // namespace spyre
