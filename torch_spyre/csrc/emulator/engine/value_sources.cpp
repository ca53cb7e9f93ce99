// Operands and results of value blocks that are read and written in memory, without loading them
// into lanes.
#include <utility>

#include "emulator/engine/value_blocks.h"

namespace spyre::emulator::engine {

bool ValueBlocks::is_dense_operand(size_t value) const {
  if (value >= chain_->inputs.size()) return false;
  const Input& input = chain_->inputs[value];
  if (input.kind != InputKind::kOperand) return false;
  Traversal traversal;
  traversal.set(extents_, input.operand.strides, order_);
  return traversal.is_dense();
}

// Returns whether the step can read the operand from memory. An F16 operand with several uses is
// loaded, so that it is decoded only once.
bool ValueBlocks::stays_in_memory(const ChainStep& step, size_t operand) const {
  const auto value = static_cast<size_t>(step.inputs[operand]);
  if (step.lookup >= 0 || !is_dense_operand(value) || lane_offsets_[value] >= 0) return false;
  const ElementType type = chain_->inputs[value].operand.type;
  if (type == ElementType::F32 || type == ElementType::I32)
    return last_uses_[value] != kNeverReleased;
  return type == ElementType::F16 && step.operand == ElementType::F16 && uses_[value] == 1;
}

// Returns which operands the step reads as encoded elements instead of lanes.
MemoryForm ValueBlocks::memory_form(const ChainStep& step) const {
  const auto is_code = [&](size_t operand) {
    return operand < step.inputs.size() && stays_in_memory(step, operand) &&
           chain_->inputs[static_cast<size_t>(step.inputs[operand])].operand.type ==
               ElementType::F16;
  };
  MemoryForm form{.first = is_code(0), .second = is_code(1)};
  const int scalar = scalar_operand(step);
  // A commutative op has its scalar last.
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
    source.lane_offset = lane_offsets_[value];
    if (source.lane_offset >= 0) continue;
    const Operand& operand = chain_->inputs[value].operand;
    source.memory = elements_of(*core_, operand, extents_);
    source.element_bytes = bytes_of(operand.type);
  }
  if (scalar < 0) return;
  operation.traversal =
      traversal_of_[static_cast<size_t>(step.inputs[static_cast<size_t>(scalar)])];
  const auto first = static_cast<size_t>(operation.inputs);
  if (scalar == 0) std::swap(sources_[first], sources_[first + 1]);
}

// Returns false if the vector unit has no instruction of the operation's form.
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
  const auto index = static_cast<size_t>(value);
  if (operations_.empty() || uses_[index] != 1 || index < chain_->inputs.size()) return false;
  Operation changed = operations_.back();
  // Only the last operation: no later one may read the memory that it overwrites.
  const auto number = static_cast<int32_t>(index - chain_->inputs.size());
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
    const bool is_disjoint =
        source.memory + points * source.element_bytes <= destination || end <= source.memory;
    if (!is_same && !is_disjoint) return false;
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
  const auto index = static_cast<size_t>(value);
  if (!is_dense_operand(index)) return {};
  const Operand& operand = chain_->inputs[index].operand;
  return {elements_of(*core_, operand, extents_), operand.type};
}

}  // namespace spyre::emulator::engine
