// The recorder at work: one core's walk through a program. See record.h.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <unordered_set>
#include <vector>

#include "emulator/engine/conflicts.h"
#include "emulator/engine/core.h"
#include "emulator/engine/device_box.h"
#include "emulator/engine/loop_analysis.h"
#include "emulator/engine/record.h"

namespace spyre::emulator::engine {

// Of one instruction on one core.
struct CoreCounts {
  int64_t executions = 0, elements = 0, lanes = 0, reduced_sticks = 0, macs = 0;
  int64_t scratchpad_bytes = 0, remote_bytes = 0, device_bytes = 0, index_bytes = 0;
};

// Thrown when a loop that looked uniform is not: its trips move different numbers of sticks.
struct NotUniform : std::exception {
  explicit NotUniform(size_t loop) : loop(loop) {}
  size_t loop;
};

class Recorder {
 public:
  Recorder(const Program& program, std::span<const ArrayPlace> arrays,
           std::span<const uint64_t> scalars, VectorLanes lanes,
           const std::vector<LoopFacts>& loops)
      : program_(program), arrays_(arrays), scalars_(scalars), lanes_(lanes), loops_(loops) {
    result_.instructions.resize(program.code.size());
  }

  // Throws NotUniform: take that loop as not uniform, and begin again.
  Recording record();

 private:
  // A uniform loop that is being walked once for all its trips.
  struct Level {
    size_t loop;
    int64_t trips;
    bool is_exact;                // else only the best that can be said in good time
    std::vector<int64_t> slopes;  // of each register, from trip to trip
  };
  struct Known {
    int64_t value;
    bool is_known;
  };

  void start_core(int64_t core);
  void add_up();

  // --- Control flow
  void walk(size_t begin, size_t end);
  size_t walk_loop(size_t at, const LoopBegin& loop);
  void walk_once_for_all(size_t at, const LoopBegin& loop, int64_t trips);
  size_t walk_branch(size_t at, const Branch& branch);

  // --- Scalars
  void set(Register target, uint64_t bits, bool is_known);
  void forget(std::span<const Register> targets);
  Known known(Register source) const;
  int64_t slope_of(const Level& level, const Scalar& scalar) const;

  // --- Instructions, at their place in the code
  void take(size_t at, const Scalar& scalar);
  void take(size_t at, const Move& move);
  void take(size_t at, const Extract& extract);
  void take(size_t at, const TableLookup& lookup);
  void take(size_t at, const Literal& literal);
  void take(size_t at, const Chain& chain);
  void take(size_t at, const Reduce& reduce);
  void take(size_t at, const Matmul& matmul);
  void take(size_t at, const Copy& copy);
  void take(size_t at, const Receive& receive);
  void take(size_t at, const Transfer& transfer);
  void take(size_t at, const IndirectTransfer& transfer);
  void take(size_t at, const Publish&) { executed(at); }
  void take(size_t at, const Delivered&) { executed(at); }
  // Control flow is not taken but walked.
  void take(size_t, const LoopBegin&) {}
  void take(size_t, const LoopEnd&) {}
  void take(size_t, const Branch&) {}
  void take(size_t, const Jump&) {}

  // --- Work
  CoreCounts& executed(size_t at);
  // Adds an amount of one trip, for all trips of the loops around that are walked once.
  void grow(int64_t& counter, int64_t amount) const;
  std::vector<int64_t> extents(std::span<const Register> sources);
  void count_vectors(CoreCounts& counts, const ChainBody& chain, int64_t points);
  void count_inputs(CoreCounts& counts, const ChainBody& chain, std::span<const int64_t> extents);
  void count_operand(CoreCounts& counts, const Operand& operand, std::span<const int64_t> extents);
  void count_remote(CoreCounts& counts, Register core, int64_t bytes);

  // --- Device memory
  // A part of a tile in device memory. Where data decides on its place, only its size is known.
  struct DevicePart {
    DeviceBox box;
    bool is_known;
    std::vector<int64_t> steps;  // bytes by which it advances in each level
  };
  void count_box(size_t at, const Transfer& transfer, const View& view);
  void count_points(size_t at, const Transfer& transfer, const View& view);
  void count_device(size_t at, DevicePart part, const View& view, bool is_write);
  void check_levels(const DevicePart& part, ByteRange limits) const;
  BoxCost cost_of(const DeviceBox& box, ByteRange limits);
  bool is_first_move(size_t at, const DevicePart& part);
  void count_indices(CoreCounts& counts, size_t at, const Subscript& subscript,
                     std::span<const int64_t> variables);
  ByteRange limits_of(const View& view) const;

  const Program& program_;
  const std::span<const ArrayPlace> arrays_;
  const std::span<const uint64_t> scalars_;
  const VectorLanes lanes_;
  const std::vector<LoopFacts>& loops_;
  Recording result_;
  AccessedMemory accessed_;
  std::unordered_set<uint64_t> moved_tiles_;

  Core core_;
  std::vector<bool> is_known_;
  std::vector<CoreCounts> counts_;
  std::vector<int64_t> walked_;  // how often each instruction was walked, on this core
  std::vector<Level> levels_;
  int64_t multiplier_ = 1;  // trips of all levels
  size_t nesting_ = 0;
  int64_t walked_in_all_ = 0;
  std::map<std::vector<int64_t>, BoxCost> costs_;  // by the shape of a box
};

}  // namespace spyre::emulator::engine
