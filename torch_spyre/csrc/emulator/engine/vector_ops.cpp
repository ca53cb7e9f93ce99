#include "emulator/engine/vector_ops.h"

#include <array>

#include "emulator/convert.h"
#include "emulator/engine/scalar_ops.h"
#include "emulator/engine/vector_kernels.h"

namespace spyre::emulator::engine {

namespace {

using Kind = VectorOpInfo::Kind;

// What the types of an op must be.
enum class Signature { FLOAT, FLOAT_COMPARISON, INTEGER, INTEGER_COMPARISON, SELECT, CAST };

struct Entry {
  VectorOp op;
  Signature signature;
  VectorOpInfo info;
};

constexpr Entry kEntries[] = {
    {VectorOp::ADDF, Signature::FLOAT, {"addf", 2, Kind::kSimple}},
    {VectorOp::SUBF, Signature::FLOAT, {"subf", 2, Kind::kSimple}},
    {VectorOp::MULF, Signature::FLOAT, {"mulf", 2, Kind::kSimple}},
    {VectorOp::DIVF, Signature::FLOAT, {"divf", 2, Kind::kDivide}},
    {VectorOp::REMF, Signature::FLOAT, {"remf", 2, Kind::kDivide}},
    {VectorOp::NEGF, Signature::FLOAT, {"negf", 1, Kind::kSimple}},
    {VectorOp::ABSF, Signature::FLOAT, {"absf", 1, Kind::kSimple}},
    {VectorOp::MAXIMUMF, Signature::FLOAT, {"maximumf", 2, Kind::kSimple}},
    {VectorOp::MINIMUMF, Signature::FLOAT, {"minimumf", 2, Kind::kSimple}},
    {VectorOp::MAXNUMF, Signature::FLOAT, {"maxnumf", 2, Kind::kSimple}},
    {VectorOp::MINNUMF, Signature::FLOAT, {"minnumf", 2, Kind::kSimple}},
    {VectorOp::COPYSIGN, Signature::FLOAT, {"copysign", 2, Kind::kSimple}},
    {VectorOp::FMA, Signature::FLOAT, {"fma", 3, Kind::kSimple}},
    {VectorOp::SELECT, Signature::SELECT, {"select", 3, Kind::kSimple}},
    {VectorOp::CMPF_FALSE, Signature::FLOAT_COMPARISON, {"cmpf_false", 2, Kind::kSimple}},
    {VectorOp::CMPF_OEQ, Signature::FLOAT_COMPARISON, {"cmpf_oeq", 2, Kind::kSimple}},
    {VectorOp::CMPF_OGT, Signature::FLOAT_COMPARISON, {"cmpf_ogt", 2, Kind::kSimple}},
    {VectorOp::CMPF_OGE, Signature::FLOAT_COMPARISON, {"cmpf_oge", 2, Kind::kSimple}},
    {VectorOp::CMPF_OLT, Signature::FLOAT_COMPARISON, {"cmpf_olt", 2, Kind::kSimple}},
    {VectorOp::CMPF_OLE, Signature::FLOAT_COMPARISON, {"cmpf_ole", 2, Kind::kSimple}},
    {VectorOp::CMPF_ONE, Signature::FLOAT_COMPARISON, {"cmpf_one", 2, Kind::kSimple}},
    {VectorOp::CMPF_ORD, Signature::FLOAT_COMPARISON, {"cmpf_ord", 2, Kind::kSimple}},
    {VectorOp::CMPF_UEQ, Signature::FLOAT_COMPARISON, {"cmpf_ueq", 2, Kind::kSimple}},
    {VectorOp::CMPF_UGT, Signature::FLOAT_COMPARISON, {"cmpf_ugt", 2, Kind::kSimple}},
    {VectorOp::CMPF_UGE, Signature::FLOAT_COMPARISON, {"cmpf_uge", 2, Kind::kSimple}},
    {VectorOp::CMPF_ULT, Signature::FLOAT_COMPARISON, {"cmpf_ult", 2, Kind::kSimple}},
    {VectorOp::CMPF_ULE, Signature::FLOAT_COMPARISON, {"cmpf_ule", 2, Kind::kSimple}},
    {VectorOp::CMPF_UNE, Signature::FLOAT_COMPARISON, {"cmpf_une", 2, Kind::kSimple}},
    {VectorOp::CMPF_UNO, Signature::FLOAT_COMPARISON, {"cmpf_uno", 2, Kind::kSimple}},
    {VectorOp::CMPF_TRUE, Signature::FLOAT_COMPARISON, {"cmpf_true", 2, Kind::kSimple}},
    {VectorOp::ADDI, Signature::INTEGER, {"addi", 2, Kind::kSimple}},
    {VectorOp::SUBI, Signature::INTEGER, {"subi", 2, Kind::kSimple}},
    {VectorOp::MULI, Signature::INTEGER, {"muli", 2, Kind::kSimple}},
    {VectorOp::DIVUI, Signature::INTEGER, {"divui", 2, Kind::kDivide}},
    {VectorOp::DIVSI, Signature::INTEGER, {"divsi", 2, Kind::kDivide}},
    {VectorOp::FLOORDIVSI, Signature::INTEGER, {"floordivsi", 2, Kind::kDivide}},
    {VectorOp::CEILDIVSI, Signature::INTEGER, {"ceildivsi", 2, Kind::kDivide}},
    {VectorOp::CEILDIVUI, Signature::INTEGER, {"ceildivui", 2, Kind::kDivide}},
    {VectorOp::REMUI, Signature::INTEGER, {"remui", 2, Kind::kDivide}},
    {VectorOp::REMSI, Signature::INTEGER, {"remsi", 2, Kind::kDivide}},
    {VectorOp::ANDI, Signature::INTEGER, {"andi", 2, Kind::kSimple}},
    {VectorOp::ORI, Signature::INTEGER, {"ori", 2, Kind::kSimple}},
    {VectorOp::XORI, Signature::INTEGER, {"xori", 2, Kind::kSimple}},
    {VectorOp::SHLI, Signature::INTEGER, {"shli", 2, Kind::kSimple}},
    {VectorOp::SHRSI, Signature::INTEGER, {"shrsi", 2, Kind::kSimple}},
    {VectorOp::SHRUI, Signature::INTEGER, {"shrui", 2, Kind::kSimple}},
    {VectorOp::MINSI, Signature::INTEGER, {"minsi", 2, Kind::kSimple}},
    {VectorOp::MAXSI, Signature::INTEGER, {"maxsi", 2, Kind::kSimple}},
    {VectorOp::MINUI, Signature::INTEGER, {"minui", 2, Kind::kSimple}},
    {VectorOp::MAXUI, Signature::INTEGER, {"maxui", 2, Kind::kSimple}},
    {VectorOp::ABSI, Signature::INTEGER, {"absi", 1, Kind::kSimple}},
    {VectorOp::CMPI_EQ, Signature::INTEGER_COMPARISON, {"cmpi_eq", 2, Kind::kSimple}},
    {VectorOp::CMPI_NE, Signature::INTEGER_COMPARISON, {"cmpi_ne", 2, Kind::kSimple}},
    {VectorOp::CMPI_SLT, Signature::INTEGER_COMPARISON, {"cmpi_slt", 2, Kind::kSimple}},
    {VectorOp::CMPI_SLE, Signature::INTEGER_COMPARISON, {"cmpi_sle", 2, Kind::kSimple}},
    {VectorOp::CMPI_SGT, Signature::INTEGER_COMPARISON, {"cmpi_sgt", 2, Kind::kSimple}},
    {VectorOp::CMPI_SGE, Signature::INTEGER_COMPARISON, {"cmpi_sge", 2, Kind::kSimple}},
    {VectorOp::CMPI_ULT, Signature::INTEGER_COMPARISON, {"cmpi_ult", 2, Kind::kSimple}},
    {VectorOp::CMPI_ULE, Signature::INTEGER_COMPARISON, {"cmpi_ule", 2, Kind::kSimple}},
    {VectorOp::CMPI_UGT, Signature::INTEGER_COMPARISON, {"cmpi_ugt", 2, Kind::kSimple}},
    {VectorOp::CMPI_UGE, Signature::INTEGER_COMPARISON, {"cmpi_uge", 2, Kind::kSimple}},
    {VectorOp::EXTF, Signature::CAST, {"extf", 1, Kind::kSimple}},
    {VectorOp::TRUNCF, Signature::CAST, {"truncf", 1, Kind::kSimple}},
    {VectorOp::CONVERTF, Signature::CAST, {"convertf", 1, Kind::kSimple}},
    {VectorOp::SITOFP, Signature::CAST, {"sitofp", 1, Kind::kSimple}},
    {VectorOp::UITOFP, Signature::CAST, {"uitofp", 1, Kind::kSimple}},
    {VectorOp::FPTOSI, Signature::CAST, {"fptosi", 1, Kind::kSimple}},
    {VectorOp::FPTOUI, Signature::CAST, {"fptoui", 1, Kind::kSimple}},
    {VectorOp::EXTSI, Signature::CAST, {"extsi", 1, Kind::kSimple}},
    {VectorOp::EXTUI, Signature::CAST, {"extui", 1, Kind::kSimple}},
    {VectorOp::TRUNCI, Signature::CAST, {"trunci", 1, Kind::kSimple}},
    {VectorOp::INDEX_CAST, Signature::CAST, {"index_cast", 1, Kind::kSimple}},
    {VectorOp::INDEX_CASTUI, Signature::CAST, {"index_castui", 1, Kind::kSimple}},
    {VectorOp::BITCAST, Signature::CAST, {"bitcast", 1, Kind::kSimple}},
    {VectorOp::EXP, Signature::FLOAT, {"exp", 1, Kind::kTranscendental}},
    {VectorOp::EXP2, Signature::FLOAT, {"exp2", 1, Kind::kTranscendental}},
    {VectorOp::EXPM1, Signature::FLOAT, {"expm1", 1, Kind::kTranscendental}},
    {VectorOp::LOG, Signature::FLOAT, {"log", 1, Kind::kTranscendental}},
    {VectorOp::LOG2, Signature::FLOAT, {"log2", 1, Kind::kTranscendental}},
    {VectorOp::LOG10, Signature::FLOAT, {"log10", 1, Kind::kTranscendental}},
    {VectorOp::LOG1P, Signature::FLOAT, {"log1p", 1, Kind::kTranscendental}},
    {VectorOp::SQRT, Signature::FLOAT, {"sqrt", 1, Kind::kDivide}},
    {VectorOp::RSQRT, Signature::FLOAT, {"rsqrt", 1, Kind::kDivide}},
    {VectorOp::TANH, Signature::FLOAT, {"tanh", 1, Kind::kTranscendental}},
    {VectorOp::SIN, Signature::FLOAT, {"sin", 1, Kind::kTranscendental}},
    {VectorOp::COS, Signature::FLOAT, {"cos", 1, Kind::kTranscendental}},
    {VectorOp::ERF, Signature::FLOAT, {"erf", 1, Kind::kTranscendental}},
    {VectorOp::CEIL, Signature::FLOAT, {"ceil", 1, Kind::kSimple}},
    {VectorOp::FLOOR, Signature::FLOAT, {"floor", 1, Kind::kSimple}},
    {VectorOp::ROUND, Signature::FLOAT, {"round", 1, Kind::kSimple}},
    {VectorOp::ROUNDEVEN, Signature::FLOAT, {"roundeven", 1, Kind::kSimple}},
    {VectorOp::TRUNC, Signature::FLOAT, {"trunc", 1, Kind::kSimple}},
    {VectorOp::POWF, Signature::FLOAT, {"powf", 2, Kind::kTranscendental}},
    {VectorOp::SIGMOID, Signature::FLOAT, {"sigmoid", 1, Kind::kTranscendental}},
    {VectorOp::SILU, Signature::FLOAT, {"silu", 1, Kind::kTranscendental}},
    {VectorOp::GELU, Signature::FLOAT, {"gelu", 1, Kind::kTranscendental}},
    {VectorOp::RECIPROCAL, Signature::FLOAT, {"reciprocal", 1, Kind::kDivide}},
    {VectorOp::SOFTPLUS, Signature::FLOAT, {"softplus", 3, Kind::kTranscendental}},
    {VectorOp::LAYERNORMSCALE, Signature::FLOAT, {"layernormscale", 2, Kind::kDivide}},
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
