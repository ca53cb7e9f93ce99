#include "torch/fallback_policy.h"

#include <ATen/ThreadLocalPythonObjects.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/PyInterpreter.h>

#include <atomic>
#include <mutex>

#include "torch/fallback.h"

namespace py = pybind11;

namespace spyre {

namespace {

// PyTorch passes the Python objects of a thread on to the threads of its backward passes.
using at::impl::ThreadLocalPythonObjects;
const std::string kThreadKey = "torch_spyre.fallback_policy";

std::atomic<FallbackPolicyRef> process_policy{
    std::make_shared<FallbackPolicy>(FallbackMode::kWarn)};

}  // namespace

FallbackPolicy::FallbackPolicy(FallbackMode mode, std::vector<std::string> allowed)
    : mode_(mode), allowed_(std::move(allowed)), names_(allowed_.begin(), allowed_.end()) {}

bool FallbackPolicy::allows(const std::string& name) const {
  return names_.contains(name) || names_.contains(name.substr(0, name.rfind('.')));
}

bool FallbackPolicy::allows(const c10::FunctionSchema& schema) const {
  if (names_.empty()) return false;
  {
    std::shared_lock lock(mutex_);
    const auto answer = answers_.find(schema.operator_name());
    if (answer != answers_.end()) return answer->second;
  }
  const bool is_allowed = allows(dotted_name(schema)) || allows(public_name(schema));
  std::lock_guard lock(mutex_);
  answers_[schema.operator_name()] = is_allowed;
  return is_allowed;
}

void set_process_fallback_policy(FallbackPolicyRef policy) { process_policy = std::move(policy); }

void set_thread_fallback_policy(const FallbackPolicyRef& policy) {
  if (policy == nullptr) return ThreadLocalPythonObjects::erase(kThreadKey);
  py::object holder = py::cast(policy);
  ThreadLocalPythonObjects::set(
      kThreadKey, std::make_shared<c10::SafePyObject>(holder.release().ptr(), getPyInterpreter()));
}

FallbackPolicyRef thread_fallback_policy() {
  if (!ThreadLocalPythonObjects::contains(kThreadKey)) return nullptr;
  py::gil_scoped_acquire locked;
  return py::cast<FallbackPolicyRef>(
      py::handle(ThreadLocalPythonObjects::get(kThreadKey)->ptr(getPyInterpreter())));
}

FallbackPolicyRef fallback_policy() {
  FallbackPolicyRef policy = thread_fallback_policy();
  return policy != nullptr ? policy : process_policy.load();
}

}  // namespace spyre
