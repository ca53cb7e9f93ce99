// Bundles: sequences of device programs that run on the memory of one call.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "torch/launches.h"

namespace spyre {

// The memory that one array of a program is bound to.
struct ArrayBinding {
  enum class Memory { kArgument, kScratch };
  Memory memory = Memory::kArgument;
  // The index of the call's argument, or of the bundle's scratch buffer.
  int64_t index = 0;
  // The number of bytes that the program accesses, from the start of that memory.
  int64_t bytes = 0;

  bool is_same_memory(const ArrayBinding& other) const {
    return memory == other.memory && index == other.index;
  }
};

// One program of a bundle, and the memory of its arrays in the order of its parameters.
struct BundleStage {
  std::string program_file;
  std::vector<ArrayBinding> arrays;
  LaunchCost cost;
  // Whether cores must run sequentially: always, or in calls where two arrays that are bound to
  // different arguments or scratch buffers have the same allocation.
  bool is_ordered = false;
  bool is_ordered_if_aliased = false;
  // The ops of the program, in order; empty if they are unknown.
  std::vector<ProgramOp> ops{};
  // The values of the program's scalars: sizes that are known when the bundle is made.
  std::vector<int64_t> scalars{};
};

// Every card loads the programs on first use.
class Bundle {
 public:
  // `arguments`: the number of arguments of a call, if no array is bound to the last ones.
  // `like`: a bundle with the same program files, whose loaded programs this one shares.
  Bundle(std::string name, std::vector<BundleStage> stages, std::vector<int64_t> scratch_bytes,
         std::optional<int64_t> arguments, const std::shared_ptr<Bundle>& like = nullptr);

  // Returns the same programs, loaded once, as the kernel of other ops with equal OpSpecs: `nodes`
  // are the names of the nodes that the ops of each program come from.
  std::shared_ptr<Bundle> for_nodes(
      const std::vector<std::vector<std::pair<std::string, std::string>>>& nodes) const;

  const std::string& name() const { return content().name; }
  size_t arguments() const { return content().argument_bytes.size(); }
  size_t stages() const { return content().stages.size(); }
  bool is_loaded_on(c10::DeviceIndex card) const;
  // Whether a call can fail because of the values of an index tensor.
  bool has_indices() const { return has_indices_; }

  // The memory of a call: arguments, then scratch buffers. It is owned until the call has run.
  struct Memory {
    std::shared_ptr<flex::Allocation> owner;  // null for 0 bytes
    flex::MemoryRange range;
  };
  struct Call {
    c10::DeviceIndex card = 0;
    c10::SmallVector<Memory, 6> memories;
  };

  // Checks the arguments and returns the call. Does not block.
  Call call(c10::ArrayRef<const at::Tensor*> tensors) const;
  // Queues the call on the current stream of its card. May block.
  void submit(Call call, std::shared_ptr<const LaunchOptions> options, LaunchSite site);

  // Returns flex::LoadedProgram::scratchpad_high_water of every stage.
  std::vector<int64_t> scratchpad_high_water(c10::DeviceIndex card);

 private:
  struct Content {
    std::string name;
    std::vector<BundleStage> stages;
    std::vector<int64_t> scratch_bytes;
    // The minimum size of each argument: the maximum that any stage accesses.
    std::vector<int64_t> argument_bytes;

    // Returns the index in `Call::memories`.
    size_t index_of(const ArrayBinding& array) const {
      const auto index = static_cast<size_t>(array.index);
      return array.memory == ArrayBinding::Memory::kArgument ? index
                                                             : argument_bytes.size() + index;
    }
  };
  // The programs on one card.
  struct Loaded {
    std::shared_ptr<const Content> content;
    std::vector<std::shared_ptr<const flex::LoadedProgram>> programs;
  };
  // What all bundles with the same programs share.
  struct Programs {
    std::shared_ptr<const Content> content;
    std::mutex mutex;
    std::vector<std::shared_ptr<const Loaded>> loaded;  // by card
    std::shared_ptr<Programs> like;
  };
  // A call in a stream's queue.
  struct Work;

  Bundle(std::shared_ptr<Programs> programs, BundleOps ops);
  static BundleOps ops_of(const Content& content);
  void set_ops(BundleOps ops);

  const Content& content() const { return *programs_->content; }
  // Records the kernels of a launch for profilers: each gets its share of the span.
  void record(flex::CallRecord& call, const Loaded& loaded, c10::DeviceIndex card, int64_t stream,
              const LaunchCost& total, const flex::TimeSpan& span, const LaunchSite& site) const;
  void count_launches() const;
  void check_array(const ArrayBinding& array) const;
  Memory memory_of_argument(size_t index, const at::Tensor& tensor, c10::Device device) const;
  std::shared_ptr<const Loaded> loaded_on(c10::DeviceIndex card);
  std::shared_ptr<const Loaded> load(c10::DeviceIndex card) const;
  std::shared_ptr<const flex::LoadedProgram> load_stage(const BundleStage& stage,
                                                        c10::DeviceIndex card) const;
  static std::shared_ptr<const Loaded> find_loaded(Programs& programs, c10::DeviceIndex card);

  std::shared_ptr<Programs> programs_;
  std::shared_ptr<const BundleOps> ops_;
  bool has_indices_ = false;
};

}  // namespace spyre
