// Warnings that reach Python's `warnings` from wherever a program calls us.
#pragma once

#include <string>

namespace spyre {

// Warns the calling thread's program. Never from a stream's thread: it may wait for Python's lock.
void warn_caller(const std::string& message);

}  // namespace spyre
