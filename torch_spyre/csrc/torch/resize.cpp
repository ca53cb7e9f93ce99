#include "torch/resize.h"

#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include "torch/allocator.h"
#include "torch/copy.h"
#include "torch/device.h"
#include "torch/dtypes.h"
#include "torch/storage.h"

namespace spyre {

namespace {

int64_t logical_elements(const SpyreStorageImpl& storage, c10::ScalarType dtype) {
  if (!storage.is_raw()) return storage.binding->extent();
  return static_cast<int64_t>(storage.nbytes() / c10::elementSize(dtype));
}

// The storage's content as elements of `dtype`, wherever it lies now.
Binding content_binding(const SpyreStorageImpl& storage, c10::ScalarType dtype) {
  if (!storage.is_raw()) return *storage.binding;
  const int64_t count = logical_elements(storage, dtype);
  return {TensorLayout::linear(count, host_format(dtype, device_format(dtype))), {count}, {1}};
}

// The first `count` elements of a storage, in flat order.
at::Tensor flat_prefix(const c10::Storage& storage, c10::ScalarType dtype, int64_t count,
                       Binding binding) {
  at::Tensor tensor = make_tensor(storage, dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous({count});
  impl_of(tensor)->own_binding = std::make_shared<const Binding>(std::move(binding));
  return tensor;
}

// Gives the storage new memory, laid out as `binding` says, and moves over what fits. Nothing
// changes if there is no room.
void relayout(const c10::Storage& storage, Binding binding, c10::ScalarType dtype) {
  SpyreStorageImpl& impl = storage_of(storage);
  const Binding before = content_binding(impl, dtype);
  const int64_t kept = std::min(binding.extent(), before.extent());
  const size_t bytes = storage_bytes(binding, dtype);
  c10::DataPtr memory = allocate_on(impl.device().index(), bytes);

  auto old = c10::make_intrusive<SpyreStorageImpl>(
      c10::StorageImpl::use_byte_size_t(), c10::SymInt(static_cast<int64_t>(impl.nbytes())),
      impl.set_data_ptr(std::move(memory)), device_allocator(), /*resizable=*/false);
  impl.set_nbytes(bytes);
  impl.binding = std::make_shared<const Binding>(std::move(binding));
  impl.dtype = dtype;
  if (kept == 0) return;
  copy_tensor(flat_prefix(c10::Storage(std::move(old)), dtype, kept, before),
              flat_prefix(storage, dtype, kept, *impl.binding), false);
}

// After this the storage has a place for everything that (size, strides, offset) names.
void ensure_extent(const c10::Storage& storage, c10::ScalarType dtype, c10::IntArrayRef size,
                   c10::IntArrayRef strides, int64_t offset) {
  const int64_t extent = host_extent(to_sizes(size), to_sizes(strides));
  if (extent == 0 || offset <= logical_elements(storage_of(storage), dtype) - extent) return;
  if (offset == 0) return relayout(storage, default_binding(size, strides, dtype), dtype);
  const int64_t whole = checked_add(offset, extent);
  relayout(storage, default_binding({whole}, {1}, dtype), dtype);
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

// The storage's layout read as elements of another dtype of the same width.
BindingPtr reinterpreted(const SpyreStorageImpl& storage, c10::ScalarType dtype) {
  TORCH_CHECK(holds_host_bits(storage.dtype) && holds_host_bits(dtype) &&
                  c10::elementSize(storage.dtype) == c10::elementSize(dtype),
              "set_: a ", storage.dtype, " storage on spyre cannot be read as ", dtype,
              ": device memory does not hold the host's bits. Reinterpret on the CPU: "
              "x.cpu().view(dtype).to('spyre').");
  Binding binding = *storage.binding;
  binding.layout = binding.layout.with_format(device_format(dtype));
  return std::make_shared<const Binding>(std::move(binding));
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
  BindingPtr own;
  if (storage.is_raw()) {
    give_dtype(source, dtype, size, strides, offset);
  } else if (storage.dtype != dtype) {
    own = reinterpreted(storage, dtype);
    const int64_t extent = host_extent(to_sizes(size), to_sizes(strides));
    TORCH_CHECK(extent == 0 || offset <= own->extent() - extent, "set_: sizes ", size, ", strides ",
                strides, " and offset ", offset, " are out of bounds for a spyre storage of ",
                own->extent(), " elements");
  }
  if (own == nullptr) ensure_extent(source, dtype, size, strides, offset);
  // Last, because it already gives the tensor the storage.
  at::native::checkSetStorage(self, source, offset, size, strides);
  set_extras(self, std::move(own), false);
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
  // How PyTorch moves storages about: as bytes, whatever they hold.
  const auto bytes = static_cast<int64_t>(storage.nbytes());
  at::native::checkSetStorage<int64_t>(self, std::move(source), 0, {bytes}, {1});
  set_extras(self, nullptr, true);
  set_metadata(self, {bytes}, {1}, 0);
  return self;
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
  TORCH_CHECK(binding_of(self) == storage_of(self).binding || storage_of(self).is_raw(),
              "resize_: not for a tensor with a layout of its own");
  // Elements keep their flat positions, as on the CPU.
  const Sizes strides = contiguous_strides(to_sizes(size));
  const at::ScalarType dtype = self.scalar_type();
  ensure_extent(self.storage(), dtype, size, strides, self.storage_offset());
  const SpyreStorageImpl& storage = storage_of(self);
  if (!storage.is_raw() && self.storage_offset() == 0 &&
      storage.binding->extent() == host_extent(to_sizes(size), strides)) {
    // The new shape names the whole storage: lay it out for that shape. A smaller one keeps the
    // layout, so that growing again finds the old elements.
    Binding binding = default_binding(size, strides, dtype);
    if (!(binding.layout == storage.binding->layout)) {
      relayout(self.storage(), std::move(binding), dtype);
    }
  }
  self.unsafeGetTensorImpl()->set_sizes_and_strides(size, strides);
  return self;
}

// Whether a raw storage holds nothing beyond its first bytes. A file written from a card ends in
// the zeros of the last stick's padding.
bool is_zero_from(const c10::Storage& storage, int64_t start) {
  const auto bytes = static_cast<int64_t>(storage.nbytes());
  if (start >= bytes) return true;
  at::Tensor tail = make_tensor(storage, at::kByte);
  tail.unsafeGetTensorImpl()->set_storage_offset(start);
  tail.unsafeGetTensorImpl()->set_sizes_contiguous({bytes - start});
  return !to_cpu(tail).any().item<bool>();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("set_.source_Storage_storage_offset", &set_view);
  m.impl("set_.source_Storage", &set_whole_storage);
  m.impl("set_.source_Tensor", &set_tensor);
  m.impl("set_", &set_empty);
  m.impl("resize_", &resize);
}

}  // namespace

void give_dtype(const c10::Storage& storage, c10::ScalarType dtype, c10::IntArrayRef size,
                c10::IntArrayRef strides, int64_t offset) {
  const int64_t elements = logical_elements(storage_of(storage), dtype);
  const Sizes host_size = to_sizes(size), host_strides = to_sizes(strides);
  const int64_t extent = host_extent(host_size, host_strides);
  const bool covers = offset == 0 && extent <= elements && is_nested(host_size, host_strides) &&
                      is_zero_from(storage, extent * c10::elementSize(dtype));
  relayout(storage,
           covers ? default_binding(size, strides, dtype) : default_binding({elements}, {1}, dtype),
           dtype);
}

void resize_storage(const c10::Storage& storage, size_t bytes) {
  SpyreStorageImpl& impl = storage_of(storage);
  TORCH_CHECK(impl.resizable(), "this spyre storage is not resizable");
  if (bytes == impl.nbytes()) return;
  if (impl.is_raw()) {
    const at::Tensor old = host_image(storage);
    make_raw(impl, bytes);
    if (old.numel() == 0 || bytes == 0) return;
    at::Tensor raw = make_tensor(storage, at::kByte);
    const int64_t kept = std::min<int64_t>(old.numel(), static_cast<int64_t>(bytes));
    raw.unsafeGetTensorImpl()->set_sizes_contiguous({kept});
    copy_tensor(old.narrow(0, 0, kept), raw, false);
    return;
  }
  const auto elements = static_cast<int64_t>(bytes / c10::elementSize(impl.dtype));
  relayout(storage, default_binding({elements}, {1}, impl.dtype), impl.dtype);
}

}  // namespace spyre
