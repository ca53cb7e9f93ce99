// What value blocks read and write in memory itself, where elements need not become lanes first.
#include <utility>

#include "emulator/engine/value_blocks.h"

namespace spyre::emulator::engine {

bool ValueBlocks::is_dense_operand(size_t value) const {
  if (value >= chain_->inputs.size()) return false;
  const Input& input = chain_->inputs[value];
  if (input.kind != InputKind::kOperand) return false;
  Walk walk;
  walk.set(extents_, input.operand.strides, order_);
  return walk.is_dense();
}

// Whether the step can take the operand where it lies. One that others take too is decoded once.
bool ValueBlocks::stays_in_memory(const ChainStep& step, size_t operand) const {
  const auto value = static_cast<size_t>(step.inputs[operand]);
  if (step.lookup >= 0 || !is_dense_operand(value) || places_[value] >= 0) return false;
  const ElementType type = chain_->inputs[value].operand.type;
  if (type == ElementType::F32 || type == ElementType::I32) return last_uses_[value] != kForever;
  return type == ElementType::F16 && step.operand == ElementType::F16 && uses_[value] == 1;
}

// Which operands the step takes as elements that are no lanes.
MemoryForm ValueBlocks::memory_form(const ChainStep& step) const {
  const auto is_code = [&](size_t operand) {
    return operand < step.inputs.size() && stays_in_memory(step, operand) &&
           chain_->inputs[static_cast<size_t>(step.inputs[operand])].operand.type ==
               ElementType::F16;
  };
  MemoryForm form{.first = is_code(0), .second = is_code(1)};
  const int scalar = scalar_operand(step);
  // What commutes has its scalar last.
  if (scalar == 0) std::swap(form.first, form.second);
  const auto exists = [&](bool with_scalar) {
    form.scalar = with_scalar;
    return vector_function_in_memory(step.op, step.operand, step.result, form) != nullptr;
  };
  if (!form.first && !form.second) return {};
  if (!exists(false) || (scalar >= 0 && !exists(true))) return {};
  form.scalar = false;
  return form;
}

void ValueBlocks::add_sources(const ChainStep& step, Operation& operation) {
  const int scalar = scalar_operand(step);
  const auto is_code = [&](size_t operand) {
    const bool is_first = (operand == 0) != (scalar == 0);
    return operand < 2 && (is_first ? operation.form.first : operation.form.second);
  };
  for (size_t k = 0; k < step.inputs.size(); ++k) {
    const auto value = static_cast<size_t>(step.inputs[k]);
    const bool is_lane =
        stays_in_memory(step, k) && chain_->inputs[value].operand.type != ElementType::F16;
    if (is_lane || is_code(k)) continue;
    make_available(static_cast<int32_t>(value));
  }
  operation.inputs = static_cast<int32_t>(sources_.size());
  operation.input_count = static_cast<int32_t>(step.inputs.size());
  for (const int32_t input : step.inputs) {
    const auto value = static_cast<size_t>(input);
    Source& source = sources_.emplace_back();
    source.place = places_[value];
    if (source.place >= 0) continue;
    const Operand& operand = chain_->inputs[value].operand;
    source.memory = elements_of(*core_, operand, extents_);
    source.element_bytes = bytes_of(operand.type);
  }
  if (scalar < 0) return;
  operation.walk = walk_of_[static_cast<size_t>(step.inputs[static_cast<size_t>(scalar)])];
  const auto first = static_cast<size_t>(operation.inputs);
  if (scalar == 0) std::swap(sources_[first], sources_[first + 1]);
}

// False: the vector unit has none for the operation's form.
bool ValueBlocks::choose_functions(const ChainStep& step, Operation& operation) const {
  MemoryForm form = operation.form;
  const bool is_plain = !form.first && !form.second && !form.result;
  operation.function = is_plain
                           ? vector_function(step.op, step.operand, step.result)
                           : vector_function_in_memory(step.op, step.operand, step.result, form);
  if (operation.function == nullptr) return false;
  if (scalar_operand(step) < 0) return true;
  form.scalar = true;
  operation.with_scalar = is_plain
                              ? vector_function_with_scalar(step.op, step.operand, step.result)
                              : vector_function_in_memory(step.op, step.operand, step.result, form);
  return operation.with_scalar != nullptr;
}

bool ValueBlocks::write_to(int32_t value, std::byte* destination) {
  const auto place = static_cast<size_t>(value);
  if (operations_.empty() || uses_[place] != 1 || place < chain_->inputs.size()) return false;
  Operation changed = operations_.back();
  // The last one: no other may read what it overwrites.
  const auto number = static_cast<int32_t>(place - chain_->inputs.size());
  if (changed.kind != Operation::Kind::kStep || changed.number != number) return false;
  if (number == faulty_step_ || core_->injection != nullptr) return false;
  const ChainStep& step = chain_->steps[static_cast<size_t>(number)];
  const ElementType type = type_of_value(*chain_, value);
  const int64_t points = count_of(extents_);
  const std::byte* const end = destination + points * bytes_of(type);
  for (int32_t k = 0; k < changed.input_count; ++k) {
    const Source& source = sources_[static_cast<size_t>(changed.inputs + k)];
    if (source.memory == nullptr) continue;
    const bool is_same = source.memory == destination && source.element_bytes == bytes_of(type);
    const bool is_apart =
        source.memory + points * source.element_bytes <= destination || end <= source.memory;
    if (!is_same && !is_apart) return false;
  }
  const bool is_lane = type == ElementType::F32 || type == ElementType::I32;
  if (type != step.result || (!is_lane && type != ElementType::F16)) return false;
  changed.form.result = !is_lane;
  if (!is_lane && !choose_functions(step, changed)) return false;
  changed.destination = destination;
  operations_.back() = changed;
  return true;
}

ValueBlocks::Elements ValueBlocks::elements(int32_t value) const {
  const auto place = static_cast<size_t>(value);
  if (!is_dense_operand(place)) return {};
  const Operand& operand = chain_->inputs[place].operand;
  return {elements_of(*core_, operand, extents_), operand.type};
}

}  // namespace spyre::emulator::engine
