// Device storages and tensors, and which of them has the layout.
//
// The layout belongs to the storage, because all views have it and PyTorch preserves storages
// where it does not preserve our tensor class. A storage made without a dtype is raw: linear bytes,
// as they come from a file, until the first set_() with a real dtype tiles it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <memory>

#include "flex/copy_builder.h"
#include "flex/runtime.h"

namespace spyre {

using BindingPtr = std::shared_ptr<const Binding>;

class SpyreStorageImpl final : public c10::StorageImpl {
 public:
  using c10::StorageImpl::StorageImpl;

  // Null while the storage is raw.
  BindingPtr binding;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  // Elements up to here were given, and those beyond the binding's extent are zeros that took no
  // place. If the storage grows, they come back.
  int64_t given_elements = 0;
  // The number that arguments_key gave to the layout of this binding. Guarded by Python's lock.
  BindingPtr numbered_binding;
  int64_t layout_number = 0;

  bool is_raw() const { return binding == nullptr; }
};

class SpyreTensorImpl final : public c10::TensorImpl {
 public:
  using c10::TensorImpl::TensorImpl;

  // A layout other than the storage's, from as_strided_with_layout and its kin. A view in another
  // dtype has none: it follows the storage, which may be laid out anew.
  BindingPtr own_binding;
  // The elements are the bytes of the storage's host image, whatever its dtype.
  bool is_byte_view = false;

  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
      const c10::VariableVersion& version_counter,
      bool allow_tensor_metadata_change) const override;
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
      c10::VariableVersion&& version_counter, bool allow_tensor_metadata_change) const override;
  void shallow_copy_from(const c10::intrusive_ptr<c10::TensorImpl>& impl) override;

 private:
  c10::intrusive_ptr<c10::TensorImpl> copy_with_extras(const c10::VariableVersion& version_counter,
                                                       bool allow_tensor_metadata_change) const;
};

bool has_our_storage(const at::Tensor& tensor);
SpyreStorageImpl& storage_of(const c10::Storage& storage);
SpyreStorageImpl& storage_of(const at::Tensor& tensor);
std::shared_ptr<flex::Allocation> memory_of(const at::Tensor& tensor);

// Null if the tensor is not of our class; that only means it has no extras.
SpyreTensorImpl* impl_of(const at::Tensor& tensor);

bool is_byte_view(const at::Tensor& tensor);
// The layout that the tensor's host offsets refer to. A raw storage answers with linear bytes.
BindingPtr binding_of(const at::Tensor& tensor);

// Throws unless device memory of the one dtype means the same read as the other.
void check_reinterprets(const char* function, c10::ScalarType from, c10::ScalarType to);
// The same device offsets, read as another dtype.
BindingPtr reinterpreted(const Binding& binding, c10::ScalarType dtype);

// Layout of a new tensor with these strides: tiled as they say if offsets decompose by them,
// otherwise the flat extent, so that overlapping strides alias as they do on the host.
Binding default_binding(c10::IntArrayRef size, c10::IntArrayRef strides, c10::ScalarType dtype);

// Bytes of a storage: those of the layout, but at least those of the host image.
size_t storage_bytes(const Binding& binding, c10::ScalarType dtype);

c10::Storage make_storage(Binding binding, c10::ScalarType dtype, c10::Device device);
at::Tensor make_tensor(c10::Storage storage, c10::ScalarType dtype);
// Every element that `binding` has in the storage, each once.
at::Tensor elements_of(const c10::Storage& storage, c10::ScalarType dtype, BindingPtr binding);

// Gives a storage new memory for plain bytes; the old content is gone.
void make_raw(SpyreStorageImpl& storage, size_t bytes);

Sizes to_sizes(c10::IntArrayRef values);

// Sizes, strides and offset of a tensor, in host elements.
HostView view_of(const at::Tensor& tensor);

}  // namespace spyre
