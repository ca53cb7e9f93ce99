// Instructions that have no host vector instructions. They are computed lane by lane, with the same
// results on every host.
#pragma once

#include "emulator/engine/vector_ops.h"

namespace spyre::emulator::engine {

// Returns the function of an integer division or remainder; nullptr for other ops.
VectorFunction integer_division(VectorOp op, ElementType type);

// REMF with a result of a float type.
VectorFunction float_remainder(ElementType result);

// BITCAST between types of equal bits.
VectorFunction bitcast(ElementType operand, ElementType result);

}  // namespace spyre::emulator::engine
