// Ops that need a kernel of their own for the device to be right, whatever computes the rest.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_to_copy_native.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <torch/library.h>

#include <mutex>

#include "torch/copy.h"
#include "torch/device.h"
#include "torch/fallback.h"
#include "torch/storage.h"
#include "torch/warnings.h"

namespace spyre {

namespace {

using at::Tensor;

Tensor copy_from(const Tensor& self, const Tensor& dst, bool non_blocking) {
  copy_tensor(self, dst, non_blocking);
  return dst;
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& dst) {
  if (self.sizes() != dst.sizes()) dst.resize_(self.sizes());
  copy_tensor(self, dst, false);
  return dst;
}

Tensor& fill_scalar(Tensor& self, const at::Scalar& value) {
  fill_elements(self, value);
  return self;
}

Tensor& fill_tensor(Tensor& self, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ",
              value.dim(), " dimensions.");
  copy_tensor(value, self, false);
  return self;
}

Tensor& zero(Tensor& self) {
  fill_elements(self, 0);
  return self;
}

// The card has no float64. Asked for it without a device, a tensor comes back to the host, which
// has: code that measures or prints in float64 goes on working. It is a copy, no op that falls
// back.
Tensor to_copy(const Tensor& self, std::optional<at::ScalarType> dtype,
               std::optional<at::Layout> layout, std::optional<at::Device> device,
               std::optional<bool> pin_memory, bool non_blocking,
               std::optional<at::MemoryFormat> memory_format) {
  if (dtype == at::kDouble && !device.has_value()) {
    static std::once_flag warned;
    std::call_once(warned, [] {
      warn_caller(
          "spyre has no float64: a tensor converted to it comes back on the CPU. Call .cpu() first "
          "to say so, or convert to float32 to stay on the card.");
    });
    device = at::kCPU;
  }
  return at::native::_to_copy(self, dtype, layout, device, pin_memory, non_blocking, memory_format);
}

at::Scalar local_scalar(const Tensor& self) {
  TORCH_CHECK(self.numel() == 1, "a Tensor with ", self.numel(),
              " elements cannot be converted to Scalar");
  return to_cpu(self).item();
}

void record_stream(Tensor& self, at::Stream stream) {
  c10::impl::getDeviceGuardImpl(kSpyre)->recordDataPtrOnStream(self.storage().data_ptr(), stream);
}

// PyTorch's draws from the CPU's generator.
std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p,
                                          std::optional<bool> train) {
  const auto mask_options = input.options().dtype(at::kBool);
  if (!train.value_or(true)) return {input.clone(), at::ones(input.sizes(), mask_options)};
  const double kept = 1 - p;
  const Tensor mask = at::empty_like(input, mask_options).bernoulli_(kept);
  // In place, so that dropping out integers is an error, as on other devices.
  return {(input * mask).mul_(kept == 0 ? 0 : 1 / kept), mask};
}

// The CPU kernels update the running statistics without saying so in their schemas.
void run_with_statistics(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  static constexpr std::string_view statistics[] = {"running_mean", "running_var"};
  run_on_cpu(op, stack, {.also_written = statistics});
}

void native_batch_norm(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  constexpr size_t kTraining = 5;
  const size_t base = stack->size() - op.schema().arguments().size();
  if ((*stack)[base + kTraining].toBool()) return run_with_statistics(op, stack);
  run_on_cpu(op, stack);
}

c10::OperatorHandle find_op(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

// PyTorch hands convolutions of out-of-tree devices to the "overrideable" ops, which have the
// arguments of the plain ones but for one of the backward's.
void convolution(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  static const c10::OperatorHandle plain = find_op("aten::convolution");
  run_on_cpu(plain, stack);
}

void convolution_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  // bias_sizes is the fourth argument of the plain op; it matters only to callers that need the
  // shape of a bias gradient, which is the number of output channels.
  const size_t base = stack->size() - op.schema().arguments().size();
  const Tensor weight = (*stack)[base + 2].toTensor();
  const bool transposed = (*stack)[base + 6].toBool();
  const int64_t groups = (*stack)[base + 8].toInt();
  const int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  stack->insert(stack->begin() + static_cast<std::ptrdiff_t>(base) + 3,
                c10::IValue(std::vector<int64_t>{channels}));
  static const c10::OperatorHandle plain = find_op("aten::convolution_backward");
  run_on_cpu(plain, stack);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_to_copy", &to_copy);
  m.impl("_local_scalar_dense", &local_scalar);
  m.impl("fill_.Scalar", &fill_scalar);
  m.impl("fill_.Tensor", &fill_tensor);
  m.impl("zero_", &zero);
  m.impl("record_stream", &record_stream);
  m.impl("native_dropout", &native_dropout);
  for (const char* op : {"native_batch_norm", "native_batch_norm.out"}) {
    m.impl(op, torch::CppFunction::makeFromBoxedFunction<&native_batch_norm>());
  }
  for (const char* op : {"batch_norm_update_stats", "batch_norm_update_stats.out"}) {
    m.impl(op, torch::CppFunction::makeFromBoxedFunction<&run_with_statistics>());
  }
  m.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution>());
  m.impl("convolution_backward_overrideable",
         torch::CppFunction::makeFromBoxedFunction<&convolution_backward>());
}

// Without these a copy of a lazily negated or conjugated view calls itself for ever.
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

}  // namespace

}  // namespace spyre
