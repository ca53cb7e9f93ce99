#include <pybind11/stl.h>
#include <torch/csrc/autograd/generated/variable_factories.h>

#include "torch/allocator.h"
#include "torch/bindings.h"
#include "torch/copy.h"
#include "torch/copy_jobs.h"
#include "torch/device.h"
#include "torch/dtypes.h"
#include "torch/tensors.h"

namespace py = pybind11;

namespace spyre {

namespace {

using Unlocked = py::call_guard<py::gil_scoped_release>;

const at::Tensor& checked(const at::Tensor& tensor, const char* function) {
  TORCH_CHECK(tensor.device().type() == kSpyre, function,
              ": expected a tensor on spyre, got one on ", tensor.device());
  return tensor;
}

TensorLayout get_layout(const at::Tensor& tensor) {
  return binding_of(checked(tensor, "get_spyre_tensor_layout"))->layout;
}

at::Tensor as_strided_with_layout(const at::Tensor& tensor, const Sizes& size, const Sizes& strides,
                                  std::optional<int64_t> offset, const TensorLayout& layout) {
  return view_with_layout(checked(tensor, "as_strided_with_layout"), size, strides,
                          offset.value_or(tensor.storage_offset()), layout);
}

at::Tensor reinterpret(const at::Tensor& tensor, const Sizes& size, const Sizes& strides,
                       int64_t offset_increment) {
  return view_as(checked(tensor, "reinterpret_tensor"), size, strides,
                 checked_add(tensor.storage_offset(), offset_increment));
}

at::Tensor reinterpret_with_layout(const at::Tensor& tensor, const Sizes& size,
                                   const Sizes& strides, int64_t offset_increment,
                                   const TensorLayout& layout) {
  return view_with_layout(checked(tensor, "reinterpret_tensor_with_layout"), size, strides,
                          checked_add(tensor.storage_offset(), offset_increment), layout);
}

at::Tensor empty_contiguous_with_layout(const Sizes& size, const TensorLayout& layout,
                                        std::optional<at::ScalarType> dtype,
                                        std::optional<at::Device> device,
                                        std::optional<bool> pin_memory,
                                        std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(!pin_memory || !*pin_memory, "Pin memory can only be on CPU");
  TORCH_CHECK(
      !format || *format == at::MemoryFormat::Contiguous || *format == at::MemoryFormat::Preserve,
      "Spyre backend only supports contiguous memory format, got: ", *format);
  return empty_with_layout(size, contiguous_strides(size),
                           dtype.value_or(c10::get_default_dtype_as_scalartype()),
                           device.value_or(c10::Device(kSpyre)), layout);
}

at::Tensor empty_strided_with_layout(const Sizes& size, const Sizes& strides, at::ScalarType dtype,
                                     const TensorLayout& layout, std::optional<at::Device> device) {
  return empty_with_layout(size, strides, dtype, device.value_or(c10::Device(kSpyre)), layout);
}

void copy_checked(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  TORCH_CHECK((self.device().type() == kSpyre) != (dst.device().type() == kSpyre),
              "copy_tensor: exactly one of the tensors must be on spyre, got ", self.device(),
              " and ", dst.device());
  copy_tensor(self, dst, non_blocking);
}

// Returns a copy on `device`: by default the tensor's card, or the current one for a host tensor.
at::Tensor to_with_layout(const at::Tensor& tensor, const TensorLayout& layout,
                          std::optional<at::Device> device) {
  const c10::Device here = tensor.device().type() == kSpyre ? tensor.device() : c10::Device(kSpyre);
  at::Tensor result = empty_with_layout(tensor.sizes(), tensor.strides(), tensor.scalar_type(),
                                        device.value_or(here), layout);
  copy_tensor(tensor, result, false);
  return result;
}

// Returns the bytes of a storage's host image, without the padding of its last sticks.
int64_t content_bytes(const at::Tensor& tensor) {
  const SpyreStorageImpl& storage = storage_of(checked(tensor, "content_bytes"));
  if (storage.is_raw()) return static_cast<int64_t>(storage.nbytes());
  return storage.binding->extent() * static_cast<int64_t>(c10::elementSize(storage.dtype));
}

// Returns null for a tensor without memory: an empty one, or one whose storage was released.
std::shared_ptr<flex::Allocation> raw_memory(const at::Tensor& tensor, const char* function) {
  return allocation_of(checked(tensor, function).storage().data_ptr());
}

// Returns the device memory of a tensor as bytes, including padding. For tests.
at::Tensor device_bytes(const at::Tensor& tensor) {
  const auto memory = raw_memory(tensor, "_device_bytes");
  const auto count = memory ? static_cast<int64_t>(memory->bytes()) : 0;
  at::Tensor bytes = torch::empty({count}, at::kByte);
  if (memory == nullptr) return bytes;
  flex::Runtime::get().synchronize(memory->card_index());
  memory->card().transfer_bytes(memory->range(),
                                {bytes.mutable_data_ptr(), nullptr, 0, bytes.nbytes()});
  return bytes;
}

void set_device_bytes(const at::Tensor& tensor, const at::Tensor& bytes) {
  const auto memory = raw_memory(tensor, "_set_device_bytes");
  const at::Tensor source = bytes.contiguous();
  TORCH_CHECK(source.device().is_cpu() && source.scalar_type() == at::kByte,
              "_set_device_bytes: expected a uint8 tensor on the CPU");
  const size_t expected = memory ? memory->bytes() : 0;
  TORCH_CHECK(source.nbytes() == expected, "_set_device_bytes: expected ", expected, " bytes, got ",
              source.nbytes());
  if (memory == nullptr) return;
  flex::Runtime::get().synchronize(memory->card_index());
  void* data = const_cast<void*>(source.const_data_ptr());
  memory->card().transfer_bytes({data, nullptr, 0, source.nbytes()}, memory->range());
}

}  // namespace

void bind_tensors(py::module_& module) {
  module.def("get_spyre_tensor_layout", &get_layout, py::arg("tensor"));
  module.def("set_spyre_tensor_layout", &set_layout, py::arg("tensor"), py::arg("layout"));
  module.def(
      "has_own_layout",
      [](const at::Tensor& tensor) {
        const SpyreTensorImpl* impl = impl_of(tensor);
        return impl != nullptr && impl->own_binding != nullptr;
      },
      py::arg("tensor"), "Whether the tensor's layout is not that of its storage.");
  module.def("is_byte_view", &is_byte_view, py::arg("tensor"),
             "Whether the tensor's elements are the bytes of its storage.");
  module.def("empty_with_layout", &empty_contiguous_with_layout, py::arg("size"), py::arg("layout"),
             py::arg("dtype") = py::none(), py::arg("device") = py::none(),
             py::arg("pin_memory") = py::none(), py::arg("memory_format") = py::none(), Unlocked());
  module.def("spyre_empty_with_layout", &empty_strided_with_layout, py::arg("size"),
             py::arg("stride"), py::arg("dtype"), py::arg("layout"), py::arg("device") = py::none(),
             Unlocked());
  module.def("as_strided_with_layout", &as_strided_with_layout, py::arg("tensor"), py::arg("size"),
             py::arg("stride"), py::arg("storage_offset"), py::arg("layout"), Unlocked());
  module.def("reinterpret_tensor", &reinterpret, py::arg("tensor"), py::arg("size"),
             py::arg("stride"), py::arg("offset_increment") = 0, Unlocked());
  module.def("reinterpret_tensor_with_layout", &reinterpret_with_layout, py::arg("tensor"),
             py::arg("size"), py::arg("stride"), py::arg("offset_increment"), py::arg("layout"),
             Unlocked());
  module.def("to_with_layout", &to_with_layout, py::arg("tensor"), py::arg("layout"),
             py::arg("device") = py::none(), Unlocked());
  module.def("copy_tensor", &copy_checked, py::arg("self"), py::arg("dst"),
             py::arg("non_blocking") = false, Unlocked());
  module.def("slice_of_storage", &slice_of, py::arg("storage"), py::arg("start"), py::arg("bytes"),
             "A range of the bytes of a storage, which it aliases.");
  module.def("content_bytes", &content_bytes, py::arg("tensor"));
  module.def("_device_bytes", &device_bytes, py::arg("tensor"), Unlocked());
  module.def("_set_device_bytes", &set_device_bytes, py::arg("tensor"), py::arg("bytes"),
             Unlocked());
  module.def("get_downcast_warning", &downcast_warning);
  module.def("set_downcast_warning", &set_downcast_warning, py::arg("enabled"));
}

}  // namespace spyre
