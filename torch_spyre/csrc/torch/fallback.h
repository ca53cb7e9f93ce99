// Ops without a kernel of our own run on the CPU: visibly, countably, or not at all.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <string>
#include <string_view>

namespace spyre {

enum class FallbackPolicy { kWarn, kSilent, kError };

void set_fallback_policy(FallbackPolicy policy);
// Called once per op, when it first falls back and the policy is to warn. If it throws, the op
// does not run, and is reported again next time.
void set_fallback_warning(std::function<void(const std::string&)> warn);
// Called with an op's name and arguments where the policy forbids the fallback. It throws.
using RefuseFallback = std::function<void(const std::string&, c10::ArrayRef<c10::IValue>)>;
void set_fallback_refusal(RefuseFallback refuse);

// Counts one fallback of `what`; warns the first time, or throws, as the policy says.
void note_fallback(const std::string& what);
void note_fallback(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

// The name a user knows the op by: "aten.add.Tensor", also where PyTorch called add.out.
std::string public_name(const c10::FunctionSchema& schema);

struct CpuRun {
  // Arguments that the CPU kernel changes without saying so in its schema.
  c10::ArrayRef<std::string_view> also_written = {};
  // Whether autograd sees the copies and what the op does on the CPU: for ops that PyTorch
  // composes of others and that have no gradient formula of their own.
  bool through_autograd = false;
};

// Runs `op` on CPU copies of the arguments on the stack and brings the results back.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack, const CpuRun& how = {});

// An op that runs whole on the CPU, or is made of copies, and how; cpu_kernels.cpp lists the forms.
struct CpuKernel {
  std::string op;
  std::string form;
};

// Registers these kernels with the dispatcher in place of those of the call before.
void register_cpu_kernels(const std::vector<CpuKernel>& kernels);

}  // namespace spyre
