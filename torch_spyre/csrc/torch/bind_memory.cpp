#include "torch/allocator.h"
#include "torch/bindings.h"
#include "torch/device.h"
#include "torch/host_allocator.h"

namespace py = pybind11;

namespace spyre {

namespace {

using Unlocked = py::call_guard<py::gil_scoped_release>;

flex::Card& card_at(int64_t index) { return flex::Runtime::get().card(card_index(index)); }

flex::MemoryStatistics statistics_of(int64_t index) {
  py::gil_scoped_release unlocked;
  return card_at(index).memory_statistics();
}

py::dict allocator_stats(int64_t index) {
  const auto memory = statistics_of(index);
  py::dict result;
  result["allocated_bytes.all.current"] = memory.allocated_bytes.current;
  result["allocation.all.current"] = memory.allocations.current;
  return result;
}

py::dict memory_report(int64_t index) {
  const auto memory = statistics_of(index);
  py::dict result;
  result["free_bytes"] = memory.free_bytes;
  result["total_bytes"] = memory.total_bytes;
  result["limit_bytes"] = memory.limit_bytes;
  result["largest_free_block"] = memory.largest_free_block;
  result["free_blocks"] = memory.free_blocks;
  // The fraction of free memory that is not in the largest free block.
  result["fragmentation"] =
      memory.free_bytes == 0
          ? 0.0
          : 1.0 - static_cast<double>(std::min(memory.largest_free_block, memory.free_bytes)) /
                      static_cast<double>(memory.free_bytes);
  return result;
}

py::list memory_blocks(int64_t index) {
  static constexpr const char* kStates[] = {"free", "active_allocated", "active_pending_free"};
  flex::Card* card = nullptr;
  std::vector<flex::MemoryBlock> blocks;
  {
    py::gil_scoped_release unlocked;
    card = &card_at(index);
    blocks = card->memory_blocks();
  }
  py::list result;
  for (const flex::MemoryBlock& block : blocks) {
    py::dict entry;
    entry["address"] = block.address;
    entry["handle"] = reinterpret_cast<uintptr_t>(card->handle(block.address));
    entry["size"] = block.bytes;
    entry["requested_size"] = block.requested;
    entry["state"] = kStates[static_cast<int>(block.state)];
    result.append(entry);
  }
  return result;
}

py::dict host_memory_stats() {
  const at::HostStats stats = pinned_allocator()->get_stats();
  py::dict result;
  const auto put = [&result](const std::string& name, const at::Stat& stat) {
    result[(name + ".current").c_str()] = stat.current;
    result[(name + ".peak").c_str()] = stat.peak;
    result[(name + ".allocated").c_str()] = stat.allocated;
    result[(name + ".freed").c_str()] = stat.freed;
  };
  put("active_requests", stats.active_requests);
  put("active_bytes", stats.active_bytes);
  put("allocations", stats.allocations);
  put("allocated_bytes", stats.allocated_bytes);
  result["num_host_alloc"] = stats.num_host_alloc;
  result["num_host_free"] = stats.num_host_free;
  return result;
}

}  // namespace

void bind_memory(py::module_& module) {
  module.def("_spyre_get_allocator_stats", &allocator_stats, py::arg("device"));
  module.def(
      "_spyre_reset_accumulated_stats",
      [](int64_t index) { card_at(index).reset_accumulated_statistics(); }, py::arg("device"),
      Unlocked());
  module.def(
      "_spyre_reset_peak_stats", [](int64_t index) { card_at(index).reset_peak_statistics(); },
      py::arg("device"), Unlocked());
  module.def("host_memory_stats", &host_memory_stats);
  module.def("reset_peak_host_memory_stats", [] { pinned_allocator()->reset_peak_stats(); });
  module.def("reset_accumulated_host_memory_stats",
             [] { pinned_allocator()->reset_accumulated_stats(); });
  module.def("memory_report", &memory_report, py::arg("device"));
  module.def("memory_blocks", &memory_blocks, py::arg("device"));
  module.def(
      "set_memory_limit",
      [](int64_t index, int64_t bytes) { card_at(index).set_memory_limit(bytes); },
      py::arg("device"), py::arg("bytes"), Unlocked());
}

}  // namespace spyre
