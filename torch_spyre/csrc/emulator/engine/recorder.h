// Visits the instructions of a program core by core and counts their work. See record.h.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <unordered_set>
#include <vector>

#include "emulator/engine/conflicts.h"
#include "emulator/engine/core.h"
#include "emulator/engine/loop_analysis.h"
#include "emulator/engine/record.h"
#include "flex/device_box.h"

namespace spyre::emulator::engine {

// The counts of one instruction on one core, as in InstructionCounts.
struct CoreCounts {
  int64_t executions = 0, elements = 0, lanes = 0, reduced_sticks = 0, macs = 0;
  int64_t scratchpad_bytes = 0, remote_bytes = 0, device_bytes = 0, index_bytes = 0;
};

// Thrown when a loop that was analysed as uniform is not: its iterations transfer different numbers
// of sticks.
struct NonUniformLoop : std::exception {
  explicit NonUniformLoop(size_t loop) : loop(loop) {}
  size_t loop;
};

class Recorder {
 public:
  Recorder(const Program& program, std::span<const ArrayLocation> arrays,
           std::span<const uint64_t> scalars, VectorLanes lanes,
           const std::vector<LoopFacts>& loops)
      : program_(program), arrays_(arrays), scalars_(scalars), lanes_(lanes), loops_(loops) {
    result_.instructions.resize(program.code.size());
  }

  // Throws NonUniformLoop. The caller must then mark the loop as not uniform and use a new
  // recorder.
  Recording record();

 private:
  // An enclosing loop whose body is visited once for all its iterations.
  struct Level {
    size_t loop;
    int64_t trips;
    bool is_exact;                // false: an approximation, for a loop too long to visit
    std::vector<int64_t> slopes;  // by register: its change from iteration to iteration
  };
  struct ScalarValue {
    int64_t value;
    bool is_known;
  };

  void start_core(int64_t core);
  void add_core_counts();

  // --- Control flow
  void visit_range(size_t begin, size_t end);
  size_t visit_loop(size_t at, const LoopBegin& loop);
  void visit_once_for_all_trips(size_t at, const LoopBegin& loop, int64_t trips);
  size_t visit_branch(size_t at, const Branch& branch);

  // --- Scalars
  void set(Register target, uint64_t bits, bool is_known);
  void invalidate(std::span<const Register> targets);
  ScalarValue value_of(Register source) const;
  int64_t slope_of(const Level& level, const Scalar& scalar) const;

  // --- Instructions; `at` is the index in Program::code
  void visit(size_t at, const Scalar& scalar);
  void visit(size_t at, const Move& move);
  void visit(size_t at, const Extract& extract);
  void visit(size_t at, const TableLookup& lookup);
  void visit(size_t at, const Literal& literal);
  void visit(size_t at, const Chain& chain);
  void visit(size_t at, const Reduce& reduce);
  void visit(size_t at, const Matmul& matmul);
  void visit(size_t at, const Copy& copy);
  void visit(size_t at, const Receive& receive);
  void visit(size_t at, const Transfer& transfer);
  void visit(size_t at, const IndirectTransfer& transfer);
  void visit(size_t at, const Publish&) { count_execution(at); }
  void visit(size_t at, const Delivered&) { count_execution(at); }
  // `visit_range` handles control flow.
  void visit(size_t, const LoopBegin&) {}
  void visit(size_t, const LoopEnd&) {}
  void visit(size_t, const Branch&) {}
  void visit(size_t, const Jump&) {}

  // --- Work
  CoreCounts& count_execution(size_t at);
  // Adds the amount of one execution, times the iterations of all enclosing levels.
  void add_for_all_trips(int64_t& counter, int64_t amount) const;
  std::vector<int64_t> extents(std::span<const Register> sources);
  void count_vectors(CoreCounts& counts, const ChainBody& chain, int64_t points);
  void count_inputs(CoreCounts& counts, const ChainBody& chain, std::span<const int64_t> extents);
  void count_operand(CoreCounts& counts, const Operand& operand, std::span<const int64_t> extents);
  void count_remote(CoreCounts& counts, Register core, int64_t bytes);

  // --- Device memory
  // An access to a part of a tile in device memory. If its address depends on data, only the size
  // is known.
  struct DeviceAccess {
    DeviceBox box;
    bool is_known;
    std::vector<int64_t> steps;  // by level: the bytes by which each iteration advances the address
  };
  void count_box(size_t at, const Transfer& transfer, const View& view);
  void count_points(size_t at, const Transfer& transfer, const View& view);
  void count_device(size_t at, DeviceAccess access, const View& view, bool is_write);
  void check_uniform(const DeviceAccess& access, ByteRange limits) const;
  BoxCost cost_of(const DeviceBox& box, ByteRange limits);
  bool is_first_move(size_t at, const DeviceAccess& access);
  // Counts a tile unless the instruction has transferred it before, on any core. `tile` is a hash
  // of its address; `steps` are those of DeviceAccess.
  void count_unique(size_t at, uint64_t tile, int64_t bytes, std::span<const int64_t> steps);
  ByteRange limits_of(const View& view) const;

  // --- Indirect transfers (recorder_indirect.cpp)
  // The addresses of a view as a function of variables: the base plus terms.
  struct AddressTerm {
    const Expression* expression;
    int64_t stride;  // bytes
  };
  struct AddressPattern {
    int64_t base = 0, element_bytes = 0;  // bytes
    std::vector<AddressTerm> terms;
    // By variable: whether the address is linear in it, and then by how many bytes it advances.
    std::vector<bool> is_linear;
    std::vector<int64_t> steps;
  };
  // `expressions`: by dimension of the view; null where an index decides on the coordinate.
  AddressPattern pattern_of(const View& view, std::span<const Expression* const> expressions,
                            size_t variables) const;
  int64_t address_of(const AddressPattern& pattern, std::span<const int64_t> variables) const;
  void check_levels(const View& view, std::span<const Expression* const> expressions) const;
  BoxCost cost_at(const AddressPattern& pattern, std::span<const int64_t> extents,
                  const std::vector<bool>& is_separate, std::vector<int64_t> point,
                  ByteRange limits);
  // Returns the cost of all points; of points of separate variables each on its own.
  BoxCost cost_of_pattern(const AddressPattern& pattern, std::span<const int64_t> extents,
                          const std::vector<bool>& is_separate, ByteRange limits);
  bool is_first_move(size_t at, const View& view, std::span<const Expression* const> expressions,
                     std::span<const int64_t> variables);
  void count_indices(CoreCounts& counts, size_t at, const Subscript& subscript,
                     std::span<const int64_t> variables);

  const Program& program_;
  const std::span<const ArrayLocation> arrays_;
  const std::span<const uint64_t> scalars_;
  const VectorLanes lanes_;
  const std::vector<LoopFacts>& loops_;
  Recording result_;
  AccessedMemory accessed_;
  std::unordered_set<uint64_t> moved_tiles_, unique_tiles_;

  Core core_;
  std::vector<bool> is_known_;
  std::vector<CoreCounts> counts_;
  std::vector<int64_t> visits_;  // by instruction: the number of visits on this core
  std::vector<Level> levels_;
  int64_t multiplier_ = 1;  // product of the trip counts of all levels
  size_t nesting_ = 0;
  int64_t num_visited_ = 0;
  std::map<std::vector<int64_t>, BoxCost> costs_;  // by DeviceBox::shape
};

}  // namespace spyre::emulator::engine
