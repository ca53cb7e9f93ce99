// Compares the work that a launch executed with the work that the recorder counts for it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "emulator/engine/record.h"

namespace spyre::emulator::engine {

// The recordings of one program.
class CountCheck {
 public:
  // Throws KernelError, which names kernel, instruction, counter and both numbers, if the executed
  // counts are not those of the recorder: equal where the recording is exact, at most as large
  // where it is an upper bound (see Exactness). Estimates are not compared. `array_bytes` and
  // `scalars` are those of the launch. Thread-safe.
  void compare(const Program& program, std::span<const InstructionCounts> executed,
               const std::vector<int64_t>& array_bytes, const std::vector<uint64_t>& scalars,
               VectorLanes lanes);

 private:
  // The addresses of arrays follow from their sizes.
  struct Key {
    std::vector<int64_t> array_bytes;
    std::vector<uint64_t> scalars;

    auto operator<=>(const Key&) const = default;
  };
  std::mutex mutex_;
  std::map<Key, Recording> recordings_;
};

}  // namespace spyre::emulator::engine
