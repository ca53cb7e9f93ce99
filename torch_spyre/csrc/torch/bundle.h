// Bundles: device programs that run one after the other on the memory of one call.
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
  // Of the argument of the call, or of the scratch buffer of the bundle.
  int64_t index = 0;
  // How many bytes of that memory the program accesses, from its start.
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
  // Whether cores must run one after the other, and the same for calls where two arrays that are
  // bound to different arguments or scratch buffers turn out to be one allocation.
  bool is_ordered = false;
  bool is_ordered_if_aliased = false;
};

// Made once, run often; every card loads the programs when it first needs them.
class Bundle {
 public:
  // `arguments`: how many a call takes, if no array is bound to the last ones.
  Bundle(std::string name, std::vector<BundleStage> stages, std::vector<int64_t> scratch_bytes,
         std::optional<int64_t> arguments);

  const std::string& name() const { return content_->name; }
  size_t arguments() const { return content_->argument_bytes.size(); }
  size_t stages() const { return content_->stages.size(); }

  // The memory of a call, arguments first, then scratch buffers; owned until the call has run.
  struct Memory {
    std::shared_ptr<flex::Allocation> owner;  // null: no bytes
    flex::Place place;
  };
  struct Call {
    c10::DeviceIndex card = 0;
    c10::SmallVector<Memory, 6> memories;
  };

  // Checks the arguments. Never waits.
  Call call(c10::ArrayRef<const at::Tensor*> tensors) const;
  // Queues the call on the current stream of its card. May wait.
  void submit(Call call, std::shared_ptr<const LaunchOptions> options);

 private:
  struct Content {
    std::string name;
    std::vector<BundleStage> stages;
    std::vector<int64_t> scratch_bytes;
    // The size that each argument must have: the most that a stage accesses of it.
    std::vector<int64_t> argument_bytes;

    // The index in `Call::memories`.
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
  // A call on its way through a stream's queue.
  struct Work;

  void check_array(const ArrayBinding& array) const;
  Memory memory_of_argument(size_t index, const at::Tensor& tensor, c10::Device device) const;
  std::shared_ptr<const Loaded> loaded_on(c10::DeviceIndex card);
  std::shared_ptr<const Loaded> load(c10::DeviceIndex card) const;

  std::shared_ptr<const Content> content_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const Loaded>> loaded_;  // by card
};

}  // namespace spyre
