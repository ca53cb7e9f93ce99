// One call of an op on the CPU in place of the card: arguments over, results and changes back.
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

// What other accelerators take from the CPU as well: scalars, and positions where an op looks at
// them on the host.
bool may_be_on_cpu(const c10::Argument& argument, const IValue& value, const at::Tensor& tensor) {
  if (!tensor.device().is_cpu() || argument.is_out()) return false;
  if (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) return false;
  if (value.isOptionalTensorList()) return true;  // x[i, j]
  if (value.isTensor() && tensor.dim() == 0) return true;
  static constexpr std::string_view positions[] = {"lengths", "batch_sizes", "input_lengths",
                                                   "target_lengths", "tensor_indices_or_sections"};
  return std::ranges::find(positions, argument.name()) != std::end(positions);
}

// PyTorch wants the batch sizes of a packed sequence on the CPU.
bool result_stays_on_cpu(const std::string& op, size_t index) {
  return index == 1 && op == "aten::_pack_padded_sequence";
}

bool is_generator(const c10::Argument& argument) {
  const c10::Type* type = argument.type().get();
  if (const auto* optional = type->castRaw<c10::OptionalType>()) {
    type = optional->getElementType().get();
  }
  return type->kind() == c10::TypeKind::GeneratorType;
}

// Without the gaps and repetitions of a tensor, dimensions in the same order.
at::DimVector dense_strides(const at::Tensor& tensor) {
  if (tensor.is_non_overlapping_and_dense()) return at::DimVector(tensor.strides());
  return at::DimVector(at::infer_dense_strides(tensor.sizes(), tensor.strides()));
}

// A device tensor among the arguments, and what stands in for it on the CPU.
struct Moved {
  at::Tensor device, cpu;
  bool read = false, written = false;
};

class MovedTensors {
 public:
  Moved& of(const at::Tensor& device) {
    const c10::TensorImpl* impl = device.unsafeGetTensorImpl();
    if (Moved* known = find(impl)) return *known;
    if (all_.size() == kFew) {
      for (size_t i = 0; i < all_.size(); ++i) index_[all_[i].device.unsafeGetTensorImpl()] = i;
    }
    if (all_.size() >= kFew) index_[impl] = all_.size();
    all_.push_back({device, {}});
    return all_.back();
  }

  // Null if the tensor is none of the stand-ins.
  const at::Tensor* original_of(const at::Tensor& cpu) const {
    for (const Moved& moved : all_) {
      if (moved.cpu.is_same(cpu)) return &moved.device;
    }
    return nullptr;
  }

  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }
  size_t size() const { return all_.size(); }

 private:
  static constexpr size_t kFew = 16;

  Moved* find(const c10::TensorImpl* impl) {
    if (all_.size() > kFew) {
      const auto known = index_.find(impl);
      return known == index_.end() ? nullptr : &all_[known->second];
    }
    for (Moved& moved : all_) {
      if (moved.device.unsafeGetTensorImpl() == impl) return &moved;
    }
    return nullptr;
  }

  c10::SmallVector<Moved, 4> all_;
  // By device tensor, once there are many: optimizers pass lists of thousands.
  std::unordered_map<const c10::TensorImpl*, size_t> index_;
};

// Warnings of an output that was resized, held back while it lives. PyTorch's losses make a fitting
// `out` larger and smaller again while they sum up.
class ResizeWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    if (warning.msg().starts_with("An output with one or more elements was resized")) {
      held_.push_back(warning);
    } else {
      previous_->process(warning);
    }
  }

  void give() const {
    for (const c10::Warning& warning : held_) previous_->process(warning);
  }

 private:
  std::vector<c10::Warning> held_;
  c10::WarningHandler* previous_ = c10::WarningUtils::get_warning_handler();
  c10::WarningUtils::WarningHandlerGuard guard_{this};
};

class CpuCall {
 public:
  CpuCall(const c10::OperatorHandle& op, Stack* stack, const CpuRun& how)
      : op_(op),
        schema_(op.schema()),
        stack_(stack),
        how_(how),
        base_(stack->size() - schema_.arguments().size()) {}

  void run() {
    find_tensors();
    if (!is_traced_) note_fallback(op_, *stack_);
    make_copies();
    replace_arguments();
    if (std::ranges::any_of(tensors_, is_only_written)) {
      const ResizeWarnings warnings;
      call();
      if (std::ranges::any_of(tensors_, has_new_size)) warnings.give();
    } else {
      call();
    }
    for (const Moved& moved : tensors_) {
      if (moved.written) write_back(moved);
    }
    move_results();
  }

 private:
  static bool is_only_written(const Moved& moved) { return moved.written && !moved.read; }
  static bool has_new_size(const Moved& moved) { return moved.cpu.sizes() != moved.device.sizes(); }

  void call() {
    if (how_.through_autograd) {
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
    return std::ranges::find(how_.also_written, argument.name()) != how_.also_written.end();
  }

  // All tensors must be on one card, but for a few that any device takes from the CPU.
  void find_tensors() {
    bool all_here = true;
    for (size_t i = 0; i < argument_count(); ++i) {
      for_each_tensor(value(i), [&](const at::Tensor& tensor) {
        if (!is_on_card(tensor)) {
          all_here = false;
          return;
        }
        take_device(tensor.device());
        is_traced_ |= tensor.key_set().has(c10::DispatchKey::Python);
        Moved& moved = tensors_.of(tensor);
        moved.read |= !argument(i).is_out();
        moved.written |= is_written(argument(i));
      });
      if (value(i).isDevice() && value(i).toDevice().type() == kSpyre) {
        take_device(resolve(value(i).toDevice()));
      }
      draws_ |= value(i).isGenerator() || (value(i).isNone() && is_generator(argument(i)));
    }
    if (!device_) check_generators();
    if (!device_) device_ = c10::Device(kSpyre, current_device());
    if (!all_here) check_others();
  }

  void take_device(c10::Device device) {
    TORCH_CHECK(!device_ || *device_ == device,
                "Expected all tensors to be on the same device, but found at least two devices, ",
                *device_, " and ", device, "! (in ", public_name(schema_), ")");
    device_ = device;
  }

  // Without a tensor or a device of ours, only a generator can have brought the call here.
  void check_generators() {
    for (size_t i = 0; i < argument_count(); ++i) {
      TORCH_CHECK(!value(i).isGenerator() || value(i).toGenerator().device().type() != kSpyre,
                  "Expected a 'cpu' device type for generator but found '",
                  value(i).toGenerator().device(), "'");
    }
  }

  void check_others() {
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

  void make_copies() {
    const bool may_overlap = some_share_memory();
    for (Moved& moved : tensors_) {
      if (may_overlap && shares_written_memory(moved)) {
        moved.cpu = view_of_image(moved.device);
      } else if (moved.read && how_.through_autograd) {
        moved.cpu = moved.device.to(at::kCPU);
      } else {
        moved.cpu = empty_on_cpu(moved);
        if (moved.read) copy_tensor(moved.device, moved.cpu, false);
      }
    }
  }

  at::Tensor empty_on_cpu(const Moved& moved) const {
    const at::Tensor& like = moved.device;
    // Random numbers come in an order that depends on the gaps between their places.
    const bool keep_gaps = draws_ && moved.written;
    return at::detail::empty_strided_cpu(
        like.sizes(), keep_gaps ? like.strides() : dense_strides(like), like.scalar_type());
  }

  bool some_share_memory() {
    if (tensors_.size() < 2) return false;
    c10::SmallVector<const c10::StorageImpl*, 8> storages;
    for (const Moved& moved : tensors_) {
      storages.push_back(moved.device.storage().unsafeGetStorageImpl());
    }
    std::ranges::sort(storages);
    return std::ranges::adjacent_find(storages) != storages.end();
  }

  // Views of one memory must stay that, if the op writes to it through any of them.
  bool shares_written_memory(const Moved& moved) {
    const at::Tensor& tensor = moved.device;
    if (binding_of(tensor) != storage_of(tensor).binding || is_byte_view(tensor)) return false;
    return std::ranges::any_of(tensors_, [&](const Moved& other) {
      return &other != &moved && (other.written || moved.written) &&
             other.device.storage().is_alias_of(tensor.storage());
    });
  }

  at::Tensor view_of_image(const at::Tensor& tensor) {
    at::Tensor& image = images_[tensor.storage().unsafeGetStorageImpl()];
    if (!image.defined()) image = host_image(tensor.storage());
    return image.as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  }

  void replace_arguments() {
    for (size_t i = 0; i < argument_count(); ++i) {
      IValue& old = value(i);
      if (old.isTensor()) {
        old = on_cpu(old.toTensor());
      } else if (is_tensor_list(old)) {
        c10::List<IValue> list = old.toList().copy();
        for (size_t k = 0; k < list.size(); ++k) {
          const IValue item = list.get(k);
          if (item.isTensor()) list.set(k, on_cpu(item.toTensor()));
        }
        old = std::move(list);
      } else if (old.isDevice()) {
        old = c10::Device(at::kCPU);
      } else if (draws_ && is_generator(argument(i))) {
        old = generator_for(old);
      } else if (old.isBool() && argument(i).name() == "pin_memory") {
        old = false;
      }
    }
  }

  at::Tensor on_cpu(const at::Tensor& tensor) {
    return tensor.defined() && is_on_card(tensor) ? tensors_.of(tensor).cpu : tensor;
  }

  // The CPU kernel draws from the engine inside the card's generator.
  at::Generator generator_for(const IValue& given) {
    if (given.isNone()) return spyre_generator(default_generator(device_->index())).engine();
    const at::Generator generator = given.toGenerator();
    TORCH_CHECK(generator.device().type() == kSpyre,
                "Expected a 'spyre' device type for generator but found '", generator.device(),
                "'");
    return spyre_generator(generator).engine();
  }

  void write_back(const Moved& moved) {
    const at::Tensor &cpu = moved.cpu, &device = moved.device;
    if (device.sizes() != cpu.sizes()) device.resize_(cpu.sizes());
    // Ops choose strides where they choose sizes, and some in any case.
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
    if (how_.through_autograd) return cpu.to(*device_);
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
                ". Run this op on the CPU: move its inputs with .cpu().");
    TORCH_CHECK(alias == nullptr || alias->isWrite(), public_name(schema_),
                " returns a view, which the CPU fallback cannot give: it would be a copy. "
                "Apply it to x.cpu() instead.");
  }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  Stack* stack_;
  const CpuRun& how_;
  const size_t base_;
  std::optional<c10::Device> device_;
  bool draws_ = false;
  // The tensors stand for others, and nothing is computed (FakeTensor, make_fx).
  bool is_traced_ = false;
  MovedTensors tensors_;
  // Whole storages, where views of one are changed.
  std::unordered_map<const c10::StorageImpl*, at::Tensor> images_;
};

}  // namespace

void run_on_cpu(const c10::OperatorHandle& op, Stack* stack, const CpuRun& how) {
  CpuCall(op, stack, how).run();
}

}  // namespace spyre
