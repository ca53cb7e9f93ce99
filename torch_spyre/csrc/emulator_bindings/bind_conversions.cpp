// Binds the name of the instruction set that the emulator's conversions use.
#include <string>

#include "emulator/convert.h"
#include "torch/bindings.h"

namespace py = pybind11;

namespace spyre {

void bind_conversions(py::module_& module) {
  module.def("cpu_capability", [] { return std::string(emulator::active_kernels().name); });
}

}  // namespace spyre
