// Caches what was computed to execute an instruction. The same instruction is executed again with
// the same extents in a loop, on the next core and in the next launch.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "emulator/engine/core.h"

namespace spyre::emulator::engine {

// How long a plan is valid. A plan that holds addresses of arguments must not outlive its launch.
enum class PlanLifetime { kLaunch, kProgram };

// The plans of one thread. A plan must have a member `extents`, which `find` sets.
template <typename Plan, PlanLifetime lifetime = PlanLifetime::kLaunch>
class PlanCache {
 public:
  struct FindResult {
    Plan& plan;
    bool is_prepared;  // for this instruction, core and extents
  };

  // Returns the plan of the instruction, or a plan that the caller must prepare and `store`. An
  // instruction with moving operands (see `moves`) must be prepared each time.
  FindResult find(const void* instruction, const Core& core, std::span<const Register> extents,
                  bool has_moving_operands) {
    Entry& entry =
        entries_[reinterpret_cast<uintptr_t>(instruction) / kInstructionSpacing % kEntries];
    read_extents(core, extents, extents_);
    const bool is_same = entry.instruction == instruction && entry.owner == owner_of(core) &&
                         entry.address_id == core.address_id && entry.plan.extents == extents_;
    if (is_same && !has_moving_operands && core.injection == nullptr) return {entry.plan, true};
    entry.instruction = nullptr;  // until it is prepared
    entry.plan.extents = extents_;
    return {entry.plan, false};
  }

  // Makes the plan that `find` returned for the instruction, now prepared, available to later
  // calls.
  void store(const void* instruction, const Core& core) {
    Entry& entry =
        entries_[reinterpret_cast<uintptr_t>(instruction) / kInstructionSpacing % kEntries];
    // Outside of a launch another instruction may be allocated at the same address. A plan that
    // injects a fault must do so only once.
    const bool is_reusable = core.address_id != 0 && core.injection == nullptr;
    entry.instruction = is_reusable ? instruction : nullptr;
    entry.owner = owner_of(core);
    entry.address_id = core.address_id;
  }

 private:
  // The distance of a program's instructions in memory. The number of entries is prime, to avoid
  // collisions.
  static constexpr uintptr_t kInstructionSpacing = sizeof(Instruction);
  static constexpr size_t kEntries = 61;
  struct Entry {
    const void* instruction = nullptr;
    uint64_t owner = 0, address_id = 0;
    Plan plan;
  };
  static uint64_t owner_of(const Core& core) {
    return lifetime == PlanLifetime::kLaunch ? core.launch : core.program;
  }
  std::array<Entry, kEntries> entries_;
  std::vector<int64_t> extents_;
};

// Returns whether the address of the operand, or of an input of the chain, depends on a register.
inline bool moves(const Operand& operand) { return operand.offset != kNoRegister; }
bool moves(const ChainBody& chain);

}  // namespace spyre::emulator::engine
