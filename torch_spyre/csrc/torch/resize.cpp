#include "torch/resize.h"

#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include "torch/allocator.h"
#include "torch/copy.h"
#include "torch/device.h"
#include "torch/dtypes.h"
#include "torch/storage.h"
#include "torch/uninitialized.h"

namespace spyre {

namespace {

int64_t logical_elements(const SpyreStorageImpl& storage, c10::ScalarType dtype) {
  if (!storage.is_raw()) return storage.binding->extent();
  return static_cast<int64_t>(storage.nbytes() / c10::elementSize(dtype));
}

// Returns the current binding of the storage's content as elements of `dtype`.
Binding content_binding(const SpyreStorageImpl& storage, c10::ScalarType dtype) {
  if (!storage.is_raw()) return *storage.binding;
  const int64_t count = logical_elements(storage, dtype);
  return {TensorLayout::linear(count, host_format(dtype, device_format(dtype))), {count}, {1}};
}

// Returns whether every flat position below the extent has a device offset.
bool is_gapless(const Binding& binding) {
  int64_t offsets = 1;
  for (size_t i = 0; i < binding.host_size.size(); ++i) {
    if (binding.host_strides[i] != 0) offsets *= binding.host_size[i];
  }
  return is_nested(binding.host_size, binding.host_strides) && offsets == binding.extent();
}

at::Tensor flat_range(const c10::Storage& storage, int64_t begin, int64_t end) {
  const SpyreStorageImpl& impl = storage_of(storage);
  at::Tensor range = elements_of(storage, impl.dtype, impl.binding);
  range.unsafeGetTensorImpl()->set_storage_offset(begin);
  range.unsafeGetTensorImpl()->set_sizes_contiguous({end - begin});
  return range;
}

// Copies the elements that both storages have, at the same flat positions. Gaps of the old storage
// and zeros beyond its content are zero in the new one; other elements are left unchanged.
void copy_content(const c10::Storage& from, const BindingPtr& before, const c10::Storage& to) {
  const c10::ScalarType dtype = storage_of(to).dtype;
  const BindingPtr& after = storage_of(to).binding;
  const at::Tensor sources = elements_of(from, dtype, before);
  const int64_t old_extent = before->extent(), new_extent = after->extent();
  if (is_gapless(*after) && old_extent <= new_extent) {
    const int64_t begin = is_gapless(*before) ? old_extent : 0;
    const int64_t end =
        std::max(old_extent, std::min(new_extent, storage_of(from).num_initialized));
    if (begin < end) fill_elements(flat_range(to, begin, end), 0);
    at::Tensor common = elements_of(to, dtype, after);
    common.unsafeGetTensorImpl()->set_sizes_and_strides(sources.sizes(), sources.strides());
    return copy_tensor(sources, common, false);
  }
  const at::Tensor targets = elements_of(to, dtype, after);
  if (is_gapless(*before) && new_extent <= old_extent) {
    at::Tensor common = elements_of(from, dtype, before);
    common.unsafeGetTensorImpl()->set_sizes_and_strides(targets.sizes(), targets.strides());
    return copy_tensor(common, targets, false);
  }
  // A storage with gaps shrinks: copy through memory that has all flat positions of both.
  const int64_t extent = std::max(old_extent, new_extent);
  const c10::Storage flat =
      make_storage(default_binding({extent}, {1}, dtype), dtype, storage_of(to).device());
  at::Tensor staged = flat_range(flat, 0, extent);
  fill_elements(staged, 0);
  staged.unsafeGetTensorImpl()->set_sizes_and_strides(sources.sizes(), sources.strides());
  copy_tensor(sources, staged, false);
  staged.unsafeGetTensorImpl()->set_sizes_and_strides(targets.sizes(), targets.strides());
  copy_tensor(staged, targets, false);
}

// Allocates new memory for the storage, bound to `binding`, and copies the common elements. If that
// fails, nothing changes.
void relayout(const c10::Storage& storage, Binding binding, c10::ScalarType dtype) {
  SpyreStorageImpl& impl = storage_of(storage);
  const auto before = std::make_shared<const Binding>(content_binding(impl, dtype));
  const c10::Storage new_storage = make_storage(std::move(binding), dtype, impl.device());
  SpyreStorageImpl& new_impl = storage_of(new_storage);
  if (before->extent() > 0 && new_impl.binding->extent() > 0) {
    copy_content(storage, before, new_storage);
  }

  impl.set_data_ptr_noswap(new_impl.set_data_ptr(c10::DataPtr(nullptr, impl.device())));
  impl.set_nbytes(new_impl.nbytes());
  impl.binding = new_impl.binding;
  impl.dtype = dtype;
}

// Grows the storage, if needed, so that it holds every element of (size, strides, offset).
void ensure_extent(const c10::Storage& storage, c10::ScalarType dtype, c10::IntArrayRef size,
                   c10::IntArrayRef strides, int64_t offset) {
  const int64_t extent = host_extent(to_sizes(size), to_sizes(strides));
  const int64_t elements = logical_elements(storage_of(storage), dtype);
  if (extent == 0 || offset <= elements - extent) return;
  Binding binding = default_binding(size, strides, dtype);
  if (offset > 0 || (elements > 0 && !is_gapless(binding))) {
    // Other views may access the elements before the offset and in gaps.
    const int64_t flat_extent = checked_add(offset, extent);
    binding = default_binding({flat_extent}, {1}, dtype);
  }
  relayout(storage, std::move(binding), dtype);
}

void set_metadata(at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef strides,
                  int64_t offset) {
  self.unsafeGetTensorImpl()->set_storage_offset(offset);
  self.unsafeGetTensorImpl()->set_sizes_and_strides(size, strides);
}

void set_extras(const at::Tensor& self, BindingPtr binding, bool byte_view) {
  SpyreTensorImpl* impl = impl_of(self);
  if (impl == nullptr) {
    TORCH_CHECK(binding == nullptr && !byte_view,
                "set_: this tensor cannot hold a layout of its own");
    return;
  }
  impl->own_binding = std::move(binding);
  impl->is_byte_view = byte_view;
}

// Makes the tensor a view of the bytes of a storage, which PyTorch copies independent of its dtype.
at::Tensor& set_byte_view(at::Tensor& self, const at::Storage& source, int64_t offset,
                          at::IntArrayRef size, at::IntArrayRef strides) {
  const SpyreStorageImpl& storage = storage_of(source);
  const auto bytes = static_cast<int64_t>(storage.nbytes());
  const int64_t extent = host_extent(to_sizes(size), to_sizes(strides));
  TORCH_CHECK(extent == 0 || offset <= bytes - extent, "set_: sizes ", size, ", strides ", strides,
              " and offset ", offset, " are out of bounds for a spyre storage of ", bytes,
              " bytes");
  const int64_t start = offset + storage.slice_start;
  at::native::checkSetStorage(self, storage.is_slice() ? storage.sliced : source, start, size,
                              strides);
  set_extras(self, nullptr, true);
  set_metadata(self, size, strides, start);
  return self;
}

at::Tensor& set_view(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size,
                     at::IntArrayRef given_strides) {
  const Sizes contiguous = contiguous_strides(to_sizes(size));
  const at::IntArrayRef strides =
      given_strides.data() == nullptr ? at::IntArrayRef(contiguous) : given_strides;
  check_geometry(to_sizes(size), to_sizes(strides), offset);
  TORCH_CHECK(source.device() == self.device(),
              "Attempted to set the storage of a tensor on device \"", self.device(),
              "\" to a storage on different device \"", source.device(), "\".");
  const c10::ScalarType dtype = self.scalar_type();
  checked_device_format(dtype);
  SpyreStorageImpl& storage = storage_of(source);
  if (storage.is_slice()) {
    TORCH_CHECK(dtype == at::kByte, "set_: a slice of a spyre storage holds bytes, not ", dtype,
                ". Use the whole storage and an offset.");
    return set_byte_view(self, source, offset, size, strides);
  }
  if (storage.is_raw()) assign_dtype(source, dtype, size, strides, offset);
  if (storage.dtype == dtype) {
    ensure_extent(source, dtype, size, strides, offset);
  } else {
    check_reinterprets("set_", storage.dtype, dtype);
    const int64_t extent = host_extent(to_sizes(size), to_sizes(strides));
    if (is_raw_dtype(storage.dtype) || is_raw_dtype(dtype)) make_flat(source);
    const auto old_size = static_cast<int64_t>(c10::elementSize(storage.dtype));
    const auto new_size = static_cast<int64_t>(c10::elementSize(dtype));
    const int64_t reachable = storage.binding->extent() * old_size / new_size;
    TORCH_CHECK(extent == 0 || offset <= reachable - extent, "set_: sizes ", size, ", strides ",
                strides, " and offset ", offset, " are out of bounds for a spyre storage of ",
                reachable, " elements");
  }
  // Last, because it changes the tensor's storage.
  at::native::checkSetStorage(self, source, offset, size, strides);
  set_extras(self, nullptr, false);
  set_metadata(self, size, strides, offset);
  return self;
}

at::Tensor& set_whole_storage(at::Tensor& self, at::Storage source) {
  SpyreStorageImpl& storage = storage_of(source);
  const c10::ScalarType dtype = self.scalar_type();
  if (dtype != at::kByte) {
    const int64_t elements = logical_elements(storage, dtype);
    return set_view(self, std::move(source), 0, {elements}, {1});
  }
  return set_byte_view(self, source, 0, {static_cast<int64_t>(storage.nbytes())}, {1});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  if (self.is_same(source)) return self;
  TORCH_CHECK(source.device() == self.device(), "set_: the tensors are on ", self.device(), " and ",
              source.device());
  TORCH_CHECK(source.dtype() == self.dtype(), "set_: the tensors have dtypes ", self.dtype(),
              " and ", source.dtype());
  at::native::checkSetStorage(self, source.storage(), source.storage_offset(), source.sizes(),
                              source.strides());
  const SpyreTensorImpl* other = impl_of(source);
  set_extras(self, other ? other->own_binding : nullptr, other && other->is_byte_view);
  set_metadata(self, source.sizes(), source.strides(), source.storage_offset());
  return self;
}

at::Tensor& set_empty(at::Tensor& self) {
  const int64_t nothing = 0;
  return set_view(self,
                  make_storage(default_binding({nothing}, {1}, self.scalar_type()),
                               self.scalar_type(), self.device()),
                  0, {nothing}, {1});
}

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef size,
                         std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(!format || *format == at::MemoryFormat::Contiguous,
              "Spyre backend only supports contiguous memory format, got: ", *format);
  if (self.sizes() == size && (!format || self.is_contiguous())) return self;
  at::detail::check_size_nonnegative(size);
  TORCH_CHECK(!is_byte_view(self),
              "resize_: not for a view of a storage's bytes; resize the storage: "
              "x.untyped_storage().resize_(bytes)");
  TORCH_CHECK(binding_of(self) == storage_of(self).binding,
              "resize_: not for a tensor with a layout of its own or a view in another dtype; "
              "resize a copy: x.clone().resize_(...)");
  // Elements preserve their flat positions, as on the CPU.
  const Sizes strides = contiguous_strides(to_sizes(size));
  const at::ScalarType dtype = self.scalar_type();
  const int64_t old_extent = storage_of(self).binding->extent();
  ensure_extent(self.storage(), dtype, size, strides, self.storage_offset());
  const SpyreStorageImpl& storage = storage_of(self);
  const int64_t extent = host_extent(to_sizes(size), strides);
  if (extent > 0 && !is_gapless(*storage.binding)) {
    relayout(self.storage(), default_binding({storage.binding->extent()}, {1}, dtype), dtype);
  }
  if (self.storage_offset() == 0 && storage.binding->extent() == extent) {
    // The new shape covers the whole storage: use its default layout. A smaller shape preserves the
    // layout, so that growing again restores the old elements.
    Binding binding = default_binding(size, strides, dtype);
    if (!(binding.layout == storage.binding->layout)) {
      relayout(self.storage(), std::move(binding), dtype);
    }
  }
  self.unsafeGetTensorImpl()->set_sizes_and_strides(size, strides);
  const int64_t new_extent = storage.binding->extent();
  if (new_extent > old_extent) {
    fill_if_deterministic(flat_range(self.storage(), old_extent, new_extent));
  }
  return self;
}

// Returns a range of the bytes of a raw storage.
at::Tensor raw_range(const c10::Storage& storage, int64_t begin, int64_t end) {
  at::Tensor range = make_tensor(storage, at::kByte);
  range.unsafeGetTensorImpl()->set_storage_offset(begin);
  range.unsafeGetTensorImpl()->set_sizes_contiguous({end - begin});
  return range;
}

// Returns whether a raw storage is zero from `start` on. A file written from a card ends with the
// zeros of the last stick's padding.
bool is_zero_from(const c10::Storage& storage, int64_t start) {
  const auto bytes = static_cast<int64_t>(storage.nbytes());
  return start >= bytes || !to_cpu(raw_range(storage, start, bytes)).any().item<bool>();
}

// Allocates new memory for a raw storage and copies the common bytes. If that fails, nothing
// changes.
void resize_raw(const c10::Storage& storage, size_t bytes) {
  SpyreStorageImpl& impl = storage_of(storage);
  const c10::Storage new_storage = make_raw_storage(bytes, impl.device());
  const auto common = static_cast<int64_t>(std::min(impl.nbytes(), bytes));
  if (common > 0) {
    copy_tensor(raw_range(storage, 0, common), raw_range(new_storage, 0, common), false);
  }
  impl.set_data_ptr_noswap(storage_of(new_storage).set_data_ptr({nullptr, impl.device()}));
  impl.set_nbytes(bytes);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("set_.source_Storage_storage_offset", &set_view);
  m.impl("set_.source_Storage", &set_whole_storage);
  m.impl("set_.source_Tensor", &set_tensor);
  m.impl("set_", &set_empty);
  m.impl("resize_", &resize);
}

}  // namespace

void assign_dtype(const c10::Storage& storage, c10::ScalarType dtype, c10::IntArrayRef size,
                  c10::IntArrayRef strides, int64_t offset) {
  const int64_t elements = logical_elements(storage_of(storage), dtype);
  const int64_t extent = host_extent(to_sizes(size), to_sizes(strides));
  const bool covers_content = extent > 0 || elements == 0;
  Binding binding = default_binding({elements}, {1}, dtype);
  if (offset == 0 && covers_content && extent <= elements &&
      is_zero_from(storage, extent * c10::elementSize(dtype))) {
    Binding tiled = default_binding(size, strides, dtype);
    // Other views may access the gaps between the elements of this tensor.
    if (is_gapless(tiled)) binding = std::move(tiled);
  }
  relayout(storage, std::move(binding), dtype);
  storage_of(storage).num_initialized = elements;
}

void make_flat(const c10::Storage& storage) {
  const SpyreStorageImpl& impl = storage_of(storage);
  if (is_flat(*impl.binding)) return;
  relayout(storage, default_binding({impl.binding->extent()}, {1}, impl.dtype), impl.dtype);
}

void resize_storage(const c10::Storage& storage, size_t bytes) {
  SpyreStorageImpl& impl = storage_of(storage);
  TORCH_CHECK(impl.resizable(), "this spyre storage is not resizable");
  if (bytes == impl.nbytes()) return;
  if (impl.is_raw()) return resize_raw(storage, bytes);
  const auto elements = static_cast<int64_t>(bytes / c10::elementSize(impl.dtype));
  relayout(storage, default_binding({elements}, {1}, impl.dtype), impl.dtype);
  impl.num_initialized = std::min(impl.num_initialized, elements);
}

}  // namespace spyre
