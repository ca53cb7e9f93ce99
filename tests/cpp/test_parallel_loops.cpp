// Parallel loops: which loops qualify, and that the results are those of sequential execution.
#include <cstring>
#include <string>

#include "check.h"
#include "emulator/engine/parallel_loops.h"
#include "emulator/engine/scheduler.h"
#include "emulator/engine/scratchpad_use.h"
#include "engine_fixture.h"
#include "program_builder.h"

using namespace spyre;
using namespace spyre::emulator::engine;

namespace {

constexpr int64_t kColumns = 8, kRows = 4;

// Squares rows of `a` into `b`, four at a time.
struct RowProgram {
  ProgramBuilder build{{1, 1, 1}};
  Register a = build.array(), b = build.array();
  Register zero = build.constant(0);
  std::vector<Register> strides = build.constants({kColumns, 1});

  Operand load(Register row) {
    return tile_of(build.transfer(false, build.view(a, strides), {row, zero}, {kRows, kColumns}));
  }
  void store(const Operand& tile, Register row) {
    const size_t at = build.transfer(true, build.view(b, strides), {row, zero}, {kRows, kColumns});
    std::get<Transfer>(build.program.code[at].action).tile = tile;
  }
  void square(const Operand& from, const Operand& to) {
    Chain chain;
    chain.extents = build.constants({kRows, kColumns});
    chain.inputs.push_back({InputKind::kOperand, from});
    chain.steps.push_back(
        {.op = VectorOp::MULF, .operand = from.type, .result = from.type, .inputs = {0, 0}});
    chain.outputs.push_back({1, to});
    build.add(chain);
  }
  template <typename Body>
  void loop(int64_t upper, int64_t step, Body body) {
    build.loop(zero, build.constant(upper), build.constant(step), body);
  }
  const Operand& tile_of(size_t at) const {
    return std::get<Transfer>(build.program.code[at].action).tile;
  }
  Program analysed() const {
    Program program = build.program;
    program.filled = read_before_written(program);
    find_parallel_loop(program);
    return program;
  }
};

RowProgram plain_rows(int64_t rows, int64_t step = kRows) {
  RowProgram test;
  test.loop(rows, step, [&](Register row) {
    const Operand tile = test.load(row);
    test.square(tile, tile);
    test.store(tile, row);
  });
  return test;
}

Bytes elements(int64_t count) {
  Bytes bytes(static_cast<size_t>(2 * count));
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const auto code = static_cast<uint16_t>(0x3C00 + i * 7 % 1024);
    std::memcpy(&bytes[2 * i], &code, sizeof(code));
  }
  return bytes;
}

// Returns the content of `b` after the run, or the error message.
std::string outcome(const Program& program, Bytes a, Bytes b, int threads, bool is_in_place) {
  const WithThreads with(threads);
  ScratchpadPool scratchpads(program.scratchpad_bytes, true);
  Bytes& second = is_in_place ? a : b;
  const std::vector<Buffer> buffers{buffer_of(a), buffer_of(second)};
  const Memory memory(program, buffers, {}, {});
  try {
    run_program(program, memory, {}, scratchpads, {});
  } catch (const KernelError& error) {
    return error.what();
  }
  return {reinterpret_cast<const char*>(second.data()), second.size()};
}

void check_same(const Program& program, int64_t rows_there, bool is_in_place = false) {
  const Bytes a = elements(rows_there * kColumns),
              b(static_cast<size_t>(rows_there * kColumns * 2));
  const std::string expected = outcome(program, a, b, 1, is_in_place);
  for (int repeat = 0; repeat < 5; ++repeat) {
    for (const int threads : {2, 3, 8}) {
      CHECK(outcome(program, a, b, threads, is_in_place) == expected);
    }
  }
}

bool is_allowed_in(const Program& program, bool is_in_place) {
  Bytes a = elements(1000), b(2000);
  const std::vector<Buffer> buffers{buffer_of(a), buffer_of(is_in_place ? a : b)};
  const Memory memory(program, buffers, {}, {});
  Core core;
  core.registers.assign(static_cast<size_t>(program.registers), 0);
  for (const auto& [target, bits] : program.constants) {
    core.registers[static_cast<size_t>(target)] = bits;
  }
  for (size_t i = 0; i < 2; ++i) {
    core.registers[static_cast<size_t>(program.arguments[i].destination)] =
        static_cast<uint64_t>(memory.array_addresses()[i] / 2);
  }
  return can_run_in_parallel(program, core, memory);
}

}  // namespace

TEST("a loop over rows runs in parallel, and the instructions after it are executed last") {
  RowProgram test = plain_rows(40);
  // Reads rows that the loop has written.
  const size_t again = test.build.transfer(false, test.build.view(test.b, test.strides),
                                           {test.build.constant(20), test.zero}, {kRows, kColumns});
  test.store(Operand(test.tile_of(again)), test.build.constant(40));
  const Program program = test.analysed();
  CHECK_EQUAL(program.parallel_loop, 0);
  CHECK(is_allowed_in(program, false));
  check_same(program, 44);
  check_same(program, 30);  // Rows beyond the end read zero and are not written.
}

TEST("loops with few or no iterations give the same results") {
  for (const int64_t rows : {0, 1, 4, 5, 8, 9, 12}) check_same(plain_rows(rows).analysed(), 16);
}

TEST("every iteration sees the results of the instructions before the loop") {
  RowProgram test;
  const Operand first_rows = test.load(test.zero);
  test.loop(40, kRows, [&](Register row) {
    const Operand tile = test.load(row);
    test.square(first_rows, tile);
    test.store(tile, row);
  });
  CHECK_EQUAL(test.analysed().parallel_loop, 1);
  check_same(test.analysed(), 40);
}

TEST("iterations that write the same rows do not run in parallel") {
  const Program program = plain_rows(40, kRows / 2).analysed();
  CHECK(!is_allowed_in(program, false));
  check_same(program, 44);
}

TEST("iterations that write rows that others read do not run in parallel") {
  const Program program = plain_rows(40).analysed();
  CHECK(!is_allowed_in(program, true));
  check_same(program, 44, true);
}

TEST("a loop that carries a register does not run in parallel") {
  RowProgram test;
  const Register next = test.build.fresh();
  test.loop(40, kRows, [&](Register row) {
    const Operand tile = test.load(next);
    test.build.add(Move{next, row});
    test.store(tile, row);
  });
  CHECK_EQUAL(test.analysed().parallel_loop, kNoLoop);
  check_same(test.analysed(), 40);
}

TEST("a loop that carries a tensor does not run in parallel") {
  RowProgram test;
  const Operand sums = test.build.tile(kRows * kColumns, {kColumns, 1});
  test.square(sums, sums);
  test.loop(40, kRows, [&](Register row) {
    test.store(sums, row);
    test.square(test.load(row), sums);
  });
  CHECK_EQUAL(test.analysed().parallel_loop, kNoLoop);
  check_same(test.analysed(), 40);
}

TEST("a loop after a store and a nested loop do not run in parallel") {
  RowProgram stored;
  stored.store(stored.load(stored.zero), stored.zero);
  stored.loop(40, kRows, [&](Register row) { stored.store(stored.load(row), row); });
  CHECK_EQUAL(stored.analysed().parallel_loop, kNoLoop);
  RowProgram nested;
  nested.loop(40, kRows, [&](Register) {
    nested.loop(40, kRows, [&](Register row) { nested.store(nested.load(row), row); });
  });
  CHECK_EQUAL(nested.analysed().parallel_loop, kNoLoop);
}

TEST("the error of the first failing iteration is reported") {
  RowProgram test;
  test.build.program.tables = {{{0, 4, 8, 12, 16}}};
  test.build.program.locations.push_back({"test.op", 1, 2});
  test.loop(9, 1, [&](Register trip) {
    const Register row = test.build.fresh();
    test.build.add(TableLookup{row, 0, trip});
    test.square(test.load(row), test.build.tile(kRows * kColumns, {kColumns, 1}));
  });
  const Program program = test.analysed();
  CHECK_EQUAL(program.parallel_loop, 0);
  const std::string error = outcome(program, elements(200), Bytes(400), 3, false);
  CHECK(error.find("entry 5 of a table of 5") != std::string::npos);
  check_same(program, 40);
}
