// The values of a chain, computed for a block of its iteration space at a time, so that nothing
// between the operands and the results leaves the host's nearest cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "emulator/engine/core.h"
#include "emulator/engine/walk.h"

namespace spyre::emulator::engine {

// The most points of the space that are computed at once.
inline constexpr int64_t kBlockLanes = 1024;
// Bytes from one array of a block's lanes to the next: not a power of two, which would put all of
// them in the same cache lines.
constexpr int64_t block_bytes(int lane) { return kBlockLanes * lane + 64; }

// Lanes of this thread: at least so many bytes, aligned to cache lines, content undefined. A later
// call may move them.
std::byte* thread_lanes(int64_t bytes);

// The type of a chain's value: first the inputs, then the steps.
ElementType type_of_value(const ChainBody& chain, int32_t value);

// Changes a lane of that type to a value that no rounding hides.
void inject_fault(void* lane, ElementType type);

class ValueBlocks {
 public:
  // Positions count the points of `extents` with the dimensions in `order`, the last fastest.
  // `kept` values can be asked for after each block. Holds references to everything it is given.
  void prepare(const ChainBody& chain, Core& core, std::span<const int64_t> extents,
               std::span<const int32_t> order, std::span<const int32_t> kept);

  // Has the value written to memory where it is computed, one element after the other, and no more
  // as lanes; false where it cannot. For a value that was asked to be kept, and no other use of it.
  bool write_to(int32_t value, std::byte* destination);
  // The value's elements, if they are in memory one after the other and were loaded as they are.
  struct Elements {
    const std::byte* data = nullptr;  // nullptr: they are not
    ElementType type{};
  };
  Elements elements(int32_t value) const;

  // The bytes of lanes that one thread needs.
  int64_t bytes() const { return bytes_; }
  // Must come before the first block in new lanes; no block will be larger than `most`.
  void start(std::byte* lanes, int64_t most) const;
  // Computes n <= kBlockLanes points. Throws KernelIndexError for a lookup outside its tensor.
  void compute(std::byte* lanes, int64_t begin, int64_t n) const;
  const std::byte* value(const std::byte* lanes, int32_t number) const {
    return lanes + places_[static_cast<size_t>(number)];
  }

 private:
  // An operand of a step: lanes at `place`, or elements in memory one after the other.
  struct Source {
    int64_t place = 0;
    const std::byte* memory = nullptr;
    int64_t element_bytes = 0;
  };
  struct Operation {
    enum class Kind : uint8_t { kLoad, kIndex, kStep, kLookup } kind;
    int32_t inputs = 0, input_count = 0;  // in sources_
    int64_t output = 0;
    std::byte* destination = nullptr;  // kStep: where in memory the result goes, if not to lanes
    LoadLanes load = nullptr;
    VectorFunction function = nullptr;
    // For blocks in which the walk `walk` is constant, or all if there is none, when its value is
    // the last operand; nullptr: no such form.
    VectorFunction with_scalar = nullptr;
    MemoryForm form;
    bool is_one_enough = false;  // kLoad: where the walk is constant, only the first lane is read
    const std::byte* source = nullptr;
    int32_t element_bytes = 0;
    int32_t walk = -1;   // kLoad, kIndex, and kStep with a scalar
    int32_t number = 0;  // the lookup, or the step
  };
  struct Splat {
    const void* scalar;
    int32_t lane_bytes;
    int64_t output;
    bool is_one_enough;
  };
  // A lookup's tensor: its dimensions start at `first` in lookup_extents_.
  struct Table {
    size_t first;
    const std::byte* source;
  };

  // A last use that never comes.
  static constexpr int32_t kForever = std::numeric_limits<int32_t>::max();

  void find_last_uses(std::span<const int32_t> kept);
  bool may_be_scalar(int32_t value) const;
  int scalar_operand(const ChainStep& step) const;
  bool is_dense_operand(size_t value) const;
  bool stays_in_memory(const ChainStep& step, size_t operand) const;
  MemoryForm memory_form(const ChainStep& step) const;
  void add_sources(const ChainStep& step, Operation& operation);
  bool choose_functions(const ChainStep& step, Operation& operation) const;
  void place_scalars();
  void make_available(int32_t value);
  void add_load(int32_t value);
  void add_step(int32_t number);
  void add_table(const Lookup& lookup);
  int64_t take_place(ElementType type);
  void release_after(int32_t step, int32_t value);
  void run_lookup(std::byte* lanes, const Operation& operation, int64_t n) const;

  const ChainBody* chain_ = nullptr;
  Core* core_ = nullptr;
  std::span<const int64_t> extents_;
  std::span<const int32_t> order_;
  int64_t bytes_ = 0;
  int64_t gather_place_ = 0;
  int32_t faulty_step_ = -1;
  std::vector<Operation> operations_;
  std::vector<Splat> splats_;
  std::vector<Walk> walks_;
  std::vector<Table> tables_;
  std::vector<int64_t> lookup_extents_;
  std::vector<Source> sources_;
  std::vector<int32_t> uses_;          // by value, kept ones count too
  std::vector<int64_t> places_;        // of each value's lanes; -1: not there yet
  std::vector<int32_t> last_uses_;     // the step after which a value's lanes can be used again
  std::vector<bool> needs_all_lanes_;  // by value: something reads more than its first lane
  std::vector<int32_t> walk_of_;       // by input; -1: a scalar, or not loaded
  std::vector<int64_t> free_places_[2];
  std::vector<int64_t> temporary_;
};

}  // namespace spyre::emulator::engine
