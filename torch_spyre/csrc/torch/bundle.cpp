#include "torch/bundle.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <span>

#include "flex/interruption.h"
#include "flex/trace.h"
#include "torch/allocator.h"
#include "torch/device.h"
#include "torch/launch_counts.h"
#include "torch/storage.h"

namespace spyre {

namespace {

bool is_argument(const ArrayBinding& array) {
  return array.memory == ArrayBinding::Memory::kArgument;
}

}  // namespace

Bundle::Bundle(std::string name, std::vector<BundleStage> stages,
               std::vector<int64_t> scratch_bytes, std::optional<int64_t> arguments,
               const std::shared_ptr<Bundle>& like) {
  auto content = std::make_shared<Content>();
  content->name = std::move(name);
  content->stages = std::move(stages);
  content->scratch_bytes = std::move(scratch_bytes);
  int64_t highest = -1;
  for (const BundleStage& stage : content->stages) {
    for (const ArrayBinding& array : stage.arrays) {
      if (is_argument(array)) highest = std::max(highest, array.index);
    }
  }
  const int64_t count = arguments.value_or(highest + 1);
  TORCH_CHECK_VALUE(count > highest, "bundle ", content->name, ": it takes ", count,
                    " arguments, and a stage uses argument ", highest);
  content->argument_bytes.assign(static_cast<size_t>(count), 0);
  programs_ = std::make_shared<Programs>();
  programs_->content = content;
  if (like != nullptr) {
    const auto has_same_program = [](const BundleStage& left, const BundleStage& right) {
      return left.program_file == right.program_file;
    };
    TORCH_CHECK_VALUE(std::ranges::equal(content->stages, like->content().stages, has_same_program),
                      "bundle ", content->name, ": its programs are not those of bundle ",
                      like->name());
    programs_->like = like->programs_;
  }
  set_ops(ops_of(*content));
  for (const BundleStage& stage : content->stages) {
    for (const ArrayBinding& array : stage.arrays) {
      check_array(array);
      if (!is_argument(array)) continue;
      int64_t& required_bytes = content->argument_bytes[static_cast<size_t>(array.index)];
      required_bytes = std::max(required_bytes, array.bytes);
    }
  }
}

Bundle::Bundle(std::shared_ptr<Programs> programs, BundleOps ops) : programs_(std::move(programs)) {
  set_ops(std::move(ops));
}

BundleOps Bundle::ops_of(const Content& content) {
  BundleOps ops;
  for (const BundleStage& stage : content.stages) ops.push_back(stage.ops);
  return ops;
}

void Bundle::set_ops(BundleOps ops) {
  for (const std::vector<ProgramOp>& program : ops) {
    has_indices_ |=
        std::ranges::any_of(program, [](const ProgramOp& op) { return !op.index_strides.empty(); });
  }
  ops_ = std::make_shared<const BundleOps>(std::move(ops));
}

std::shared_ptr<Bundle> Bundle::for_nodes(
    const std::vector<std::vector<std::pair<std::string, std::string>>>& nodes) const {
  BundleOps ops = *ops_;
  TORCH_CHECK_VALUE(nodes.size() == ops.size(), "bundle ", name(), ": nodes of ", nodes.size(),
                    " programs, and there are ", ops.size());
  for (size_t i = 0; i < ops.size(); ++i) {
    TORCH_CHECK_VALUE(nodes[i].size() == ops[i].size(), "bundle ", name(), ": program ", i, " has ",
                      ops[i].size(), " ops, not ", nodes[i].size());
    for (size_t j = 0; j < ops[i].size(); ++j) {
      ops[i][j].node = nodes[i][j].first;
      ops[i][j].index_node = nodes[i][j].second;
    }
  }
  return std::shared_ptr<Bundle>(new Bundle(programs_, std::move(ops)));
}

void Bundle::check_array(const ArrayBinding& array) const {
  const char* memory = is_argument(array) ? "argument " : "scratch buffer ";
  TORCH_CHECK_VALUE(array.index >= 0, "bundle ", name(), ": a stage uses ", memory, array.index);
  TORCH_CHECK_VALUE(array.bytes >= 0, "bundle ", name(), ": an array has ", array.bytes, " bytes");
  if (is_argument(array)) return;
  const std::vector<int64_t>& scratch = content().scratch_bytes;
  TORCH_CHECK_VALUE(array.index < static_cast<int64_t>(scratch.size()), "bundle ", name(),
                    ": a stage uses scratch buffer ", array.index, ", and there are ",
                    scratch.size());
  const int64_t capacity = scratch[static_cast<size_t>(array.index)];
  TORCH_CHECK_VALUE(array.bytes <= capacity, "bundle ", name(), ": a stage needs ", array.bytes,
                    " bytes of scratch buffer ", array.index, ", which has ", capacity);
}

Bundle::Memory Bundle::memory_of_argument(size_t index, const at::Tensor& tensor,
                                          c10::Device device) const {
  // Use the device of the storage: a tensor subclass may report another one.
  TORCH_CHECK(tensor.defined() && tensor.has_storage() && tensor.storage().device() == device,
              "bundle ", name(), ": argument ", index, " must be a tensor with memory on ", device,
              index == 0 ? "" : ", where argument 0 is", ", but it is on ",
              !tensor.defined()       ? std::string("no device")
              : !tensor.has_storage() ? tensor.device().str()
                                      : tensor.storage().device().str());
  std::shared_ptr<flex::Allocation> owner = allocation_of(tensor.storage().data_ptr());
  const auto capacity = owner == nullptr ? 0 : static_cast<int64_t>(owner->bytes());
  TORCH_CHECK(content().argument_bytes[index] <= capacity, "bundle ", name(), ": argument ", index,
              " must have ", content().argument_bytes[index],
              " bytes of memory, but its storage has ", capacity);
  const flex::MemoryRange range = owner == nullptr ? flex::MemoryRange{} : owner->range();
  return {std::move(owner), range};
}

Bundle::Call Bundle::call(c10::ArrayRef<const at::Tensor*> tensors) const {
  TORCH_CHECK_TYPE(tensors.size() == arguments(), "bundle ", name(), " takes ", arguments(),
                   " arguments, but was given ", tensors.size());
  Call call;
  call.memories.reserve(tensors.size() + content().scratch_bytes.size());
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
  std::shared_ptr<const BundleOps> ops;
  LaunchSite site;
  flex::Card* card;
  c10::SmallVector<Memory, 6> memories;

  void operator()() const {
    flex::Launch launch;
    launch.faulty_instruction = options->faulty_instruction;
    launch.watchdog_seconds = options->watchdog_seconds;
    launch.check_counts = options->check_counts;
    launch.stop = flex::stop_request_here();
    const std::vector<BundleStage>& stages = loaded->content->stages;
    for (size_t i = 0; i < stages.size(); ++i) {
      bind(stages[i], launch);
      execute_launch(*card, *loaded->programs[i], launch,
                     [&](const flex::KernelError& error) { return describe(error, i); });
    }
  }

 private:
  std::string describe(const flex::KernelError& error, size_t stage) const {
    constexpr const char* kHint =
        ". Kernels run asynchronously: with SPYRE_LAUNCH_BLOCKING=1 the launch raises the error";
    return failure_message(error, (*ops)[stage], site) + (options->blocking ? "" : kHint);
  }

  void bind(const BundleStage& stage, flex::Launch& launch) const {
    launch.arrays.clear();
    for (const ArrayBinding& array : stage.arrays) {
      flex::MemoryRange range = memory_of(array).range;
      range.bytes = static_cast<size_t>(array.bytes);
      launch.arrays.push_back(range);
    }
    launch.scalars.assign(stage.scalars.begin(), stage.scalars.end());
    const bool depends_on_aliasing = stage.is_ordered != stage.is_ordered_if_aliased;
    launch.ordered =
        depends_on_aliasing && is_aliased(stage) ? stage.is_ordered_if_aliased : stage.is_ordered;
  }

  const Memory& memory_of(const ArrayBinding& array) const {
    return memories[loaded->content->index_of(array)];
  }

  // Returns whether two arrays with different bindings have the same allocation. The compiler
  // already handles arrays with equal bindings.
  bool is_aliased(const BundleStage& stage) const {
    for (size_t i = 0; i < stage.arrays.size(); ++i) {
      const flex::Allocation* owner = memory_of(stage.arrays[i]).owner.get();
      for (size_t j = 0; j < i && owner != nullptr; ++j) {
        if (stage.arrays[j].is_same_memory(stage.arrays[i])) continue;
        if (memory_of(stage.arrays[j]).owner.get() == owner) return true;
      }
    }
    return false;
  }
};

void Bundle::submit(Call call, std::shared_ptr<const LaunchOptions> options, LaunchSite site) {
  std::shared_ptr<const Loaded> loaded = loaded_on(call.card);
  for (const int64_t bytes : content().scratch_bytes) {
    // Release the pointer at once, so that only the queued work owns the memory.
    auto owner = allocation_of(allocate_on(call.card, static_cast<size_t>(bytes)));
    const flex::MemoryRange range = owner == nullptr ? flex::MemoryRange{} : owner->range();
    call.memories.push_back({std::move(owner), range});
  }
  if (stages() == 0) return;
  flex::Runtime& runtime = flex::Runtime::get();
  flex::Stream& stream = current_queue(call.card);
  trace("launch bundle ", name(), " of ", stages(), " programs on card ",
        static_cast<int>(call.card), " stream ", stream.id());
  flex::Card& card = runtime.card(call.card);
  LaunchCost cost;
  if (options->charges) {
    for (const BundleStage& stage : content().stages) cost += stage.cost;
    count_launches();
  }
  const flex::WorkTime time = charge(cost, stages(), card);
  flex::CallRecord record_of_call("aiuLaunchControlBlocks");
  flex::Stream::Work work;
  if (options->executes) {
    work = Work{loaded, options, ops_, site, &card, std::move(call.memories)};
  } else {
    // The stream keeps the memory as long as if the programs ran.
    work = [memories = std::move(call.memories)] {};
  }
  const flex::TimeSpan span = stream.submit(std::move(work), time);
  if (record_of_call.is_active()) {
    record(record_of_call, *loaded, call.card, stream.id(), cost, span, site);
  }
  if (options->blocking) stream.synchronize();
}

void Bundle::count_launches() const {
  LaunchCounts& counts = LaunchCounts::get();
  if (!counts.is_counting()) return;
  for (const BundleStage& stage : content().stages) counts.add(stage.cost.kernel);
}

std::vector<int64_t> Bundle::scratchpad_high_water(c10::DeviceIndex card) {
  std::vector<int64_t> bytes;
  for (const auto& program : loaded_on(card)->programs) {
    bytes.push_back(program->scratchpad_high_water());
  }
  return bytes;
}

void Bundle::record(flex::CallRecord& call, const Loaded& loaded, c10::DeviceIndex card,
                    int64_t stream, const LaunchCost& total, const flex::TimeSpan& span,
                    const LaunchSite& site) const {
  // Other units may have delayed the launch: its kernels take longer in proportion.
  const auto time_after = [&](uint64_t cost_ps) {
    const auto part = static_cast<unsigned __int128>(span.end_ps - span.begin_ps) * cost_ps;
    return span.begin_ps + static_cast<uint64_t>(part / std::max<uint64_t>(total.time_ps, 1));
  };
  uint64_t cost_ps = 0;
  for (size_t i = 0; i < loaded.programs.size(); ++i) {
    LaunchCost cost = loaded.content->stages[i].cost;
    if (total.time_ps == 0) cost.time_ps = 0;  // functional mode
    const uint64_t begin_ps = time_after(cost_ps);
    cost_ps += cost.time_ps;
    const std::vector<SourceLine> lines = source_lines((*ops_)[i], site);
    call.add(kernel_work(loaded.programs[i]->name(), card, stream, cost, lines),
             {begin_ps, time_after(cost_ps), span.launch_ps, span.submit_ps});
  }
}

std::shared_ptr<const Bundle::Loaded> Bundle::find_loaded(Programs& programs,
                                                          c10::DeviceIndex card) {
  const auto index = static_cast<size_t>(card);
  const std::lock_guard lock(programs.mutex);
  return index < programs.loaded.size() ? programs.loaded[index] : nullptr;
}

bool Bundle::is_loaded_on(c10::DeviceIndex card) const {
  return find_loaded(*programs_, card) != nullptr;
}

std::shared_ptr<const Bundle::Loaded> Bundle::loaded_on(c10::DeviceIndex card) {
  if (auto loaded = find_loaded(*programs_, card)) return loaded;
  // If two threads load the programs, either result is valid.
  std::shared_ptr<const Loaded> loaded = load(card);
  const auto index = static_cast<size_t>(card);
  const std::lock_guard lock(programs_->mutex);
  auto& known = programs_->loaded;
  if (index >= known.size()) known.resize(index + 1);
  return known[index] = std::move(loaded);
}

std::shared_ptr<const Bundle::Loaded> Bundle::load(c10::DeviceIndex card) const {
  auto loaded = std::make_shared<Loaded>();
  loaded->content = programs_->content;
  const std::shared_ptr<const Loaded> known =
      programs_->like == nullptr ? nullptr : find_loaded(*programs_->like, card);
  if (known != nullptr) {
    loaded->programs = known->programs;
    return loaded;
  }
  for (const BundleStage& stage : content().stages) {
    loaded->programs.push_back(load_stage(stage, card));
  }
  return loaded;
}

std::shared_ptr<const flex::LoadedProgram> Bundle::load_stage(const BundleStage& stage,
                                                              c10::DeviceIndex card) const {
  std::shared_ptr<const flex::LoadedProgram> program;
  try {
    program =
        flex::Runtime::get().card(card).load_program(std::as_bytes(std::span(stage.program_file)));
  } catch (const flex::ProgramError& error) {
    TORCH_CHECK_VALUE(false, "bundle ", name(), ": ", error.what());
  }
  TORCH_CHECK_VALUE(program->arrays() == static_cast<int64_t>(stage.arrays.size()) &&
                        program->scalars() == static_cast<int64_t>(stage.scalars.size()) &&
                        program->fixed_bytes().empty(),
                    "bundle ", name(), ": kernel ", program->name(), " takes ", program->arrays(),
                    " arrays, ", program->scalars(), " scalars and ", program->fixed_bytes().size(),
                    " fixed buffers, and its stage gives ", stage.arrays.size(), " arrays and ",
                    stage.scalars.size(), " scalars");
  return program;
}

}  // namespace spyre
