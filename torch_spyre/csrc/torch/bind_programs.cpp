#include <pybind11/stl.h>

#include "flex/interruption.h"
#include "flex/trace.h"
#include "torch/bindings.h"
#include "torch/device.h"
#include "torch/launch_counts.h"
#include "torch/launches.h"
#include "torch/storage.h"

namespace py = pybind11;

namespace spyre {

namespace {

// A program and the card that has loaded it.
struct DeviceProgram {
  std::shared_ptr<const flex::LoadedProgram> program;
  c10::DeviceIndex card;
};

DeviceProgram load_program(const py::bytes& file, int card) {
  const std::string_view data = file;
  py::gil_scoped_release unlocked;
  const c10::DeviceIndex index = resolve({kSpyre, static_cast<c10::DeviceIndex>(card)}).index();
  try {
    const auto bytes = std::as_bytes(std::span(data.data(), data.size()));
    return {flex::Runtime::get().card(index).load_program(bytes), index};
  } catch (const flex::ProgramError& error) {
    TORCH_CHECK_VALUE(false, error.what());
  }
}

// The memory of the arrays of a launch, owned until the launch is done.
struct LaunchMemory {
  std::vector<std::shared_ptr<flex::Allocation>> owners;

  flex::MemoryRange add(const DeviceProgram& program, const char* argument,
                        const at::Tensor& tensor, int64_t bytes) {
    const std::string& name = program.program->name();
    TORCH_CHECK(tensor.defined() && tensor.device().type() == kSpyre &&
                    tensor.device().index() == program.card,
                "kernel ", name, ": ", argument,
                " must be a tensor on spyre:", static_cast<int>(program.card),
                ", where the program is loaded, but it is on ",
                tensor.defined() ? tensor.device().str() : "no device");
    TORCH_CHECK(tensor.storage_offset() == 0, "kernel ", name, ": ", argument,
                " is a view that begins at element ", tensor.storage_offset(),
                " of its storage; programs take whole storages");
    std::shared_ptr<flex::Allocation> owner = memory_of(tensor);
    const auto capacity = owner == nullptr ? 0 : static_cast<int64_t>(owner->bytes());
    TORCH_CHECK(bytes >= 0 && bytes <= capacity, "kernel ", name, ": ", argument, " needs ", bytes,
                " bytes, and its storage has ", capacity);
    if (owner == nullptr) return {};
    flex::MemoryRange range = owner->range();
    range.bytes = static_cast<size_t>(bytes);
    owners.push_back(std::move(owner));
    return range;
  }
};

flex::Launch make_launch(const DeviceProgram& program, const std::vector<at::Tensor>& arrays,
                         const std::vector<int64_t>& array_bytes,
                         const std::vector<int64_t>& scalars, const std::vector<at::Tensor>& fixed,
                         LaunchMemory& memory) {
  const flex::LoadedProgram& loaded = *program.program;
  const std::vector<int64_t> fixed_bytes = loaded.fixed_bytes();
  TORCH_CHECK(static_cast<int64_t>(arrays.size()) == loaded.arrays() &&
                  array_bytes.size() == arrays.size() &&
                  static_cast<int64_t>(scalars.size()) == loaded.scalars() &&
                  fixed.size() == fixed_bytes.size(),
              "kernel ", loaded.name(), " takes ", loaded.arrays(), " arrays, ", loaded.scalars(),
              " scalars and ", fixed_bytes.size(), " fixed buffers, but was given ", arrays.size(),
              " arrays, ", array_bytes.size(), " sizes of arrays, ", scalars.size(),
              " scalars and ", fixed.size(), " fixed buffers");
  flex::Launch launch;
  for (size_t i = 0; i < arrays.size(); ++i) {
    launch.arrays.push_back(memory.add(program, "an array", arrays[i], array_bytes[i]));
  }
  for (size_t i = 0; i < fixed.size(); ++i) {
    launch.fixed.push_back(memory.add(program, "a fixed buffer", fixed[i], fixed_bytes[i]));
  }
  launch.scalars.assign(scalars.begin(), scalars.end());
  return launch;
}

void launch_program(const DeviceProgram& program, const std::vector<at::Tensor>& arrays,
                    const std::vector<int64_t>& array_bytes, const std::vector<int64_t>& scalars,
                    const std::vector<at::Tensor>& fixed, const LaunchCost& cost, bool executes,
                    bool ordered, const std::string& inject, double watchdog_seconds,
                    bool check_counts, bool blocking) {
  TORCH_CHECK_VALUE(watchdog_seconds >= 0, "launch_program: watchdog_seconds must not be negative");
  LaunchMemory memory;
  flex::Launch launch = make_launch(program, arrays, array_bytes, scalars, fixed, memory);
  launch.ordered = ordered;
  launch.faulty_instruction = parse_fault_injection("launch_program", inject);
  launch.watchdog_seconds = watchdog_seconds;
  launch.check_counts = check_counts;
  flex::Runtime& runtime = flex::Runtime::get();
  flex::Card& card = runtime.card(program.card);
  flex::Stream& stream = current_queue(program.card);
  auto work = [&card, executes, loaded = program.program, launch = std::move(launch),
               owners = std::move(memory.owners)]() mutable {
    launch.stop = flex::stop_request_here();
    if (executes) execute_launch(card, *loaded, launch);
  };
  trace("launch ", program.program->name(), " on card ", static_cast<int>(program.card), " stream ",
        stream.id());
  if (LaunchCounts::get().is_counting()) LaunchCounts::get().add(cost.kernel);
  flex::CallRecord call("aiuLaunchControlBlocks");
  const flex::TimeSpan span = stream.submit(std::move(work), charge(cost, 1, card));
  if (call.is_active()) {
    call.add(kernel_work(program.program->name(), program.card, stream.id(), cost), span);
  }
  if (blocking) stream.synchronize();
}

LaunchCost make_cost(uint64_t time_ps, uint64_t ddr_read_bytes, uint64_t ddr_write_bytes,
                     uint64_t pt_ps, uint64_t sfp_ps, uint64_t lx_ps, uint64_t ring_ps,
                     const flex::Metrics& metrics, uint64_t kernel) {
  LaunchCost cost{time_ps, ddr_read_bytes, ddr_write_bytes, pt_ps, sfp_ps, lx_ps, ring_ps};
  cost.kernel = kernel;
  if (!metrics.empty()) cost.metrics = std::make_shared<const flex::Metrics>(metrics);
  return cost;
}

void bind_launch_cost(py::module_& module) {
  py::class_<LaunchCost>(module, "LaunchCost", "The cost of a launch, from the timing model.")
      .def(py::init(&make_cost), py::arg("time_ps") = 0, py::arg("ddr_read_bytes") = 0,
           py::arg("ddr_write_bytes") = 0, py::kw_only(), py::arg("pt_ps") = 0,
           py::arg("sfp_ps") = 0, py::arg("lx_ps") = 0, py::arg("ring_ps") = 0,
           py::arg("metrics") = flex::Metrics{}, py::arg("kernel") = 0)
      .def_readonly("time_ps", &LaunchCost::time_ps)
      .def_readonly("ddr_read_bytes", &LaunchCost::ddr_read_bytes)
      .def_readonly("ddr_write_bytes", &LaunchCost::ddr_write_bytes)
      .def_readonly("pt_ps", &LaunchCost::pt_ps)
      .def_readonly("sfp_ps", &LaunchCost::sfp_ps)
      .def_readonly("lx_ps", &LaunchCost::lx_ps)
      .def_readonly("ring_ps", &LaunchCost::ring_ps)
      .def_readonly("kernel", &LaunchCost::kernel)
      .def_property_readonly("metrics", [](const LaunchCost& self) {
        return self.metrics == nullptr ? flex::Metrics{} : *self.metrics;
      });
}

}  // namespace

void bind_programs(py::module_& module) {
  bind_launch_cost(module);
  module.def("_start_launch_counts", [] { LaunchCounts::get().start(); });
  module.def("_stop_launch_counts", [] { LaunchCounts::get().stop(); });
  module.def("_launch_counts", [] { return LaunchCounts::get().counts(); });
  py::class_<DeviceProgram>(module, "LoadedProgram", "A device program on a card.")
      .def_property_readonly("name", [](const DeviceProgram& self) { return self.program->name(); })
      .def_property_readonly("card",
                             [](const DeviceProgram& self) { return static_cast<int>(self.card); })
      .def_property_readonly("cores",
                             [](const DeviceProgram& self) { return self.program->cores(); })
      .def_property_readonly("scratchpad_high_water", [](const DeviceProgram& self) {
        return self.program->scratchpad_high_water();
      });
  module.def("load_program", &load_program, py::arg("file"), py::arg("card"));
  module.def("launch_program", &launch_program, py::arg("program"), py::arg("arrays"),
             py::arg("array_bytes"), py::arg("scalars"), py::arg("fixed"), py::arg("cost"),
             py::arg("execute"), py::arg("ordered"), py::arg("inject"), py::arg("watchdog_seconds"),
             py::arg("check_counts"), py::arg("blocking") = false,
             py::call_guard<py::gil_scoped_release>(),
             "Queues one execution on the current stream of the program's card.");
}

}  // namespace spyre
