// Ops that PyTorch puts together from others in a way that does not suit the card.
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/batch_norm_native.h>
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

void whole_on_cpu(const OperatorHandle& op, Stack* stack) { run_on_cpu(op, stack); }

void whole_on_cpu_with_gradients(const OperatorHandle& op, Stack* stack) {
  run_on_cpu(op, stack, {.through_autograd = true});
}

// Composed where the CPU has a kernel: of more steps, each rounded to the card's formats, with
// checks for other devices, by way of a tensor that the card cannot hold, or of one that the CPU
// then resizes with a warning.
constexpr const char* kHasCpuKernel[] = {
    "_stack",
    "_stack.out",
    "addr",
    "addr.out",
    "all.dims",
    "all.dims_out",
    "any.dims",
    "any.dims_out",
    "complex",
    "hash_tensor",
    "linalg__powsum",
    "linalg_pinv.atol_rtol_tensor",
    "mish_backward",
    "mode.values",
    "mse_loss",
    "native_channel_shuffle",
    "native_group_norm",
    "native_layer_norm",
    "polar",
    "silu_backward",
    "smooth_l1_loss",
};

// Real in, real out, but complex or float64 in between.
constexpr const char* kNeedsOtherDtypes[] = {
    "fft_fft",
    "fft_fft2",
    "fft_fftn",
    "fft_hfft",
    "fft_hfft.out",
    "fft_hfft2",
    "fft_hfft2.out",
    "fft_hfftn",
    "fft_hfftn.out",
    "fft_ifft",
    "fft_ifft2",
    "fft_ifftn",
    "fft_ihfft",
    "fft_ihfft2",
    "fft_ihfftn",
    "fft_irfft",
    "fft_irfft.out",
    "fft_irfft2",
    "fft_irfft2.out",
    "fft_irfftn",
    "fft_irfftn.out",
    "fft_rfft",
    "fft_rfft2",
    "fft_rfftn",
    "float_power.Scalar",
    "float_power.Tensor_Scalar",
    "float_power.Tensor_Tensor",
    "linalg_matrix_rank",
    "linalg_matrix_rank.atol_rtol_float",
    "linalg_matrix_rank.atol_rtol_float_out",
    "linalg_matrix_rank.atol_rtol_tensor",
    "linalg_matrix_rank.atol_rtol_tensor_out",
    "linalg_matrix_rank.out",
    "linalg_matrix_rank.out_tol_tensor",
    "linalg_matrix_rank.tol_tensor",
    "linalg_pinv",
    "linalg_pinv.atol_rtol_float",
    "linalg_pinv.rcond_tensor",
    "stft",
    "stft.center",
};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* op : kHasCpuKernel) {
    m.impl(op, torch::CppFunction::makeFromBoxedFunction<&whole_on_cpu>());
  }
  for (const char* op : kNeedsOtherDtypes) {
    m.impl(op, torch::CppFunction::makeFromBoxedFunction<&whole_on_cpu_with_gradients>());
  }
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  for (const char* op : kNeedsOtherDtypes) {
    m.impl(op, torch::CppFunction::makeFromBoxedFunction<&whole_on_cpu_with_gradients>());
  }
  // Its gradient computes in float64.
  m.impl("renorm", torch::CppFunction::makeFromBoxedFunction<&whole_on_cpu_with_gradients>());
}

// --- x.select_scatter(...) and its kin: a copy, part of it replaced. PyTorch copies the storage to
// --- its end, which on a card includes padding.

Tensor copy_with_strides(const Tensor& self) {
  const bool is_whole = self.storage_offset() == 0 && self.is_non_overlapping_and_dense();
  if (is_whole || at::has_internal_overlap(self) == at::MemOverlap::Yes) return self.clone();
  const int64_t extent = binding_of(self)->extent();
  const Tensor copy = view_as(self, {extent}, {int64_t{1}}, 0).clone();
  return view_as(copy, self.sizes(), self.strides(), self.storage_offset());
}

Tensor with_part_replaced(const Tensor& copy, const Tensor& part, const Tensor& source) {
  TORCH_CHECK(part.sizes() == source.sizes(),
              "expected src to have a size equal to the slice of self. src size = ", source.sizes(),
              ", slice size = ", part.sizes());
  part.copy_(source);
  return copy;
}

// PyTorch's takes a storage's bytes for elements that views may name.
Tensor copy(const Tensor& self, const Tensor& source, bool non_blocking) {
  return copy_with_strides(self).copy_(source, non_blocking);
}

Tensor select_scatter(const Tensor& self, const Tensor& source, int64_t dim, int64_t index) {
  const Tensor copy = copy_with_strides(self);
  return with_part_replaced(copy, copy.select(dim, index), source);
}

Tensor slice_scatter(const Tensor& self, const Tensor& source, int64_t dim,
                     std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) {
  const Tensor copy = copy_with_strides(self);
  return with_part_replaced(copy, copy.slice(dim, start, end, step), source);
}

Tensor diagonal_scatter(const Tensor& self, const Tensor& source, int64_t offset, int64_t dim1,
                        int64_t dim2) {
  const Tensor copy = copy_with_strides(self);
  return with_part_replaced(copy, copy.diagonal(offset, dim1, dim2), source);
}

Tensor as_strided_scatter(const Tensor& self, const Tensor& source, at::IntArrayRef size,
                          at::IntArrayRef stride, std::optional<int64_t> offset) {
  const Tensor copy = copy_with_strides(self);
  return with_part_replaced(copy, copy.as_strided(size, stride, offset), source);
}

// PyTorch's zeros without memory are for devices that it knows.
Tensor efficient_zero_tensor(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                             std::optional<at::Layout> layout, std::optional<c10::Device> device,
                             std::optional<bool> pin_memory) {
  return at::zeros(size, dtype, layout, device, pin_memory);
}

// Says that nothing can be gained from a nested tensor, so that nn.TransformerEncoder makes none.
bool nested_tensor_is_worth_it(const Tensor&, const Tensor&) { return false; }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("copy", &copy);
  m.impl("select_scatter", &select_scatter);
  m.impl("slice_scatter", &slice_scatter);
  m.impl("diagonal_scatter", &diagonal_scatter);
  m.impl("as_strided_scatter", &as_strided_scatter);
  m.impl("_efficientzerotensor", &efficient_zero_tensor);
  m.impl("_nested_tensor_from_mask_left_aligned", &nested_tensor_is_worth_it);
}

// For an empty batch PyTorch allocates float64 statistics. Sizes of graphs may be symbols.
Tensor batch_norm(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                  const OptionalTensor& running_mean, const OptionalTensor& running_var,
                  bool training, double momentum, double eps, bool cudnn_enabled) {
  if (!TORCH_GUARD_OR_FALSE(input.sym_numel().sym_eq(0))) {
    return at::native::batch_norm(input, weight, bias, running_mean, running_var, training,
                                  momentum, eps, cudnn_enabled);
  }
  // Without channels PyTorch checks nothing.
  const int64_t channels = input.dim() > 1 ? input.size(1) : 0;
  for (const OptionalTensor* each : {&weight, &bias, &running_mean, &running_var}) {
    if (!*each || !(*each)->defined() || input.dim() < 2) continue;
    TORCH_CHECK((*each)->numel() == channels, "batch_norm: an input of ", channels,
                " channels with weights or statistics for ", (*each)->numel());
  }
  // Nothing is left of the numbers, but the gradients of all have their sizes.
  Tensor result = input.clone();
  if (weight && weight->defined()) result = result.mul(weight->select(0, 0));
  if (bias && bias->defined()) result = result.add(bias->select(0, 0));
  return result;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("batch_norm", &batch_norm); }
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("batch_norm", &batch_norm); }

void refuse_sparse(const OperatorHandle& op, Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, public_name(op.schema()),
                              ": spyre holds no sparse tensors. Use dense ones (for embeddings "
                              "sparse=False), or run this op on the CPU.");
}

void refuse_nested(const OperatorHandle& op, Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, public_name(op.schema()),
                              ": spyre holds no nested tensors of this kind. Make them with "
                              "layout=torch.jagged, or run this op on the CPU.");
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_sparse>());
}
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_sparse>());
}
TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_nested>());
}
// PyTorch has kernels of its own for these, on any device.
TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  for (const char* op :
       {"_sparse_compressed_tensor_unsafe", "sparse_compressed_tensor.comp_plain_value",
        "sparse_compressed_tensor.comp_plain_value_size"}) {
    m.impl(op, torch::CppFunction::makeFromBoxedFunction<&refuse_sparse>());
  }
}

}  // namespace

}  // namespace spyre
