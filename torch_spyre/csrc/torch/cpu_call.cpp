// Runs one call of an op on the CPU: copies arguments to the CPU, results and changes to the card.
#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/core/ivalue_inl.h>

#include <algorithm>
#include <unordered_map>

#include "torch/copy.h"
#include "torch/device.h"
#include "torch/dtypes.h"
#include "torch/fallback.h"
#include "torch/generator.h"
#include "torch/tensors.h"

namespace spyre {

namespace {

using c10::IValue;
using torch::jit::Stack;

bool is_on_card(const at::Tensor& tensor) { return tensor.device().type() == kSpyre; }

bool is_tensor_list(const IValue& value) {
  return value.isTensorList() || value.isOptionalTensorList();
}

template <typename Visit>
void for_each_tensor(const IValue& value, Visit visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (is_tensor_list(value)) {
    for (const IValue& item : value.toListRef()) for_each_tensor(item, visit);
  }
}

// Returns whether other accelerators accept the argument on the CPU as well: 0-d tensors, the
// indices of x[i, j], and arguments that an op reads on the host.
bool may_be_on_cpu(const c10::Argument& argument, const IValue& value, const at::Tensor& tensor) {
  if (!tensor.device().is_cpu() || argument.is_out()) return false;
  if (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) return false;
  if (value.isOptionalTensorList()) return true;  // x[i, j]
  if (value.isTensor() && tensor.dim() == 0) return argument.name() != "index";
  static constexpr std::string_view kHostArguments[] = {
      "lengths", "batch_sizes", "input_lengths", "target_lengths", "tensor_indices_or_sections"};
  return std::ranges::find(kHostArguments, argument.name()) != std::end(kHostArguments);
}

// PyTorch expects the batch sizes of a packed sequence on the CPU.
bool result_stays_on_cpu(const std::string& op, size_t index) {
  return index == 1 && op == "aten::_pack_padded_sequence";
}

// Returns whether the op only writes its first argument: an in-place draw of random elements.
bool overwrites_self(const std::string& op) {
  static constexpr std::string_view kDraws[] = {
      "aten::bernoulli_",  "aten::cauchy_", "aten::exponential_", "aten::geometric_",
      "aten::log_normal_", "aten::normal_", "aten::random_",      "aten::uniform_"};
  return std::ranges::find(kDraws, op) != std::end(kDraws);
}

bool is_generator(const c10::Argument& argument) {
  const c10::Type* type = argument.type().get();
  if (const auto* optional = type->castRaw<c10::OptionalType>()) {
    type = optional->getElementType().get();
  }
  return type->kind() == c10::TypeKind::GeneratorType;
}

// Returns dense strides with the dimension order of the tensor.
at::DimVector dense_strides(const at::Tensor& tensor) {
  if (tensor.is_non_overlapping_and_dense()) return at::DimVector(tensor.strides());
  return at::DimVector(at::infer_dense_strides(tensor.sizes(), tensor.strides()));
}

// A device tensor among the arguments, and its copy on the CPU.
struct CpuCopy {
  at::Tensor device, cpu;
  bool read = false, written = false;
};

class CpuCopies {
 public:
  CpuCopy& of(const at::Tensor& device) {
    const c10::TensorImpl* impl = device.unsafeGetTensorImpl();
    if (CpuCopy* entry = find(impl)) return *entry;
    if (copies_.size() == kMaxLinearSearch) {
      for (size_t i = 0; i < copies_.size(); ++i) {
        index_[copies_[i].device.unsafeGetTensorImpl()] = i;
      }
    }
    if (copies_.size() >= kMaxLinearSearch) index_[impl] = copies_.size();
    copies_.push_back({device, {}});
    return copies_.back();
  }

  // Returns the device tensor of a CPU copy; nullptr if the tensor is not a copy.
  const at::Tensor* original_of(const at::Tensor& cpu) const {
    for (const CpuCopy& copy : copies_) {
      if (copy.cpu.is_same(cpu)) return &copy.device;
    }
    return nullptr;
  }

  auto begin() { return copies_.begin(); }
  auto end() { return copies_.end(); }
  size_t size() const { return copies_.size(); }

 private:
  static constexpr size_t kMaxLinearSearch = 16;

  CpuCopy* find(const c10::TensorImpl* impl) {
    if (copies_.size() > kMaxLinearSearch) {
      const auto entry = index_.find(impl);
      return entry == index_.end() ? nullptr : &copies_[entry->second];
    }
    for (CpuCopy& copy : copies_) {
      if (copy.device.unsafeGetTensorImpl() == impl) return &copy;
    }
    return nullptr;
  }

  c10::SmallVector<CpuCopy, 4> copies_;
  // Index by device tensor for many tensors: optimizers pass lists of thousands.
  std::unordered_map<const c10::TensorImpl*, size_t> index_;
};

// Suppresses warnings about resized outputs during its lifetime: PyTorch's losses temporarily
// resize an `out` of the right size while they reduce.
class ResizeWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    if (warning.msg().starts_with("An output with one or more elements was resized")) {
      warnings_.push_back(warning);
    } else {
      previous_->process(warning);
    }
  }

  void emit() const {
    for (const c10::Warning& warning : warnings_) previous_->process(warning);
  }

 private:
  std::vector<c10::Warning> warnings_;
  c10::WarningHandler* previous_ = c10::WarningUtils::get_warning_handler();
  c10::WarningUtils::WarningHandlerGuard guard_{this};
};

class CpuCall {
 public:
  CpuCall(const c10::OperatorHandle& op, Stack* stack, const CpuRun& options)
      : op_(op),
        schema_(op.schema()),
        stack_(stack),
        options_(options),
        base_(stack->size() - schema_.arguments().size()) {}

  void run() {
    find_tensors();
    if (!is_traced_) count_fallback(op_, *stack_);
    create_copies();
    replace_arguments();
    if (std::ranges::any_of(tensors_, is_only_written)) {
      const ResizeWarnings warnings;
      call();
      if (std::ranges::any_of(tensors_, has_new_size)) warnings.emit();
    } else {
      call();
    }
    for (const CpuCopy& copy : tensors_) {
      if (copy.written) write_back(copy);
    }
    move_results();
  }

 private:
  static bool is_only_written(const CpuCopy& copy) { return copy.written && !copy.read; }
  static bool has_new_size(const CpuCopy& copy) { return copy.cpu.sizes() != copy.device.sizes(); }

  void call() {
    if (options_.through_autograd) {
      op_.callBoxed(stack_);
    } else {
      op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_);
    }
  }

  const c10::Argument& argument(size_t i) const { return schema_.arguments()[i]; }
  size_t argument_count() const { return schema_.arguments().size(); }
  IValue& value(size_t i) { return (*stack_)[base_ + i]; }

  bool is_written(const c10::Argument& argument) const {
    if (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) return true;
    return std::ranges::find(options_.also_written, argument.name()) != options_.also_written.end();
  }

  // All tensors must be on one card, except for a few that any device accepts on the CPU.
  void find_tensors() {
    bool all_on_card = true;
    for (size_t i = 0; i < argument_count(); ++i) {
      for_each_tensor(value(i), [&](const at::Tensor& tensor) {
        if (!is_on_card(tensor)) {
          all_on_card = false;
          return;
        }
        set_device(tensor.device());
        is_traced_ |= tensor.key_set().has(c10::DispatchKey::Python);
        CpuCopy& copy = tensors_.of(tensor);
        copy.read |= !argument(i).is_out() && !(i == 0 && overwrites_self(schema_.name()));
        copy.written |= is_written(argument(i));
      });
      if (value(i).isDevice() && value(i).toDevice().type() == kSpyre) {
        set_device(resolve(value(i).toDevice()));
      }
      uses_generator_ |= value(i).isGenerator() || (value(i).isNone() && is_generator(argument(i)));
    }
    if (!device_) check_generators();
    if (!device_) device_ = c10::Device(kSpyre, current_device());
    if (!all_on_card) check_cpu_tensors();
  }

  void set_device(c10::Device device) {
    TORCH_CHECK(!device_ || *device_ == device,
                "Expected all tensors to be on the same device, but found at least two devices, ",
                *device_, " and ", device, "! (in ", public_name(schema_), ")");
    device_ = device;
  }

  // Without a Spyre tensor or device, the call was dispatched here because of a generator.
  void check_generators() {
    for (size_t i = 0; i < argument_count(); ++i) {
      TORCH_CHECK(!value(i).isGenerator() || value(i).toGenerator().device().type() != kSpyre,
                  "Expected a 'cpu' device type for generator but found '",
                  value(i).toGenerator().device(), "'");
    }
  }

  void check_cpu_tensors() {
    for (size_t i = 0; i < argument_count(); ++i) {
      for_each_tensor(value(i), [&](const at::Tensor& tensor) {
        TORCH_CHECK(is_on_card(tensor) || may_be_on_cpu(argument(i), value(i), tensor),
                    "Expected all tensors to be on the same device, but found at least two "
                    "devices, ",
                    *device_, " and ", tensor.device(), "! (argument '", argument(i).name(),
                    "' of ", public_name(schema_), "; move it with .to('", *device_, "'))");
      });
    }
  }

  void create_copies() {
    const bool may_overlap = has_shared_storage();
    for (CpuCopy& copy : tensors_) {
      if (may_overlap && aliases_written_memory(copy)) {
        copy.cpu = view_of_host_image(copy.device);
      } else if (copy.read && options_.through_autograd) {
        copy.cpu = copy.device.to(at::kCPU);
      } else {
        copy.cpu = empty_on_cpu(copy);
        if (copy.read) copy_tensor(copy.device, copy.cpu, false);
      }
    }
  }

  at::Tensor empty_on_cpu(const CpuCopy& copy) const {
    const at::Tensor& like = copy.device;
    // The order of random numbers depends on the strides.
    const bool preserve_strides = uses_generator_ && copy.written;
    return at::detail::empty_strided_cpu(
        like.sizes(), preserve_strides ? like.strides() : dense_strides(like), like.scalar_type());
  }

  bool has_shared_storage() {
    if (tensors_.size() < 2) return false;
    c10::SmallVector<const c10::StorageImpl*, 8> storages;
    for (const CpuCopy& copy : tensors_) {
      storages.push_back(copy.device.storage().unsafeGetStorageImpl());
    }
    std::ranges::sort(storages);
    return std::ranges::adjacent_find(storages) != storages.end();
  }

  // Views of one storage must stay aliased if the op writes to any of them.
  bool aliases_written_memory(const CpuCopy& copy) {
    const at::Tensor& tensor = copy.device;
    if (binding_of(tensor) != storage_of(tensor).binding || is_byte_view(tensor)) return false;
    return std::ranges::any_of(tensors_, [&](const CpuCopy& other) {
      return &other != &copy && (other.written || copy.written) &&
             other.device.storage().is_alias_of(tensor.storage());
    });
  }

  at::Tensor view_of_host_image(const at::Tensor& tensor) {
    at::Tensor& image = images_[tensor.storage().unsafeGetStorageImpl()];
    if (!image.defined()) image = host_image(tensor.storage());
    return image.as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  }

  void replace_arguments() {
    for (size_t i = 0; i < argument_count(); ++i) {
      IValue& argument_value = value(i);
      if (argument_value.isTensor()) {
        argument_value = on_cpu(argument_value.toTensor());
      } else if (is_tensor_list(argument_value)) {
        c10::List<IValue> list = argument_value.toList().copy();
        for (size_t k = 0; k < list.size(); ++k) {
          const IValue item = list.get(k);
          if (item.isTensor()) list.set(k, on_cpu(item.toTensor()));
        }
        argument_value = std::move(list);
      } else if (argument_value.isDevice()) {
        argument_value = c10::Device(at::kCPU);
      } else if (uses_generator_ && is_generator(argument(i))) {
        argument_value = generator_for(argument_value);
      } else if (argument_value.isBool() && argument(i).name() == "pin_memory") {
        argument_value = false;
      }
    }
  }

  at::Tensor on_cpu(const at::Tensor& tensor) {
    return tensor.defined() && is_on_card(tensor) ? tensors_.of(tensor).cpu : tensor;
  }

  // The CPU kernel draws from a generator that a draw of the card's has seeded.
  at::Generator generator_for(const IValue& value) {
    return draw_cpu_generator(device_->index(), value.toOptional<at::Generator>());
  }

  void write_back(const CpuCopy& copy) {
    const at::Tensor &cpu = copy.cpu, &device = copy.device;
    if (device.sizes() != cpu.sizes()) device.resize_(cpu.sizes());
    // An op may choose the strides of its outputs.
    if (device.strides() != cpu.strides() && device.is_non_overlapping_and_dense() &&
        cpu.is_non_overlapping_and_dense()) {
      device.as_strided_(cpu.sizes(), cpu.strides());
    }
    copy_tensor(cpu, device, false);
  }

  void move_results() {
    const size_t count = schema_.returns().size();
    const size_t first = stack_->size() - count;
    for (size_t i = 0; i < count; ++i) {
      IValue& value = (*stack_)[first + i];
      const c10::AliasInfo* alias = schema_.returns()[i].alias_info();
      if (value.isTensor()) {
        if (!result_stays_on_cpu(schema_.name(), i)) value = result(value.toTensor(), alias);
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const IValue& item : value.toListRef()) list.push_back(result(item.toTensor(), alias));
        value = std::move(list);
      }
    }
  }

  at::Tensor result(const at::Tensor& cpu, const c10::AliasInfo* alias) {
    if (!cpu.defined()) return cpu;
    if (const at::Tensor* original = tensors_.original_of(cpu)) return *original;
    check_result(cpu, alias);
    if (options_.through_autograd) return cpu.to(*device_);
    const at::Tensor device =
        empty_on_device(cpu.sizes(), dense_strides(cpu), cpu.scalar_type(), *device_);
    copy_tensor(cpu, device, false);
    return device;
  }

  void check_result(const at::Tensor& cpu, const c10::AliasInfo* alias) {
    TORCH_CHECK(
        cpu.layout() == at::kStrided && !cpu.is_nested() && !cpu.is_quantized(),
        public_name(schema_), ": the result is ",
        cpu.is_nested()      ? "nested"
        : cpu.is_quantized() ? "quantized"
                             : "sparse",
        ", which spyre does not hold. Run this op on the CPU: move its inputs with .cpu().");
    TORCH_CHECK(device_format(cpu.scalar_type()) != DataFormat::INVALID, public_name(schema_),
                ": the result has dtype ", cpu.scalar_type(),
                ", and the Spyre backend does not support dtype ", cpu.scalar_type(),
                ". Run this op on the CPU: move its inputs with .cpu().",
                way_to_store(cpu.scalar_type()));
    TORCH_CHECK(alias == nullptr || alias->isWrite(), public_name(schema_),
                " returns a view, which the CPU fallback cannot return: it would be a copy. "
                "Apply it to x.cpu() instead.");
  }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  Stack* stack_;
  const CpuRun& options_;
  const size_t base_;
  std::optional<c10::Device> device_;
  bool uses_generator_ = false;
  // The tensors are only traced (FakeTensor, make_fx).
  bool is_traced_ = false;
  CpuCopies tensors_;
  // CPU copies of whole storages whose views are written.
  std::unordered_map<const c10::StorageImpl*, at::Tensor> images_;
};

}  // namespace

void run_on_cpu(const c10::OperatorHandle& op, Stack* stack, const CpuRun& options) {
  CpuCall(op, stack, options).run();
}

}  // namespace spyre
