// Tests of tiles that matmuls read from memory (the results must be those of a copy), and of the
// scratchpad bytes that need initialisation.
#include <cstring>
#include <functional>
#include <random>

#include "check.h"
#include "emulator/engine/direct_tiles.h"
#include "emulator/engine/scheduler.h"
#include "emulator/engine/scratchpad_use.h"
#include "engine_fixture.h"
#include "program_builder.h"

using namespace spyre;
using namespace spyre::emulator::engine;

namespace {

constexpr int64_t kCores = 3, kStick = 64;

// Each core multiplies the same A by its own columns of B, which is stored in sticks.
struct ProductProgram {
  int64_t rows, inner, sticks;
  bool transposed = false;  // the tile holds the transposed B
  ProgramBuilder build{{kCores, 1, 1}};
  Register a = build.array(), b = build.array(), c = build.array(ElementType::F32);
  Operand a_tile = build.tile(rows * inner, {0, inner, 1});
  Operand b_tile = build.tile(inner * columns(), {sticks * kStick, kStick, 1});
  Operand c_tile = build.tile(rows * columns(), {columns(), 1}, ElementType::F32);
  Register zero = build.constant(0), one = build.constant(1);

  int64_t columns() const { return sticks * kStick; }

  void load_a() {
    Transfer transfer;
    transfer.tile = a_tile;
    transfer.tile.strides = {inner, 1};
    transfer.extents = build.constants({rows, inner});
    transfer.anchor = {zero, zero};
    transfer.views = {build.view(a, build.constants({inner, 1}))};
    build.add(transfer);
  }
  // Rows of B from `first` on.
  void load_b(Register first) {
    const Register stick = build.product(build.constant(sticks), kCoreRegister);
    Transfer transfer;
    transfer.tile = b_tile;
    transfer.extents = build.constants({inner, sticks, kStick});
    transfer.anchor = {first, stick, zero};
    transfer.views = {build.view(b, build.constants({kStick, 4 * inner * kStick, 1}))};
    build.add(transfer);
  }
  void multiply(bool has_initial = false) {
    Matmul matmul{one,
                  build.constant(rows),
                  build.constant(transposed ? inner : columns()),
                  build.constant(transposed ? columns() : inner),
                  a_tile,
                  b_tile,
                  has_initial,
                  c_tile,
                  c_tile};
    matmul.b.strides = {0, columns(), 1};
    if (transposed) matmul.b.strides = {0, 1, columns()};
    matmul.output.strides = matmul.initial.strides = {0, columns(), 1};
    build.add(matmul);
  }
  void store_c(Register row) {
    Transfer transfer;
    transfer.store = true;
    transfer.tile = c_tile;
    transfer.extents = build.constants({rows, columns()});
    transfer.anchor = {row, build.product(kCoreRegister, build.constant(columns()))};
    transfer.views = {build.view(c, build.constants({kCores * columns(), 1}), ElementType::F32)};
    build.add(transfer);
  }
  void plain() {
    load_a();
    load_b(zero);
    multiply();
    store_c(zero);
  }
  // Multiplies the first elements of A by the first ones of B that the core loads.
  void store_over_b() {
    Transfer transfer;
    transfer.store = true;
    transfer.tile = a_tile;
    transfer.tile.strides = {0, 1};
    transfer.extents = build.constants({1, inner});
    transfer.anchor = {kCoreRegister, zero};
    transfer.views = {build.view(b, build.constants({sticks * 4 * inner * kStick, 1}))};
    build.add(transfer);
  }
};

struct Arrays {
  Bytes a, b, c;
};

Bytes random_halves(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Bytes bytes(2 * count);
  for (size_t i = 0; i < count; ++i) {
    // Any sign and fraction, exponents around 1.
    const auto bits = static_cast<uint16_t>((random() & 0x81FF) | (28 + random() % 6) << 9);
    std::memcpy(&bytes[2 * i], &bits, sizeof(bits));
  }
  return bytes;
}

Bytes run(const Program& program, Arrays arrays, const std::string& corrupted = "") {
  const std::vector<Buffer> buffers{buffer_of(arrays.a), buffer_of(arrays.b), buffer_of(arrays.c)};
  ScratchpadPool scratchpads(program.scratchpad_bytes, true);
  const Memory memory(program, buffers, {}, {});
  run_program(program, memory, {}, scratchpads, {false, corrupted, 0});
  Bytes all = arrays.c;
  all.insert(all.end(), arrays.b.begin(), arrays.b.end());
  return all;
}

// Runs the program with and without copies, on arrays of sufficient and insufficient sizes.
void check_same(ProductProgram& test, int tiles) {
  Program copying = test.build.program, direct = copying;
  find_direct_tiles(direct);
  CHECK_EQUAL(direct.direct_tiles, tiles);
  const auto b_count = static_cast<size_t>(4 * test.inner * kStick * test.sticks * kCores);
  const size_t c_bytes = static_cast<size_t>(4 * test.rows * test.columns() * kCores) * 4;
  for (const size_t missing : {size_t{0}, size_t{1}, b_count / 3}) {
    const Arrays arrays{random_halves(static_cast<size_t>(test.rows * test.inner), 1),
                        random_halves(b_count - missing, 2), Bytes(c_bytes)};
    const Bytes expected = run(copying, arrays);
    for_each_instruction_set([&] {
      for (const int threads : {1, 3}) {
        const WithThreads with(threads);
        CHECK(run(direct, arrays) == expected);
      }
    });
    CHECK(run(direct, arrays, "load") == run(copying, arrays, "load"));
    CHECK(run(direct, arrays, "load") != expected);
  }
}

std::vector<std::pair<int64_t, int64_t>> unwritten_reads(const Program& program) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const auto& [begin, end] : read_before_written(program)) ranges.emplace_back(begin, end);
  return ranges;
}
using Ranges = std::vector<std::pair<int64_t, int64_t>>;

}  // namespace

TEST("matmuls with few and many rows read tiles from memory with the same bits") {
  for (const int64_t rows : {1, 3, 4, 5, 40}) {
    for (const int64_t inner : {2, 33, 300}) {
      for (const int64_t sticks : {1, 2}) {
        ProductProgram test{rows, inner, sticks};
        test.plain();
        check_same(test, 1);
      }
    }
  }
}

TEST("a matmul that cannot read a tile from memory copies it first") {
  ProductProgram test{2, 64, 1, true};
  test.load_a();
  test.load_b(test.zero);
  test.multiply();
  test.multiply();
  test.store_c(test.zero);
  check_same(test, 1);
}

TEST("a loop over the inner dimension reads one tile after the other") {
  ProductProgram test{1, 40, 2};
  test.load_a();
  test.load_b(test.zero);
  test.multiply();
  const Register step = test.build.constant(test.inner);
  const Register upper = test.build.constant(4 * test.inner);
  test.build.loop(step, upper, step, [&](Register first) {
    test.load_b(first);
    test.multiply(true);
    test.store_c(test.zero);
  });
  check_same(test, 1);
}

TEST("a tile is copied when memory may change before it is read") {
  ProductProgram between{1, 8, 1};
  between.load_a();
  between.load_b(between.zero);
  between.store_over_b();
  between.multiply();
  between.store_c(between.zero);
  check_same(between, 0);

  // The second iteration follows the store of the first one. A load in each iteration makes the
  // tile direct again.
  for (const bool loads_in_trip : {false, true}) {
    ProductProgram around{1, 64, 1};
    around.load_a();
    if (!loads_in_trip) around.load_b(around.zero);
    around.build.loop(around.zero, around.build.constant(3), around.one, [&](Register row) {
      if (loads_in_trip) around.load_b(around.zero);
      around.multiply();
      around.store_c(row);
    });
    check_same(around, loads_in_trip ? 1 : 0);
  }
}

TEST("a tile is copied when something else reads or writes it") {
  for (const bool is_read : {true, false}) {
    ProductProgram test{1, 64, 1};
    const Operand other = test.build.tile(16, {1});
    Operand part = test.b_tile;
    part.strides = {1};
    test.load_a();
    test.load_b(test.zero);
    test.build.add(Literal{other, std::vector<int64_t>(16, 0x3F800000)});
    test.build.add(
        Copy{test.build.constants({16}), is_read ? part : other, is_read ? other : part});
    test.multiply();
    test.store_c(test.zero);
    check_same(test, 0);
  }
}

TEST("bytes that are written before they are read need no initialisation") {
  ProductProgram test{1, 64, 1};
  test.plain();
  CHECK(unwritten_reads(test.build.program) == Ranges{});
}

TEST("bytes that may be read before they are written are initialised") {
  const auto copy = [](ProgramBuilder& build, const Operand& from, const Operand& to,
                       Register count) { build.add(Copy{{count}, from, to}); };
  ProgramBuilder build{{1, 1, 1}};
  const Operand a = build.tile(8, {1}), b = build.tile(8, {1}), c = build.tile(8, {1});
  const Operand d = build.tile(8, {1}), e = build.tile(8, {1});
  const Register all = build.constant(8), few = build.constant(7), zero = build.constant(0);
  const Register one = build.constant(1), some = build.fresh();
  build.add(Move{some, all});
  copy(build, a, b, all);  // reads a
  copy(build, b, c, few);  // writes c except its end
  copy(build, c, a, all);  // reads the end of c
  CHECK(unwritten_reads(build.program) == (Ranges{{0, 16}, {32, 48}}));
  build.branch(one, [&] { copy(build, a, d, all); }, [&] { copy(build, a, e, all); });
  copy(build, d, b, all);  // written on one path only
  CHECK(unwritten_reads(build.program) == (Ranges{{0, 16}, {32, 64}}));
  build.loop(zero, some, one, [&](Register) { copy(build, a, e, all); });
  copy(build, e, b, all);  // a loop may have no iterations
  CHECK(unwritten_reads(build.program) == (Ranges{{0, 16}, {32, 80}}));
}

TEST("a loop that has an iteration counts as executed") {
  ProgramBuilder build{{1, 1, 1}};
  const Operand a = build.tile(8, {1}), b = build.tile(8, {1});
  const Register all = build.constant(8), zero = build.constant(0), one = build.constant(1);
  build.loop(zero, one, one, [&](Register) { build.add(Literal{a, std::vector<int64_t>(8, 0)}); });
  build.add(Copy{{all}, a, b});
  CHECK(unwritten_reads(build.program) == Ranges{});
  // Two dimensions that leave a gap.
  Operand dense = a, gaps = b;
  dense.strides = {3, 1};
  gaps.strides = {5, 1};
  build.program.code.clear();
  build.add(Literal{a, std::vector<int64_t>(8, 0)});
  build.add(Copy{build.constants({2, 3}), dense, gaps});
  build.add(Copy{{all}, b, a});
  CHECK(unwritten_reads(build.program) == (Ranges{{16, 32}}));
}
