#include <ATen/record_function.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include "torch/bindings.h"
#include "torch/bundle.h"
#include "torch/device.h"
#include "torch/python_launch_site.h"

namespace py = pybind11;

namespace spyre {

namespace {

// The Python function that returns the launch options, and its cached result. The GIL guards both.
// The function is never destroyed, because it may outlive the interpreter.
py::function* read_options = nullptr;
std::shared_ptr<const LaunchOptions> known_options;

void set_launch_options(py::function read) {
  delete read_options;
  read_options = new py::function(std::move(read));
  known_options = nullptr;
}

std::shared_ptr<const LaunchOptions> launch_options() {
  if (known_options != nullptr) return known_options;
  auto options = std::make_shared<LaunchOptions>();
  if (read_options != nullptr) {
    const auto [mode, inject, watchdog_seconds, check_counts, blocking] =
        py::function(*read_options)()
            .cast<std::tuple<std::string, std::string, double, bool, bool>>();
    TORCH_CHECK_VALUE(mode == "functional" || mode == "timing" || mode == "both",
                      "launch options: mode must be functional, timing or both, got '", mode, "'");
    TORCH_CHECK_VALUE(watchdog_seconds >= 0,
                      "launch options: watchdog_seconds must not be negative");
    options->executes = mode != "timing";
    options->charges = mode != "functional";
    options->faulty_instruction = parse_fault_injection("launch options", inject);
    options->watchdog_seconds = watchdog_seconds;
    options->check_counts = check_counts;
    options->blocking = blocking;
  }
  return known_options = std::move(options);
}

BundleStage make_stage(std::string program_file, std::vector<ArrayBinding> arrays, LaunchCost cost,
                       bool is_ordered, bool is_ordered_if_aliased, std::vector<ProgramOp> ops,
                       std::vector<int64_t> scalars) {
  return {std::move(program_file), std::move(arrays), std::move(cost),   is_ordered,
          is_ordered_if_aliased,   std::move(ops),    std::move(scalars)};
}

ProgramOp make_op(std::string node, std::string op, std::string index_node, std::string index_op,
                  std::map<int64_t, std::vector<int64_t>> index_strides) {
  return {.node = std::move(node),
          .op = std::move(op),
          .index_node = std::move(index_node),
          .index_op = std::move(index_op),
          .index_strides = std::move(index_strides)};
}

void bind_stages(py::module_& module) {
  using Memory = ArrayBinding::Memory;
  py::class_<ArrayBinding>(module, "ArrayBinding",
                           "The memory that one array of a program is bound to.")
      .def_static(
          "argument",
          [](int64_t index, int64_t bytes) {
            return ArrayBinding{Memory::kArgument, index, bytes};
          },
          py::arg("index"), py::arg("bytes"), "Binds an array to an argument of the call.")
      .def_static(
          "scratch",
          [](int64_t index, int64_t bytes) { return ArrayBinding{Memory::kScratch, index, bytes}; },
          py::arg("index"), py::arg("bytes"), "Binds an array to a scratch buffer of the bundle.")
      .def_property_readonly(
          "is_argument", [](const ArrayBinding& self) { return self.memory == Memory::kArgument; })
      .def_readonly("index", &ArrayBinding::index)
      .def_readonly("bytes", &ArrayBinding::bytes);
  py::class_<ProgramOp>(module, "ProgramOp", "An op of a program, and where it comes from.")
      .def(py::init(&make_op), py::kw_only(), py::arg("node") = "", py::arg("op") = "",
           py::arg("index_node") = "", py::arg("index_op") = "",
           py::arg("index_strides") = std::map<int64_t, std::vector<int64_t>>());
  py::class_<BundleStage>(module, "BundleStage",
                          "One program of a bundle, and the memory of its arrays.")
      .def(py::init(&make_stage), py::kw_only(), py::arg("program_file"), py::arg("arrays"),
           py::arg("cost") = LaunchCost{}, py::arg("is_ordered") = false,
           py::arg("is_ordered_if_aliased") = false, py::arg("ops") = std::vector<ProgramOp>(),
           py::arg("scalars") = std::vector<int64_t>())
      .def_readonly("arrays", &BundleStage::arrays)
      .def_readonly("is_ordered", &BundleStage::is_ordered)
      .def_readonly("is_ordered_if_aliased", &BundleStage::is_ordered_if_aliased)
      .def_readonly("cost", &BundleStage::cost);
}

Bundle& bundle_in(PyObject* self) {
  // Python has already checked the type, because this is a method of the class.
  auto* instance = reinterpret_cast<py::detail::instance*>(self);
  auto* bundle = static_cast<Bundle*>(instance->get_value_and_holder().value_ptr());
  TORCH_CHECK_TYPE(bundle != nullptr, "Bundle.__init__ has not been called");
  return *bundle;
}

// Shows a launch to profilers as the region `launch_kernel:<bundle>`. In an op it is a user scope,
// so that its kernels belong to that op; elsewhere, as in compiled graphs, it takes the place of
// the op.
class LaunchRegion {
 public:
  LaunchRegion(const Bundle& bundle, c10::ArrayRef<const at::Tensor*> tensors)
      : region_(flex::thread_scopes().ops.empty() ? at::RecordScope::FUNCTION
                                                  : at::RecordScope::USER_SCOPE) {
    if (!region_.isActive()) return;
    const std::string name = "launch_kernel:" + bundle.name();
    std::vector<c10::IValue> inputs;
    if (region_.needsInputs()) {
      for (const at::Tensor* tensor : tensors) inputs.emplace_back(*tensor);
    }
    region_.before(name, &inputs);
  }

 private:
  at::RecordFunction region_;
};

// A C function instead of a pybind function: pybind's argument conversion would take longer than
// everything else here.
PyObject* run_bundle(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  Bundle& bundle = bundle_in(self);
  c10::SmallVector<const at::Tensor*, 8> tensors;
  for (Py_ssize_t i = 0; i < count; ++i) {
    TORCH_CHECK_TYPE(THPVariable_Check(arguments[i]), "bundle ", bundle.name(), ": argument ", i,
                     " must be a tensor on spyre, not ", Py_TYPE(arguments[i])->tp_name);
    tensors.push_back(&THPVariable_Unpack(arguments[i]));
  }
  const LaunchRegion region(bundle, tensors);
  Bundle::Call call = bundle.call(tensors);
  std::shared_ptr<const LaunchOptions> options = launch_options();
  LaunchSite site = site_of(bundle);
  log_launch(bundle, call.card);
  {
    const py::gil_scoped_release unlocked;
    bundle.submit(std::move(call), std::move(options), std::move(site));
  }
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyMethodDef run_method = {
    "run", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&run_bundle)), METH_FASTCALL,
    "Queues the programs on the current stream of the tensors' card. Each tensor stands for its "
    "whole storage. The next synchronisation raises the errors of the programs."};

}  // namespace

void bind_bundles(py::module_& module) {
  bind_stages(module);
  auto bundle =
      py::class_<Bundle, std::shared_ptr<Bundle>>(
          module, "Bundle", "A sequence of device programs that run on the memory of one call.")
          .def(py::init<std::string, std::vector<BundleStage>, std::vector<int64_t>,
                        std::optional<int64_t>, const std::shared_ptr<Bundle>&>(),
               py::arg("name"), py::arg("stages"), py::arg("scratch") = std::vector<int64_t>{},
               py::arg("arguments") = py::none(), py::arg("like") = std::shared_ptr<Bundle>())
          .def_property_readonly("name", &Bundle::name)
          .def_property_readonly("arguments", &Bundle::arguments)
          .def(
              "scratchpad_high_water",
              [](Bundle& self, int64_t card) {
                return self.scratchpad_high_water(card_index(card));
              },
              py::arg("device") = -1, py::call_guard<py::gil_scoped_release>(),
              "Returns for each program the bytes of its scratchpad that a core has accessed, in "
              "launches that checked their counts.")
          .def("for_nodes", &Bundle::for_nodes, py::arg("nodes"),
               "Returns the same programs as the kernel of other nodes of a graph.")
          .def("__len__", &Bundle::stages);
  auto* type = reinterpret_cast<PyTypeObject*>(bundle.ptr());
  bundle.attr("run") = py::reinterpret_steal<py::object>(PyDescr_NewMethod(type, &run_method));
  module.def(
      "_set_launch_options", &set_launch_options, py::arg("read"),
      "Sets the function that returns mode, inject, watchdog_seconds, check_counts and blocking. "
      "It is called once, when a bundle next runs.");
}

}  // namespace spyre
