// Device storages and tensors.
//
// The storage owns the layout, because all views have the same layout and PyTorch preserves
// storages where it does not preserve our tensor class. A storage created without a dtype is raw:
// it holds linear bytes, as they are read from a file, until the first set_() with a dtype lays it
// out.
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
  // The number of elements of the original content. Those beyond the binding's extent are zeros
  // that have no memory; they are restored if the storage grows.
  int64_t num_initialized = 0;
  // The number that arguments_key assigned to the layout of this binding. Guarded by the GIL.
  BindingPtr numbered_binding;
  int64_t layout_number = 0;

  // The storage of which this one is a range of bytes, and where the range starts. Tensors are made
  // on the whole storage.
  c10::Storage sliced;
  int64_t slice_start = 0;

  bool is_raw() const { return binding == nullptr; }
  bool is_slice() const { return sliced; }
};

class SpyreTensorImpl final : public c10::TensorImpl {
 public:
  using c10::TensorImpl::TensorImpl;

  // A layout other than the storage's, from as_strided_with_layout and similar functions. A view
  // with another dtype has none: it uses the layout of the storage, which may change.
  BindingPtr own_binding;
  // The elements are the bytes of the storage's host image, independent of its dtype.
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

// Returns null if the tensor is not a SpyreTensorImpl; then it has no layout of its own.
SpyreTensorImpl* impl_of(const at::Tensor& tensor);

bool is_byte_view(const at::Tensor& tensor);
// Returns the layout that the tensor's host offsets refer to; linear bytes for a raw storage.
BindingPtr binding_of(const at::Tensor& tensor);

// Throws unless reinterpreting device memory of one dtype as the other gives the same values as on
// the host.
void check_reinterprets(const char* function, c10::ScalarType from, c10::ScalarType to);
// Returns whether the elements are in the host's order, with padding after the last one only.
bool is_flat(const Binding& binding);
// Returns a binding with the same device offsets for another dtype.
BindingPtr reinterpreted(const Binding& binding, c10::ScalarType dtype);

// Returns the layout of a new tensor with these strides: tiled by its dims if is_nested holds,
// otherwise flat, so that overlapping strides alias as on the host.
Binding default_binding(c10::IntArrayRef size, c10::IntArrayRef strides, c10::ScalarType dtype);

// Returns the bytes of a storage: those of the layout, but at least those of the host image.
size_t storage_bytes(const Binding& binding, c10::ScalarType dtype);

c10::Storage make_storage(Binding binding, c10::ScalarType dtype, c10::Device device);
// Allocates a storage without a dtype.
c10::Storage make_raw_storage(size_t bytes, c10::Device device);
// Returns a range of the bytes of a storage's host image. It aliases the storage.
c10::Storage slice_of(const c10::Storage& storage, int64_t start, int64_t bytes);
at::Tensor make_tensor(c10::Storage storage, c10::ScalarType dtype);
// Returns a tensor with every element of `binding` in the storage once.
at::Tensor elements_of(const c10::Storage& storage, c10::ScalarType dtype, BindingPtr binding);

Sizes to_sizes(c10::IntArrayRef values);

// Returns sizes, strides and offset of a tensor, in host elements.
HostView view_of(const at::Tensor& tensor);

}  // namespace spyre
