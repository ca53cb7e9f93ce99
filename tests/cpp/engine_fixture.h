// Cores, registers and scratchpads for tests of single instructions.
#pragma once

#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "emulator/convert.h"
#include "emulator/engine/core.h"
#include "emulator/engine/memory.h"
#include "emulator/thread_pool.h"

namespace spyre::emulator::engine {

using Bytes = std::vector<std::byte>;

// Returns `bytes` as device memory.
inline Buffer buffer_of(Bytes& bytes) { return {bytes.data(), static_cast<int64_t>(bytes.size())}; }

// A core with a scratchpad of random bytes, in which buffers are allocated consecutively.
class TestCore {
 public:
  explicit TestCore(int64_t bytes, uint32_t seed = 1) : scratchpad_(static_cast<size_t>(bytes)) {
    uint64_t state = seed;
    for (std::byte& byte : scratchpad_) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      byte = static_cast<std::byte>(state >> 56);
    }
    core.registers.assign(kFirstFreeRegister, 0);
    core.scratchpad = scratchpad_.data();
  }

  Register integer(int64_t value) { return bits(static_cast<uint64_t>(value)); }
  Register number(float value) { return bits(std::bit_cast<uint32_t>(value)); }
  std::vector<Register> integers(std::span<const int64_t> values) {
    std::vector<Register> registers;
    for (const int64_t value : values) registers.push_back(integer(value));
    return registers;
  }

  // Allocates a buffer.
  Operand buffer(ElementType type, int64_t elements, std::vector<int64_t> strides) {
    Operand operand;
    operand.address = next_;
    operand.bytes = elements * bytes_of(type);
    operand.type = type;
    operand.strides = std::move(strides);
    next_ += operand.bytes;
    if (next_ > static_cast<int64_t>(scratchpad_.size()))
      throw std::logic_error("the scratchpad is full");
    return operand;
  }

  // Fills the buffer with small values that are valid for its type; few random bytes would be.
  void fill(const Operand& operand, uint32_t seed) {
    std::minstd_rand random(seed);
    const int64_t count = operand.bytes / bytes_of(operand.type);
    for (int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<int32_t>(random() / 16 % 201) - 100;
      std::byte* const to = at(operand) + i * bytes_of(operand.type);
      if (is_float(operand.type)) {
        float lane = static_cast<float>(value) / 16;
        round_lanes(operand.type)(&lane, 1);
        store_lanes(operand.type)(&lane, to, 1, 1);
      } else if (operand.type == ElementType::I64) {
        const int64_t lane = value;
        store_lanes(operand.type)(&lane, to, 1, 1);
      } else {
        const int32_t lane = operand.type == ElementType::I1 ? value & 1 : value;
        store_lanes(operand.type)(&lane, to, 1, 1);
      }
    }
  }

  std::byte* at(const Operand& operand) { return scratchpad_.data() + operand.address; }
  std::vector<std::byte> content(const Operand& operand) {
    return {at(operand), at(operand) + operand.bytes};
  }
  std::vector<std::byte>& scratchpad() { return scratchpad_; }

  Core core;

 private:
  Register bits(uint64_t bits) {
    core.registers.push_back(bits);
    return static_cast<Register>(core.registers.size() - 1);
  }

  std::vector<std::byte> scratchpad_;
  int64_t next_ = 0;
};

// One element as a lane.
struct Lane {
  std::byte bytes[8] = {};
  template <typename T>
  T as() const {
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
};

inline Lane load_lane(const std::byte* element, ElementType type) {
  Lane lane;
  load_lanes(type)(element, 1, lane.bytes, 1);
  return lane;
}

inline int64_t offset_of(std::span<const int64_t> coordinates, std::span<const int64_t> strides) {
  int64_t offset = 0;
  for (size_t i = 0; i < coordinates.size(); ++i) offset += coordinates[i] * strides[i];
  return offset;
}

// Calls body(coordinates) for all points in row-major order.
template <typename Body>
void for_each_point(std::span<const int64_t> extents, Body body) {
  for (const int64_t extent : extents) {
    if (extent == 0) return;
  }
  std::vector<int64_t> point(extents.size(), 0);
  while (true) {
    body(std::span<const int64_t>(point));
    size_t i = extents.size();
    while (i-- > 0) {
      if (++point[i] < extents[i]) break;
      point[i] = 0;
    }
    if (i > extents.size()) return;
  }
}

// Random shapes and layouts.
class Shapes {
 public:
  explicit Shapes(uint32_t seed) : random_(seed) {}

  int64_t below(int64_t bound) { return static_cast<int64_t>(random_() % bound); }
  // Small boxes, sometimes with one long dimension, or none.
  std::vector<int64_t> extents() {
    std::vector<int64_t> extents(static_cast<size_t>(below(5)));
    for (int64_t& extent : extents) extent = 1 + below(extents.size() > 2 ? 4 : 6);
    if (!extents.empty() && below(2) == 0) {
      extents[static_cast<size_t>(below(static_cast<int64_t>(extents.size())))] =
          1 + below(extents.size() > 2 ? 150 : 1500);
    }
    return extents;
  }
  // Returns strides with the dimensions in any order, some of them with gaps, and sets `size` to
  // the number of elements that the layout spans.
  std::vector<int64_t> layout(std::span<const int64_t> extents, int64_t& size) {
    std::vector<size_t> order(extents.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
    if (below(2) == 0) std::shuffle(order.begin(), order.end(), random_);
    std::vector<int64_t> strides(extents.size());
    size = 1;
    for (const size_t i : order) {
      strides[i] = size;
      size *= extents[i];
      if (below(4) == 0) size += below(3);
    }
    return strides;
  }
  // The same, but dimensions may be broadcast.
  std::vector<int64_t> source_layout(std::span<const int64_t> extents, int64_t& size) {
    std::vector<int64_t> strides = layout(extents, size);
    for (int64_t& stride : strides) {
      if (below(4) == 0) stride = 0;
    }
    return strides;
  }

 private:
  std::mt19937 random_;
};

class WithThreads {
 public:
  explicit WithThreads(int count) : before_(host_threads()) { set_host_threads(count); }
  ~WithThreads() { set_host_threads(before_); }

 private:
  int before_;
};

// Runs `body` for each instruction set of this host, then selects the best one again.
template <typename Body>
void for_each_instruction_set(Body body) {
  for (const char* name : {"default", "avx2", "avx512"}) {
    if (kernels_named(name) == nullptr) continue;
    set_cpu_capability(name);
    try {
      body();
    } catch (...) {
      set_cpu_capability("");
      throw;
    }
  }
  set_cpu_capability("");
}

}  // namespace spyre::emulator::engine
