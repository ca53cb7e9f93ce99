// Ops that need a kernel of their own for the device to be right, whatever computes the rest.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_native_batch_norm_legit.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include "torch/copy.h"
#include "torch/device.h"
#include "torch/fallback.h"
#include "torch/storage.h"

namespace spyre {

namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

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

at::Scalar local_scalar(const Tensor& self) {
  TORCH_CHECK(self.numel() == 1, "a Tensor with ", self.numel(), " elements cannot be converted to Scalar");
  return to_cpu(self).item();
}

void record_stream(Tensor& self, at::Stream stream) {
  c10::impl::getDeviceGuardImpl(kSpyre)->recordDataPtrOnStream(self.storage().data_ptr(), stream);
}

// The CPU kernel updates the running statistics without saying so in its schema; the "legit"
// form says so, and the fallback then brings them back.
std::tuple<Tensor, Tensor, Tensor> native_batch_norm(
    const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
    const OptionalTensor& running_mean, const OptionalTensor& running_var, bool training,
    double momentum, double eps) {
  const bool has_statistics = running_mean && running_mean->defined();
  if (!has_statistics) {
    return at::_native_batch_norm_legit(input, weight, bias, training, momentum, eps);
  }
  Tensor mean = *running_mean, variance = *running_var;
  return at::_native_batch_norm_legit(input, weight, bias, mean, variance, training, momentum, eps);
}

// PyTorch hands convolutions of out-of-tree devices to the "overrideable" ops, which have the
// arguments of the plain ones but for one of the backward's.
void run_as(const char* name, torch::jit::Stack* stack) {
  static auto& dispatcher = c10::Dispatcher::singleton();
  run_on_cpu(dispatcher.findSchemaOrThrow(name, ""), stack);
}

void convolution(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  run_as("aten::convolution", stack);
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
  run_as("aten::convolution_backward", stack);
}

// One step of an LSTM from its gates; other devices fuse it, here it is a chain of ops.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                             const Tensor& cx, const OptionalTensor& input_bias,
                                             const OptionalTensor& hidden_bias) {
  Tensor gates = input_gates + hidden_gates;
  if (input_bias && input_bias->defined()) gates = gates + *input_bias;
  if (hidden_bias && hidden_bias->defined()) gates = gates + *hidden_bias;
  const auto parts = gates.chunk(4, 1);
  const Tensor in = parts[0].sigmoid(), forget = parts[1].sigmoid();
  const Tensor cell = parts[2].tanh(), out = parts[3].sigmoid();
  const Tensor cy = forget * cx + in * cell;
  const Tensor hy = out * cy.tanh();
  return {hy, cy, at::cat({in, forget, cell, out}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const OptionalTensor& grad_hy,
                                                      const OptionalTensor& grad_cy,
                                                      const Tensor& cx, const Tensor& cy,
                                                      const Tensor& workspace, bool has_bias) {
  const auto parts = workspace.chunk(4, 1);
  const Tensor &in = parts[0], &forget = parts[1], &cell = parts[2], &out = parts[3];
  const Tensor tanh_cy = cy.tanh();
  Tensor grad_cell = grad_cy && grad_cy->defined() ? *grad_cy : at::zeros_like(cy);
  Tensor grad_out = at::zeros_like(out);
  if (grad_hy && grad_hy->defined()) {
    grad_out = *grad_hy * tanh_cy;
    grad_cell = grad_cell + *grad_hy * out * (1 - tanh_cy * tanh_cy);
  }
  const Tensor grad_gates = at::cat({grad_cell * cell * in * (1 - in),
                                     grad_cell * cx * forget * (1 - forget),
                                     grad_cell * in * (1 - cell * cell),
                                     grad_out * out * (1 - out)},
                                    1);
  return {grad_gates, grad_cell * forget, has_bias ? grad_gates.sum(0) : Tensor()};
}

// One step of a GRU. The workspace holds what the backward needs: reset, input and new gates, the
// hidden state, and the hidden part of the new gate.
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                    const Tensor& hx, const OptionalTensor& input_bias,
                                    const OptionalTensor& hidden_bias) {
  const Tensor from_input =
      input_bias && input_bias->defined() ? input_gates + *input_bias : input_gates;
  const Tensor from_hidden =
      hidden_bias && hidden_bias->defined() ? hidden_gates + *hidden_bias : hidden_gates;
  const auto inputs = from_input.chunk(3, 1), hiddens = from_hidden.chunk(3, 1);
  const Tensor reset = (inputs[0] + hiddens[0]).sigmoid();
  const Tensor update = (inputs[1] + hiddens[1]).sigmoid();
  const Tensor fresh = (inputs[2] + reset * hiddens[2]).tanh();
  const Tensor hy = (hx - fresh) * update + fresh;
  return {hy, at::cat({reset, update, fresh, hx, hiddens[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy,
                                                                     const Tensor& workspace,
                                                                     bool has_bias) {
  const auto parts = workspace.chunk(5, 1);
  const Tensor &reset = parts[0], &update = parts[1], &fresh = parts[2], &hx = parts[3],
               &hidden_new = parts[4];
  const Tensor grad_update = grad_hy * (hx - fresh) * update * (1 - update);
  const Tensor grad_fresh = grad_hy * (1 - update) * (1 - fresh * fresh);
  const Tensor grad_reset = grad_fresh * hidden_new * reset * (1 - reset);
  const Tensor grad_input = at::cat({grad_reset, grad_update, grad_fresh}, 1);
  const Tensor grad_hidden = at::cat({grad_reset, grad_update, grad_fresh * reset}, 1);
  return {grad_input, grad_hidden, grad_hy * update, has_bias ? grad_input.sum(0) : Tensor(),
          has_bias ? grad_hidden.sum(0) : Tensor()};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar);
  m.impl("fill_.Scalar", &fill_scalar);
  m.impl("fill_.Tensor", &fill_tensor);
  m.impl("zero_", &zero);
  m.impl("record_stream", &record_stream);
  m.impl("native_batch_norm", &native_batch_norm);
  m.impl("convolution_overrideable",
         torch::CppFunction::makeFromBoxedFunction<&convolution>());
  m.impl("convolution_backward_overrideable",
         torch::CppFunction::makeFromBoxedFunction<&convolution_backward>());
  m.impl("_thnn_fused_lstm_cell", &lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward);
  m.impl("_thnn_fused_gru_cell", &gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", &gru_cell_backward);
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
