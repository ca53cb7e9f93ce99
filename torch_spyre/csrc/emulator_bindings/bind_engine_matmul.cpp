// Binds the card's matrix instruction on codes in host memory, for tests and benchmarks.
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <pybind11/stl.h>

#include <array>
#include <optional>
#include <string>

#include "emulator/engine/matmul.h"
#include "torch/bindings.h"

namespace py = pybind11;

namespace spyre {
namespace {

using emulator::engine::ElementType;

ElementType type_of(const at::Tensor& codes, const std::string& name) {
  const auto type = emulator::engine::element_type_named(name);
  TORCH_CHECK_VALUE(type.has_value(), "_matmul_codes: no element type is called '", name, "'");
  TORCH_CHECK_VALUE(codes.device().is_cpu() && codes.dim() == 2,
                    "_matmul_codes: expected a matrix in host memory, got ", codes.dim(),
                    " dimensions on ", codes.device());
  TORCH_CHECK_VALUE(codes.element_size() == bytes_of(*type), "_matmul_codes: '", name, "' has ",
                    bytes_of(*type), " bytes, but the tensor is ", codes.scalar_type());
  return *type;
}

emulator::engine::Matrix matrix_of(const at::Tensor& codes, const std::string& name) {
  return {static_cast<const std::byte*>(codes.const_data_ptr()), type_of(codes, name),
          codes.stride(0), codes.stride(1)};
}

// Names in the order a, b, c_in, c_out.
void matmul_codes(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& c_in,
                  const at::Tensor& c_out, const std::array<std::string, 4>& types) {
  const auto left = matrix_of(a, types[0]);
  const auto right = matrix_of(b, types[1]);
  const auto start = c_in ? matrix_of(*c_in, types[2]) : emulator::engine::Matrix{};
  const ElementType result = type_of(c_out, types[3]);
  const bool fits = a.size(1) == b.size(0) && c_out.size(0) == a.size(0) &&
                    c_out.size(1) == b.size(1) && (!c_in || c_in->sizes() == c_out.sizes());
  TORCH_CHECK_VALUE(fits, "_matmul_codes: ", a.sizes(), " times ", b.sizes(), " does not give ",
                    c_out.sizes(), c_in ? ", or c_in has another shape" : "");
  const py::gil_scoped_release release;
  emulator::engine::matmul(
      a.size(0), b.size(1), a.size(1), left, right, start,
      {static_cast<std::byte*>(c_out.data_ptr()), result, c_out.stride(0), c_out.stride(1)});
}

}  // namespace

void bind_engine_matmul(py::module_& module) {
  module.def("_matmul_codes", &matmul_codes, py::arg("a"), py::arg("b"), py::arg("c_in"),
             py::arg("c_out"), py::arg("types"));
}

}  // namespace spyre
