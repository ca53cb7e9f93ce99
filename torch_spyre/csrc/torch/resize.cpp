#include "torch/resize.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

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

// Lays the storage out anew and brings back as much of its content as fits.
void relayout(const c10::Storage& storage, Binding binding, c10::ScalarType dtype,
              const at::Tensor& old_image) {
  const int64_t extent = binding.extent();
  at::Tensor image = at::zeros({extent}, at::TensorOptions(at::kCPU).dtype(dtype));
  const int64_t kept = std::min(extent, old_image.numel());
  image.narrow(0, 0, kept).copy_(old_image.narrow(0, 0, kept));
  SpyreStorageImpl& impl = storage_of(storage);
  if (impl.dtype == dtype && storage_bytes(binding, dtype) == impl.nbytes()) {
    impl.binding = std::make_shared<const Binding>(std::move(binding));
  } else {
    rebind(impl, std::move(binding), dtype);
  }
  set_host_image(storage, image);
}

// Content of a raw storage as elements of `dtype`.
at::Tensor raw_elements(const c10::Storage& storage, c10::ScalarType dtype) {
  const at::Tensor bytes = host_image(storage);
  const auto item = static_cast<int64_t>(c10::elementSize(dtype));
  return bytes.narrow(0, 0, bytes.numel() / item * item).view(dtype);
}

// After this the storage has a place for everything that (size, strides, offset) names.
void ensure_extent(const c10::Storage& storage, c10::ScalarType dtype, c10::IntArrayRef size,
                   c10::IntArrayRef strides, int64_t offset) {
  const int64_t extent = host_extent(to_sizes(size), to_sizes(strides));
  if (extent == 0 || offset + extent <= logical_elements(storage_of(storage), dtype)) return;
  const at::Tensor image = host_image(storage);
  if (offset == 0) {
    return relayout(storage, default_binding(size, strides, dtype), dtype, image);
  }
  const int64_t whole = offset + extent;
  relayout(storage, default_binding({whole}, {1}, dtype), dtype, image);
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
  at::native::checkSetStorage(self, source, offset, size, strides);
  const c10::ScalarType dtype = self.scalar_type();
  checked_device_format(dtype);
  SpyreStorageImpl& storage = storage_of(source);
  BindingPtr own;
  if (storage.is_raw()) {
    give_dtype(source, dtype, size, strides, offset);
  } else if (storage.dtype != dtype) {
    own = reinterpreted(storage, dtype);
  }
  if (own == nullptr) ensure_extent(source, dtype, size, strides, offset);
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
  if (self.sizes() == size && self.is_contiguous()) return self;
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
      relayout(self.storage(), std::move(binding), dtype, host_image(self.storage()));
    }
  }
  self.unsafeGetTensorImpl()->set_sizes_and_strides(size, strides);
  return self;
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
  const at::Tensor elements = raw_elements(storage, dtype);
  const Sizes host_size = to_sizes(size), host_strides = to_sizes(strides);
  const int64_t extent = host_extent(host_size, host_strides);
  // A file written from a card ends in the zeros of the last stick's padding.
  const bool covers = offset == 0 && is_nested(host_size, host_strides) &&
                      extent <= elements.numel() &&
                      !elements.narrow(0, extent, elements.numel() - extent).any().item<bool>();
  const int64_t all = elements.numel();
  relayout(storage,
           covers ? default_binding(size, strides, dtype) : default_binding({all}, {1}, dtype),
           dtype, elements);
}

void resize_storage(const c10::Storage& storage, size_t bytes) {
  SpyreStorageImpl& impl = storage_of(storage);
  TORCH_CHECK(impl.resizable(), "this spyre storage is not resizable");
  if (bytes == impl.nbytes()) return;
  if (impl.is_raw() || bytes == 0) {
    const at::Tensor old = bytes == 0 ? at::Tensor() : host_image(storage);
    make_raw(impl, bytes);
    if (!old.defined() || old.numel() == 0) return;
    at::Tensor raw = make_tensor(storage, at::kByte);
    const int64_t kept = std::min<int64_t>(old.numel(), static_cast<int64_t>(bytes));
    raw.unsafeGetTensorImpl()->set_sizes_contiguous({kept});
    copy_tensor(old.narrow(0, 0, kept), raw, false);
    return;
  }
  const at::Tensor old = host_image(storage);
  const auto elements = static_cast<int64_t>(bytes / c10::elementSize(impl.dtype));
  relayout(storage, default_binding({elements}, {1}, impl.dtype), impl.dtype, old);
}

}  // namespace spyre
