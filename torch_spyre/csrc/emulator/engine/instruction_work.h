// The amounts of work of one execution of an instruction, which follow from its fields and
// registers. The recorder and the check of its counts add them up.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "emulator/engine/core.h"
#include "emulator/engine/record.h"

namespace spyre::emulator::engine {

// The counts of one instruction on one core, as in InstructionCounts.
struct CoreCounts {
  int64_t executions = 0, elements = 0, lanes = 0, reduced_sticks = 0, macs = 0;
  int64_t exchanges = 0, scratchpad_bytes = 0, remote_bytes = 0;
  int64_t device_bytes = 0, device_runs = 0, index_bytes = 0, index_runs = 0;
  MatmulShape largest_matmul{};

  // Adds the counts of one execution, `times` times. Throws KernelError when they overflow.
  void add(const CoreCounts& execution, int64_t times);
};

struct Counter {
  const char* name;
  int64_t CoreCounts::* of_core;
  Count InstructionCounts::* of_all;
};

inline constexpr std::array kCounters{
    Counter{"executions", &CoreCounts::executions, &InstructionCounts::executions},
    Counter{"elements", &CoreCounts::elements, &InstructionCounts::elements},
    Counter{"lanes", &CoreCounts::lanes, &InstructionCounts::lanes},
    Counter{"reduced_sticks", &CoreCounts::reduced_sticks, &InstructionCounts::reduced_sticks},
    Counter{"macs", &CoreCounts::macs, &InstructionCounts::macs},
    Counter{"exchanges", &CoreCounts::exchanges, &InstructionCounts::exchanges},
    Counter{"scratchpad_bytes", &CoreCounts::scratchpad_bytes,
            &InstructionCounts::scratchpad_bytes},
    Counter{"remote_bytes", &CoreCounts::remote_bytes, &InstructionCounts::remote_bytes},
    Counter{"device_bytes", &CoreCounts::device_bytes, &InstructionCounts::device_bytes},
    Counter{"device_runs", &CoreCounts::device_runs, &InstructionCounts::device_runs},
    Counter{"index_bytes", &CoreCounts::index_bytes, &InstructionCounts::index_bytes},
    Counter{"index_runs", &CoreCounts::index_runs, &InstructionCounts::index_runs},
};

// Adds the counts of a core that executes the instruction. Throws KernelError when they overflow.
void add_core(InstructionCounts& all, const CoreCounts& core);

// Returns the bytes of the operand's elements, each once, even if several points use it.
int64_t operand_bytes(const Operand& operand, std::span<const int64_t> extents);

// Each returns the amounts of one execution, except those of views and of other cores.
CoreCounts work_of(const Chain& chain, const Core& core, VectorLanes lanes);
CoreCounts work_of(const Reduce& reduce, const Core& core, VectorLanes lanes);
CoreCounts work_of(const Copy& copy, const Core& core, VectorLanes lanes);
CoreCounts work_of(const Sort& sort, const Core& core, VectorLanes lanes);
CoreCounts work_of(const Literal& literal, const Core& core, VectorLanes lanes);
CoreCounts work_of(const Indexed& indexed, const Core& core, VectorLanes lanes);
CoreCounts work_of(const Matmul& matmul, const Core& core, VectorLanes lanes);
CoreCounts work_of(const Receive& receive, const Core& core, VectorLanes lanes);
CoreCounts work_of(const Publish& publish, const Core& core, VectorLanes lanes);
CoreCounts work_of(const Delivered& delivered, const Core& core, VectorLanes lanes);

}  // namespace spyre::emulator::engine
