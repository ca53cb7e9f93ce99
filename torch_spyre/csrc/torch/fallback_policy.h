// What happens when an op falls back to the CPU: the policy of the process, and of a thread that is
// inside of a `torch.spyre.fallback` block.
#pragma once

#include <ATen/core/function_schema.h>

#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace spyre {

enum class FallbackMode { kWarn, kSilent, kError };

// The mode applies to every op that is not in the list of allowed ops; those are only counted.
class FallbackPolicy {
 public:
  // Names are "aten.add", which allows all overloads, or "aten.add.Tensor".
  explicit FallbackPolicy(FallbackMode mode, std::vector<std::string> allowed = {});

  FallbackMode mode() const { return mode_; }
  const std::vector<std::string>& allowed() const { return allowed_; }
  // Takes the name of an op with its overload.
  bool allows(const std::string& name) const;
  bool allows(const c10::FunctionSchema& schema) const;

 private:
  FallbackMode mode_;
  std::vector<std::string> allowed_;
  std::unordered_set<std::string> names_;
  // Answers by op, which avoids building a name in the common case.
  mutable std::shared_mutex mutex_;
  mutable std::unordered_map<c10::OperatorName, bool> answers_;
};

using FallbackPolicyRef = std::shared_ptr<FallbackPolicy>;

void set_process_fallback_policy(FallbackPolicyRef policy);

// Sets the policy of this thread, and of the threads that run its backward passes. A null pointer
// removes it, so that the policy of the process applies. Needs the GIL.
void set_thread_fallback_policy(const FallbackPolicyRef& policy);
// Returns a null pointer if this thread has no policy of its own.
FallbackPolicyRef thread_fallback_policy();

// Returns the policy of this thread or, without one, that of the process.
FallbackPolicyRef fallback_policy();

}  // namespace spyre
