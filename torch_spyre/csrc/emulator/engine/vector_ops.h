// The instructions of the vector unit (SFP): functions from lanes to lanes.
//
// Each instruction rounds once, to its result type (see round_lanes). Sums, differences, products,
// quotients and square roots are correctly rounded; transcendental functions are within 0.502 last
// places for types of 8 and 16 bits and within 1 for F32. A NaN operand gives NaN unless said
// otherwise below; every NaN that is computed is the same one. Integers wrap to their width in
// two's complement. torch_spyre/testing/instructions.py is the readable definition of every
// instruction.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "emulator/engine/element_type.h"

namespace spyre::emulator::engine {

// Numbers are part of serialised programs: never renumber.
enum class VectorOp : uint16_t {
  // Floats: one type for operands and result, or any float operand type with an F32 result.
  ADDF = 0,
  SUBF = 1,
  MULF = 2,
  DIVF = 3,
  REMF = 4,  // IEEE fmod: exact, with the sign of the dividend
  NEGF = 5,
  ABSF = 6,
  MAXIMUMF = 7,  // NaN wins; -0 < +0
  MINIMUMF = 8,
  MAXNUMF = 9,  // NaN is ignored
  MINNUMF = 10,
  COPYSIGN = 11,
  FMA = 12,
  // mask (I1), a, b: a where the mask is set. Any type; `operand` is the type of a and b.
  SELECT = 16,

  // Comparisons of floats; the result is I1. Ordered ones are false, unordered ones true for NaN.
  CMPF_FALSE = 32,
  CMPF_OEQ = 33,
  CMPF_OGT = 34,
  CMPF_OGE = 35,
  CMPF_OLT = 36,
  CMPF_OLE = 37,
  CMPF_ONE = 38,
  CMPF_ORD = 39,
  CMPF_UEQ = 40,
  CMPF_UGT = 41,
  CMPF_UGE = 42,
  CMPF_ULT = 43,
  CMPF_ULE = 44,
  CMPF_UNE = 45,
  CMPF_UNO = 46,
  CMPF_TRUE = 47,

  // Integers: one type for operands and result. Division by zero gives quotient 0 and the dividend
  // as remainder; the smallest number divided by -1 wraps to itself. Shifts by the width or more
  // (the amount is unsigned) give 0, SHRSI the sign. I1 as a signed number is 0 or -1.
  ADDI = 64,
  SUBI = 65,
  MULI = 66,
  DIVUI = 67,
  DIVSI = 68,
  FLOORDIVSI = 69,
  CEILDIVSI = 70,
  CEILDIVUI = 71,
  REMUI = 72,
  REMSI = 73,  // with the sign of the dividend
  ANDI = 74,
  ORI = 75,
  XORI = 76,
  SHLI = 77,
  SHRSI = 78,
  SHRUI = 79,
  MINSI = 80,
  MAXSI = 81,
  MINUI = 82,
  MAXUI = 83,
  ABSI = 84,  // the smallest number stays itself

  // Comparisons of integers; the result is I1.
  CMPI_EQ = 96,
  CMPI_NE = 97,
  CMPI_SLT = 98,
  CMPI_SLE = 99,
  CMPI_SGT = 100,
  CMPI_SGE = 101,
  CMPI_ULT = 102,
  CMPI_ULE = 103,
  CMPI_UGT = 104,
  CMPI_UGE = 105,

  // Casts from the operand type to the result type.
  EXTF = 112,  // EXTF, TRUNCF, CONVERTF: from any float type to any
  TRUNCF = 113,
  CONVERTF = 114,
  SITOFP = 115,
  UITOFP = 116,
  FPTOSI =
      117,  // FPTOSI, FPTOUI: towards zero, to the nearest limit when out of range; NaN gives 0
  FPTOUI = 118,
  EXTSI = 119,  // EXTSI ... INDEX_CASTUI: from any integer type to any
  EXTUI = 120,
  TRUNCI = 121,
  INDEX_CAST = 122,
  INDEX_CASTUI = 123,
  BITCAST =
      124,  // the same code in memory, for types of equal bits; NaN codes of floats become one

  // Functions of one float, types as for ADDF.
  EXP = 128,
  EXP2 = 129,
  EXPM1 = 130,
  LOG = 131,
  LOG2 = 132,
  LOG10 = 133,
  LOG1P = 134,
  SQRT = 135,
  RSQRT = 136,
  TANH = 137,
  SIN = 138,
  COS = 139,
  ERF = 140,
  CEIL = 141,
  FLOOR = 142,
  ROUND = 143,  // ties away from zero
  ROUNDEVEN = 144,
  TRUNC = 145,
  POWF = 146,  // two operands, the special cases of C's pow
  SIGMOID = 160,
  SILU = 161,  // x * sigmoid(x)
  GELU = 162,  // x * Phi(x) with the exact normal distribution, no tanh in it
  RECIPROCAL = 163,
  SOFTPLUS =
      164,  // x, beta, threshold: x where x * beta > threshold, else log1p(exp(x * beta)) / beta
  LAYERNORMSCALE = 165,  // variance, epsilon: 1 / sqrt(variance + epsilon)
};

// Operates on n lanes, n >= 1, any n. The output may be an input whose lanes have the same size.
// Expects the default floating-point settings: see DefaultFloatingPoint in lanes.h.
using VectorFunction = void (*)(const void* const* inputs, void* output, int64_t n);

struct VectorOpInfo {
  enum class Kind { kSimple, kDivide, kTranscendental };
  std::string_view name;
  int inputs;
  Kind cost;
};

// nullptr: no such op.
const VectorOpInfo* vector_op_info(VectorOp op);
std::optional<VectorOp> vector_op_named(std::string_view name);
// Every op there is, in ascending order.
std::span<const VectorOp> vector_ops();

// nullptr when the op does not exist for these types. `operand` is the type of the operands other
// than masks. The choice depends on the host's instruction set and on spyre::ieee_fp16(): ask
// again after either has changed.
VectorFunction vector_function(VectorOp op, ElementType operand, ElementType result);

// The same bits where the last operand is one number for all lanes: it has one lane only. nullptr
// where there is no such form, which only some of the ops have whose operands are two floats.
VectorFunction vector_function_with_scalar(VectorOp op, ElementType operand, ElementType result);

// Which of an instruction's operands, and whether its result, are elements in memory, one after the
// other, instead of lanes. Memory of the result may be that of an operand, or apart from it.
struct MemoryForm {
  bool first = false, second = false, result = false;
  bool scalar = false;  // the last operand has one lane, as with a scalar
};
// The bits of loading, the instruction and storing. nullptr where there is no such form; only some
// of the ops have any, and F16 operands and results only.
VectorFunction vector_function_in_memory(VectorOp op, ElementType operand, ElementType result,
                                         MemoryForm form);

}  // namespace spyre::emulator::engine
