// Instructions without host vector instructions: computed lane by lane, with the same results on
// every host.
#pragma once

#include "emulator/engine/vector_ops.h"

namespace spyre::emulator::engine {

// Divisions and remainders of integers; nullptr for other ops.
VectorFunction integer_division(VectorOp op, ElementType type);

// REMF with a result of a float type.
VectorFunction float_remainder(ElementType result);

// BITCAST between types of equal bits.
VectorFunction bitcast(ElementType operand, ElementType result);

}  // namespace spyre::emulator::engine
