// Instructions on registers, and matmul.
#pragma once

#include "emulator/engine/core.h"

namespace spyre::emulator::engine {

void execute(const Scalar& scalar, Core& core);
void execute(const Extract& extract, Core& core);
void execute(const Matmul& matmul, Core& core);

}  // namespace spyre::emulator::engine
