// A box of elements in device memory, and what moving it takes: sticks and contiguous runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace spyre::emulator::engine {

inline constexpr int64_t kStickBytes = 128;

// Bytes [begin, end) of device memory.
struct ByteRange {
  int64_t begin, end;
};

struct BoxCost {
  int64_t sticks = 0;
  int64_t runs = 0;
};

class DeviceBox {
 public:
  DeviceBox(int64_t start, int64_t element_bytes) : start_(start), run_(element_bytes) {}

  // In any order; strides are bytes and may be 0 or negative. Throws KernelError for addresses no
  // memory has.
  void add(int64_t extent, int64_t stride);
  // Brings dimensions into ascending order and those together that are contiguous. Needed after
  // `add`, before anything else.
  void normalise();

  // The range that holds all of it.
  ByteRange hull() const;
  int64_t runs() const;
  // What of it lies in `limits` costs.
  BoxCost cost(ByteRange limits) const;
  // Calls visit(begin, end) for each run.
  template <typename Visit>
  void visit_runs(Visit visit) const {
    std::vector<int64_t> coordinates(dimensions_.size(), 0);
    int64_t at = start_;
    while (true) {
      visit(at, at + run_);
      size_t i = 0;
      for (; i < dimensions_.size(); ++i) {
        at += dimensions_[i].stride;
        if (++coordinates[i] < dimensions_[i].extent) break;
        at -= dimensions_[i].stride * dimensions_[i].extent;
        coordinates[i] = 0;
      }
      if (i == dimensions_.size()) return;
    }
  }
  // Equal for boxes whose costs are equal when no limit touches them.
  std::vector<int64_t> shape() const;

 private:
  struct Dimension {
    int64_t extent, stride;
  };
  int64_t sticks() const;
  BoxCost counted(ByteRange limits) const;

  int64_t start_;
  int64_t run_;                        // contiguous bytes
  std::vector<Dimension> dimensions_;  // innermost first, after `normalise`
};

}  // namespace spyre::emulator::engine
