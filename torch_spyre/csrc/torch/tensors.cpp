#include "torch/tensors.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <ATen/WrapDimUtils.h>
#include <torch/library.h>

#include "flex/layout_check.h"
#include "torch/device.h"
#include "torch/dtypes.h"
#include "torch/raw_views.h"
#include "torch/uninitialized.h"

namespace spyre {

namespace {

at::ScalarType chosen_dtype(std::optional<at::ScalarType> dtype) {
  return dtype ? *dtype : c10::get_default_dtype_as_scalartype();
}

c10::Device chosen_device(std::optional<c10::Device> device) {
  return resolve(device ? *device : c10::Device(kSpyre));
}

void check_options(std::optional<at::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK(!layout || *layout == at::kStrided, "Non strided layout not supported");
  TORCH_CHECK(!pin_memory || !*pin_memory, "Pin memory can only be on CPU");
}

// PyTorch's ops request channels_last if their inputs have such strides. (A program's torch.empty
// may not: see pytorch_internals/layout_arguments.py.)
Sizes strides_of_format(at::IntArrayRef size, at::MemoryFormat format) {
  const bool is_2d = format == at::MemoryFormat::ChannelsLast;
  if (!is_2d && format != at::MemoryFormat::ChannelsLast3d) {
    return contiguous_strides(to_sizes(size));
  }
  const size_t rank = is_2d ? 4 : 5;
  TORCH_CHECK(size.size() == rank, "required rank ", rank, " tensor to use ", format, " format");
  return is_2d ? to_sizes(c10::get_channels_last_strides_2d(size))
               : to_sizes(c10::get_channels_last_strides_3d(size));
}

at::Tensor empty_memory_format(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                               std::optional<at::Layout> layout, std::optional<c10::Device> device,
                               std::optional<bool> pin_memory,
                               std::optional<at::MemoryFormat> format) {
  check_options(layout, pin_memory);
  at::detail::check_size_nonnegative(size);
  const at::ScalarType type = chosen_dtype(dtype);
  at::detail::computeStorageNbytesContiguous(size, c10::elementSize(type));
  const Sizes strides = strides_of_format(size, format.value_or(at::MemoryFormat::Contiguous));
  return fill_if_deterministic(empty_on_device(size, strides, type, chosen_device(device)));
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef strides,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  check_options(layout, pin_memory);
  check_geometry(to_sizes(size), to_sizes(strides));
  const at::ScalarType type = chosen_dtype(dtype);
  at::detail::computeStorageNbytes(size, strides, c10::elementSize(type));
  return fill_if_deterministic(empty_on_device(size, strides, type, chosen_device(device)));
}

at::Tensor as_strided(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef strides,
                      std::optional<int64_t> offset) {
  return view_as(self, size, strides, offset.value_or(self.storage_offset()));
}

const at::Tensor& as_strided_in_place(const at::Tensor& self, at::IntArrayRef size,
                                      at::IntArrayRef strides, std::optional<int64_t> offset) {
  const int64_t start = offset.value_or(self.storage_offset());
  // Wrapper tensors of tracers have no device memory that bounds the view.
  if (has_our_storage(self)) view_as(self, size, strides, start);
  self.unsafeGetTensorImpl()->set_storage_offset(start);
  self.unsafeGetTensorImpl()->set_sizes_and_strides(size, strides);
  return self;
}

// Checks that the size of a dim can be inferred from the others; PyTorch's function relies on
// signed overflow, which is undefined.
void check_overflow(at::IntArrayRef size, int64_t numel) {
  if (std::find(size.begin(), size.end(), -1) == size.end()) return;
  uint64_t product = 1;
  for (int64_t n : size) {
    if (n < -1) return;  // PyTorch's function rejects it
    product *= n == -1 ? 1 : static_cast<uint64_t>(n);
  }
  TORCH_CHECK(static_cast<int64_t>(product) >= 0, "shape '", size,
              "' is invalid for input of size ", numel);
}

at::Tensor view(const at::Tensor& self, at::IntArrayRef size) {
  check_overflow(size, self.numel());
  const at::DimVector inferred = at::infer_size_dv(size, self.numel());
  const auto strides = at::detail::computeStride(self.sizes(), self.strides(), inferred);
  TORCH_CHECK(strides.has_value(),
              "view size is not compatible with input tensor's size and stride (at least one "
              "dimension spans across two contiguous subspaces). Use .reshape(...) instead.");
  return view_as(self, inferred, *strides, self.storage_offset());
}

at::Tensor reshape_alias(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef strides) {
  return view_as(self, size, strides, self.storage_offset());
}

at::Tensor alias_of(const at::Tensor& self) {
  return view_as(self, self.sizes(), self.strides(), self.storage_offset());
}

at::Tensor unfold(const at::Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  const int64_t rank = self.dim();
  const int64_t dim = at::maybe_wrap_dim(dimension, rank, /*wrap_scalar=*/true);
  const int64_t length = rank == 0 ? 1 : self.size(dim);
  TORCH_CHECK(size >= 0, "unfold: size is ", size, " but must be >= 0");
  TORCH_CHECK(size <= length, "maximum size for tensor at dimension ", dim, " is ", length,
              " but size is ", size);
  TORCH_CHECK(step > 0, "unfold: step is ", step, " but must be > 0");
  Sizes sizes = to_sizes(self.sizes()), strides = to_sizes(self.strides());
  const int64_t stride = rank == 0 ? 1 : strides[dim];
  if (rank > 0) {
    sizes[dim] = (length - size) / step + 1;
    strides[dim] = step * stride;
  }
  sizes.push_back(size);
  strides.push_back(stride);
  return view_as(self, sizes, strides, self.storage_offset());
}

at::Tensor view_dtype(const at::Tensor& self, at::ScalarType dtype) {
  if (self.scalar_type() == dtype) return alias_of(self);
  if (is_raw_dtype(self.scalar_type()) || is_raw_dtype(dtype)) return view_raw_dtype(self, dtype);
  check_reinterprets("view(dtype)", self.scalar_type(), dtype);
  auto impl =
      c10::make_intrusive<SpyreTensorImpl>(c10::TensorImpl::VIEW, c10::Storage(self.storage()),
                                           self.key_set(), c10::scalarTypeToTypeMeta(dtype));
  impl->set_storage_offset(self.storage_offset());
  impl->set_sizes_and_strides(self.sizes(), self.strides());
  const SpyreTensorImpl* source = impl_of(self);
  if (source != nullptr && source->own_binding != nullptr) {
    impl->own_binding = reinterpreted(*source->own_binding, dtype);
  }
  return at::Tensor(std::move(impl));
}

// Lets nn.Module.to and `.data =` preserve the identity of parameters between CPU and card. A
// tensor with its own layout is excluded: a CPU tensor would lose the layout.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  const auto is_dense = [](const at::Tensor& tensor) {
    return tensor.layout() == at::kStrided && !tensor.is_quantized() &&
           (tensor.device().is_cpu() || tensor.device().type() == kSpyre);
  };
  if (!is_dense(self) || !is_dense(from)) return false;
  const SpyreTensorImpl* source = impl_of(from);
  const bool has_extras = source && (source->own_binding || source->is_byte_view);
  return !has_extras || impl_of(self) != nullptr;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty_memory_format);
  m.impl("empty_strided", &empty_strided);
  m.impl("as_strided", &as_strided);
  m.impl("as_strided_", &as_strided_in_place);
  m.impl("view", &view);
  m.impl("_unsafe_view", &view);
  m.impl("_reshape_alias", &reshape_alias);
  m.impl("alias", &alias_of);
  m.impl("unfold", &unfold);
  m.impl("view.dtype", &view_dtype);
  m.impl("_has_compatible_shallow_copy_type", &has_compatible_shallow_copy_type);
}

at::Tensor tensor_on(c10::Storage storage, at::ScalarType dtype, at::IntArrayRef size,
                     at::IntArrayRef strides) {
  at::Tensor tensor = make_tensor(std::move(storage), dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(size, strides);
  return tensor;
}

// Returns the number of elements that a view of `base` may access. A byte view includes the
// storage's padding.
int64_t reachable_elements(const at::Tensor& base) {
  if (is_byte_view(base)) return static_cast<int64_t>(base.storage().nbytes());
  return binding_of(base)->extent();
}

void check_view_inside(int64_t reachable, at::IntArrayRef size, at::IntArrayRef strides,
                       int64_t offset) {
  check_geometry(to_sizes(size), to_sizes(strides), offset);
  const int64_t extent = host_extent(to_sizes(size), to_sizes(strides));
  TORCH_CHECK(extent == 0 || offset <= reachable - extent, "as_strided: sizes ", size, ", strides ",
              strides, " and storage offset ", offset, " are out of bounds for a spyre storage of ",
              reachable, " elements");
}

// Returns the host image that a view at `offset` refers to: its own, or one that includes all
// elements before it.
Binding binding_for_view(const TensorLayout& layout, at::IntArrayRef size, at::IntArrayRef strides,
                         int64_t offset) {
  Binding binding{layout, to_sizes(size), to_sizes(strides)};
  check_layout_holds(layout, binding.host_size, binding.host_strides, offset);
  if (offset > 0) {
    binding.host_size = {offset + binding.extent()};
    binding.host_strides = {1};
  }
  return binding;
}

void check_layout_fits(const TensorLayout& layout, size_t bytes) {
  TORCH_CHECK(layout.device_bytes() <= static_cast<int64_t>(bytes), layout.str(), " takes ",
              layout.device_bytes(), " bytes, but the storage has ", bytes);
}

void check_layout_dtype(const TensorLayout& layout, at::ScalarType dtype) {
  const DataFormat expected = checked_tensor_format(dtype);
  TORCH_CHECK(!is_raw(expected), "a ", dtype,
              " tensor holds the host's bytes in the host's order, and has no other layout");
  const bool is_pool = dtype == at::kByte && layout.format() == DataFormat::SENINT8;
  TORCH_CHECK(layout.format() == expected || is_pool, "a ", dtype, " tensor is stored as ",
              name_of(expected), ", but the layout says ", name_of(layout.format()));
}

}  // namespace

at::Tensor empty_on_device(at::IntArrayRef size, at::IntArrayRef strides, at::ScalarType dtype,
                           c10::Device device) {
  return tensor_on(make_storage(default_binding(size, strides, dtype), dtype, device), dtype, size,
                   strides);
}

at::Tensor empty_with_layout(at::IntArrayRef size, at::IntArrayRef strides, at::ScalarType dtype,
                             c10::Device device, const TensorLayout& layout) {
  check_layout_dtype(layout, dtype);
  Binding binding{layout, to_sizes(size), to_sizes(strides)};
  check_layout_holds(layout, binding.host_size, binding.host_strides);
  return tensor_on(make_storage(std::move(binding), dtype, resolve(device)), dtype, size, strides);
}

at::Tensor view_as(const at::Tensor& base, at::IntArrayRef size, at::IntArrayRef strides,
                   int64_t offset) {
  check_view_inside(reachable_elements(base), size, strides, offset);
  auto impl = c10::make_intrusive<SpyreTensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(base.storage()), base.key_set(), base.dtype());
  impl->set_storage_offset(offset);
  impl->set_sizes_and_strides(size, strides);
  if (const SpyreTensorImpl* source = impl_of(base)) {
    impl->own_binding = source->own_binding;
    impl->is_byte_view = source->is_byte_view;
  }
  return at::Tensor(std::move(impl));
}

at::Tensor view_with_layout(const at::Tensor& base, at::IntArrayRef size, at::IntArrayRef strides,
                            int64_t offset, const TensorLayout& layout) {
  const BindingPtr current = binding_of(base);
  if (layout == current->layout) return view_as(base, size, strides, offset);
  check_layout_dtype(layout, base.scalar_type());
  check_layout_fits(layout, base.storage().nbytes());
  auto binding = std::make_shared<const Binding>(binding_for_view(layout, size, strides, offset));
  auto impl = c10::make_intrusive<SpyreTensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(base.storage()), base.key_set(), base.dtype());
  impl->set_storage_offset(offset);
  impl->set_sizes_and_strides(size, strides);
  impl->own_binding = std::move(binding);
  return at::Tensor(std::move(impl));
}

void set_layout(const at::Tensor& tensor, const TensorLayout& layout) {
  check_layout_dtype(layout, tensor.scalar_type());
  check_layout_fits(layout, tensor.storage().nbytes());
  Binding binding{layout, to_sizes(tensor.sizes()), to_sizes(tensor.strides())};
  check_layout_holds(layout, binding.host_size, binding.host_strides);
  SpyreTensorImpl* impl = impl_of(tensor);
  TORCH_CHECK(impl != nullptr,
              "set_spyre_tensor_layout: this tensor was made on the CPU and moved in place, and "
              "cannot hold a layout. Relabel its alias: x.view_as(x).");
  impl->own_binding = std::make_shared<const Binding>(std::move(binding));
}

}  // namespace spyre
