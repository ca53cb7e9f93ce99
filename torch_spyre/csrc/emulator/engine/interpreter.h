// Executes the instructions of one core until it is done or has to wait for another.
#pragma once

#include <atomic>
#include <exception>
#include <limits>
#include <string>
#include <vector>

#include "emulator/engine/core.h"
#include "emulator/engine/executed_counts.h"
#include "emulator/engine/mailboxes.h"
#include "emulator/engine/memory.h"
#include "emulator/engine/scratchpads.h"
#include "emulator/stop.h"

namespace spyre::emulator::engine {

// One core of a launch: all state that is needed to resume it.
struct CoreRun {
  enum class State {
    kReady,
    kReceiving,   // waits for a publication of `producer` on `channel`
    kPublishing,  // waits until other cores have received its publications
    kDone,
    kFailed,
    kStopped,  // abandoned: the launch has failed in another core
  };
  Core core;
  ScratchpadPool::Lease scratchpad;
  int32_t next = 0;  // the next instruction
  State state = State::kReady;
  int64_t producer = 0;
  int32_t channel = 0;
  bool may_overfill = false;        // publish, even if the mailbox is full
  std::vector<int64_t> deliveries;  // rounds finished on each channel
  // This run executes only some iterations of one loop, up to this bound.
  int32_t bounded_loop = kNoLoop;
  int64_t bound = 0;
  uint32_t num_executed = 0;         // instructions of this run, modulo 2^32
  ExecutedCore* executed = nullptr;  // counts the work; nullptr: it is not counted
  std::exception_ptr error;
};

class Interpreter {
 public:
  struct Limits {
    // Cores after this one may stop: the launch has failed in it.
    std::atomic<int64_t> last_core{std::numeric_limits<int64_t>::max()};
  };

  Interpreter(const Program& program, const Memory& memory, Mailboxes& mailboxes,
              const Limits& limits, const StopConditions& stop);

  // Executes instructions until the core is done, fails or has to wait, and sets the state. Errors
  // are stored in the run, with the source location of the instruction.
  void advance(CoreRun& run) const;
  // The same, but stops before the instruction `stop`, in the ready state.
  void advance(CoreRun& run, size_t stop) const;

 private:
  // Each executes one instruction and returns the index of the next one, or kWait.
  int32_t execute_one(const LoopBegin& loop, CoreRun& run) const;
  int32_t execute_one(const LoopEnd& end, CoreRun& run) const;
  int32_t execute_one(const Branch& branch, CoreRun& run) const;
  int32_t execute_one(const Jump& jump, CoreRun& run) const;
  int32_t execute_one(const Move& move, CoreRun& run) const;
  int32_t execute_one(const Transfer& transfer, CoreRun& run) const;
  int32_t execute_one(const IndirectTransfer& transfer, CoreRun& run) const;
  int32_t execute_one(const Matmul& matmul, CoreRun& run) const;
  int32_t execute_one(const Publish& publish, CoreRun& run) const;
  int32_t execute_one(const Receive& receive, CoreRun& run) const;
  int32_t execute_one(const Delivered& delivered, CoreRun& run) const;
  int32_t execute_one(const TableLookup& lookup, CoreRun& run) const;
  // Executes instructions that access only the core's registers and tensors.
  template <typename Plain>
  int32_t execute_one(const Plain& action, CoreRun& run) const;
  template <typename Tile>
  int32_t transfer_tile(const Tile& transfer, CoreRun& run) const;

  flex::FailedInstruction failed_instruction(const CoreRun& run) const;

  const Program& program_;
  const Memory& memory_;
  Mailboxes& mailboxes_;
  const Limits& limits_;
  const StopConditions& stop_;
};

}  // namespace spyre::emulator::engine
