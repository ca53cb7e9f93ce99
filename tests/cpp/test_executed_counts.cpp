// Counts of executed work: compared with enumerated addresses and with those of the recorder.
#include <algorithm>
#include <random>
#include <set>

#include "check.h"
#include "emulator/engine/count_check.h"
#include "emulator/engine/executed_counts.h"
#include "emulator/engine/parallel_loops.h"
#include "emulator/engine/scheduler.h"
#include "engine_fixture.h"
#include "program_builder.h"

namespace spyre::emulator::engine {
namespace {

constexpr VectorLanes kLanes{64, 32};
constexpr ElementType kF16 = ElementType::F16, kI32 = ElementType::I32;

// A launch of a program on arrays of these sizes, whose bytes are zero.
struct Launched {
  Launched(Program program, std::vector<int64_t> bytes)
      : program(std::move(program)), bytes(bytes) {
    this->program.locations = {{"test.op", 3, 7}};
    for (const int64_t size : bytes) memory.emplace_back(static_cast<size_t>(size));
  }

  std::vector<InstructionCounts> executed(int threads = 1) {
    const WithThreads with(threads);
    std::vector<Buffer> arrays, windows;
    for (Bytes& array : memory) arrays.push_back(buffer_of(array));
    std::vector<Bytes> window_bytes(static_cast<size_t>(program.cores()), Bytes(4096));
    for (Bytes& window : window_bytes) windows.push_back(buffer_of(window));
    const Memory space(program, arrays, {}, windows);
    ScratchpadPool scratchpads(program.scratchpad_bytes, true);
    ExecutedCounts counts(program, space, kLanes);
    // Ordered: cores may write the same memory.
    run_program(program, space, {}, scratchpads, {threads == 1, "", 0, nullptr, &counts});
    return counts.total();
  }
  Recording recorded() const { return record(program, locate_arrays(program, bytes), {}, kLanes); }
  void check(int threads = 1) {
    CountCheck check;
    check.compare(program, executed(threads), bytes, {}, kLanes);
  }

  Program program;
  std::vector<int64_t> bytes;
  std::vector<Bytes> memory;
};

void set_indices(Bytes& array, const std::vector<int32_t>& indices) {
  std::memcpy(array.data(), indices.data(), std::min(array.size(), indices.size() * 4));
}

Subscript direct(std::vector<Term> expression) { return {false, {std::move(expression)}, {}}; }
Subscript by_index(const View& index, std::vector<Term> expression) {
  Subscript subscript{true, {std::move(expression)}, {}};
  subscript.index = index;
  return subscript;
}
Term variable(int64_t number) { return {TermKind::kVariable, number}; }

TEST("executed transfers count the sticks and runs of the addresses they access") {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t bound) { return static_cast<int64_t>(random() % bound); };
    const int64_t cores = 1 + below(3), trips = 1 + below(4);
    const int64_t of_core = 32 * below(8), of_trip = below(2) == 0 ? 64 : below(70);
    const int64_t rows = 1 + below(5), columns = 1 + below(90), stride = below(300);
    const int64_t size = 2 * (200 + below(2000));
    ProgramBuilder builder({cores, 1, 1});
    const View view = builder.view(builder.array(), builder.constants({stride, 1}));
    const Register zero = builder.constant(0);
    const Register first = builder.product(kCoreRegister, builder.constant(of_core));
    size_t at = 0;
    builder.loop(zero, builder.constant(trips), builder.constant(1), [&](Register trip) {
      const Register moved = builder.product(trip, builder.constant(of_trip));
      at = builder.transfer(false, view, {zero, builder.sum(first, moved)}, {rows, columns});
    });
    int64_t total_sticks = 0, distinct = 0, runs = 0;
    std::set<int64_t> unique;
    for (int64_t trip = 0; trip < trips; ++trip) {
      std::set<int64_t> of_all_cores;
      for (int64_t core = 0; core < cores; ++core) {
        std::set<int64_t> bytes, sticks;
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t column = 0; column < columns; ++column) {
            const int64_t element = core * of_core + trip * of_trip + row * stride + column;
            for (const int64_t byte : {2 * element, 2 * element + 1}) {
              if (byte < size) bytes.insert(byte);
            }
          }
        }
        for (const int64_t byte : bytes) {
          runs += !bytes.contains(byte - 1);
          sticks.insert(byte / 128);
        }
        total_sticks += std::ssize(sticks);
        of_all_cores.insert(sticks.begin(), sticks.end());
      }
      distinct += std::ssize(of_all_cores);
      unique.merge(of_all_cores);
    }
    Launched launched(builder.program, {size});
    const InstructionCounts counts = launched.executed()[at];
    CHECK_EQUAL(counts.executions.total, cores * trips);
    CHECK_EQUAL(counts.device_bytes.total, 128 * total_sticks);
    CHECK_EQUAL(counts.distinct_device_bytes, 128 * distinct);
    CHECK_EQUAL(counts.unique_device_bytes, 128 * std::ssize(unique));
    CHECK_EQUAL(counts.device_runs.total, runs);
    launched.check();
  }
}

// A random loop nest with all kinds of transfers. Array 0 has data, array 1 indices below 20.
Program random_program(uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](uint32_t bound) { return static_cast<int64_t>(random() % bound); };
  ProgramBuilder builder({1 + below(4), 1, 1});
  const Register data = builder.array(), indices = builder.array(kI32);
  const Register zero = builder.constant(0), one = builder.constant(1);
  // Mostly whole sticks, sometimes not.
  const auto distance = [&] { return builder.constant(below(3) == 0 ? below(40) : 64 * below(3)); };
  const Register of_core = builder.product(kCoreRegister, distance());
  const auto transfer = [&](Register moved) {
    const std::vector<Register> strides = builder.constants({below(2) == 0 ? 64 : below(90), 1});
    View view = builder.view(data, strides);
    builder.transfer(below(4) == 0, view, {builder.constant(below(3)), moved},
                     {1 + below(6), 1 + below(100)});
    auto& added = std::get<Transfer>(builder.program.code.back().action);
    if (below(4) != 0) return;
    if (below(2) == 0) {  // a list of points
      const int64_t count = 1 + below(8);
      for (int64_t i = 0; i < 2 * count; ++i) added.points.push_back(below(6));
      added.extents = builder.constants({count});
      added.tile = builder.tile(count, {1});
      return;
    }
    // Two partitions: rows before and after the third.
    added.anchor[1] = zero;
    View there = view;
    added.views[0].lower = there.lower = builder.constants({0, 0});
    added.views[0].extents = builder.constants({3, 200});
    there.lower[0] = builder.constant(3);
    there.extents = builder.constants({20, 200});
    if (below(2) == 0) {
      there.space = Space::kScratchpad;
      there.base = zero;
      there.strides = builder.constants({64, 1});
      if (below(2) == 0) there.core = zero;
    }
    added.views.push_back(there);
    added.extents[1] = builder.constant(1 + below(60));
    added.store = false;
  };
  const auto gather = [&](Register moved) {
    const int64_t rows = 1 + below(4), columns = 1 + below(70);
    IndirectTransfer transfer;
    transfer.store = below(4) == 0;
    transfer.view = builder.view(data, builder.constants({below(2) == 0 ? 64 : below(100), 1}));
    if (below(2) == 0) transfer.view.extents = builder.constants({20, 1000});
    transfer.variables = builder.constants({rows, columns});
    transfer.tile = builder.tile(rows * columns, {columns, 1});
    const View index = builder.view(indices, builder.constants({1}), kI32);
    const Term offset{TermKind::kRegister, moved};
    switch (below(4)) {
      case 0:
        transfer.subscripts = {by_index(index, {variable(0)}),
                               direct({variable(1), offset, {TermKind::kAdd, 0}})};
        break;
      case 1:  // not linear
        transfer.subscripts = {direct({variable(0)}), direct({variable(1),
                                                              {TermKind::kConstant, 3},
                                                              {TermKind::kFloorDivide, 0},
                                                              {TermKind::kConstant, 7},
                                                              {TermKind::kMultiply, 0},
                                                              offset,
                                                              {TermKind::kAdd, 0}})};
        break;
      case 2:
        transfer.subscripts = {
            by_index(index, {variable(0), offset, {TermKind::kAdd, 0}}),
            by_index(index, {variable(1), {TermKind::kConstant, 9}, {TermKind::kModulo, 0}})};
        break;
      default: {
        const int64_t count = 1 + below(12);
        transfer.variables = builder.constants({count});
        transfer.tile = builder.tile(count, {1});
        for (int64_t i = 0; i < 2 * count; ++i) transfer.points.push_back(below(10));
        transfer.subscripts = {by_index(index, {variable(0)}), direct({variable(1)})};
        if (below(2) == 0) transfer.subscripts[0] = direct({variable(0)});
      }
    }
    builder.add(transfer);
  };
  const auto anything = [&](Register moved) {
    if (below(2) == 0) {
      transfer(moved);
    } else {
      gather(moved);
    }
  };
  const Register upper = below(2) == 0 ? builder.constant(below(5))
                                       : builder.sum(kCoreRegister, builder.constant(below(3)));
  builder.loop(zero, upper, builder.constant(1 + below(2)), [&](Register i) {
    const Register outer = builder.sum(of_core, builder.product(i, distance()));
    anything(outer);
    builder.loop(zero, below(3) == 0 ? i : builder.constant(below(5)), one, [&](Register j) {
      Register inner = builder.product(j, distance());
      if (below(5) == 0) inner = builder.compute(VectorOp::REMUI, {j, builder.constant(3)});
      anything(builder.sum(outer, inner));
    });
  });
  anything(of_core);
  return builder.program;
}

TEST("recorded counts of random programs are those of their execution") {
  int exact = 0, bounds = 0;
  for (uint32_t seed = 0; seed < 600; ++seed) {
    std::mt19937 random(seed);
    Launched launched(random_program(seed), {2 * (500 + static_cast<int64_t>(random() % 6000)),
                                             static_cast<int64_t>(4 * (10 + random() % 100))});
    std::vector<int32_t> indices(200);
    for (int32_t& index : indices) index = static_cast<int32_t>(random() % 20);
    set_indices(launched.memory[1], indices);
    try {
      launched.check(1);
      for (const InstructionCounts& counts : launched.recorded().instructions) {
        if (counts.device_bytes.total == 0) continue;
        exact += counts.exactness == Exactness::kExact;
        bounds += counts.exactness == Exactness::kUpperBound;
      }
    } catch (const KernelError& error) {
      const std::string message = error.what();
      // Some programs access memory before their arrays, or have indices out of bounds.
      if (message.find("SPYRE_EMU_CHECK_COUNTS") == std::string::npos) continue;
      throw check::Failure("seed " + std::to_string(seed) + ": " + message);
    }
  }
  CHECK(exact > 600 && bounds > 100);
}

TEST("the counts of a loop that several threads execute are those of one thread") {
  ProgramBuilder builder({1, 1, 1});
  const Register from = builder.array(), to = builder.array();
  const std::vector<Register> strides = builder.constants({50, 1});
  const Register zero = builder.constant(0);
  builder.transfer(false, builder.view(from, strides), {zero, zero}, {2, 50});
  builder.loop(zero, builder.constant(37), builder.constant(1), [&](Register row) {
    builder.transfer(false, builder.view(from, strides), {row, zero}, {1, 50});
    const Operand tile = std::get<Transfer>(builder.program.code.back().action).tile;
    builder.transfer(true, builder.view(to, strides), {row, zero}, {1, 50});
    std::get<Transfer>(builder.program.code.back().action).tile = tile;
  });
  find_parallel_loop(builder.program);
  CHECK(builder.program.parallel_loop != kNoLoop);
  Launched launched(builder.program, {2 * 50 * 37, 2 * 50 * 37});
  for (const int threads : {1, 2, 5}) launched.check(threads);
}

TEST("a transfer whose address depends on data has at most the recorded sticks") {
  ProgramBuilder builder({1, 1, 1});
  const View view = builder.view(builder.array(), builder.constants({1}));
  const View places =
      builder.view(builder.array(ElementType::I64), builder.constants({1}), ElementType::I64);
  const Register zero = builder.constant(0);
  const size_t load = builder.transfer(false, places, {zero}, {1});
  Extract extract;
  extract.destination = builder.fresh();
  extract.source = std::get<Transfer>(builder.program.code[load].action).tile;
  extract.indices = {zero};
  extract.extents = builder.constants({1});
  builder.add(extract);
  const size_t at = builder.transfer(false, view, {extract.destination}, {64});
  for (const int64_t place : {0, 1, 33, 64, 500}) {
    Launched launched(builder.program, {2000, 8});
    std::memcpy(launched.memory[1].data(), &place, sizeof place);
    const InstructionCounts recorded = launched.recorded().instructions[at];
    CHECK(recorded.exactness == Exactness::kUpperBound);
    CHECK_EQUAL(recorded.device_bytes.total, 256);
    launched.check();
  }
}

TEST("only instructions whose number of executions depends on data are not compared") {
  ProgramBuilder builder({1, 1, 1});
  const View places =
      builder.view(builder.array(ElementType::I64), builder.constants({1}), ElementType::I64);
  const Register zero = builder.constant(0);
  const size_t load = builder.transfer(false, places, {zero}, {1});
  Extract extract;
  extract.destination = builder.fresh();
  extract.source = std::get<Transfer>(builder.program.code[load].action).tile;
  extract.indices = {zero};
  extract.extents = builder.constants({1});
  builder.add(extract);
  size_t inside = 0;
  builder.loop(zero, extract.destination, builder.constant(1),
               [&](Register) { inside = builder.transfer(false, places, {zero}, {1}); });
  const size_t after = builder.transfer(false, places, {zero}, {1});
  Launched launched(builder.program, {8});
  const int64_t trips = 5;
  std::memcpy(launched.memory[0].data(), &trips, sizeof trips);
  CHECK_EQUAL(launched.executed()[inside].executions.total, 5);
  const Recording recording = launched.recorded();
  CHECK(recording.is_data_dependent && !recording.is_approximate);
  CHECK(recording.instructions[inside].exactness == Exactness::kEstimate);
  CHECK(recording.instructions[load].exactness == Exactness::kExact);
  CHECK(recording.instructions[after].exactness == Exactness::kExact);
  launched.check();
}

TEST("a difference names the kernel, the instruction, the counter and both numbers") {
  ProgramBuilder builder({1, 1, 1});
  const View view = builder.view(builder.array(), builder.constants({1}));
  builder.transfer(false, view, {builder.constant(0)}, {64});
  builder.program.name = "copy_rows";
  Launched launched(builder.program, {256});
  std::vector<InstructionCounts> counts = launched.executed();
  CHECK_EQUAL(counts[0].device_bytes.total, 128);
  counts[0].device_bytes.total = 384;
  try {
    CountCheck().compare(launched.program, counts, launched.bytes, {}, kLanes);
  } catch (const KernelError& error) {
    CHECK(std::string(error.what()) ==
          "kernel copy_rows, instruction 0 (test.op at 3:7): executed 384 device_bytes, but the "
          "recorder counts 128 (SPYRE_EMU_CHECK_COUNTS)");
    return;
  }
  CHECK(false);
}

}  // namespace
}  // namespace spyre::emulator::engine
