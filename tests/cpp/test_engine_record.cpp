// The recorder: counts of small programs, compared with full enumeration.
#include <algorithm>
#include <random>
#include <set>

#include "check.h"
#include "emulator/engine/conflicts.h"
#include "emulator/engine/core.h"
#include "emulator/engine/record.h"
#include "emulator/engine/recorder.h"
#include "program_builder.h"

namespace spyre::emulator::engine {
namespace {

constexpr ElementType kF16 = ElementType::F16;

// The vector unit of the default card.
constexpr VectorLanes kLanes{64, 32};

Recording recorded(const Program& program, std::vector<int64_t> bytes) {
  return record(program, locate_arrays(program, bytes), {}, kLanes);
}

// Visits every iteration of every loop.
Recording recorded_in_full(const Program& program, std::vector<int64_t> bytes) {
  const std::vector<ArrayLocation> locations = locate_arrays(program, bytes);
  const std::vector<LoopFacts> loops(program.code.size());
  return Recorder(program, locations, {}, kLanes, loops).record();
}

Chain elementwise(ProgramBuilder& builder, std::initializer_list<int64_t> extents,
                  const std::vector<Operand>& inputs, const Operand& output, VectorOp op) {
  Chain chain;
  chain.extents = builder.constants(extents);
  ChainStep step{-1, op, kF16, kF16, {}};
  for (const Operand& operand : inputs) {
    Input input;
    input.operand = operand;
    step.inputs.push_back(static_cast<int32_t>(chain.inputs.size()));
    chain.inputs.push_back(input);
  }
  chain.steps = {step};
  chain.outputs = {{static_cast<int32_t>(inputs.size()), output}};
  return chain;
}

// 32 cores add matrices of 4096 x 4096, each in 8 iterations of 16 rows.
struct Add {
  Add() {
    const Register x = builder.array(), y = builder.array(), out = builder.array();
    const std::vector<Register> strides = builder.constants({4096, 1});
    const Register zero = builder.constant(0);
    const Register rows = builder.constant(128);
    const Register first = builder.product(kCoreRegister, rows);
    builder.loop(zero, rows, builder.constant(16), [&](Register row) {
      const Register at = builder.sum(first, row);
      read_x = builder.transfer(false, builder.view(x, strides), {at, zero}, {16, 4096});
      read_y = builder.transfer(false, builder.view(y, strides), {at, zero}, {16, 4096});
      const auto tile = [&](size_t i) {
        return std::get<Transfer>(builder.program.code[i].action).tile;
      };
      const Operand sum = builder.tile(16 * 4096, {4096, 1});
      chain = builder.add(
          elementwise(builder, {16, 4096}, {tile(read_x), tile(read_y)}, sum, VectorOp::ADDF));
      write = builder.transfer(true, builder.view(out, strides), {at, zero}, {16, 4096});
    });
  }
  ProgramBuilder builder{{32, 1, 1}};
  size_t read_x, read_y, chain, write;
};

constexpr int64_t kMatrix = 4096 * 4096 * 2;

TEST("the counts of the cores add up to those of the recording") {
  const Add add;
  const Program& program = add.builder.program;
  const std::vector<int64_t> bytes{kMatrix, kMatrix, kMatrix};
  std::vector<InstructionCounts> totals(program.code.size());
  int64_t num_cores = 0;
  const Recording recording = record(program, locate_arrays(program, bytes), {}, kLanes,
                                     [&](int64_t core, std::span<const CoreCounts> counts) {
                                       CHECK(core == num_cores++ && counts.size() == totals.size());
                                       for (size_t i = 0; i < counts.size(); ++i) {
                                         if (counts[i].executions > 0)
                                           add_core(totals[i], counts[i]);
                                       }
                                     });
  CHECK(num_cores == 32);
  for (size_t i = 0; i < totals.size(); ++i) {
    CHECK(totals[i].cores == recording.instructions[i].cores);
    for (const Counter& counter : kCounters) {
      const Count &sum = totals[i].*counter.of_all,
                  &expected = recording.instructions[i].*counter.of_all;
      CHECK(sum.total == expected.total && sum.busiest == expected.busiest);
    }
  }
}

TEST("an elementwise kernel transfers each stick once, in long runs, without conflicts") {
  const Add add;
  const Recording recording = recorded(add.builder.program, {kMatrix, kMatrix, kMatrix});
  CHECK(!recording.has_conflict && !recording.is_data_dependent);
  for (const size_t at : {add.read_x, add.read_y, add.write}) {
    const InstructionCounts& counts = recording.instructions[at];
    CHECK_EQUAL(counts.cores, 32);
    CHECK_EQUAL(counts.executions.total, 32 * 8);
    CHECK_EQUAL(counts.executions.busiest, 8);
    CHECK_EQUAL(counts.device_bytes.total, kMatrix);
    CHECK_EQUAL(counts.device_bytes.busiest, kMatrix / 32);
    CHECK_EQUAL(counts.distinct_device_bytes, kMatrix);
    CHECK_EQUAL(counts.device_runs.total, 32 * 8);
    CHECK_EQUAL(counts.scratchpad_bytes.total, kMatrix);
  }
  const InstructionCounts& counts = recording.instructions[add.chain];
  CHECK_EQUAL(counts.elements.total, kMatrix / 2);
  CHECK_EQUAL(counts.lanes.busiest, kMatrix / 2 / 32);
  CHECK_EQUAL(counts.scratchpad_bytes.total, 3 * kMatrix);
  CHECK_EQUAL(counts.device_bytes.total, 0);
}

TEST("aliasing arrays conflict only if two cores access the same rows") {
  const Add add;
  std::vector<ArrayLocation> locations =
      locate_arrays(add.builder.program, std::vector(3, kMatrix));
  locations[2] = locations[0];  // in-place: every core writes elements that only it reads
  CHECK(!record(add.builder.program, locations, {}, kLanes).has_conflict);
  locations[2].address =
      locations[0].address + 4096 * 2;  // shifted by a row: rows of the next core
  CHECK(record(add.builder.program, locations, {}, kLanes).has_conflict);
}

TEST("accesses beyond the end of an array cost nothing") {
  const Add add;
  // The last core has 100 rows of x, and 28 fewer.
  const Recording recording =
      recorded(add.builder.program, {kMatrix - 28 * 8192, kMatrix, kMatrix});
  CHECK_EQUAL(recording.instructions[add.read_x].device_bytes.total, kMatrix - 28 * 8192);
  CHECK_EQUAL(recording.instructions[add.read_y].device_bytes.total, kMatrix);
  CHECK_EQUAL(
      recorded(add.builder.program, {0, -1, -1}).instructions[add.read_x].device_bytes.total, 0);
}

TEST("tiles that several cores read in the same iteration count once") {
  // A matmul on 4 x 8 cores: each row of cores reads the same rows of a, each column the same
  // columns of b.
  ProgramBuilder builder({4, 8, 1});
  const Register a = builder.array(), b = builder.array(), out = builder.array();
  const std::vector<Register> strides = builder.constants({1024, 1});
  const Register zero = builder.constant(0);
  const Register row = builder.product(kCoreX, builder.constant(256));
  const Register column = builder.product(kCoreY, builder.constant(128));
  const size_t read_a = builder.transfer(false, builder.view(a, strides), {row, zero}, {256, 1024});
  const size_t read_b =
      builder.transfer(false, builder.view(b, strides), {zero, column}, {1024, 128});
  Matmul matmul{};
  matmul.batch = builder.constant(1);
  matmul.rows = builder.constant(256);
  matmul.columns = builder.constant(128);
  matmul.inner = builder.constant(1024);
  matmul.a = builder.tile(256 * 1024, {0, 1024, 1});
  matmul.b = builder.tile(128 * 1024, {0, 128, 1});
  matmul.output = builder.tile(128 * 256, {0, 128, 1});
  const size_t multiply = builder.add(matmul);
  const size_t write =
      builder.transfer(true, builder.view(out, strides), {row, column}, {256, 128});
  const int64_t matrix = 1024 * 1024 * 2;
  const Recording recording = recorded(builder.program, {matrix, matrix, matrix});
  CHECK_EQUAL(recording.instructions[read_a].device_bytes.total, 8 * matrix);
  CHECK_EQUAL(recording.instructions[read_a].distinct_device_bytes, matrix);
  CHECK_EQUAL(recording.instructions[read_b].device_bytes.total, 4 * matrix);
  CHECK_EQUAL(recording.instructions[read_b].distinct_device_bytes, matrix);
  CHECK_EQUAL(recording.instructions[read_b].device_runs.total, 32 * 1024);
  CHECK_EQUAL(recording.instructions[write].distinct_device_bytes, matrix);
  const InstructionCounts& counts = recording.instructions[multiply];
  CHECK_EQUAL(counts.macs.total, int64_t{1} << 30);
  CHECK_EQUAL(counts.macs.busiest, int64_t{1} << 25);
  CHECK_EQUAL(counts.largest_matmul.rows, 256);
  CHECK_EQUAL(counts.largest_matmul.columns, 128);
  CHECK_EQUAL(counts.scratchpad_bytes.busiest, 2 * (256 * 1024 + 1024 * 128 + 256 * 128));
  CHECK(!recording.has_conflict);
}

TEST("cores that write the same memory conflict, and so do a reader and a writer") {
  for (const bool all_write : {true, false}) {
    ProgramBuilder builder({2, 1, 1});
    const View view = builder.view(builder.array(), builder.constants({1}));
    const Register zero = builder.constant(0);
    const Register condition = builder.compute(VectorOp::CMPI_EQ, {kCoreRegister, zero},
                                               ElementType::I64, ElementType::I1);
    builder.branch(
        condition, [&] { builder.transfer(true, view, {zero}, {64}); },
        [&] { builder.transfer(all_write, view, {builder.constant(63)}, {64}); });
    CHECK(recorded(builder.program, {4096}).has_conflict);
  }
}

TEST("a data-dependent branch counts both arms, a data-dependent loop one iteration") {
  ProgramBuilder builder({1, 1, 1});
  const View view = builder.view(builder.array(), builder.constants({1}));
  const Register zero = builder.constant(0), one = builder.constant(1);
  Extract extract;
  extract.destination = builder.fresh();
  extract.source = builder.tile(1, {}, ElementType::I64);
  builder.add(extract);
  const Register condition = builder.compute(VectorOp::CMPI_EQ, {extract.destination, zero},
                                             ElementType::I64, ElementType::I1);
  const Register result = builder.fresh();
  size_t then = 0, otherwise = 0, in_loop = 0, after = 0;
  builder.branch(
      condition,
      [&] {
        then = builder.transfer(false, view, {zero}, {64});
        builder.add(Move{result, one});
      },
      [&] {
        otherwise = builder.transfer(false, view, {zero}, {128});
        builder.add(Move{result, zero});
      });
  builder.loop(zero, extract.destination, one,
               [&](Register) { in_loop = builder.transfer(false, view, {zero}, {64}); });
  // The results of the arms are not known either.
  builder.loop(zero, result, one,
               [&](Register) { after = builder.transfer(false, view, {zero}, {64}); });
  const Recording recording = recorded(builder.program, {4096});
  CHECK(recording.is_data_dependent);
  for (const size_t at : {then, otherwise, in_loop, after}) {
    CHECK_EQUAL(recording.instructions[at].executions.total, 1);
  }
  CHECK_EQUAL(recording.instructions[otherwise].device_bytes.total, 256);
}

TEST("long uniform loops are counted without visiting every iteration") {
  ProgramBuilder builder({2, 1, 1});
  const View view = builder.view(builder.array(), builder.constants({1}));
  const Register zero = builder.constant(0);
  size_t at = 0;
  builder.loop(zero, builder.constant(1 << 20), builder.constant(1), [&](Register i) {
    builder.loop(zero, builder.constant(1 << 20), builder.constant(1), [&](Register j) {
      // 2^40 iterations, each advances by 64 elements.
      const Register row = builder.sum(builder.product(i, builder.constant(1 << 20)), j);
      at = builder.transfer(false, view, {builder.product(row, builder.constant(64))}, {64});
    });
  });
  const Recording recording = recorded(builder.program, {-1});
  CHECK_EQUAL(recording.instructions[at].executions.busiest, int64_t{1} << 40);
  CHECK_EQUAL(recording.instructions[at].device_bytes.total, int64_t{256} << 40);
  // Both cores read the same sticks.
  CHECK_EQUAL(recording.instructions[at].distinct_device_bytes, int64_t{128} << 40);
  CHECK_EQUAL(recording.instructions[at].unique_device_bytes, int64_t{128} << 40);
  CHECK(!recording.is_approximate);
}

TEST("a loop too long to visit is approximated by its first iterations") {
  ProgramBuilder builder({1, 1, 1});
  const View view = builder.view(builder.array(), builder.constants({1}));
  size_t at = 0;
  builder.loop(builder.constant(0), builder.constant(int64_t{1} << 40), builder.constant(1),
               [&](Register i) { at = builder.transfer(false, view, {i}, {64}); });
  const Recording recording = recorded(builder.program, {-1});
  CHECK_EQUAL(recording.instructions[at].executions.total, int64_t{1} << 40);
  CHECK(recording.is_approximate && !recording.is_data_dependent);
  CHECK(recording.instructions[at].exactness == Exactness::kEstimate);
}

TEST("programs that cannot be executed are rejected") {
  const auto with_loop = [](int64_t step) {
    ProgramBuilder builder({1, 1, 1});
    builder.loop(builder.constant(0), builder.constant(4), builder.constant(step), [](Register) {});
    return builder.program;
  };
  recorded(with_loop(1), {});
  CHECK_THROWS(KernelError, recorded(with_loop(0), {}));
  CHECK_THROWS(KernelError, recorded(with_loop(-1), {}));
  CHECK_THROWS(KernelError, recorded(with_loop(1), {5}));
}

TEST("a gather counts its indices and a row of memory for each index") {
  ProgramBuilder builder({2, 1, 1});
  const Register table = builder.array(), indices = builder.array(ElementType::I32);
  IndirectTransfer transfer;
  transfer.variables = builder.constants({100, 64});
  transfer.view = builder.view(table, builder.constants({64, 1}));
  transfer.tile = builder.tile(100 * 64, {64, 1});
  Subscript by_index{true, {{{TermKind::kVariable, 0}}}, {}};
  by_index.index = builder.view(indices, builder.constants({1}), ElementType::I32);
  transfer.subscripts = {by_index, {false, {{{TermKind::kVariable, 1}}}, {}}};
  const size_t at = builder.add(transfer);
  const Recording recording = recorded(builder.program, {64 * 2 * 1000, 400});
  const InstructionCounts& counts = recording.instructions[at];
  CHECK_EQUAL(counts.device_bytes.busiest, 100 * 128);
  CHECK_EQUAL(counts.device_runs.total, 2 * 100);
  CHECK_EQUAL(counts.index_bytes.busiest, 512);
  CHECK_EQUAL(counts.index_runs.total, 2);
  CHECK(!recording.has_conflict);
  std::get<IndirectTransfer>(builder.program.code[at].action).store = true;
  CHECK(recorded(builder.program, {64 * 2 * 1000, 400}).has_conflict);
}

TEST("each partition of a view counts the part of the tile that it holds") {
  // Rows 0 to 9 are in device memory, 10 to 19 in the scratchpad of core 1.
  ProgramBuilder builder({2, 1, 1});
  View there = builder.view(builder.array(), builder.constants({64, 1}));
  there.lower = builder.constants({0, 0});
  there.extents = builder.constants({10, 64});
  View here = builder.view(builder.constant(0), builder.constants({64, 1}));
  here.space = Space::kScratchpad;
  here.core = builder.constant(1);
  here.lower = builder.constants({10, 0});
  here.extents = builder.constants({10, 64});
  const size_t at =
      builder.transfer(false, there, {builder.constant(4), builder.constant(0)}, {12, 64});
  std::get<Transfer>(builder.program.code[at].action).views.push_back(here);
  const Recording recording = recorded(builder.program, {1280});
  const InstructionCounts& counts = recording.instructions[at];
  CHECK_EQUAL(counts.device_bytes.busiest, 6 * 128);
  CHECK_EQUAL(counts.remote_bytes.total,
              6 * 128);  // only those of core 0: the scratchpad belongs to core 1
  CHECK_EQUAL(counts.scratchpad_bytes.busiest, (12 + 6) * 128);
}

TEST("reductions over the innermost dimension count the sticks of their results") {
  ProgramBuilder builder({1, 1, 1});
  Reduce reduce;
  reduce.extents = builder.constants({130, 70});
  Input input;
  input.operand = builder.tile(130 * 70, {70, 1});
  reduce.inputs = {input};
  reduce.values = {0};
  reduce.combine = VectorOp::ADDF;
  reduce.reduced = {1};
  reduce.initial = {builder.tile(130, {1, 0})};
  reduce.outputs = {builder.tile(130, {1, 0})};
  const size_t rows = builder.add(reduce);
  reduce.reduced = {0};
  reduce.initial = reduce.outputs = {builder.tile(70, {0, 1})};
  const size_t columns = builder.add(reduce);
  const Recording recording = recorded(builder.program, {});
  CHECK_EQUAL(recording.instructions[rows].reduced_sticks.total, 3);
  CHECK_EQUAL(recording.instructions[columns].reduced_sticks.total, 0);
  CHECK_EQUAL(recording.instructions[rows].elements.total, 9100);
  CHECK_EQUAL(recording.instructions[rows].lanes.total, 9152);
  CHECK_EQUAL(recording.instructions[rows].scratchpad_bytes.total, 2 * (9100 + 130 + 130));
}

// --- Comparison with enumeration

struct RandomBox {
  explicit RandomBox(std::mt19937& random, int64_t furthest) {
    start = static_cast<int64_t>(random() % 4000);
    element = int64_t{1} << random() % 4;
    for (uint32_t i = random() % 4; i > 0; --i) {
      const int64_t extent = 1 + static_cast<int64_t>(random() % 6);
      int64_t stride = static_cast<int64_t>(random() % furthest) - furthest / 4;
      if (random() % 2 == 0) stride = stride / 128 * 128;
      dimensions.emplace_back(extent, stride);
    }
  }
  DeviceBox box() const {
    DeviceBox box(start, element);
    for (const auto& [extent, stride] : dimensions) box.add(extent, stride);
    box.normalise();
    return box;
  }
  std::set<int64_t> bytes() const {
    std::set<int64_t> firsts{start};
    for (const auto& [extent, stride] : dimensions) {
      std::set<int64_t> more;
      for (const int64_t first : firsts) {
        for (int64_t i = 0; i < extent; ++i) more.insert(first + i * stride);
      }
      firsts = more;
    }
    std::set<int64_t> bytes;
    for (const int64_t first : firsts) {
      for (int64_t i = 0; i < element; ++i) bytes.insert(first + i);
    }
    return bytes;
  }
  int64_t start, element;
  std::vector<std::pair<int64_t, int64_t>> dimensions;
};

TEST("a box counts the sticks and maximal runs of its bytes within the limits") {
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    const RandomBox box(random, 600);
    ByteRange limits{-100000, 100000};
    if (i % 3 == 0) limits = {1000, 1000 + static_cast<int64_t>(random() % 3000)};
    std::set<int64_t> sticks;
    int64_t runs = 0, previous = limits.begin - 2;
    for (const int64_t byte : box.bytes()) {
      if (byte < limits.begin || byte >= limits.end) continue;
      sticks.insert(byte >> 7);
      runs += byte != previous + 1;
      previous = byte;
    }
    const BoxCost cost = box.box().cost(limits);
    CHECK(cost.is_exact);
    CHECK_EQUAL(cost.sticks, std::ssize(sticks));
    CHECK_EQUAL(cost.runs, runs);
  }
}

TEST("cores conflict if they access the same byte and one writes it") {
  std::mt19937 random(2);
  int conflicts = 0;
  for (int i = 0; i < 2000; ++i) {
    AccessedMemory memory;
    std::vector<std::set<int64_t>> read(3), written(3);
    for (int64_t core = 0; core < 3; ++core) {
      memory.begin_core(core);
      for (uint32_t n = random() % 3; n > 0; --n) {
        const RandomBox box(random, 900);
        const bool is_write = random() % 3 == 0;
        memory.add(box.box(), is_write);
        auto& bytes = (is_write ? written : read)[static_cast<size_t>(core)];
        bytes.merge(box.bytes());
      }
    }
    bool expected = false;
    for (size_t a = 0; a < 3; ++a) {
      for (size_t b = 0; b < 3; ++b) {
        for (const int64_t byte : written[a]) {
          expected |= a != b && (written[b].contains(byte) || read[b].contains(byte));
        }
      }
    }
    conflicts += expected;
    CHECK(memory.has_conflict() == expected);
  }
  CHECK(conflicts > 100 && conflicts < 1900);
}

void check_same(const Recording& actual, const Recording& expected) {
  CHECK(actual.has_conflict == expected.has_conflict);
  for (size_t i = 0; i < actual.instructions.size(); ++i) {
    const InstructionCounts &a = actual.instructions[i], &b = expected.instructions[i];
    CHECK_EQUAL(a.executions.total, b.executions.total);
    CHECK_EQUAL(a.device_bytes.total, b.device_bytes.total);
    CHECK_EQUAL(a.device_bytes.busiest, b.device_bytes.busiest);
    CHECK_EQUAL(a.distinct_device_bytes, b.distinct_device_bytes);
    CHECK_EQUAL(a.unique_device_bytes, b.unique_device_bytes);
    CHECK_EQUAL(a.device_runs.total, b.device_runs.total);
    CHECK_EQUAL(a.scratchpad_bytes.total, b.scratchpad_bytes.total);
  }
}

TEST("counting one iteration of uniform loops equals counting every iteration") {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t bound) { return static_cast<int64_t>(random() % bound); };
    ProgramBuilder builder({1 + below(3), 1, 1});
    const Register x = builder.array(), out = builder.array();
    const Register zero = builder.constant(0);
    // Mostly whole sticks, sometimes not.
    const auto factor = [&] {
      return builder.constant(below(3) == 0 ? below(100) : 64 * below(5));
    };
    const Register of_core = builder.product(kCoreRegister, factor());
    const Register carried = builder.fresh();
    builder.add(Move{carried, zero});
    builder.loop(zero, builder.constant(below(5)), builder.constant(1 + below(2)), [&](Register i) {
      const Register outer = builder.sum(of_core, builder.product(i, factor()));
      builder.transfer(below(3) == 0, builder.view(x, builder.constants({1})), {outer}, {64});
      const Register upper = below(4) == 0 ? i : builder.constant(below(6));
      builder.loop(zero, upper, builder.constant(1), [&](Register j) {
        Register inner = builder.product(j, below(4) == 0 ? i : factor());
        if (below(5) == 0) inner = builder.compute(VectorOp::REMUI, {j, builder.constant(3)});
        const std::vector<Register> anchor{builder.sum(outer, inner), j};
        const auto strides = builder.constants({1, 64 * below(4)});
        builder.transfer(below(2) == 0, builder.view(below(2) == 0 ? x : out, strides), anchor,
                         {1 + below(80), 1 + below(3)});
      });
      if (below(3) == 0) {
        const Register next = builder.sum(carried, builder.constant(64));
        builder.transfer(false, builder.view(x, builder.constants({1})), {carried}, {32});
        builder.add(Move{carried, next});
      }
    });
    builder.transfer(false, builder.view(x, builder.constants({1})), {carried}, {32});
    const std::vector<int64_t> bytes{1000 + below(3000), below(2) == 0 ? -1 : below(5000)};
    try {
      check_same(recorded(builder.program, bytes), recorded_in_full(builder.program, bytes));
    } catch (const check::Failure& failure) {
      throw check::Failure("seed " + std::to_string(seed) + ": " + failure.what());
    }
  }
}

}  // namespace
}  // namespace spyre::emulator::engine
