#include "torch/bundle.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <span>

#include "flex/trace.h"
#include "torch/allocator.h"
#include "torch/device.h"
#include "torch/storage.h"

namespace spyre {

Bundle::Bundle(std::string name, std::vector<BundleStage> stages,
               std::vector<int64_t> scratch_bytes, std::optional<int64_t> arguments) {
  auto content = std::make_shared<Content>();
  content->name = std::move(name);
  content->stages = std::move(stages);
  content->scratch_bytes = std::move(scratch_bytes);
  int64_t highest = -1;
  for (const BundleStage& stage : content->stages) {
    for (const int64_t slot : stage.slots) highest = std::max(highest, slot);
  }
  const int64_t count = arguments.value_or(highest + 1);
  TORCH_CHECK_VALUE(count > highest, "bundle ", content->name, ": it takes ", count,
                    " arguments, and a stage uses argument ", highest);
  content->argument_bytes.assign(static_cast<size_t>(count), 0);
  content_ = content;
  for (const BundleStage& stage : content->stages) {
    check_stage(stage);
    for (size_t i = 0; i < stage.slots.size(); ++i) {
      if (stage.slots[i] < 0) continue;
      int64_t& needed = content->argument_bytes[static_cast<size_t>(stage.slots[i])];
      needed = std::max(needed, stage.array_bytes[i]);
    }
  }
}

void Bundle::check_stage(const BundleStage& stage) const {
  TORCH_CHECK_VALUE(stage.slots.size() == stage.array_bytes.size(), "bundle ", name(),
                    ": a stage has ", stage.slots.size(), " slots and the sizes of ",
                    stage.array_bytes.size(), " arrays");
  const std::vector<int64_t>& scratch = content_->scratch_bytes;
  for (size_t i = 0; i < stage.slots.size(); ++i) {
    const int64_t slot = stage.slots[i], bytes = stage.array_bytes[i];
    TORCH_CHECK_VALUE(bytes >= 0, "bundle ", name(), ": an array has ", bytes, " bytes");
    if (slot >= 0) continue;
    TORCH_CHECK_VALUE(slot >= -static_cast<int64_t>(scratch.size()), "bundle ", name(),
                      ": a stage uses slot ", slot, ", and there are ", scratch.size(),
                      " scratch buffers");
    const int64_t room = scratch[static_cast<size_t>(-slot - 1)];
    TORCH_CHECK_VALUE(bytes <= room, "bundle ", name(), ": a stage needs ", bytes,
                      " bytes in slot ", slot, ", and that scratch buffer has ", room);
  }
}

Bundle::Memory Bundle::memory_of_argument(size_t index, const at::Tensor& tensor,
                                          c10::Device device) const {
  // The storage says where the data is; the device of a tensor subclass need not.
  TORCH_CHECK(tensor.defined() && tensor.has_storage() && tensor.storage().device() == device,
              "bundle ", name(), ": argument ", index, " must be a tensor with memory on ", device,
              index == 0 ? "" : ", where argument 0 is", ", but it is on ",
              !tensor.defined()       ? std::string("no device")
              : !tensor.has_storage() ? tensor.device().str()
                                      : tensor.storage().device().str());
  std::shared_ptr<flex::Allocation> owner = allocation_of(tensor.storage().data_ptr());
  const auto room = owner == nullptr ? 0 : static_cast<int64_t>(owner->bytes());
  TORCH_CHECK(content_->argument_bytes[index] <= room, "bundle ", name(), ": argument ", index,
              " must have ", content_->argument_bytes[index],
              " bytes of memory, but its storage has ", room);
  const flex::Place place = owner == nullptr ? flex::Place{} : owner->place();
  return {std::move(owner), place};
}

Bundle::Call Bundle::call(c10::ArrayRef<const at::Tensor*> tensors) const {
  TORCH_CHECK_TYPE(tensors.size() == arguments(), "bundle ", name(), " takes ", arguments(),
                   " arguments, but was given ", tensors.size());
  Call call;
  call.memories.reserve(tensors.size() + content_->scratch_bytes.size());
  if (tensors.empty()) {
    call.card = current_device();
    return call;
  }
  const at::Tensor& first = *tensors[0];
  const bool is_ours =
      first.defined() && first.has_storage() && first.storage().device().type() == kSpyre;
  const c10::Device device =
      is_ours ? first.storage().device() : c10::Device(kSpyre, current_device());
  for (size_t i = 0; i < tensors.size(); ++i) {
    call.memories.push_back(memory_of_argument(i, *tensors[i], device));
  }
  call.card = device.index();
  return call;
}

struct Bundle::Work {
  std::shared_ptr<const Loaded> loaded;
  std::shared_ptr<const LaunchOptions> options;
  flex::Card* card;
  c10::SmallVector<Memory, 6> memories;

  uint64_t operator()() const {
    uint64_t time_ps = 0;
    flex::Launch launch;
    launch.spoiled_instruction = options->spoiled_instruction;
    launch.watchdog_seconds = options->watchdog_seconds;
    const std::vector<BundleStage>& stages = loaded->content->stages;
    for (size_t i = 0; i < stages.size(); ++i) {
      if (options->executes) {
        bind(stages[i], launch);
        execute_launch(*card, *loaded->programs[i], launch);
      }
      if (!options->charges) continue;
      charge(stages[i].cost);
      time_ps += stages[i].cost.time_ps;
    }
    return time_ps;
  }

 private:
  void bind(const BundleStage& stage, flex::Launch& launch) const {
    launch.arrays.clear();
    for (size_t i = 0; i < stage.slots.size(); ++i) {
      flex::Place place = memory_in(stage.slots[i]).place;
      place.bytes = static_cast<size_t>(stage.array_bytes[i]);
      launch.arrays.push_back(place);
    }
    const bool matters = stage.ordered != stage.ordered_if_aliased;
    launch.ordered = matters && is_aliased(stage) ? stage.ordered_if_aliased : stage.ordered;
  }

  const Memory& memory_in(int64_t slot) const { return memories[loaded->content->index_of(slot)]; }

  // Whether two different slots are one memory. What one slot means twice is known when a bundle is
  // made.
  bool is_aliased(const BundleStage& stage) const {
    for (size_t i = 0; i < stage.slots.size(); ++i) {
      const flex::Allocation* owner = memory_in(stage.slots[i]).owner.get();
      for (size_t j = 0; j < i && owner != nullptr; ++j) {
        if (stage.slots[j] == stage.slots[i]) continue;
        if (memory_in(stage.slots[j]).owner.get() == owner) return true;
      }
    }
    return false;
  }
};

void Bundle::submit(Call call, std::shared_ptr<const LaunchOptions> options) {
  std::shared_ptr<const Loaded> loaded = loaded_on(call.card);
  for (const int64_t bytes : content_->scratch_bytes) {
    // The pointer goes at once: then only the queued work holds the memory.
    auto owner = allocation_of(allocate_on(call.card, static_cast<size_t>(bytes)));
    const flex::Place place = owner == nullptr ? flex::Place{} : owner->place();
    call.memories.push_back({std::move(owner), place});
  }
  if (stages() == 0) return;
  flex::Runtime& runtime = flex::Runtime::get();
  flex::Stream& stream = current_queue(call.card);
  trace("launch bundle ", name(), " of ", stages(), " programs on card ",
        static_cast<int>(call.card), " stream ", stream.id());
  runtime.counters().launches += stages();
  stream.submit(Work{std::move(loaded), std::move(options), &runtime.card(call.card),
                     std::move(call.memories)});
}

std::shared_ptr<const Bundle::Loaded> Bundle::loaded_on(c10::DeviceIndex card) {
  const auto place = static_cast<size_t>(card);
  {
    const std::lock_guard lock(mutex_);
    if (place < loaded_.size() && loaded_[place] != nullptr) return loaded_[place];
  }
  // Two threads may both load: either result will do.
  std::shared_ptr<const Loaded> loaded = load(card);
  const std::lock_guard lock(mutex_);
  if (place >= loaded_.size()) loaded_.resize(place + 1);
  return loaded_[place] = std::move(loaded);
}

std::shared_ptr<const Bundle::Loaded> Bundle::load(c10::DeviceIndex card) const {
  auto loaded = std::make_shared<Loaded>();
  loaded->content = content_;
  for (const BundleStage& stage : content_->stages) {
    std::shared_ptr<const flex::LoadedProgram> program;
    try {
      program = flex::Runtime::get().card(card).load_program(std::as_bytes(std::span(stage.file)));
    } catch (const flex::ProgramError& error) {
      TORCH_CHECK_VALUE(false, "bundle ", name(), ": ", error.what());
    }
    TORCH_CHECK_VALUE(program->arrays() == static_cast<int64_t>(stage.slots.size()) &&
                          program->scalars() == 0 && program->fixed_bytes().empty(),
                      "bundle ", name(), ": kernel ", program->name(), " takes ", program->arrays(),
                      " arrays, ", program->scalars(), " scalars and ",
                      program->fixed_bytes().size(), " fixed buffers, and its stage gives ",
                      stage.slots.size(), " arrays");
    loaded->programs.push_back(std::move(program));
  }
  return loaded;
}

}  // namespace spyre
