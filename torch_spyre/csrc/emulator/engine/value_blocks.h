// Computes the values of a chain for one block of its iteration space at a time, so that
// intermediate values stay in the host's first-level cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "emulator/engine/core.h"
#include "emulator/engine/traversal.h"

namespace spyre::emulator::engine {

// The maximum number of points of a block.
inline constexpr int64_t kBlockLanes = 1024;
// The distance in bytes between the lanes of two values of a block. It is not a power of two, so
// that the lanes of different values do not map to the same cache sets.
constexpr int64_t block_bytes(int lane) { return kBlockLanes * lane + 64; }

// Returns lanes of this thread: at least this many bytes, aligned to cache lines, with undefined
// content. They are valid until the next call.
std::byte* thread_lanes(int64_t bytes);

// Returns the type of a value of the chain. Values are the inputs followed by the results of steps.
ElementType type_of_value(const ChainBody& chain, int32_t value);

// Changes a lane of this type by more than any rounding error.
void inject_fault(void* lane, ElementType type);

class ValueBlocks {
 public:
  // Positions number the points of `extents` with the dimensions in `order`, the last one fastest.
  // `retained` values are available after each block. All arguments must outlive this object.
  void prepare(const ChainBody& chain, Core& core, std::span<const int64_t> extents,
               std::span<const int32_t> order, std::span<const int32_t> retained);

  // Makes the step that computes a retained value write it to contiguous memory instead of lanes.
  // Returns false if that is not possible, for example because the value has another use.
  bool write_to(int32_t value, std::byte* destination);
  // The elements of an input that is contiguous in memory.
  struct Elements {
    const std::byte* data = nullptr;  // nullptr: the value is not such an input
    ElementType type{};
  };
  Elements elements(int32_t value) const;

  // Returns the bytes of lanes that one thread needs.
  int64_t bytes() const { return bytes_; }
  // Must be called before the first block in new lanes. No block may have more points than
  // `max_points`.
  void start(std::byte* lanes, int64_t max_points) const;
  // Computes n <= kBlockLanes points. Throws KernelIndexError for a lookup outside its tensor.
  void compute(std::byte* lanes, int64_t begin, int64_t n) const;
  const std::byte* value(const std::byte* lanes, int32_t number) const {
    return lanes + lane_offsets_[static_cast<size_t>(number)];
  }

 private:
  // An operand of a step: lanes at `lane_offset`, or contiguous elements in memory.
  struct Source {
    int64_t lane_offset = 0;
    const std::byte* memory = nullptr;
    int64_t element_bytes = 0;
  };
  struct Operation {
    enum class Kind : uint8_t { kLoad, kIndex, kStep, kLookup } kind;
    int32_t inputs = 0, input_count = 0;  // in sources_
    int64_t output = 0;
    std::byte* destination = nullptr;  // kStep: memory of the result; nullptr: lanes
    LoadLanes load = nullptr;
    VectorFunction function = nullptr;
    // The form whose last operand is a scalar, for blocks in which `traversal` is constant, or for
    // all blocks if there is none; nullptr: no such form.
    VectorFunction with_scalar = nullptr;
    MemoryForm form;
    bool needs_one_lane = false;  // kLoad: if the traversal is constant, only lane 0 is read
    const std::byte* source = nullptr;
    int32_t element_bytes = 0;
    int32_t traversal = -1;  // kLoad, kIndex, and kStep with a scalar
    int32_t number = 0;      // of the lookup or the step
  };
  struct Splat {
    const void* scalar;
    int32_t lane_bytes;
    int64_t output;
    bool needs_one_lane;
  };
  // The tensor of a lookup; its extents start at `first` in lookup_extents_.
  struct Table {
    size_t first;
    const std::byte* source;
  };

  // The last use of a value whose lanes are never released.
  static constexpr int32_t kNeverReleased = std::numeric_limits<int32_t>::max();

  void find_last_uses(std::span<const int32_t> retained);
  bool may_be_scalar(int32_t value) const;
  int scalar_operand(const ChainStep& step) const;
  bool is_dense_operand(size_t value) const;
  bool stays_in_memory(const ChainStep& step, size_t operand) const;
  MemoryForm memory_form(const ChainStep& step) const;
  void add_sources(const ChainStep& step, Operation& operation);
  bool choose_functions(const ChainStep& step, Operation& operation) const;
  void add_splats();
  void make_available(int32_t value);
  void add_load(int32_t value);
  void add_step(int32_t number);
  void add_table(const Lookup& lookup);
  int64_t allocate_lanes(ElementType type);
  void release_lanes_after(int32_t step, int32_t value);
  void run_lookup(std::byte* lanes, const Operation& operation, int64_t n) const;

  const ChainBody* chain_ = nullptr;
  Core* core_ = nullptr;
  std::span<const int64_t> extents_;
  std::span<const int32_t> order_;
  int64_t bytes_ = 0;
  int64_t gather_offset_ = 0;
  int32_t faulty_step_ = -1;
  std::vector<Operation> operations_;
  std::vector<Splat> splats_;
  std::vector<Traversal> traversals_;
  std::vector<Table> tables_;
  std::vector<int64_t> lookup_extents_;
  std::vector<Source> sources_;
  std::vector<int32_t> uses_;          // by value; being retained counts as a use
  std::vector<int64_t> lane_offsets_;  // by value: offset of its lanes; -1: not allocated
  std::vector<int32_t> last_uses_;     // by value: the step after which its lanes are released
  std::vector<bool> needs_all_lanes_;  // by value: a use reads more than lane 0
  std::vector<int32_t> traversal_of_;  // by input; -1: a scalar or not loaded
  std::vector<int64_t> free_lane_offsets_[2];
  std::vector<int64_t> temporary_;
};

}  // namespace spyre::emulator::engine
