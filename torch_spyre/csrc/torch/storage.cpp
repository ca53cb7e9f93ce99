#include "torch/storage.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/util/Exception.h>

#include <numeric>

#include "torch/allocator.h"
#include "torch/device.h"
#include "torch/dtypes.h"

namespace spyre {

namespace {

c10::intrusive_ptr<c10::StorageImpl> create_storage(c10::StorageImpl::use_byte_size_t tag,
                                                    c10::SymInt bytes, c10::DataPtr pointer,
                                                    c10::Allocator* allocator, bool resizable) {
  if (pointer == nullptr && allocator != nullptr) pointer = allocator->allocate(bytes.expect_int());
  return c10::make_intrusive<SpyreStorageImpl>(tag, std::move(bytes), std::move(pointer), allocator,
                                               resizable);
}

[[maybe_unused]] const bool registered = [] {
  c10::SetStorageImplCreate(kSpyre, &create_storage);
  return true;
}();

TensorLayout flat_layout(int64_t count, DataFormat format) {
  return TensorLayout::of({count}, {1}, format, {0});
}

// Returns the binding of all bytes of a flat storage as elements of another dtype.
Binding bytes_as(const SpyreStorageImpl& storage, c10::ScalarType dtype) {
  TORCH_CHECK(is_flat(*storage.binding),
              "view(dtype): the elements of this storage are not in the "
              "host's order, because it got another layout after the view was made");
  const auto bytes =
      storage.binding->extent() * static_cast<int64_t>(c10::elementSize(storage.dtype));
  const int64_t count = bytes / static_cast<int64_t>(c10::elementSize(dtype));
  return {flat_layout(count, device_format(dtype)), {count}, {1}};
}

// Returns whether a dispatch mode or a tensor subclass creates the detached tensor, through
// PyTorch's code.
bool python_detaches(c10::DispatchKeySet keys) {
  if (c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::Python)) return false;
  return c10::impl::TorchDispatchModeTLS::stack_len() > 0 || keys.has(c10::DispatchKey::Python);
}

}  // namespace

c10::intrusive_ptr<c10::TensorImpl> SpyreTensorImpl::copy_with_extras(
    const c10::VariableVersion& version_counter, bool allow_tensor_metadata_change) const {
  if (python_detaches(key_set())) {
    return TensorImpl::shallow_copy_and_detach(version_counter, allow_tensor_metadata_change);
  }
  auto impl = c10::make_intrusive<SpyreTensorImpl>(c10::Storage(storage()), key_set(), dtype());
  copy_tensor_metadata(this, impl.get(), version_counter, allow_tensor_metadata_change);
  impl->own_binding = own_binding;
  impl->is_byte_view = is_byte_view;
  return impl;
}

c10::intrusive_ptr<c10::TensorImpl> SpyreTensorImpl::shallow_copy_and_detach(
    const c10::VariableVersion& version_counter, bool allow_tensor_metadata_change) const {
  return copy_with_extras(version_counter, allow_tensor_metadata_change);
}

c10::intrusive_ptr<c10::TensorImpl> SpyreTensorImpl::shallow_copy_and_detach(
    c10::VariableVersion&& version_counter, bool allow_tensor_metadata_change) const {
  return copy_with_extras(version_counter, allow_tensor_metadata_change);
}

void SpyreTensorImpl::shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& impl) {
  TensorImpl::shallow_copy_from(impl);
  const auto* other = dynamic_cast<const SpyreTensorImpl*>(impl.get());
  own_binding = other ? other->own_binding : nullptr;
  is_byte_view = other && other->is_byte_view;
}

bool has_our_storage(const at::Tensor& tensor) {
  return dynamic_cast<SpyreStorageImpl*>(tensor.storage().unsafeGetStorageImpl()) != nullptr;
}

SpyreStorageImpl& storage_of(const c10::Storage& storage) {
  auto* impl = dynamic_cast<SpyreStorageImpl*>(storage.unsafeGetStorageImpl());
  TORCH_CHECK(impl != nullptr, "expected a storage on spyre, got one on ", storage.device());
  return *impl;
}

SpyreStorageImpl& storage_of(const at::Tensor& tensor) { return storage_of(tensor.storage()); }

std::shared_ptr<flex::Allocation> memory_of(const at::Tensor& tensor) {
  auto memory = allocation_of(tensor.storage().data_ptr());
  TORCH_CHECK(memory != nullptr || tensor.numel() == 0,
              "the storage of this spyre tensor has been resized to 0 bytes");
  return memory;
}

SpyreTensorImpl* impl_of(const at::Tensor& tensor) {
  return dynamic_cast<SpyreTensorImpl*>(tensor.unsafeGetTensorImpl());
}

bool is_byte_view(const at::Tensor& tensor) {
  const SpyreTensorImpl* impl = impl_of(tensor);
  return impl != nullptr && impl->is_byte_view;
}

BindingPtr binding_of(const at::Tensor& tensor) {
  const SpyreTensorImpl* impl = impl_of(tensor);
  if (impl != nullptr && impl->own_binding != nullptr) return impl->own_binding;
  const SpyreStorageImpl& storage = storage_of(tensor);
  if (storage.is_raw()) {
    const auto bytes = static_cast<int64_t>(storage.nbytes());
    return std::make_shared<Binding>(Binding{TensorLayout::linear(bytes), {bytes}, {1}});
  }
  const c10::ScalarType dtype = tensor.scalar_type();
  if (dtype == storage.dtype || is_byte_view(tensor)) return storage.binding;
  check_reinterprets("view(dtype)", storage.dtype, dtype);
  if (is_raw_dtype(dtype) || is_raw_dtype(storage.dtype)) {
    return std::make_shared<const Binding>(bytes_as(storage, dtype));
  }
  return reinterpreted(*storage.binding, dtype);
}

void check_reinterprets(const char* function, c10::ScalarType from, c10::ScalarType to) {
  checked_tensor_format(to);
  const bool may_differ_in_size = is_raw_dtype(from) || is_raw_dtype(to);
  TORCH_CHECK(holds_host_bits(from) && holds_host_bits(to) &&
                  (may_differ_in_size || c10::elementSize(from) == c10::elementSize(to)),
              function, ": ", from, " data on spyre cannot be read as ", to,
              ": device memory does not hold the host's bits. Reinterpret on the CPU: "
              "x.cpu().view(dtype).to('spyre').");
}

bool is_flat(const Binding& binding) {
  return binding.host_size.size() == 1 && binding.host_strides[0] == 1 &&
         binding.layout == flat_layout(binding.host_size[0], binding.layout.format());
}

BindingPtr reinterpreted(const Binding& binding, c10::ScalarType dtype) {
  return std::make_shared<const Binding>(Binding{binding.layout.with_format(device_format(dtype)),
                                                 binding.host_size, binding.host_strides});
}

Binding default_binding(c10::IntArrayRef size, c10::IntArrayRef strides, c10::ScalarType dtype) {
  const DataFormat format = checked_tensor_format(dtype);
  Binding binding{{}, to_sizes(size), to_sizes(strides)};
  // Raw elements are in the host's order, so that a view with another dtype finds its bytes.
  if (is_raw(format) || !is_nested(binding.host_size, binding.host_strides)) {
    binding.host_size = {host_extent(binding.host_size, binding.host_strides)};
    binding.host_strides = {1};
  }
  Sizes order(binding.host_size.size());
  std::iota(order.begin(), order.end(), 0);
  binding.layout = TensorLayout::of(binding.host_size, binding.host_strides, format, order);
  return binding;
}

size_t storage_bytes(const Binding& binding, c10::ScalarType dtype) {
  const int64_t host = binding.extent() * static_cast<int64_t>(c10::elementSize(dtype));
  return static_cast<size_t>(std::max(binding.layout.device_bytes(), host));
}

c10::Storage make_storage(Binding binding, c10::ScalarType dtype, c10::Device device) {
  c10::Storage storage = make_raw_storage(storage_bytes(binding, dtype), device);
  SpyreStorageImpl& impl = storage_of(storage);
  impl.binding = std::make_shared<const Binding>(std::move(binding));
  impl.dtype = dtype;
  return storage;
}

c10::Storage make_raw_storage(size_t bytes, c10::Device device) {
  return c10::Storage(c10::make_intrusive<SpyreStorageImpl>(
      c10::StorageImpl::use_byte_size_t(), c10::SymInt(static_cast<int64_t>(bytes)),
      allocate_on(device.index(), bytes), device_allocator(), /*resizable=*/true));
}

c10::Storage slice_of(const c10::Storage& storage, int64_t start, int64_t bytes) {
  const SpyreStorageImpl& whole = storage_of(storage);
  TORCH_CHECK(start >= 0 && bytes >= 0 && start + bytes <= static_cast<int64_t>(whole.nbytes()),
              "a slice of ", bytes, " bytes at ", start, " of a storage of ", whole.nbytes());
  auto slice = c10::make_intrusive<SpyreStorageImpl>(
      c10::StorageImpl::use_byte_size_t(), c10::SymInt(bytes),
      c10::DataPtr(static_cast<char*>(whole.data_ptr().get()) + start, whole.device()),
      device_allocator(), /*resizable=*/false);
  slice->sliced = whole.is_slice() ? whole.sliced : storage;
  slice->slice_start = whole.slice_start + start;
  return c10::Storage(std::move(slice));
}

at::Tensor make_tensor(c10::Storage storage, c10::ScalarType dtype) {
  return at::detail::make_tensor<SpyreTensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(dtype));
}

at::Tensor elements_of(const c10::Storage& storage, c10::ScalarType dtype, BindingPtr binding) {
  Sizes size = binding->host_size;
  for (size_t i = 0; i < size.size(); ++i) {
    if (binding->host_strides[i] == 0) size[i] = std::min<int64_t>(size[i], 1);
  }
  at::Tensor tensor = make_tensor(storage, dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(size, binding->host_strides);
  impl_of(tensor)->own_binding = std::move(binding);
  return tensor;
}

Sizes to_sizes(c10::IntArrayRef values) { return Sizes(values.begin(), values.end()); }

HostView view_of(const at::Tensor& tensor) {
  return {to_sizes(tensor.sizes()), to_sizes(tensor.strides()), tensor.storage_offset()};
}

}  // namespace spyre
