// The instructions of the vector unit (SFP): functions from lanes to lanes.
//
// docs/program.md states their meaning and accuracy; torch_spyre/testing/instructions.py is the
// golden model. Each instruction rounds once, to its result type (see round_lanes). Every computed
// NaN has the same bits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "emulator/engine/element_type.h"

namespace spyre::emulator::engine {

// The instructions and their codes, see torch_spyre/backend/program/vector_instructions.py.
enum class VectorOp : uint16_t {
#define SPYRE_VECTOR_INSTRUCTION(op, code, name, operands, signature, cost) op = code,
#include "emulator/engine/generated/vector_instructions.inc"
};
// A step that looks an element up has no op.
inline constexpr VectorOp kNoVectorOp = static_cast<VectorOp>(0xFFFF);

// Operates on n lanes, n >= 1, any n. The output may be an input whose lanes have the same size.
// Expects the default floating-point settings: see DefaultFloatingPoint in lanes.h.
using VectorFunction = void (*)(const void* const* inputs, void* output, int64_t n);

struct VectorOpInfo {
  enum class Cost { kSimple, kDivide, kTranscendental, kRandom };
  std::string_view name;
  int inputs;
  Cost cost;
};

// Returns nullptr if there is no such op.
const VectorOpInfo* vector_op_info(VectorOp op);
std::optional<VectorOp> vector_op_named(std::string_view name);
// Returns every op in ascending order.
std::span<const VectorOp> vector_ops();

// Returns nullptr if the op does not exist for these types. `operand` is the type of the operands
// other than masks. The choice depends on the host's instruction set and on spyre::ieee_fp16():
// ask again after either has changed.
VectorFunction vector_function(VectorOp op, ElementType operand, ElementType result);

// Returns the function with the same results whose last operand is one scalar for all lanes: it has
// one lane only. Returns nullptr if there is no such form; only some ops on two floats have it.
VectorFunction vector_function_with_scalar(VectorOp op, ElementType operand, ElementType result);

// States which operands of an instruction, and whether its result, are contiguous elements in
// memory instead of lanes. The result may replace an operand; otherwise it must not overlap the
// operands.
struct MemoryForm {
  bool first = false, second = false, result = false;
  bool scalar = false;  // the last operand has one lane, as with a scalar
};
// Returns the function that loads, executes the instruction and stores. Returns nullptr if there is
// no such form; only some ops have one, for F16 operands and results only.
VectorFunction vector_function_in_memory(VectorOp op, ElementType operand, ElementType result,
                                         MemoryForm form);

}  // namespace spyre::emulator::engine
