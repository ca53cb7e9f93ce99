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

// One program of a bundle, and where its arrays come from.
struct BundleStage {
  std::string file;
  // For each array of the program: an argument of the call, or scratch memory number -slot - 1.
  std::vector<int64_t> slots;
  std::vector<int64_t> array_bytes;
  LaunchCost cost;
  // Whether cores must run one after the other, and the same for calls where two different slots of
  // the stage are one memory.
  bool ordered = false;
  bool ordered_if_aliased = false;
};

// Made once, run often; every card loads the programs when it first needs them.
class Bundle {
 public:
  // `arguments`: how many a call takes, if the last ones are in no slot.
  Bundle(std::string name, std::vector<BundleStage> stages, std::vector<int64_t> scratch_bytes,
         std::optional<int64_t> arguments);

  const std::string& name() const { return content_->name; }
  size_t arguments() const { return content_->argument_bytes.size(); }
  size_t stages() const { return content_->stages.size(); }

  // Where a call's memory is, arguments first, then scratch; held until the call has run.
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
    // What each argument must hold: the most that a stage accesses of it.
    std::vector<int64_t> argument_bytes;

    size_t index_of(int64_t slot) const {
      return slot >= 0 ? static_cast<size_t>(slot)
                       : argument_bytes.size() + static_cast<size_t>(-slot - 1);
    }
  };
  // The programs on one card.
  struct Loaded {
    std::shared_ptr<const Content> content;
    std::vector<std::shared_ptr<const flex::LoadedProgram>> programs;
  };
  // A call on its way through a stream's queue.
  struct Work;

  void check_stage(const BundleStage& stage) const;
  Memory memory_of_argument(size_t index, const at::Tensor& tensor, c10::Device device) const;
  std::shared_ptr<const Loaded> loaded_on(c10::DeviceIndex card);
  std::shared_ptr<const Loaded> load(c10::DeviceIndex card) const;

  std::shared_ptr<const Content> content_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const Loaded>> loaded_;  // by card
};

}  // namespace spyre
