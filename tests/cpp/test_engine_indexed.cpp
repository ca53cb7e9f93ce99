// Compares gathers and scatters inside the scratchpad with loops over single elements.
#include "check.h"
#include "emulator/engine/lanes.h"
#include "engine_fixture.h"

namespace spyre::emulator::engine {
namespace {

constexpr int64_t kSize = 9;  // valid indices

// An instruction on random buffers: a table of `length` of the indices, from `first` on.
struct Sample {
  Sample(uint32_t seed, bool scatter, std::optional<VectorOp> combine, ElementType tile,
         ElementType table)
      : shapes(seed), test(1 << 20, seed) {
    points = shapes.extents();
    int64_t elements = 0;
    std::vector<int64_t> strides = shapes.source_layout(points, elements);
    indexed.index = test.buffer(ElementType::I32, elements, std::move(strides));
    strides = scatter ? shapes.source_layout(points, elements) : shapes.layout(points, elements);
    indexed.tile = test.buffer(tile, elements, std::move(strides));
    strides = shapes.source_layout(points, elements);
    length = 1 + shapes.below(kSize);
    indexed.table = test.buffer(table, elements * length, std::move(strides));
    indexed.step = elements;
    indexed.scatter = scatter;
    indexed.combine = combine;
    indexed.extents = test.integers(points);
    first = shapes.below(kSize - length + 1);
    indexed.first = test.integer(first);
    indexed.length = test.integer(length);
    indexed.size = test.integer(kSize);
    for (size_t d = 0; d < points.size(); ++d) origins.push_back(static_cast<int64_t>(100 * d));
    indexed.origin = test.integers(origins);
    test.fill(indexed.tile, seed + 1);
    test.fill(indexed.table, seed + 2);
    auto* indices = reinterpret_cast<int32_t*>(test.at(indexed.index));
    const auto count = static_cast<int64_t>(indexed.index.bytes / sizeof(int32_t));
    for (int64_t i = 0; i < count; ++i) indices[i] = static_cast<int32_t>(shapes.below(kSize));
  }

  Shapes shapes;
  TestCore test;
  Indexed indexed;
  std::vector<int64_t> points, origins;
  int64_t first = 0, length = 0;
};

void move_points_one_by_one(const Sample& sample, TestCore& test) {
  const Indexed& indexed = sample.indexed;
  const ElementType type = indexed.table.type;
  for_each_point(sample.points, [&](std::span<const int64_t> point) {
    int32_t index = 0;
    std::memcpy(&index, test.at(indexed.index) + offset_of(point, indexed.index.strides) * 4, 4);
    const int64_t row = index - sample.first;
    if (row < 0 || row >= sample.length) return;
    std::byte* tile = test.at(indexed.tile) +
                      offset_of(point, indexed.tile.strides) * bytes_of(indexed.tile.type);
    std::byte* table =
        test.at(indexed.table) +
        (offset_of(point, indexed.table.strides) + row * indexed.step) * bytes_of(type);
    if (!indexed.combine) {
      std::memcpy(indexed.scatter ? table : tile, indexed.scatter ? tile : table,
                  static_cast<size_t>(bytes_of(type)));
      return;
    }
    Lane sum = load_lane(table, type);
    const Lane value = load_lane(tile, indexed.tile.type);
    combine_lanes(combine_of(*indexed.combine).value(), type)(sum.bytes, value.bytes, 1);
    if (is_float(type)) round_lanes(type)(reinterpret_cast<float*>(sum.bytes), 1);
    store_lanes(type)(sum.bytes, table, 1, 1);
  });
}

void check_like_plain_loops(Sample& sample, const std::string& what) {
  TestCore plain = sample.test;
  plain.core.scratchpad = plain.scratchpad().data();
  move_points_one_by_one(sample, plain);
  execute(sample.indexed, sample.test.core);
  if (sample.test.scratchpad() != plain.scratchpad()) check::fail(__FILE__, __LINE__, what);
}

TEST("gathers and scatters move the elements that indices select") {
  constexpr ElementType kTypes[] = {ElementType::I8, ElementType::F16, ElementType::F32,
                                    ElementType::I64};
  for (uint32_t seed = 0; seed < 400; ++seed) {
    const ElementType type = kTypes[seed % 4];
    Sample sample(seed, seed % 8 < 4, std::nullopt, type, type);
    check_like_plain_loops(sample, "seed " + std::to_string(seed));
  }
}

TEST("a scatter combines values in the order of its points") {
  struct Kind {
    VectorOp op;
    ElementType tile, table;
  };
  constexpr Kind kKinds[] = {
      {VectorOp::ADDF, ElementType::F16, ElementType::F32},
      {VectorOp::ADDF, ElementType::F32, ElementType::F32},
      {VectorOp::MULF, ElementType::F16, ElementType::F16},
      {VectorOp::MAXIMUMF, ElementType::BF16, ElementType::F32},
      {VectorOp::ADDI, ElementType::I32, ElementType::I32},
      {VectorOp::MINSI, ElementType::I8, ElementType::I8},
      {VectorOp::ADDI, ElementType::I64, ElementType::I64},
  };
  for_each_instruction_set([&] {
    const DefaultFloatingPoint settings;
    for (uint32_t seed = 0; seed < 210; ++seed) {
      const Kind& kind = kKinds[seed % std::size(kKinds)];
      Sample sample(seed, true, kind.op, kind.tile, kind.table);
      check_like_plain_loops(sample, "seed " + std::to_string(seed));
    }
  });
}

TEST("an index out of bounds is reported with its position") {
  for (const bool scatter : {false, true}) {
    for (const int32_t wrong : {-1, static_cast<int32_t>(kSize)}) {
      TestCore test(1 << 12);
      Indexed indexed;
      indexed.scatter = scatter;
      indexed.extents = test.integers(std::vector<int64_t>{2, 3});
      indexed.index = test.buffer(ElementType::I32, 6, {3, 1});
      indexed.tile = test.buffer(ElementType::F16, 6, {3, 1});
      indexed.table = test.buffer(ElementType::F16, 12, {6, 0});
      indexed.step = 1;
      indexed.first = test.integer(2);
      indexed.length = test.integer(6);
      indexed.size = test.integer(kSize);
      indexed.origin = test.integers(std::vector<int64_t>{10, 20});
      const std::array<int32_t, 6> indices{0, 1, 2, 3, wrong, 5};
      std::memcpy(test.at(indexed.index), indices.data(), sizeof indices);
      try {
        execute(indexed, test.core);
        check::fail(__FILE__, __LINE__, "no error");
      } catch (const KernelIndexError& error) {
        CHECK(error.index()->value == wrong);
        CHECK(error.index()->size == kSize);
        CHECK((error.index()->position == std::vector<int64_t>{11, 21}));
      }
    }
  }
}

TEST("tables that leave their buffer are rejected, and no points access nothing") {
  TestCore test(1 << 12);
  Indexed indexed;
  indexed.index = test.buffer(ElementType::I32, 4, {1});
  indexed.tile = test.buffer(ElementType::F16, 4, {1});
  indexed.table = test.buffer(ElementType::F16, 8, {1});
  indexed.step = 4;
  indexed.first = test.integer(-(int64_t{1} << 62));
  indexed.size = test.integer(kSize);
  indexed.origin = test.integers(std::vector<int64_t>{0});
  const Bytes before = test.scratchpad();
  indexed.length = test.integer(3);
  indexed.extents = test.integers(std::vector<int64_t>{0});
  execute(indexed, test.core);
  indexed.extents = test.integers(std::vector<int64_t>{4});
  CHECK_THROWS(KernelError, execute(indexed, test.core));
  indexed.length = test.integer(2);
  std::memset(test.at(indexed.index), 0, 16);
  const Bytes valid = test.scratchpad();
  execute(indexed, test.core);
  CHECK(valid == test.scratchpad());
  CHECK(before.size() == valid.size());
}

}  // namespace
}  // namespace spyre::emulator::engine
