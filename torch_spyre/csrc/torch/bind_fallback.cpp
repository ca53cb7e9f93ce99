// Binds the CPU fallback for Python kernels that support only some calls on the card, and its
// policy.
#include <pybind11/stl.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include <array>

#include "torch/bindings.h"
#include "torch/fallback.h"
#include "torch/fallback_policy.h"

namespace py = pybind11;

namespace spyre {

namespace {

py::object run_op_on_cpu(const std::string& name, const std::string& overload,
                         const py::tuple& args, const py::dict& kwargs) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
  auto stack =
      torch::jit::createStackForSchema(op.schema(), torch::jit::tuple_slice(args),
                                       py::reinterpret_borrow<py::kwargs>(kwargs), std::nullopt);
  {
    py::gil_scoped_release unlocked;
    run_on_cpu(op, &stack);
  }
  return torch::jit::createPyObjectForStack(std::move(stack));
}

void register_kernels(const std::vector<std::pair<std::string, std::string>>& forms) {
  std::vector<CpuKernel> kernels;
  for (const auto& [op, form] : forms) kernels.push_back({op, form});
  register_cpu_kernels(kernels);
}

// The names of modes, in the order of the enumeration.
constexpr std::array<const char*, 3> kModes = {"warn", "silent", "error"};

FallbackPolicyRef make_policy(const std::string& mode, std::vector<std::string> allowed) {
  const auto* position = std::ranges::find(kModes, mode);
  TORCH_CHECK_VALUE(position != kModes.end(), "no fallback mode ", mode);
  const auto index = static_cast<FallbackMode>(position - kModes.begin());
  return std::make_shared<FallbackPolicy>(index, std::move(allowed));
}

void bind_policy(py::module_& module) {
  py::class_<FallbackPolicy, FallbackPolicyRef>(module, "_FallbackPolicy")
      .def(py::init(&make_policy), py::arg("mode"), py::arg("allow") = std::vector<std::string>())
      .def_property_readonly(
          "mode",
          [](const FallbackPolicy& policy) { return kModes.at(static_cast<int>(policy.mode())); })
      .def_property_readonly("allow", &FallbackPolicy::allowed)
      .def("allows", py::overload_cast<const std::string&>(&FallbackPolicy::allows, py::const_),
           py::arg("op"));
  module.def(
      "_set_fallback_policy",
      [](const std::string& mode, std::vector<std::string> allowed) {
        set_process_fallback_policy(make_policy(mode, std::move(allowed)));
      },
      py::arg("mode"), py::arg("allow") = std::vector<std::string>());
  module.def("_set_thread_fallback_policy", &set_thread_fallback_policy, py::arg("policy"));
  module.def("_thread_fallback_policy", &thread_fallback_policy);
  module.def("_op_names", [] {
    std::vector<std::pair<std::string, std::string>> names;
    for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
      names.emplace_back(name.name, name.overload_name);
    }
    return names;
  });
}

}  // namespace

void bind_fallback(py::module_& module) {
  bind_policy(module);
  module.def("_run_on_cpu", &run_op_on_cpu, py::arg("name"), py::arg("overload"), py::arg("args"),
             py::arg("kwargs"));
  module.def("_reset_fallback_warnings", &reset_fallback_warnings);
  module.def("_register_cpu_kernels", &register_kernels, py::arg("forms"));
}

}  // namespace spyre
