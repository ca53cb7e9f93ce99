// What an instruction needs to run, kept from one execution to the next: in a loop, on the next
// core and in the next launch the same instruction runs again with the same extents.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "emulator/engine/core.h"

namespace spyre::emulator::engine {

// How long a plan serves: one that knows where arguments are must not outlive its launch.
enum class Lasts { kLaunch, kProgram };

// Plans of this thread. A plan has the member `extents`, which `find` fills.
template <typename Plan, Lasts lasts = Lasts::kLaunch>
class PreparedPlans {
 public:
  struct Found {
    Plan& plan;
    bool is_prepared;  // for this instruction, place and extents
  };

  // `moves`: an operand of the instruction has an offset in a register, so it must be prepared
  // anew each time.
  Found find(const void* instruction, const Core& core, std::span<const Register> extents,
             bool moves) {
    Entry& entry =
        entries_[reinterpret_cast<uintptr_t>(instruction) / kInstructionSpacing % kEntries];
    read_extents(core, extents, extents_);
    const bool same = entry.instruction == instruction && entry.owner == owner_of(core) &&
                      entry.place == core.place && entry.plan.extents == extents_;
    if (same && !moves && core.injection == nullptr) return {entry.plan, true};
    entry.instruction = nullptr;  // until it is prepared
    entry.plan.extents = extents_;
    return {entry.plan, false};
  }

  // The plan that `find` gave for the instruction can be used again.
  void keep(const void* instruction, const Core& core) {
    Entry& entry =
        entries_[reinterpret_cast<uintptr_t>(instruction) / kInstructionSpacing % kEntries];
    // Outside of a launch another instruction may come to lie at the same place, and what was
    // prepared to inject a fault must not do so again.
    const bool can_serve_again = core.place != 0 && core.injection == nullptr;
    entry.instruction = can_serve_again ? instruction : nullptr;
    entry.owner = owner_of(core);
    entry.place = core.place;
  }

 private:
  // Of a program's instructions; a prime number of entries spreads them.
  static constexpr uintptr_t kInstructionSpacing = sizeof(Instruction);
  static constexpr size_t kEntries = 61;
  struct Entry {
    const void* instruction = nullptr;
    uint64_t owner = 0, place = 0;
    Plan plan;
  };
  static uint64_t owner_of(const Core& core) {
    return lasts == Lasts::kLaunch ? core.launch : core.program;
  }
  std::array<Entry, kEntries> entries_;
  std::vector<int64_t> extents_;
};

// Returns whether an operand's address depends on a register, or that of a chain's inputs.
inline bool moves(const Operand& operand) { return operand.offset != kNoRegister; }
bool moves(const ChainBody& chain);

}  // namespace spyre::emulator::engine
