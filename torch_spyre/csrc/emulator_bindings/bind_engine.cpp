// Binds single instructions of the engine, for tests of their results.
#include <ATen/ops/empty.h>
#include <pybind11/stl.h>

#include <vector>

#include "emulator/engine/instruction_set.h"
#include "emulator/engine/lanes.h"
#include "emulator/engine/vector_ops.h"
#include "torch/bindings.h"

namespace py = pybind11;

namespace spyre {

namespace {

using namespace emulator::engine;

ElementType type_named(const std::string& name) {
  const auto type = element_type_named(name);
  TORCH_CHECK_VALUE(type.has_value(), "'", name, "' is no element type; there are f16, bf16, f32, ",
                    "f8E4M3FN, f8E5M2FNUZ, i1, i8, i16, i32 and i64");
  return *type;
}

at::ScalarType dtype_of_codes(ElementType type) {
  switch (bytes_of(type)) {
    case 1:
      return at::kByte;
    case 2:
      return at::kShort;
    case 4:
      return at::kInt;
    default:
      return at::kLong;
  }
}

const std::byte* bytes_in(const at::Tensor& tensor) {
  return static_cast<const std::byte*>(tensor.const_data_ptr());
}

at::Tensor vector_op(const std::string& name, const std::string& operand_name,
                     const std::string& result_name, const std::vector<at::Tensor>& inputs) {
  const auto op = vector_op_named(name);
  TORCH_CHECK_VALUE(op.has_value(), "the vector unit has no instruction '", name, "'");
  const ElementType operand = type_named(operand_name);
  const ElementType result = type_named(result_name);
  const VectorFunction function = vector_function(*op, operand, result);
  TORCH_CHECK_VALUE(function != nullptr, name, " does not exist from ", operand_name, " to ",
                    result_name);
  const auto expected = static_cast<size_t>(vector_op_info(*op)->inputs);
  TORCH_CHECK_VALUE(inputs.size() == expected, name, " takes ", expected, " inputs, not ",
                    inputs.size());

  const DefaultFloatingPoint settings;
  const int64_t n = inputs[0].numel();
  std::vector<at::Tensor> lanes;
  std::vector<const void*> lane_pointers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool is_mask = *op == VectorOp::SELECT && i == 0;
    const ElementType type = is_mask ? ElementType::I1 : operand;
    TORCH_CHECK_VALUE(inputs[i].device().is_cpu() && inputs[i].numel() == n &&
                          inputs[i].element_size() == bytes_of(type),
                      name, " takes host tensors of ", n, " codes of ", bytes_of(type),
                      " bytes, not input ", i, " of shape ", inputs[i].sizes(), " and type ",
                      inputs[i].scalar_type(), " on ", inputs[i].device());
    const at::Tensor codes = inputs[i].contiguous();
    lanes.push_back(at::empty({n * lane_bytes(type)}, at::kByte));
    lane_pointers.push_back(lanes.back().const_data_ptr());
    if (n > 0) load_lanes(type)(bytes_in(codes), 1, lanes.back().mutable_data_ptr(), n);
  }
  const at::Tensor output = at::empty({n * lane_bytes(result)}, at::kByte);
  at::Tensor codes = at::empty(inputs[0].sizes(), dtype_of_codes(result));
  if (n == 0) return codes;
  function(lane_pointers.data(), output.mutable_data_ptr(), n);
  store_lanes(result)(output.const_data_ptr(), static_cast<std::byte*>(codes.mutable_data_ptr()), 1,
                      n);
  return codes;
}

std::vector<std::tuple<std::string, int, std::string>> list_vector_ops() {
  static constexpr const char* kKinds[] = {"simple", "divide", "transcendental", "random"};
  std::vector<std::tuple<std::string, int, std::string>> result;
  for (const VectorOp op : vector_ops()) {
    const VectorOpInfo* info = vector_op_info(op);
    result.emplace_back(info->name, info->inputs, kKinds[static_cast<int>(info->cost)]);
  }
  return result;
}

std::vector<std::tuple<std::string, int64_t, std::string, decltype(RecordDescription::fields)>>
list_instruction_set() {
  std::vector<std::tuple<std::string, int64_t, std::string, decltype(RecordDescription::fields)>>
      records;
  for (RecordDescription& record : describe_instruction_set()) {
    records.emplace_back(record.name, record.opcode, record.mnemonic, std::move(record.fields));
  }
  return records;
}

}  // namespace

void bind_engine(py::module_& module) {
  module.def("_vector_op", &vector_op, py::arg("name"), py::arg("operand_type"),
             py::arg("result_type"), py::arg("inputs"), py::call_guard<py::gil_scoped_release>());
  module.def("_vector_ops", &list_vector_ops);
  module.def("_instruction_set", &list_instruction_set);
}

}  // namespace spyre
