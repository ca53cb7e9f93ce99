// Counts the work of a launch while it runs, from the registers and indices that each execution of
// each instruction uses. The same amounts as those of the recorder, see record.h.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "emulator/engine/footprints.h"
#include "emulator/engine/instruction_work.h"
#include "emulator/engine/memory.h"

namespace spyre::emulator::engine {

// A footprint of the n-th execution of an instruction on a core.
struct ExecutedTransfer {
  int64_t execution;
  PlacedFootprint placed;
};

// The counts of one core, or of a part of its iterations.
class ExecutedCore {
 public:
  ExecutedCore(const Program& program, const Memory& memory, VectorLanes lanes,
               FootprintTable& footprints, int64_t id);

  // Counts an execution of the instruction; must be called before it changes memory. Executions
  // that fail count nothing.
  void count(size_t instruction, const Core& core);

  const int64_t id;
  std::vector<CoreCounts> counts;                        // by instruction
  std::vector<std::vector<ExecutedTransfer>> transfers;  // by instruction
  std::vector<int64_t> unshared_bytes;  // by instruction: of rows that indices select
  // The end of the last byte of its scratchpad that the core has accessed.
  int64_t scratchpad_high_water = 0;

 private:
  void count_work(size_t instruction, const Core& core, const Transfer& transfer);
  void count_work(size_t instruction, const Core& core, const IndirectTransfer& transfer);
  void count_work(size_t instruction, const Core& core, const Receive& receive);
  template <typename Work>
  void count_work(size_t instruction, const Core& core, const Work& work);

  void count_box(const Transfer& transfer, const View& view, const Core& core);
  void count_points(const Transfer& transfer, const View& view, const Core& core);
  void count_indices(const Subscript& subscript, const Core& core,
                     const std::vector<std::vector<int64_t>>& points);
  void count_scratchpad(const View& view, const Core& core, int64_t points);
  void count_device(const PlacedFootprint& placed);
  PlacedFootprint clipped(const Region& region, std::vector<ByteRange> ranges);

  const Program& program_;
  const Memory& memory_;
  const VectorLanes lanes_;
  FootprintTable& footprints_;
  // Of the execution that is being counted.
  CoreCounts execution_;
  std::vector<PlacedFootprint> placed_;
  int64_t unshared_bytes_ = 0;
};

// The counts of a launch.
class ExecutedCounts {
 public:
  ExecutedCounts(const Program& program, const Memory& memory, VectorLanes lanes)
      : program_(program), memory_(memory), lanes_(lanes) {}

  // Returns a new part of the counts of a core. Thread-safe.
  ExecutedCore& add_part(int64_t core);

  // Returns the counts of all cores.
  std::vector<InstructionCounts> total();
  // Returns the maximum of all cores.
  int64_t scratchpad_high_water() const;

 private:
  void add_shared(size_t instruction, InstructionCounts& all) const;

  const Program& program_;
  const Memory& memory_;
  const VectorLanes lanes_;
  FootprintTable footprints_;
  std::mutex mutex_;
  std::deque<ExecutedCore> parts_;
};

}  // namespace spyre::emulator::engine
