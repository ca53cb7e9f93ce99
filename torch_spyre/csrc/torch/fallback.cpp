#include "torch/fallback.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/enum_tag.h>
#include <ATen/core/ivalue_inl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "torch/copy.h"
#include "torch/device.h"
#include "torch/dtypes.h"
#include "torch/generator.h"

namespace spyre {

namespace {

using c10::IValue;
using torch::jit::Stack;

std::atomic<FallbackPolicy> policy{FallbackPolicy::kWarn};
std::function<void(const std::string&)> warn_once_per_op;

// The name a user knows the op by: "aten.sin.default", also where PyTorch called sin.out.
std::string public_name(const c10::FunctionSchema& schema) {
  std::string name = schema.name(), overload = schema.overload_name();
  if (const size_t colons = name.find("::"); colons != std::string::npos) name.replace(colons, 2, ".");
  if (overload == "out") overload.clear();
  if (overload.ends_with("_out")) overload.resize(overload.size() - 4);
  return name + "." + (overload.empty() ? "default" : overload);
}

// Arguments that other accelerators take from the CPU as well: positions, not data.
bool may_stay_on_cpu(const std::string& argument) {
  static const std::unordered_set<std::string> names{
      "indices",        "lengths", "batch_sizes", "input_lengths",
      "target_lengths", "offsets", "tensor_indices_or_sections"};
  return names.contains(argument);
}

// Results that stay on the CPU: PyTorch wants the batch sizes of a packed sequence there.
bool result_stays_on_cpu(const std::string& op, size_t index) {
  return op == "aten::_pack_padded_sequence" && index == 1;
}

class CpuCall {
 public:
  CpuCall(const c10::OperatorHandle& op, Stack* stack)
      : op_(op), schema_(op.schema()), stack_(stack), base_(stack->size() - schema_.arguments().size()) {}

  void run() {
    find_device();
    note_fallback(public_name(schema_));
    move_arguments();
    if (draws_without_generator()) {
      call_with_device_randomness();
    } else {
      call();
    }
    write_back();
    move_results();
  }

 private:
  using Arguments = std::vector<c10::Argument>;

  const Arguments& arguments() const { return schema_.arguments(); }
  IValue& argument(size_t i) { return (*stack_)[base_ + i]; }

  template <typename Visit>
  static void for_each_tensor(const IValue& value, Visit visit) {
    if (value.isTensor()) {
      if (value.toTensor().defined()) visit(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) {
        if (tensor.defined()) visit(tensor);
      }
    } else if (value.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
        if (tensor && tensor->defined()) visit(*tensor);
      }
    }
  }

  // All tensors must be on one card; CPU scalars and positions may come along.
  void find_device() {
    for (size_t i = 0; i < arguments().size(); ++i) {
      for_each_tensor(argument(i), [&](const at::Tensor& tensor) {
        if (tensor.device().type() == kSpyre) take_device(tensor.device());
      });
      if (argument(i).isDevice() && argument(i).toDevice().type() == kSpyre) {
        take_device(resolve(argument(i).toDevice()));
      }
    }
    if (!device_) device_ = c10::Device(kSpyre, current_device());
    for (size_t i = 0; i < arguments().size(); ++i) {
      for_each_tensor(argument(i), [&](const at::Tensor& tensor) { check_device(tensor, i); });
    }
  }

  void take_device(c10::Device device) {
    TORCH_CHECK(!device_ || *device_ == device,
                "Expected all tensors to be on the same device, but found at least two devices, ",
                *device_, " and ", device, "! (in ", public_name(schema_), ")");
    device_ = device;
  }

  void check_device(const at::Tensor& tensor, size_t i) {
    if (tensor.device().type() == kSpyre) return;
    const bool is_output = arguments()[i].alias_info() && arguments()[i].alias_info()->isWrite();
    const bool scalar = tensor.dim() == 0 && tensor.device().is_cpu() && !is_output;
    const bool position = tensor.device().is_cpu() && may_stay_on_cpu(arguments()[i].name());
    TORCH_CHECK(scalar || position,
                "Expected all tensors to be on the same device, but found at least two devices, ",
                *device_, " and ", tensor.device(), "! (argument '", arguments()[i].name(), "' of ",
                public_name(schema_), "; move it with .to('", *device_, "'))");
  }

  at::Tensor moved(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.device().type() != kSpyre) return tensor;
    const auto key = tensor.unsafeGetTensorImpl();
    if (const auto known = on_cpu_.find(key); known != on_cpu_.end()) return known->second;
    return remember(tensor, to_cpu(tensor));
  }

  at::Tensor remember(const at::Tensor& tensor, at::Tensor cpu) {
    on_cpu_.emplace(tensor.unsafeGetTensorImpl(), cpu);
    originals_.emplace(cpu.unsafeGetTensorImpl(), tensor);
    return cpu;
  }

  // A target that the op only writes needs no content.
  at::Tensor moved_target(const at::Tensor& tensor) {
    if (on_cpu_.contains(tensor.unsafeGetTensorImpl())) return moved(tensor);
    const auto options = tensor.options().device(at::kCPU);
    return remember(tensor, tensor.is_non_overlapping_and_dense()
                                ? at::empty_strided(tensor.sizes(), tensor.strides(), options)
                                : at::empty(tensor.sizes(), options));
  }

  void move_arguments() {
    originals_on_stack_.assign(stack_->begin() + static_cast<std::ptrdiff_t>(base_), stack_->end());
    // Targets last, so that one that is also an input keeps its content.
    for (const bool targets : {false, true}) {
      for (size_t i = 0; i < arguments().size(); ++i) {
        const bool is_target = arguments()[i].is_out() && argument(i).isTensor() &&
                               argument(i).toTensor().defined();
        if (is_target == targets) move_argument(i, is_target);
      }
    }
  }

  void move_argument(size_t i, bool is_target) {
    IValue& value = argument(i);
    if (value.isTensor()) {
      value = is_target ? moved_target(value.toTensor()) : moved(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(moved(tensor));
      value = std::move(list);
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
        list.push_back(tensor ? std::optional(moved(*tensor)) : std::nullopt);
      }
      value = std::move(list);
    } else if (value.isDevice()) {
      value = c10::Device(at::kCPU);
    } else if (is_generator(i)) {
      value = generator_for(value);
    } else if (arguments()[i].name() == "pin_memory" && value.isBool()) {
      value = false;
    }
  }

  bool is_generator(size_t i) const {
    const auto type = arguments()[i].type();
    if (type->kind() == c10::TypeKind::GeneratorType) return true;
    const auto optional = type->cast<c10::OptionalType>();
    return optional && optional->getElementType()->kind() == c10::TypeKind::GeneratorType;
  }

  IValue generator_for(const IValue& value) {
    has_generator_ = true;
    if (value.isNone()) return spyre_generator(default_generator(device_->index())).engine();
    const at::Generator generator = value.toGenerator();
    TORCH_CHECK(generator.device().type() == kSpyre, "Expected a 'spyre' device type for generator "
                "but found '", generator.device(), "'");
    return spyre_generator(generator).engine();
  }

  void call() { op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_); }

  bool draws_without_generator() const {
    if (has_generator_) return false;
    for (const at::Tag tag : op_.getTags()) {
      if (tag == at::Tag::nondeterministic_seeded) return true;
    }
    return false;
  }

  // The CPU kernel draws from the CPU's default generator: lend it the device's state.
  void call_with_device_randomness() {
    at::Generator cpu = at::detail::getDefaultCPUGenerator();
    at::Generator& device = spyre_generator(default_generator(device_->index())).engine();
    const at::Tensor saved = cpu.get_state();
    cpu.set_state(device.get_state());
    try {
      call();
    } catch (...) {
      cpu.set_state(saved);
      throw;
    }
    device.set_state(cpu.get_state());
    cpu.set_state(saved);
  }

  // What the schema says is written goes back to the device.
  void write_back() {
    std::unordered_set<const void*> done;
    for (size_t i = 0; i < arguments().size(); ++i) {
      const auto* alias = arguments()[i].alias_info();
      if (alias == nullptr || !alias->isWrite()) continue;
      for_each_tensor(originals_on_stack_[i], [&](const at::Tensor& original) {
        if (original.device().type() != kSpyre) return;
        const auto* key = original.unsafeGetTensorImpl();
        if (!done.insert(key).second) return;
        const at::Tensor& cpu = on_cpu_.at(original.unsafeGetTensorImpl());
        if (original.sizes() != cpu.sizes()) original.resize_(cpu.sizes());
        copy_tensor(cpu, original, false);
      });
    }
  }

  void move_results() {
    const size_t count = schema_.returns().size();
    const size_t first = stack_->size() - count;
    for (size_t i = 0; i < count; ++i) {
      IValue& value = (*stack_)[first + i];
      const auto* alias = schema_.returns()[i].alias_info();
      const bool keep = result_stays_on_cpu(schema_.name(), i);
      if (value.isTensor()) {
        if (!keep) value = result(value.toTensor(), alias);
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(result(tensor, alias));
        value = std::move(list);
      }
    }
  }

  at::Tensor result(const at::Tensor& cpu, const c10::AliasInfo* alias) {
    if (!cpu.defined()) return cpu;
    if (const auto known = originals_.find(cpu.unsafeGetTensorImpl()); known != originals_.end()) {
      return known->second;
    }
    TORCH_CHECK(alias == nullptr || alias->isWrite(), public_name(schema_),
                " returns a view, which the CPU fallback cannot give: it would be a copy. "
                "Apply it to x.cpu() instead.");
    TORCH_CHECK(device_format(cpu.scalar_type()) != DataFormat::INVALID, public_name(schema_),
                ": the result has dtype ", cpu.scalar_type(),
                ", and the Spyre backend does not support dtype ", cpu.scalar_type(),
                ". Run this op on the CPU: move its inputs with .cpu().");
    TORCH_CHECK(cpu.layout() == at::kStrided, public_name(schema_), ": the result has layout ",
                cpu.layout(), ", which spyre does not hold. Run this op on the CPU.");
    return cpu.to(*device_);
  }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  Stack* stack_;
  const size_t base_;
  std::optional<c10::Device> device_;
  bool has_generator_ = false;
  std::vector<IValue> originals_on_stack_;
  std::unordered_map<const c10::TensorImpl*, at::Tensor> on_cpu_;
  std::unordered_map<const c10::TensorImpl*, at::Tensor> originals_;
};

void boxed_fallback(const c10::OperatorHandle& op, Stack* stack) { run_on_cpu(op, stack); }

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed_fallback>());
}

}  // namespace

void set_fallback_policy(FallbackPolicy chosen) { policy = chosen; }

void set_fallback_warning(std::function<void(const std::string&)> warn) {
  warn_once_per_op = std::move(warn);
}

void note_fallback(const std::string& what) {
  TORCH_CHECK(policy != FallbackPolicy::kError, what,
              " has no kernel on spyre and would fall back to the CPU, which "
              "TORCH_SPYRE_FALLBACK=error forbids. Run it on x.cpu(), or set "
              "TORCH_SPYRE_FALLBACK=warn.");
  flex::Runtime::get().counters().fallbacks++;
  if (policy != FallbackPolicy::kWarn) return;
  static std::mutex mutex;
  static std::unordered_set<std::string> seen;
  {
    std::lock_guard lock(mutex);
    if (!seen.insert(what).second) return;
  }
  if (warn_once_per_op) warn_once_per_op(what);
}

void run_on_cpu(const c10::OperatorHandle& op, Stack* stack) { CpuCall(op, stack).run(); }

}  // namespace spyre
