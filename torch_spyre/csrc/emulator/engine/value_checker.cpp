#include "emulator/engine/value_checker.h"

#include <string>

#include "emulator/engine/lanes.h"
#include "emulator/engine/program_decoder.h"
#include "emulator/engine/program_limits.h"

namespace spyre::emulator::engine {

namespace {

enum class Lanes { kFloat, kInteger, kLong };

Lanes lanes_of(ElementType type) {
  if (is_float(type)) return Lanes::kFloat;
  return type == ElementType::I64 ? Lanes::kLong : Lanes::kInteger;
}

void check_lookup(const ValueTypes& types, const ChainStep& step,
                  const std::vector<Lookup>& lookups) {
  if (step.lookup < 0 || static_cast<size_t>(step.lookup) >= lookups.size()) {
    reject_program("there is no such lookup");
  }
  const Lookup& lookup = lookups[static_cast<size_t>(step.lookup)];
  if (step.inputs.size() != lookup.extents.size()) {
    reject_program("a lookup needs one coordinate for each dimension");
  }
  for (int32_t input : step.inputs) {
    if (type_of(types, input) != ElementType::I64) reject_program("a coordinate is not i64");
  }
  require_same_lanes(step.result, lookup.operand.type);
}

void check_step(const ValueTypes& types, const ChainStep& step) {
  check_vector_op(step.op, step.operand, step.result, step.inputs.size());
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const ElementType type = type_of(types, step.inputs[i]);
    if (step.op != VectorOp::SELECT || i > 0) {
      require_same_lanes(type, step.operand);
    } else if (type != ElementType::I1) {
      reject_program("a mask is not i1");
    }
  }
}

}  // namespace

ElementType type_of(const Input& input) {
  switch (input.kind) {
    case InputKind::kOperand:
      return input.operand.type;
    case InputKind::kScalar:
      return input.type;
    case InputKind::kIndex:
      break;
  }
  return ElementType::I64;
}

ElementType type_of(const ValueTypes& types, int32_t value) {
  if (value < 0 || static_cast<size_t>(value) >= types.size()) {
    reject_program("value " + std::to_string(value) + " does not come before its use");
  }
  return types[static_cast<size_t>(value)];
}

void require_same_lanes(ElementType a, ElementType b) {
  if (lanes_of(a) == lanes_of(b)) return;
  reject_program("a value of type " + std::string(name_of(a)) + " is used as " +
                 std::string(name_of(b)));
}

void check_vector_op(VectorOp op, ElementType operand, ElementType result, size_t inputs) {
  if (op == kNoVectorOp) reject_program("no vector instruction is called ''");
  const VectorOpInfo& info = *vector_op_info(op);
  const std::string name(info.name);
  if (vector_function(op, operand, result) == nullptr) {
    reject_program("there is no " + name + " from " + std::string(name_of(operand)) + " to " +
                   std::string(name_of(result)));
  }
  if (inputs != static_cast<size_t>(info.inputs)) {
    reject_program(name + " takes " + std::to_string(info.inputs) + " inputs, not " +
                   std::to_string(inputs));
  }
}

void append_steps(ValueTypes& types, const std::vector<ChainStep>& steps,
                  const std::vector<Lookup>& lookups) {
  for (const ChainStep& step : steps) {
    if (step.lookup >= 0) {
      check_lookup(types, step, lookups);
    } else {
      check_step(types, step);
    }
    types.push_back(step.result);
  }
}

void check_combine(VectorOp combine, ElementType type) {
  if (vector_function(combine, type, type) != nullptr &&
      combine_lanes(combine_of(combine).value(), type) != nullptr) {
    return;
  }
  reject_program("there is no reduction " + std::string(vector_op_info(combine)->name) + " of " +
                 std::string(name_of(type)));
}

void check_combiner(const Reduce& reduce, const ValueTypes& values) {
  ValueTypes types = values;
  types.insert(types.end(), values.begin(), values.end());
  append_steps(types, reduce.combiner, {});
  if (reduce.results.size() != values.size()) {
    reject_program("a combiner needs one result for each accumulator");
  }
  for (size_t i = 0; i < values.size(); ++i) {
    require_same_lanes(type_of(types, reduce.results[i]), values[i]);
  }
}

void check_ascending(const std::vector<int32_t>& dimensions, size_t rank) {
  int32_t last = -1;
  for (int32_t dimension : dimensions) {
    if (dimension <= last || static_cast<size_t>(dimension) >= rank) {
      reject_program("reduced dimensions are not ascending dimensions of the chain");
    }
    last = dimension;
  }
}

void check_expression(const Expression& expression, size_t variables) {
  int64_t depth = 0;
  for (const Term& term : expression) {
    if (term.kind == TermKind::kVariable &&
        (term.value < 0 || static_cast<size_t>(term.value) >= variables)) {
      reject_program("there is no such variable");
    }
    const bool is_leaf = term.kind <= TermKind::kVariable;
    depth += is_leaf ? 1 : -1;
    if (depth < 1 || depth > kMaxExpressionDepth) {
      reject_program("an expression is malformed or too deep");
    }
  }
  if (depth != 1) reject_program("an expression is malformed");
}

}  // namespace spyre::emulator::engine
