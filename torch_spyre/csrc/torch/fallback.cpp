#include "torch/fallback.h"

#include <torch/library.h>

#include <mutex>
#include <shared_mutex>
#include <unordered_set>

#include "torch/device.h"
#include "torch/fallback_policy.h"

namespace spyre {

namespace {

using c10::FunctionSchema;

std::function<void(const std::string&)> warn_once_per_op;
RaiseFallbackError raise_forbidden;

std::shared_mutex warned_mutex;
std::unordered_set<std::string> warned_names;
// The same by schema, which avoids building a name in the common case.
std::unordered_set<const FunctionSchema*> warned_schemas;

std::string dotted_name(const std::string& name, const std::string& overload) {
  const size_t colons = name.find("::");
  const std::string plain =
      colons == std::string::npos ? name : name.substr(0, colons) + "." + name.substr(colons + 2);
  return plain + "." + (overload.empty() ? "default" : overload);
}

std::vector<const c10::Argument*> inputs_of(const FunctionSchema& schema) {
  std::vector<const c10::Argument*> inputs;
  for (const c10::Argument& argument : schema.arguments()) {
    if (!argument.is_out()) inputs.push_back(&argument);
  }
  return inputs;
}

// Returns whether one schema is the out= overload of the other.
bool same_inputs(const FunctionSchema& first_schema, const FunctionSchema& second_schema) {
  const auto left = inputs_of(first_schema), right = inputs_of(second_schema);
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const c10::Argument* a, const c10::Argument* b) {
                      return a->name() == b->name() && *a->type() == *b->type();
                    });
}

bool has_out(const FunctionSchema& schema) {
  return inputs_of(schema).size() < schema.arguments().size();
}

[[noreturn]] void raise_error(const std::string& name, c10::ArrayRef<c10::IValue> arguments = {}) {
  if (raise_forbidden) raise_forbidden(name, arguments);
  TORCH_CHECK(false, name,
              " has no kernel on spyre, and TORCH_SPYRE_FALLBACK=error forbids the CPU");
}

void warn_once(const std::string& name) {
  {
    std::lock_guard lock(warned_mutex);
    if (!warned_names.insert(name).second) return;
  }
  if (!warn_once_per_op) return;
  try {
    warn_once_per_op(name);
  } catch (...) {
    std::lock_guard lock(warned_mutex);
    warned_names.erase(name);
    throw;
  }
}

bool is_warned(const c10::OperatorHandle& op) {
  std::shared_lock lock(warned_mutex);
  return warned_schemas.contains(&op.schema());
}

void boxed_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  run_on_cpu(op, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed_fallback>());
}

}  // namespace

void set_fallback_warning(std::function<void(const std::string&)> warn) {
  warn_once_per_op = std::move(warn);
}

void reset_fallback_warnings() {
  std::lock_guard lock(warned_mutex);
  warned_names.clear();
  warned_schemas.clear();
}

void set_fallback_error(RaiseFallbackError value) { raise_forbidden = std::move(value); }

std::string dotted_name(const FunctionSchema& schema) {
  return dotted_name(schema.name(), schema.overload_name());
}

std::string public_name(const FunctionSchema& schema) {
  const std::string& name = schema.name();
  if (!has_out(schema)) return dotted_name(schema);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& candidate : dispatcher.getAllOpNames()) {
    if (candidate.name != name) continue;
    const auto op = dispatcher.findSchema(candidate);
    if (op && !has_out(op->schema()) && same_inputs(op->schema(), schema)) {
      return dotted_name(name, candidate.overload_name);
    }
  }
  return dotted_name(schema);
}

void count_fallback(const std::string& name, const std::string& op) {
  const FallbackPolicyRef policy = fallback_policy();
  if (!policy->allows(op)) {
    if (policy->mode() == FallbackMode::kError) raise_error(name);
    if (policy->mode() == FallbackMode::kWarn) warn_once(name);
  }
  flex::Runtime::get().counters().fallbacks++;
}

void count_fallback(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  flex::Runtime::get().start();  // reads the policy
  const FallbackPolicyRef policy = fallback_policy();
  const FallbackMode mode = policy->mode();
  const bool is_silent =
      mode == FallbackMode::kSilent || (mode == FallbackMode::kWarn && is_warned(op));
  if (!is_silent && !policy->allows(op.schema())) {
    const std::string name = public_name(op.schema());
    if (mode == FallbackMode::kError) {
      const auto arguments = torch::jit::last(stack, op.schema().arguments().size());
      raise_error(name, arguments.slice(0, inputs_of(op.schema()).size()));
    }
    warn_once(name);
    std::lock_guard lock(warned_mutex);
    warned_schemas.insert(&op.schema());
  }
  flex::Runtime::get().counters().fallbacks++;
}

}  // namespace spyre
