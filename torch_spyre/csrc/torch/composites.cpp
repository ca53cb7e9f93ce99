// Kernels of ops whose default implementation in PyTorch does not suit the card.
#include "torch/composites.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/batch_norm_native.h>
#include <ATen/ops/full.h>
#include <ATen/ops/special_i0e.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "torch/device.h"
#include "torch/fallback.h"
#include "torch/storage.h"
#include "torch/tensors.h"

namespace spyre {

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using c10::OperatorHandle;
using torch::jit::Stack;

// --- x.select_scatter(...) and similar ops copy a tensor and replace a slice of the copy. PyTorch
// --- would copy the whole storage, which on a card includes padding.

Tensor copy_with_strides(const Tensor& self) {
  const bool is_whole = self.storage_offset() == 0 && self.is_non_overlapping_and_dense();
  if (is_whole || at::has_internal_overlap(self) == at::MemOverlap::Yes) return self.clone();
  const int64_t extent = binding_of(self)->extent();
  const Tensor copy = view_as(self, {extent}, {int64_t{1}}, 0).clone();
  return view_as(copy, self.sizes(), self.strides(), self.storage_offset());
}

Tensor with_slice_replaced(const Tensor& copy, const Tensor& slice, const Tensor& source) {
  TORCH_CHECK(slice.sizes() == source.sizes(),
              "expected src to have a size equal to the slice of self. src size = ", source.sizes(),
              ", slice size = ", slice.sizes());
  slice.copy_(source);
  return copy;
}

// PyTorch's kernel assumes that views may address all bytes of a storage.
Tensor copy(const Tensor& self, const Tensor& source, bool non_blocking) {
  return copy_with_strides(self).copy_(source, non_blocking);
}

Tensor diagonal_scatter(const Tensor& self, const Tensor& source, int64_t offset, int64_t dim1,
                        int64_t dim2) {
  const Tensor copy = copy_with_strides(self);
  return with_slice_replaced(copy, copy.diagonal(offset, dim1, dim2), source);
}

Tensor as_strided_scatter(const Tensor& self, const Tensor& source, at::IntArrayRef size,
                          at::IntArrayRef stride, std::optional<int64_t> offset) {
  const Tensor copy = copy_with_strides(self);
  return with_slice_replaced(copy, copy.as_strided(size, stride, offset), source);
}

// PyTorch supports zero tensors without memory only for its own devices.
Tensor efficient_zero_tensor(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                             std::optional<at::Layout> layout, std::optional<c10::Device> device,
                             std::optional<bool> pin_memory) {
  return at::zeros(size, dtype, layout, device, pin_memory);
}

// PyTorch shares the memory until one of the tensors is written, which it sees on the host only.
Tensor lazy_clone(const Tensor& self) { return self.clone(); }

// PyTorch makes the window of this many elements in place.
void kaiser_window(at::TensorIteratorBase& iterator, const int64_t length, const double beta) {
  const Tensor& window = iterator.tensor(0);
  // In float32, as elements of float16 do not count beyond 1024.
  const Tensor index = at::arange(length, window.options().dtype(at::kFloat));
  const double half = static_cast<double>(length - 1) / 2;
  const Tensor position = index.sub(half).div_(half);
  const Tensor inner = position.mul(position).neg_().add_(1).clamp_min_(0).sqrt_().mul_(beta);
  // i0(beta * sqrt(...)) / i0(beta), scaled by exponentials that do not overflow.
  const Tensor scaled =
      at::special_i0e(inner).div_(at::special_i0e(at::full({}, beta, inner.options())));
  window.copy_(scaled.mul_(inner.sub(beta).exp_()));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("copy", &copy);
  m.impl("diagonal_scatter", &diagonal_scatter);
  m.impl("as_strided_scatter", &as_strided_scatter);
  m.impl("_efficientzerotensor", &efficient_zero_tensor);
  m.impl("_lazy_clone", &lazy_clone);
}

// For an empty batch PyTorch allocates float64 statistics. Sizes may be symbolic while a graph is
// traced.
Tensor batch_norm(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                  const OptionalTensor& running_mean, const OptionalTensor& running_var,
                  bool training, double momentum, double eps, bool cudnn_enabled) {
  if (!TORCH_GUARD_OR_FALSE(input.sym_numel().sym_eq(0))) {
    return at::native::batch_norm(input, weight, bias, running_mean, running_var, training,
                                  momentum, eps, cudnn_enabled);
  }
  // PyTorch checks nothing if there are no channels.
  const int64_t channels = input.dim() > 1 ? input.size(1) : 0;
  for (const OptionalTensor* argument : {&weight, &bias, &running_mean, &running_var}) {
    if (!*argument || !(*argument)->defined() || input.dim() < 2) continue;
    TORCH_CHECK((*argument)->numel() == channels, "batch_norm: an input of ", channels,
                " channels with weights or statistics for ", (*argument)->numel());
  }
  // There are no values to compute, but every argument needs a gradient of its size.
  Tensor result = input.clone();
  if (weight && weight->defined()) result = result.mul(weight->select(0, 0));
  if (bias && bias->defined()) result = result.add(bias->select(0, 0));
  return result;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("batch_norm", &batch_norm); }
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("batch_norm", &batch_norm); }

void reject_sparse(const OperatorHandle& op, Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, public_name(op.schema()),
                              ": spyre holds no sparse tensors. Use dense ones (for embeddings "
                              "sparse=False), or run this op on the CPU.");
}

void reject_nested(const OperatorHandle& op, Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, public_name(op.schema()),
                              ": spyre holds no nested tensors of this kind. Make them with "
                              "layout=torch.jagged, or run this op on the CPU.");
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&reject_sparse>());
}
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&reject_sparse>());
}
TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&reject_nested>());
}
// PyTorch has kernels for these on any device.
TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  for (const char* op :
       {"_sparse_compressed_tensor_unsafe", "sparse_compressed_tensor.comp_plain_value",
        "sparse_compressed_tensor.comp_plain_value_size"}) {
    m.impl(op, torch::CppFunction::makeFromBoxedFunction<&reject_sparse>());
  }
}

}  // namespace

Tensor select_scatter(const Tensor& self, const Tensor& source, int64_t dim, int64_t index) {
  const Tensor copy = copy_with_strides(self);
  return with_slice_replaced(copy, copy.select(dim, index), source);
}

Tensor slice_scatter(const Tensor& self, const Tensor& source, int64_t dim,
                     std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) {
  const Tensor copy = copy_with_strides(self);
  return with_slice_replaced(copy, copy.slice(dim, start, end, step), source);
}

}  // namespace spyre

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(kaiser_window_stub, &spyre::kaiser_window)
}  // namespace at::native
