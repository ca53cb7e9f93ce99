// The transfers of all cores to or from known addresses, to count the sticks that an instruction
// transfers several times.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "emulator/engine/footprints.h"

namespace spyre::emulator::engine {

// A loop that was visited once for all its iterations.
struct RepeatedLoop {
  size_t loop;
  int64_t trips;
  int64_t step;    // sticks by which each iteration advances the transfer
  int64_t period;  // executions of the instruction in one iteration

  auto operator<=>(const RepeatedLoop&) const = default;
};
// The loops around a transfer, outermost first, without those of one iteration.
using RepeatedLoops = std::vector<RepeatedLoop>;

class TransferLog {
 public:
  explicit TransferLog(size_t num_instructions) : instructions_(num_instructions) {}

  // Adds the executions of an instruction on a core: number `execution` in the first iteration of
  // the loops, and one for each other iteration. Cores are added one after the other.
  void add(size_t instruction, int64_t core, int64_t execution, const PlacedFootprint& placed,
           const RepeatedLoops& loops);
  size_t num_transfers(size_t instruction) const {
    return instructions_[instruction].transfers.size();
  }
  // Sets the period of the loop at this depth for all transfers from `first` on.
  void set_period(size_t instruction, size_t first, size_t depth, int64_t period);

  // Returns the number of sticks of all executions of the instruction, those that several cores
  // transfer in their n-th execution counted once. Throws NonUniformLoop where cores transfer the
  // same sticks, but not in the same iterations of a loop for which `is_uniform` is true.
  int64_t distinct_sticks(size_t instruction, const std::function<bool(size_t)>& is_uniform);

  // Returns the number of sticks of all executions of the instruction, each stick once. Not exact
  // if there are too many runs to enumerate.
  BoxCost unique_sticks(size_t instruction) const;

 private:
  struct Transfer {
    int64_t execution;  // the first one
    PlacedFootprint placed;
    const RepeatedLoops* loops;
  };
  // The sticks that a core transfers in all its executions.
  struct CoreHull {
    int64_t core;
    ByteRange sticks;
  };
  struct Instruction {
    std::vector<Transfer> transfers;
    std::vector<CoreHull> hulls;
    bool has_partitions = false;  // executions transfer several parts of a tile
  };
  // Transfers with the same first execution.
  using Group = std::vector<Transfer>;

  static bool share_sticks(const Instruction& instruction);
  bool split(Group& group, const RepeatedLoops& longest, std::vector<Transfer>& later);
  const RepeatedLoops* intern(const RepeatedLoops& loops) { return &*loops_.insert(loops).first; }

  std::vector<Instruction> instructions_;
  std::set<RepeatedLoops> loops_;
  StickUnion union_;
};

}  // namespace spyre::emulator::engine
