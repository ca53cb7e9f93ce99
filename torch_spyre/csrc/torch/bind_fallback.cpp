// Binds the CPU fallback for Python kernels that support only some calls on the card.
#include <torch/csrc/jit/python/pybind_utils.h>

#include "torch/bindings.h"
#include "torch/fallback.h"

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

}  // namespace

void bind_fallback(py::module_& module) {
  module.def("_run_on_cpu", &run_op_on_cpu, py::arg("name"), py::arg("overload"), py::arg("args"),
             py::arg("kwargs"));
  module.def("_register_cpu_kernels", &register_kernels, py::arg("forms"));
}

}  // namespace spyre
