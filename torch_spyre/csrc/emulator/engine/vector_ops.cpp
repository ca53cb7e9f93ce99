#include "emulator/engine/vector_ops.h"

#include <array>

#include "emulator/convert.h"
#include "emulator/engine/scalar_ops.h"
#include "emulator/engine/vector_kernels.h"

namespace spyre::emulator::engine {

namespace {

using Cost = VectorOpInfo::Cost;

// The types that operands and result may have.
enum class Signature {
  FLOAT,
  FLOAT_COMPARISON,
  INTEGER,
  INTEGER_COMPARISON,
  SELECT,
  CAST,
  COUNTER
};

struct Entry {
  VectorOp op;
  Signature signature;
  VectorOpInfo info;
};

constexpr Entry kEntries[] = {
#define SPYRE_VECTOR_INSTRUCTION(op, code, name, operands, signature, cost) \
  {VectorOp::op, Signature::signature, {name, operands, Cost::cost}},
#include "emulator/engine/generated/vector_instructions.inc"
};

const Entry* entry_of(VectorOp op) {
  for (const Entry& entry : kEntries) {
    if (entry.op == op) return &entry;
  }
  return nullptr;
}

VectorFunction float_function(VectorOp op, ElementType operand, ElementType result) {
  const bool types_fit = is_float(operand) && (operand == result || result == ElementType::F32);
  if (!types_fit) return nullptr;
  if (op == VectorOp::REMF) return float_remainder(result);
  return active_vector_kernels().float_function(op, result, ieee_fp16());
}

VectorFunction integer_function(VectorOp op, ElementType type) {
  if (const VectorFunction division = integer_division(op, type)) return division;
  return active_vector_kernels().integer_function(op, type);
}

}  // namespace

const VectorOpInfo* vector_op_info(VectorOp op) {
  const Entry* entry = entry_of(op);
  return entry == nullptr ? nullptr : &entry->info;
}

std::optional<VectorOp> vector_op_named(std::string_view name) {
  for (const Entry& entry : kEntries) {
    if (entry.info.name == name) return entry.op;
  }
  return std::nullopt;
}

std::span<const VectorOp> vector_ops() {
  static constexpr auto kOps = [] {
    std::array<VectorOp, std::size(kEntries)> ops{};
    for (size_t i = 0; i < ops.size(); ++i) ops[i] = kEntries[i].op;
    return ops;
  }();
  return kOps;
}

VectorFunction vector_function(VectorOp op, ElementType operand, ElementType result) {
  const Entry* entry = entry_of(op);
  if (entry == nullptr) return nullptr;
  const VectorKernels& kernels = active_vector_kernels();
  switch (entry->signature) {
    case Signature::FLOAT:
      return float_function(op, operand, result);
    case Signature::FLOAT_COMPARISON:
      if (!is_float(operand) || result != ElementType::I1) return nullptr;
      return kernels.float_function(op, result, ieee_fp16());
    case Signature::INTEGER:
      return operand == result ? integer_function(op, operand) : nullptr;
    case Signature::INTEGER_COMPARISON:
      return result == ElementType::I1 ? integer_function(op, operand) : nullptr;
    case Signature::SELECT:
      return operand == result ? kernels.integer_function(op, operand) : nullptr;
    case Signature::CAST:
      if (op == VectorOp::BITCAST) return bitcast(operand, result);
      return kernels.cast_function(op, operand, result, ieee_fp16());
    case Signature::COUNTER:
      if (operand != ElementType::I32 || result != ElementType::I32) return nullptr;
      return kernels.integer_function(op, operand);
  }
  return nullptr;
}

VectorFunction vector_function_with_scalar(VectorOp op, ElementType operand, ElementType result) {
  if (vector_function(op, operand, result) == nullptr) return nullptr;
  return active_vector_kernels().float_function_with_scalar(op, result, ieee_fp16());
}

VectorFunction vector_function_in_memory(VectorOp op, ElementType operand, ElementType result,
                                         MemoryForm form) {
  const bool is_sen169 = operand == ElementType::F16 && result == ElementType::F16 && !ieee_fp16();
  return is_sen169 ? active_vector_kernels().sen169_memory_form(op, form) : nullptr;
}

}  // namespace spyre::emulator::engine
