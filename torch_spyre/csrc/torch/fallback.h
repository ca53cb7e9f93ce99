// CPU fallback of ops without a kernel for the card: with a warning, silently, or as an error.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <string>
#include <string_view>

namespace spyre {

// Sets the function that is called on the first fallback of each op if the policy is to warn. If it
// throws, the op does not run and is reported again next time.
void set_fallback_warning(std::function<void(const std::string&)> warn);

// Forgets which ops have been reported.
void reset_fallback_warnings();
// A function that throws the error of a forbidden fallback, given the op's name and arguments.
using RaiseFallbackError = std::function<void(const std::string&, c10::ArrayRef<c10::IValue>)>;
void set_fallback_error(RaiseFallbackError raise_error);

// Counts one fallback; warns the first time, or throws, according to the policy. The first form is
// for work that is not a call of an op: `name` describes it, and allowing `op` allows it.
void count_fallback(const std::string& name, const std::string& op);
void count_fallback(const c10::OperatorHandle& op, const torch::jit::Stack& stack);

// Returns the name of an overload in the Python API: "aten.add.Tensor".
std::string dotted_name(const c10::FunctionSchema& schema);
// The same, but "aten.add.Tensor" also if PyTorch called add.out.
std::string public_name(const c10::FunctionSchema& schema);

struct CpuRun {
  // Arguments that the CPU kernel writes although its schema does not declare it.
  c10::ArrayRef<std::string_view> also_written = {};
  // Whether autograd records the copies and the CPU ops: for composite ops without a derivative
  // formula.
  bool through_autograd = false;
};

// Runs `op` on CPU copies of the arguments on the stack and copies the results to the card.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack, const CpuRun& how = {});

// An op that runs on the CPU or consists of copies, and its kernel form; see cpu_kernels.cpp.
struct CpuKernel {
  std::string op;
  std::string form;
};

// Registers these kernels with the dispatcher; replaces those of the previous call.
void register_cpu_kernels(const std::vector<CpuKernel>& kernels);

}  // namespace spyre
