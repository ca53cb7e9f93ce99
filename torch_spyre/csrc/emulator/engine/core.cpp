#include "emulator/engine/core.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

namespace spyre::emulator::engine {
namespace {

// Iteration spaces may have more points than the scratchpad has elements (broadcasts access
// elements repeatedly), but their flat positions must not overflow.
constexpr int64_t kMaxSpace = int64_t{1} << 40;

}  // namespace

void read_extents(const Core& core, std::span<const Register> extents, std::vector<int64_t>& out) {
  if (extents.size() > kMaxRank) {
    throw KernelError("an instruction has " + std::to_string(extents.size()) +
                      " dimensions, more than " + std::to_string(kMaxRank));
  }
  out.resize(extents.size());
  int64_t product = 1;
  for (size_t i = 0; i < extents.size(); ++i) {
    const int64_t extent = core.integer(extents[i]);
    if (extent < 0) {
      throw KernelError("dimension " + std::to_string(i) + " has the negative extent " +
                        std::to_string(extent));
    }
    out[i] = extent;
    // An empty dimension must not hide an overflow of the others.
    const int64_t factor = std::max<int64_t>(extent, 1);
    if (__builtin_mul_overflow(product, factor, &product) || product > kMaxSpace) {
      throw KernelError("an instruction's iteration space has more than 2^40 points");
    }
  }
}

std::vector<int64_t> extents_of(const Core& core, std::span<const Register> extents) {
  std::vector<int64_t> values;
  read_extents(core, extents, values);
  return values;
}

int64_t count_of(std::span<const int64_t> extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

std::byte* elements_of(const Core& core, const Operand& operand, std::span<const int64_t> extents) {
  // 128 bits hold any offset and any sum of products of extents (40 bits) and strides.
  const __int128 first = operand.offset == kNoRegister ? 0 : core.integer(operand.offset);
  __int128 lowest = first;
  __int128 highest = first;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] == 0) return core.scratchpad + operand.address;
    const __int128 reach = static_cast<__int128>(extents[i] - 1) * operand.strides[i];
    (reach < 0 ? lowest : highest) += reach;
  }
  const int64_t element = bytes_of(operand.type);
  if (lowest < 0 || highest >= operand.bytes / element) {
    throw KernelError("an access to elements " + std::to_string(static_cast<int64_t>(lowest)) +
                      " to " + std::to_string(static_cast<int64_t>(highest)) +
                      " leaves a tensor of " + std::to_string(operand.bytes / element) +
                      " elements in the scratchpad");
  }
  return core.scratchpad + operand.address + static_cast<int64_t>(first) * element;
}

}  // namespace spyre::emulator::engine
