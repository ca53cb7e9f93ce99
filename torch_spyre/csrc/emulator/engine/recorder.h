// Visits the instructions of a program core by core and counts their work. See record.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "emulator/engine/conflicts.h"
#include "emulator/engine/core.h"
#include "emulator/engine/footprints.h"
#include "emulator/engine/instruction_work.h"
#include "emulator/engine/loop_analysis.h"
#include "emulator/engine/record.h"
#include "emulator/engine/transfer_log.h"

namespace spyre::emulator::engine {

class Recorder {
 public:
  Recorder(const Program& program, std::span<const ArrayLocation> arrays,
           std::span<const uint64_t> scalars, VectorLanes lanes,
           const std::vector<LoopFacts>& loops)
      : program_(program),
        arrays_(arrays),
        scalars_(scalars),
        lanes_(lanes),
        loops_(loops),
        transfers_(program.code.size()) {
    result_.instructions.resize(program.code.size());
  }

  // Throws NonUniformLoop. The caller must then mark the loop as not uniform and use a new
  // recorder.
  Recording record(const CoreVisitor& visit_core = {});

 private:
  // An enclosing loop whose body is visited once for all its iterations.
  struct Level {
    size_t loop;
    int64_t trips;
    bool is_exact;                // false: an approximation, for a loop too long to visit
    std::vector<int64_t> slopes;  // by register: its change from iteration to iteration
    // By instruction of the body, when the loop begins.
    std::vector<int64_t> executions;
    std::vector<size_t> num_transfers;
  };
  struct ScalarValue {
    int64_t value;
    bool is_known;
  };

  void start_core(int64_t core);
  void add_core_counts();
  void add_shared_counts();

  // --- Control flow
  void visit_range(size_t begin, size_t end);
  // Visits instructions of which it is not known how often they are executed.
  void visit_uncertain_range(size_t begin, size_t end);
  size_t visit_loop(size_t at, const LoopBegin& loop);
  void visit_once_for_all_trips(size_t at, const LoopBegin& loop, int64_t trips);
  void begin_level(size_t at, const LoopBegin& loop, int64_t trips);
  void end_level(size_t at, const LoopBegin& loop);
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
  void visit(size_t at, const Literal& literal) { add(at, work_of(literal, core_, lanes_)); }
  void visit(size_t at, const Chain& chain);
  void visit(size_t at, const Reduce& reduce);
  void visit(size_t at, const Matmul& matmul);
  void visit(size_t at, const Copy& copy);
  void visit(size_t at, const Sort& sort);
  void visit(size_t at, const Indexed& indexed);
  void visit(size_t at, const Receive& receive);
  void visit(size_t at, const Transfer& transfer);
  void visit(size_t at, const IndirectTransfer& transfer);
  void visit(size_t at, const Publish& publish) { add(at, work_of(publish, core_, lanes_)); }
  void visit(size_t at, const Delivered& delivered) { add(at, work_of(delivered, core_, lanes_)); }
  // `visit_range` handles control flow.
  void visit(size_t, const LoopBegin&) {}
  void visit(size_t, const LoopEnd&) {}
  void visit(size_t, const Branch&) {}
  void visit(size_t, const Jump&) {}

  // --- Work
  // Adds the counts of one execution, times the iterations of all enclosing levels.
  void add(size_t at, const CoreCounts& execution);
  // Adds the bytes of one execution at an unknown address, which no other transfer shares.
  void add_unshared(size_t at, int64_t bytes);
  void limit_exactness(size_t at, Exactness exactness);
  bool are_known(std::span<const Register> sources) const;
  // Notes that the counts are estimates if an extent depends on data.
  void check_extents(size_t at, std::span<const Register> sources);
  std::vector<int64_t> extents(size_t at, std::span<const Register> sources);
  // Returns the bytes if they are transferred to or from another core.
  int64_t remote_bytes(size_t at, Register core, int64_t bytes);

  // --- Device memory
  // The bytes of a tile or of a part of it in device memory.
  struct DeviceAccess {
    std::optional<DeviceBox> box;
    std::vector<ByteRange> ranges;  // if it is not a box
    // The address depends on data, apart from its remainder by this number of bytes. At least the
    // bytes of a stick: the offset in sticks is known.
    int64_t alignment = 0;
    bool is_known = true;        // the address
    std::vector<int64_t> steps;  // by level: the bytes by which each iteration advances the address

    ByteRange hull() const;
  };
  void count_access(size_t at, CoreCounts& execution, DeviceAccess access, const View& view,
                    bool is_write);
  PlacedFootprint footprint_of(size_t at, const DeviceAccess& access, ByteRange limits);
  // Returns the cost at the offset in its sticks, of those possible, that needs the most sticks.
  BoxCost cost_of(size_t at, const DeviceAccess& access, ByteRange limits);
  void check_uniform(const DeviceAccess& access, ByteRange limits) const;
  // Counts the part of the tile that a view holds.
  void count_box(size_t at, const Transfer& transfer, const View& view, CoreCounts& execution);
  void count_points(size_t at, const Transfer& transfer, const View& view, CoreCounts& execution);
  void count_scratchpad_view(size_t at, const View& view, int64_t points, CoreCounts& execution);
  std::vector<int64_t> steps_of(const Transfer& transfer, const View& view) const;
  // Returns the bytes by whose multiples the address of a tile is not known; 0: it is known.
  int64_t unknown_bytes(const Transfer& transfer, const View& view) const;
  ByteRange limits_of(const View& view) const;

  // --- Indirect transfers (recorder_indirect.cpp)
  // `expressions`: by dimension of the view; null where an index decides on the coordinate.
  using Expressions = std::span<const Expression* const>;
  struct Points;
  void check_registers(size_t at, const View& view, Expressions expressions);
  // The access of one point of the separate variables, and the number of points that cost the same.
  struct Row {
    DeviceAccess access;
    int64_t count;
  };
  std::vector<Row> rows_of(const View& view, Expressions expressions, const Points& points,
                           const std::vector<bool>& is_separate, int64_t alignment) const;
  bool lies_inside(const View& view, ByteRange limits) const;
  void count_indices(size_t at, CoreCounts& execution, const Subscript& subscript,
                     const Points& points);
  void count_rows(size_t at, CoreCounts& execution, const IndirectTransfer& transfer,
                  const Points& points);

  const Program& program_;
  const std::span<const ArrayLocation> arrays_;
  const std::span<const uint64_t> scalars_;
  const VectorLanes lanes_;
  const std::vector<LoopFacts>& loops_;
  Recording result_;
  AccessedMemory accessed_;
  FootprintTable footprints_;
  TransferLog transfers_;

  Core core_;
  std::vector<bool> is_known_;
  std::vector<CoreCounts> counts_;
  // By instruction: the executions so far in the first iterations of all levels.
  std::vector<int64_t> executions_;
  std::vector<Level> levels_;
  int64_t multiplier_ = 1;  // product of the trip counts of all levels
  size_t nesting_ = 0;
  size_t uncertain_nesting_ = 0;  // of loops and branches that depend on data
  int64_t num_visited_ = 0;
};

}  // namespace spyre::emulator::engine
