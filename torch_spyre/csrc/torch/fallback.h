// Ops without a kernel of our own run on the CPU: visibly, countably, or not at all.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <string>

namespace spyre {

enum class FallbackPolicy { kWarn, kSilent, kError };

void set_fallback_policy(FallbackPolicy policy);
// Called once per op, when it first falls back and the policy is to warn.
void set_fallback_warning(std::function<void(const std::string&)> warn);

// Counts one fallback of `what`; warns the first time, or throws, as the policy says.
void note_fallback(const std::string& what);

// Runs `op` on CPU copies of the arguments on the stack and brings the results back.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace spyre
