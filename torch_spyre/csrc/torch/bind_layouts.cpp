#include <pybind11/native_enum.h>
#include <pybind11/stl.h>

#include <bit>
#include <cmath>
#include <limits>

#include "flex/copy_builder.h"
#include "flex/float_formats.h"
#include "torch/bindings.h"
#include "torch/dtypes.h"

namespace py = pybind11;

namespace spyre {

namespace {

constexpr int kPickleVersion = 3;

py::tuple get_state(const TensorLayout& layout) {
  return py::make_tuple(kPickleVersion, layout.device_size(), layout.stride_map(), layout.format(),
                        layout.arrangement());
}

// Accepts all layouts, including pool and linear ones.
TensorLayout from_fields(const Sizes& size, const Sizes& stride_map, DataFormat format,
                         ElementArrangement arrangement) {
  if (!size.empty() && size.back() != elems_per_stick(format)) {
    for (const auto& raw : {TensorLayout::pool(std::max<int64_t>(size[0], 0)),
                            TensorLayout::linear(std::max<int64_t>(size[0], 0), format)}) {
      if (size == raw.device_size() && stride_map == raw.stride_map() && format == raw.format()) {
        return raw.with_arrangement(arrangement);
      }
    }
  }
  return TensorLayout::from_fields(size, stride_map, format, arrangement);
}

// Version 1 had a dim_map between the sizes and the strides; version 2 had no arrangement.
TensorLayout from_state(const py::tuple& state) {
  const auto wrong = [](const std::string& problem) {
    return py::value_error("not the state of a SpyreTensorLayout: " + problem);
  };
  if (state.empty()) throw wrong("it is empty");
  const int version = state[0].cast<int>();
  const size_t expected = version == 2 ? 4 : 5;
  if (version < 1 || version > kPickleVersion) throw wrong("version " + std::to_string(version));
  if (state.size() != expected) throw wrong(std::to_string(state.size()) + " items");
  const size_t strides = version == 1 ? 3 : 2;
  const auto arrangement =
      version == 3 ? state[4].cast<ElementArrangement>() : ElementArrangement::STANDARD;
  return from_fields(state[1].cast<Sizes>(), state[strides].cast<Sizes>(),
                     state[strides + 1].cast<DataFormat>(), arrangement);
}

// Rounds to odd: inexact results get an odd last bit, so that a later rounding to fewer bits gives
// the same result as rounding once.
float narrow_to_odd(double value) {
  constexpr float kMaxFloat = std::numeric_limits<float>::max();
  if (std::isfinite(value) && std::fabs(value) > kMaxFloat) return std::copysign(kMaxFloat, value);
  const auto nearest = static_cast<float>(value);
  if (std::isnan(value) || std::isinf(nearest) || static_cast<double>(nearest) == value) {
    return nearest;
  }
  const bool away = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
  const float toward_zero = away ? std::nextafter(nearest, 0.0F) : nearest;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(toward_zero) | 1U);
}

uint32_t encode_constant(double value, DataFormat format) {
  if (format == DataFormat::IEEE_FP32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  const auto bits = std::bit_cast<uint32_t>(narrow_to_odd(value));
  return ieee_fp16() ? fp16_from_fp32(bits) : sen169_from_fp32(bits);
}

py::dict describe_nest(const CopyNest& nest, bool to_device) {
  Sizes size, src, dst;
  for (const CopyLoop& loop : nest.loops) {
    size.push_back(loop.size);
    src.push_back(to_device ? loop.src_stride : loop.dst_stride);
    dst.push_back(to_device ? loop.dst_stride : loop.src_stride);
  }
  py::dict record;
  record["size_"] = size;
  record["stride_src_"] = src;
  record["stride_dst_"] = dst;
  record["offset_src_"] = to_device ? nest.src_offset : nest.dst_offset;
  record["offset_dst_"] = to_device ? nest.dst_offset : nest.src_offset;
  return record;
}

Sizes innermost_first(Sizes sizes) {
  std::reverse(sizes.begin(), sizes.end());
  return sizes;
}

py::dict describe_copy(const Sizes& size, const Sizes& strides, at::ScalarType dtype,
                       const TensorLayout& layout, bool to_device,
                       const std::optional<Sizes>& host_strides, int64_t host_offset) {
  const Binding binding{layout, size, strides};
  const HostView host{size, host_strides.value_or(strides), host_offset};
  check_geometry(size, strides);
  check_geometry(size, host.strides, host_offset);
  const DataFormat in_memory = host_format(dtype, layout.format());
  // The host format of torch.uint8 has no public name.
  const DataFormat on_host = in_memory == DataFormat::HOST_UINT8 ? layout.format() : in_memory;
  const Sizes host_shape = size.empty() ? Sizes{1} : innermost_first(size);
  const Sizes device_shape = innermost_first(layout.device_size());
  py::list nests;
  for (const CopyNest& nest : describe_to_device(binding, host)) {
    nests.append(describe_nest(nest, to_device));
  }
  py::dict record;
  record["dci_dsName_"] = "DCI-Tensor-0";
  record["isHostToSen_"] = to_device;
  record["dataformat_src_"] = py::cast(to_device ? on_host : layout.format());
  record["dataformat_dst_"] = py::cast(to_device ? layout.format() : on_host);
  record["input_shape_"] = to_device ? host_shape : device_shape;
  record["output_shape_"] = to_device ? device_shape : host_shape;
  record["dcsi_"] = nests;
  return record;
}

void bind_enums(py::module_& module) {
  auto formats =
      py::native_enum<DataFormat>(module, "DataFormats", "enum.Enum", "Data formats of a card.");
  for (int i = 0; i < kDataFormatCount; ++i) {
    const auto format = static_cast<DataFormat>(i);
    formats.value(std::string(name_of(format)).c_str(), format);
  }
  for (const DataFormat raw : {DataFormat::RAW8, DataFormat::RAW16, DataFormat::RAW32,
                               DataFormat::RAW64, DataFormat::RAW128}) {
    formats.value(std::string(name_of(raw)).c_str(), raw);
  }
  formats.finalize();
  auto arrangements = py::native_enum<ElementArrangement>(module, "ElementArrangement", "enum.Enum",
                                                          "Order of elements inside sticks.");
  for (int i = 0; i <= static_cast<int>(ElementArrangement::QFP8WT); ++i) {
    const auto arrangement = static_cast<ElementArrangement>(i);
    arrangements.value(std::string(name_of(arrangement)).c_str(), arrangement);
  }
  arrangements.finalize();

  const auto as_int = [](const py::object& self) { return self.attr("value").cast<int>(); };
  for (const char* name : {"DataFormats", "ElementArrangement"}) {
    py::object type = module.attr(name);
    type.attr("__int__") = py::cpp_function(as_int, py::is_method(type));
  }
  py::object type = module.attr("DataFormats");
  type.attr("elems_per_stick") = py::cpp_function(
      [](DataFormat format) { return elems_per_stick(format); }, py::is_method(type));
}

}  // namespace

void bind_layouts(py::module_& module) {
  bind_enums(module);
  constexpr auto kStandard = ElementArrangement::STANDARD;
  py::class_<TensorLayout>(module, "SpyreTensorLayout",
                           "How a tensor lies in device memory; see docs/layouts.md.")
      .def(py::init([](const Sizes& host_size, at::ScalarType dtype) {
             return TensorLayout::of(host_size, checked_device_format(dtype));
           }),
           py::arg("host_size"), py::arg("dtype"))
      .def(py::init([](const Sizes& host_size, const Sizes& host_strides, at::ScalarType dtype,
                       const Sizes& dim_order, ElementArrangement arrangement) {
             return TensorLayout::of(host_size, host_strides, checked_device_format(dtype),
                                     dim_order, arrangement);
           }),
           py::arg("host_size"), py::arg("host_strides"), py::arg("dtype"), py::arg("dim_order"),
           py::arg("element_arrangement") = kStandard)
      .def(py::init(&TensorLayout::from_fields), py::arg("device_size"), py::arg("stride_map"),
           py::arg("device_dtype"), py::arg("element_arrangement") = kStandard)
      .def_static("pool", &TensorLayout::pool, py::arg("sticks"),
                  "Raw memory for a kernel's intermediates.")
      .def_static("linear", &TensorLayout::linear, py::arg("count"),
                  py::arg("device_dtype") = DataFormat::SENINT8,
                  "One element after the other, as a storage without a dtype holds its bytes.")
      .def_property_readonly("device_size", &TensorLayout::device_size)
      .def_property_readonly("stride_map", &TensorLayout::stride_map)
      .def_property_readonly("device_dtype", &TensorLayout::format)
      .def_property_readonly("element_arrangement", &TensorLayout::arrangement)
      .def("elems_per_stick",
           [](const TensorLayout& self) { return elems_per_stick(self.format()); })
      .def("device_bytes", &TensorLayout::device_bytes)
      .def("with_element_arrangement", &TensorLayout::with_arrangement, py::arg("ea"))
      .def("__eq__",
           [](const TensorLayout& self, const py::object& other) {
             return py::isinstance<TensorLayout>(other) &&
                    self == other.cast<const TensorLayout&>();
           })
      .def("__hash__", &TensorLayout::hash)
      .def("__str__", &TensorLayout::str)
      .def("__repr__", &TensorLayout::str)
      .def(py::pickle(&get_state, &from_state));

  module.def("_set_stores_unsupported_dtypes", &set_stores_unsupported_dtypes, py::arg("stores"));
  module.def("_stores_unsupported_dtypes", &stores_unsupported_dtypes);
  module.def("get_device_dtype", &device_format, py::arg("dtype"));
  module.def(
      "get_elem_in_stick",
      [](at::ScalarType dtype) { return elems_per_stick(checked_device_format(dtype)); },
      py::arg("dtype"));
  module.def("encode_constant", &encode_constant, py::arg("value"), py::arg("format"));
  module.def("describe_copy", &describe_copy, py::arg("size"), py::arg("strides"), py::arg("dtype"),
             py::arg("layout"), py::arg("to_device") = true, py::arg("host_strides") = py::none(),
             py::arg("host_offset") = 0,
             "The DCI record of a whole tensor: loop nests, innermost first, in elements.");
}

}  // namespace spyre
