// Checks the values of chains and subscripts: ops exist, values are defined before their use, and
// lanes have the same type.
#pragma once

#include <vector>

#include "emulator/engine/program.h"

namespace spyre::emulator::engine {

// The types of a chain's values, in order of their numbers.
using ValueTypes = std::vector<ElementType>;

ElementType type_of(const Input& input);
ElementType type_of(const ValueTypes& types, int32_t value);

// All throw ProgramError.
void require_same_lanes(ElementType a, ElementType b);
void check_vector_op(VectorOp op, ElementType operand, ElementType result, size_t inputs);
void append_steps(ValueTypes& types, const std::vector<ChainStep>& steps,
                  const std::vector<Lookup>& lookups);
// Checks that there is a reduction with this vector instruction for elements of this type.
void check_combine(VectorOp combine, ElementType type);
// `values` are the types of the reduction's values.
void check_combiner(const Reduce& reduce, const ValueTypes& values);
// Checks that the dimensions are below `rank` and strictly ascending.
void check_ascending(const std::vector<int32_t>& dimensions, size_t rank);
void check_expression(const Expression& expression, size_t variables);

}  // namespace spyre::emulator::engine
