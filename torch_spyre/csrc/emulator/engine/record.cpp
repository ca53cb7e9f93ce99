#include "emulator/engine/record.h"

#include <algorithm>
#include <limits>
#include <string>

#include "emulator/engine/recorder.h"

namespace spyre::emulator::engine {
namespace {

constexpr int64_t kFirstArray = 0x10000;
// Address space reserved for an array of unknown size.
constexpr int64_t kUnboundedBytes = int64_t{1} << 44;

int64_t round_up_to_sticks(int64_t bytes) {
  return (bytes + kBytesInStick - 1) / kBytesInStick * kBytesInStick;
}

int64_t reserved_bytes(int64_t bytes) {
  return bytes < 0 ? kUnboundedBytes : round_up_to_sticks(std::max<int64_t>(bytes, 1));
}

}  // namespace

std::vector<ArrayLocation> locate_arrays(const Program& program, std::span<const int64_t> bytes) {
  int64_t end = kFirstArray;
  for (const int64_t size : bytes) {
    if (size > kUnboundedBytes) {
      throw KernelError("an array of " + std::to_string(size) + " bytes fits no memory");
    }
    end += reserved_bytes(size);
  }
  bool overlaps = false;
  int64_t after_fixed = kFirstArray;
  for (const FixedBuffer& buffer : program.fixed_buffers) {
    const int64_t buffer_end = buffer.address + buffer.bytes;
    after_fixed = std::max(after_fixed, round_up_to_sticks(buffer_end));
    overlaps |= buffer.address < end && buffer_end > kFirstArray;
  }
  int64_t next = overlaps ? after_fixed : kFirstArray;
  std::vector<ArrayLocation> locations;
  for (const int64_t size : bytes) {
    locations.push_back({next, size});
    next += reserved_bytes(size);
  }
  return locations;
}

Recording record(const Program& program, std::span<const ArrayLocation> arrays,
                 std::span<const uint64_t> scalars, VectorLanes lanes,
                 const CoreVisitor& visit_core) {
  const auto is_array = [](const Argument& argument) { return argument.is_array; };
  const auto expected = std::count_if(program.arguments.begin(), program.arguments.end(), is_array);
  if (static_cast<size_t>(expected) != arrays.size() ||
      program.arguments.size() != arrays.size() + scalars.size()) {
    throw KernelError("kernel " + program.name + " takes " + std::to_string(expected) +
                      " arrays and " +
                      std::to_string(program.arguments.size() - static_cast<size_t>(expected)) +
                      " scalars, and was given " + std::to_string(arrays.size()) + " and " +
                      std::to_string(scalars.size()));
  }
  const DefaultFloatingPoint settings;
  std::vector<LoopFacts> loops = loop_facts(program);
  while (true) {
    try {
      return Recorder(program, arrays, scalars, lanes, loops).record(visit_core);
    } catch (const NonUniformLoop& error) {
      loops[error.loop].is_uniform = false;
    }
  }
}

}  // namespace spyre::emulator::engine
