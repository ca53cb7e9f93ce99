// Kernels that run a whole op on the CPU, for ops whose decomposition in PyTorch has several steps,
// each rounded to the card's formats, or uses dtypes that the card does not support. The registry
// of native ops (torch_spyre/ops/registry.py) lists these ops and the reasons.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <torch/library.h>

#include <map>
#include <memory>

#include "torch/composites.h"
#include "torch/fallback.h"
#include "torch/raw_views.h"

namespace spyre {

namespace {

using at::Tensor;
using c10::DispatchKey;
using c10::OperatorHandle;
using torch::CppFunction;
using torch::jit::Stack;

void whole_on_cpu(const OperatorHandle& op, Stack* stack) { run_on_cpu(op, stack); }

void whole_on_cpu_with_gradients(const OperatorHandle& op, Stack* stack) {
  run_on_cpu(op, stack, {.through_autograd = true});
}

// The CPU kernels update the running statistics, which their schemas do not declare.
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

c10::OperatorHandle find_op(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

// PyTorch dispatches convolutions of out-of-tree devices to the "overrideable" ops. They have the
// arguments of the plain ops, except for bias_sizes of the backward.
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

// Without an upper end, random_ draws from all values of the dtype from `from` on. Cards store
// int64 in 32 bits.
void random_from(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t base = stack->size() - op.schema().arguments().size();
  c10::IValue& end = (*stack)[base + 2];
  if (end.isNone() && (*stack)[base].toTensor().scalar_type() == at::kLong) {
    end = int64_t{1} << 31;
  }
  run_on_cpu(op, stack);
}

void random(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t base = stack->size() - op.schema().arguments().size();
  if ((*stack)[base].toTensor().scalar_type() != at::kLong) return run_on_cpu(op, stack);
  static const c10::OperatorHandle from = find_op("aten::random_", "from");
  const auto generator = stack->begin() + static_cast<std::ptrdiff_t>(base) + 1;
  stack->insert(generator, {c10::IValue(int64_t{0}), c10::IValue()});
  random_from(from, stack);
}

// PyTorch's kernel would use the default generator of the CPU.
std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p,
                                          std::optional<bool> train) {
  const auto mask_options = input.options().dtype(at::kBool);
  if (!train.value_or(true)) return {input.clone(), at::ones(input.sizes(), mask_options)};
  const double keep_probability = 1 - p;
  const Tensor mask = at::empty_like(input, mask_options).bernoulli_(keep_probability);
  // In-place, so that dropout of integers is an error, as on other devices.
  return {(input * mask).mul_(keep_probability == 0 ? 0 : 1 / keep_probability), mask};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("native_batch_norm.out", CppFunction::makeFromBoxedFunction<&native_batch_norm>());
  for (const char* op : {"batch_norm_update_stats", "batch_norm_update_stats.out"}) {
    m.impl(op, CppFunction::makeFromBoxedFunction<&run_with_statistics>());
  }
  m.impl("convolution_overrideable", CppFunction::makeFromBoxedFunction<&convolution>());
  m.impl("convolution_backward_overrideable",
         CppFunction::makeFromBoxedFunction<&convolution_backward>());
}

// A set of registrations; its destructor removes them.
class CpuKernels {
 public:
  explicit CpuKernels(const std::vector<CpuKernel>& kernels) {
    for (const CpuKernel& kernel : kernels) add(kernel);
  }

 private:
  using Implement = void (*)(CpuKernels& kernels, const char* op);

  void add(const CpuKernel& kernel) {
    static const std::map<std::string_view, Implement> implementations = {
        {"whole",
         [](CpuKernels& kernels, const char* op) {
           kernels.device_.impl(op, CppFunction::makeFromBoxedFunction<&whole_on_cpu>());
         }},
        {"whole with gradients",
         [](CpuKernels& kernels, const char* op) {
           kernels.device_.impl(op, with_gradients());
           kernels.autograd_.impl(op, with_gradients());
         }},
        {"gradients",
         [](CpuKernels& kernels, const char* op) { kernels.autograd_.impl(op, with_gradients()); }},
        {"statistics",
         [](CpuKernels& kernels, const char* op) {
           kernels.device_.impl(op, CppFunction::makeFromBoxedFunction<&native_batch_norm>());
         }},
        {"select_scatter",
         [](CpuKernels& kernels, const char* op) { kernels.device_.impl(op, &select_scatter); }},
        {"dropout",
         [](CpuKernels& kernels, const char* op) { kernels.device_.impl(op, &native_dropout); }},
        {"random",
         [](CpuKernels& kernels, const char* op) {
           kernels.device_.impl(op, CppFunction::makeFromBoxedFunction<&random>());
         }},
        {"random from",
         [](CpuKernels& kernels, const char* op) {
           kernels.device_.impl(op, CppFunction::makeFromBoxedFunction<&random_from>());
         }},
        {"view_as_complex",
         [](CpuKernels& kernels, const char* op) { kernels.device_.impl(op, &view_as_complex); }},
        {"slice_scatter",
         [](CpuKernels& kernels, const char* op) { kernels.device_.impl(op, &slice_scatter); }},
    };
    const auto implement = implementations.find(kernel.form);
    TORCH_INTERNAL_ASSERT(implement != implementations.end(), kernel.op, ": no form named ",
                          kernel.form);
    implement->second(*this, kernel.op.c_str());
  }

  static CppFunction with_gradients() {
    return CppFunction::makeFromBoxedFunction<&whole_on_cpu_with_gradients>();
  }

  torch::Library device_{torch::Library::IMPL, "aten", DispatchKey::PrivateUse1, __FILE__,
                         __LINE__};
  torch::Library autograd_{torch::Library::IMPL, "aten", DispatchKey::AutogradPrivateUse1, __FILE__,
                           __LINE__};
};

std::unique_ptr<CpuKernels> registered;

}  // namespace

void register_cpu_kernels(const std::vector<CpuKernel>& kernels) {
  registered.reset();
  registered = std::make_unique<CpuKernels>(kernels);
}

}  // namespace spyre
