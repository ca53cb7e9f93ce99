// Warnings that reach Python's `warnings` module from all entry points.
#pragma once

#include <string>

namespace spyre {

// Issues a warning. Must not be called from a stream's thread, because it may wait for the GIL.
void warn_caller(const std::string& message);

}  // namespace spyre
