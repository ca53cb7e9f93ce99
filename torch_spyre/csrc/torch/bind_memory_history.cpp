// Binds the history of device memory: what has allocated and released it, with call stacks. See
// flex/memory_history.h and torch_spyre/device/memory_history.py.
#include <pybind11/stl.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <array>
#include <unordered_map>
#include <utility>

#include "flex/memory_history.h"
#include "torch/bindings.h"
#include "torch/device.h"

namespace py = pybind11;

namespace torch {

// Declared in torch/csrc/profiler/python/combined_traceback.h, which includes a library of JSON
// that PyTorch does not install.
TORCH_API std::vector<pybind11::object> py_symbolize(std::vector<CapturedTraceback*>& tracebacks);

}  // namespace torch

namespace spyre {

namespace {

using flex::MemoryAction;
using torch::CapturedTraceback;

constexpr std::array kActionNames{
    std::pair{MemoryAction::kAllocate, "alloc"},
    std::pair{MemoryAction::kFreeRequested, "free_requested"},
    std::pair{MemoryAction::kFreeCompleted, "free_completed"},
    std::pair{MemoryAction::kOutOfMemory, "oom"},
    std::pair{MemoryAction::kSnapshot, "snapshot"},
};

const char* name_of(MemoryAction action) {
  for (const auto& [known, name] : kActionNames) {
    if (known == action) return name;
  }
  return "";
}

MemoryAction action_named(const std::string& name) {
  for (const auto& [action, known] : kActionNames) {
    if (name == known) return action;
  }
  TORCH_CHECK_VALUE(false, "memory history: there is no action '", name, "'");
}

flex::MemoryOrigin gather(int card, bool has_stack, bool has_cpp_frames) {
  flex::MemoryOrigin origin;
  origin.stream = current_stream(static_cast<c10::DeviceIndex>(card)).id();
  if (has_stack) origin.stack = CapturedTraceback::gather(true, true, has_cpp_frames);
  return origin;
}

void start(bool has_events, int64_t stacks, bool has_cpp_frames, size_t max_events, bool clears,
           const std::vector<std::string>& skipped) {
  flex::MemoryHistoryOptions options{.has_events = has_events,
                                     .max_events = max_events,
                                     .stacks = static_cast<flex::RecordedStacks>(stacks)};
  for (const std::string& name : skipped) options.skipped.insert(action_named(name));
  flex::MemoryHistory::get().start(
      std::move(options),
      [has_cpp_frames](int card, bool has_stack) {
        return gather(card, has_stack, has_cpp_frames);
      },
      clears);
}

// The frames of stacks as lists of dicts. Equal stacks are the same list.
class Frames {
 public:
  void add(const std::shared_ptr<void>& stack) {
    if (stack == nullptr || !indices_.try_emplace(stack.get(), stacks_.size()).second) return;
    stacks_.push_back(static_cast<CapturedTraceback*>(stack.get()));
  }
  // After all stacks were added.
  void symbolize() {
    if (!stacks_.empty()) lists_ = torch::py_symbolize(stacks_);
  }
  py::object of(const std::shared_ptr<void>& stack) const {
    if (stack == nullptr) return py::list();
    return lists_[indices_.at(stack.get())];
  }

 private:
  std::unordered_map<const void*, size_t> indices_;
  std::vector<CapturedTraceback*> stacks_;
  std::vector<py::object> lists_;
};

uintptr_t handle_of(int card, uint64_t address) {
  return reinterpret_cast<uintptr_t>(flex::Runtime::get().card(card).handle(address));
}

void add_origin(py::dict& entry, int64_t time_ns, uint64_t device_time_ps,
                const flex::MemoryOrigin& origin, const Frames& frames) {
  entry["stream"] = origin.stream;
  entry["time_us"] = time_ns / 1000;
  entry["device_time_ps"] = device_time_ps;
  entry["frames"] = frames.of(origin.stack);
}

py::dict as_dict(const flex::MemoryEvent& event, const Frames& frames) {
  py::dict entry;
  entry["action"] = name_of(event.action);
  if (event.action == MemoryAction::kOutOfMemory) {
    entry["device_free"] = event.free_bytes;
  } else if (event.action == MemoryAction::kSnapshot) {
    entry["addr"] = 0;
  } else {
    entry["addr"] = handle_of(event.card, event.address);
  }
  entry["size"] = event.bytes;
  add_origin(entry, event.time_ns, event.device_time_ps, event.origin, frames);
  return entry;
}

// Returns the events of a card, oldest first, and its live allocations by handle. Without events it
// need not resolve their stacks.
py::tuple content(int64_t index, bool has_events) {
  const int card = card_index(index);
  flex::MemoryHistory::Content content;
  {
    py::gil_scoped_release unlocked;
    content = flex::MemoryHistory::get().content();
  }
  std::erase_if(content.events,
                [&](const auto& event) { return !has_events || event.card != card; });
  std::erase_if(content.live, [card](const auto& entry) { return entry.first.first != card; });
  Frames frames;
  for (const flex::MemoryEvent& event : content.events) frames.add(event.origin.stack);
  for (const auto& [key, allocation] : content.live) frames.add(allocation.origin.stack);
  frames.symbolize();
  py::list events;
  for (const flex::MemoryEvent& event : content.events) events.append(as_dict(event, frames));
  py::dict live;
  for (const auto& [key, allocation] : content.live) {
    py::dict entry;
    add_origin(entry, allocation.time_ns, allocation.device_time_ps, allocation.origin, frames);
    live[py::int_(handle_of(card, key.second))] = entry;
  }
  return py::make_tuple(events, live);
}

void add_snapshot(int64_t index) {
  flex::MemoryHistory& history = flex::MemoryHistory::get();
  if (history.is_recording()) history.snapshot(card_index(index));
}

}  // namespace

void bind_memory_history(py::module_& module) {
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  module.def("_start_memory_history", &start, py::arg("has_events"), py::arg("stacks"),
             py::arg("has_cpp_frames"), py::arg("max_events"), py::arg("clears"),
             py::arg("skipped"), Unlocked());
  module.def("_stop_memory_history", [] { flex::MemoryHistory::get().stop(); }, Unlocked());
  module.def("_is_recording_memory", [] { return flex::MemoryHistory::get().is_recording(); });
  module.def("_memory_history", &content, py::arg("device"), py::arg("has_events") = true);
  module.def("_add_memory_snapshot", &add_snapshot, py::arg("device"), Unlocked());
}

}  // namespace spyre
