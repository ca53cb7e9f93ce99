// Compares gathers and scatters, which compute the offsets of rows of points at once, with a loop
// over points.
#include <algorithm>
#include <string>

#include "check.h"
#include "emulator/engine/box_copy.h"
#include "emulator/engine/memory.h"
#include "emulator/engine/subscripts.h"
#include "emulator/engine/transfers.h"
#include "engine_fixture.h"

using namespace spyre::emulator::engine;

namespace {

constexpr int64_t kIndices = 256;  // bytes at the begin of the array that hold indices

// A core with an array of device memory: indices, then a table.
struct Card {
  Card(int64_t bytes, uint32_t seed)
      : core(1 << 17, seed),
        array(static_cast<size_t>(bytes)),
        memory(program(), std::vector<Buffer>{{array.data(), bytes}}, {}, {}) {
    std::mt19937 random(seed);
    for (std::byte& byte : array) byte = static_cast<std::byte>(random() % 256);
  }
  static Program program() {
    Program program;
    program.arguments.resize(1);
    program.arguments[0].is_array = true;
    return program;
  }
  // `first` is the byte at coordinate 0.
  View view(ElementType type, int64_t first, std::span<const int64_t> strides) {
    View view;
    view.type = type;
    view.base = core.integer((memory.array_addresses()[0] + first) / bytes_of(type));
    view.strides = core.integers(strides);
    return view;
  }

  TestCore core;
  Bytes array;
  Memory memory;
};

// An expression of the variables with values that are mostly from 0 to `extent` - 1.
Expression random_expression(Shapes& shapes, Card& card, int64_t num_variables, int64_t extent) {
  Expression expression = {{TermKind::kVariable, shapes.below(num_variables)}};
  const auto append = [&](Term term, TermKind kind) {
    expression.push_back(term);
    expression.push_back({kind, 0});
  };
  const int64_t divisors[] = {1, 2, 3, 5, 8, 64};
  for (int64_t steps = shapes.below(4); steps > 0; --steps) {
    const Term divisor{TermKind::kConstant, divisors[shapes.below(6)]};
    switch (shapes.below(6)) {
      case 0:
        append({TermKind::kVariable, shapes.below(num_variables)}, TermKind::kAdd);
        break;
      case 1:
        append({TermKind::kRegister, card.core.integer(shapes.below(7) - 2)},
               shapes.below(2) ? TermKind::kAdd : TermKind::kMultiply);
        break;
      case 2:
        append(divisor, TermKind::kModulo);
        break;
      case 3:
        append(divisor, TermKind::kCeilDivide);
        break;
      case 4:
        append({TermKind::kConstant, shapes.below(5) - 2}, TermKind::kMultiply);
        break;
      default:
        append(divisor, TermKind::kFloorDivide);
    }
  }
  // Few expressions stay inside by chance.
  if (shapes.below(5) > 0) append({TermKind::kConstant, extent}, TermKind::kModulo);
  return expression;
}

struct RandomTransfer {
  IndirectTransfer transfer;
  std::vector<int64_t> extents;

  RandomTransfer(Shapes& shapes, Card& card) {
    const ElementType types[] = {ElementType::I8, ElementType::F16, ElementType::F32,
                                 ElementType::I64};
    const ElementType type = types[shapes.below(4)];
    const int64_t num_variables = 1 + shapes.below(3);
    for (int64_t v = 0; v < num_variables; ++v) {
      const int64_t lengths[] = {0, 1, 1, 2, 3, 7, 12, 20};
      extents.push_back(lengths[shapes.below(20) == 0 ? 0 : 1 + shapes.below(7)]);
    }
    transfer.store = shapes.below(2) == 1;
    int64_t tile_size = 0;
    const std::vector<int64_t> tile_strides = shapes.layout(extents, tile_size);
    transfer.tile = card.core.buffer(type, std::max<int64_t>(tile_size, 1), tile_strides);
    transfer.variables = card.core.integers(extents);
    const int64_t rank = 1 + shapes.below(3);
    std::vector<int64_t> sizes, strides;
    for (int64_t d = 0; d < rank; ++d) {
      sizes.push_back(1 + shapes.below(9));
      strides.push_back(shapes.below(12) == 0 ? 0 : 1 + shapes.below(20));
    }
    if (shapes.below(2)) strides.back() = 1;
    transfer.view = card.view(type, kIndices, strides);
    if (shapes.below(6) > 0) transfer.view.extents = card.core.integers(sizes);
    for (int64_t d = 0; d < rank; ++d) {
      const int64_t size = sizes[static_cast<size_t>(d)];
      Subscript subscript;
      subscript.indirect = shapes.below(3) == 0;
      if (!subscript.indirect) {
        subscript.expressions = {random_expression(shapes, card, num_variables, size)};
      } else {
        add_indices(shapes, card, num_variables, size, subscript);
      }
      transfer.subscripts.push_back(subscript);
    }
  }

  // Indices in one or two dims; few are out of bounds.
  static void add_indices(Shapes& shapes, Card& card, int64_t num_variables, int64_t size,
                          Subscript& subscript) {
    const ElementType types[] = {ElementType::I8, ElementType::I32, ElementType::I64};
    const ElementType type = types[shapes.below(3)];
    const bool is_matrix = shapes.below(2) == 1;
    const int64_t one[] = {1}, two[] = {4, 1}, long_one[] = {30}, short_two[] = {6, 4};
    subscript.index = is_matrix ? card.view(type, 0, two) : card.view(type, 0, one);
    subscript.index.extents =
        is_matrix ? card.core.integers(short_two) : card.core.integers(long_one);
    subscript.expressions = {random_expression(shapes, card, num_variables, is_matrix ? 6 : 30)};
    if (is_matrix) {
      subscript.expressions.push_back(random_expression(shapes, card, num_variables, 4));
    }
    for (int64_t i = 0; i < kIndices / bytes_of(type); ++i) {
      const int64_t index = shapes.below(200) == 0 ? size : shapes.below(size);
      std::memcpy(card.array.data() + i * bytes_of(type), &index,
                  static_cast<size_t>(bytes_of(type)));
    }
  }
};

// Transfers point after point.
void transfer_points(const RandomTransfer& random, Card& card) {
  const IndirectTransfer& transfer = random.transfer;
  const Subscripts subscripts(transfer, card.core.core, card.memory);
  const Region region = card.memory.region(transfer.view, card.core.core);
  std::vector<int64_t> coordinates(transfer.subscripts.size());
  for_each_point(random.extents, [&](std::span<const int64_t> point) {
    subscripts.coordinates(point, coordinates);
    std::byte* tile = card.core.at(transfer.tile) +
                      offset_of(point, transfer.tile.strides) * bytes_of(transfer.tile.type);
    copy_element(region, spyre::emulator::engine::offset_of(region, coordinates), tile,
                 transfer.store);
  });
}

template <typename Body>
std::string error_of(Body body) {
  try {
    body();
  } catch (const KernelError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST("gathers and scatters of rows equal those of points") {
  Shapes shapes(4);
  int num_succeeded = 0, num_rejected = 0;
  for (int round = 0; round < 2000; ++round) {
    // In some rounds the array ends within the table.
    Card card(shapes.below(4) == 0 ? 400 : 1 << 13, static_cast<uint32_t>(round));
    const RandomTransfer random(shapes, card);
    const Bytes array = card.array, scratchpad = card.core.scratchpad();
    const std::string error = error_of([&] { transfer_points(random, card); });
    const Bytes expected_array = card.array, expected_scratchpad = card.core.scratchpad();
    card.array = array;
    std::ranges::copy(scratchpad, card.core.scratchpad().begin());
    CHECK(error_of([&] { execute(random.transfer, card.core.core, card.memory); }) == error);
    error.empty() ? ++num_succeeded : ++num_rejected;
    if (!error.empty()) continue;  // what was copied before an error is undefined
    CHECK(card.array == expected_array);
    CHECK(card.core.scratchpad() == expected_scratchpad);
  }
  CHECK(num_succeeded > 500);
  CHECK(num_rejected > 200);
}

TEST("a row longer than one part is transferred whole") {
  for (const bool store : {false, true}) {
    Card card(1 << 16, 1);
    constexpr int64_t kCount = 5000;
    RandomTransfer random = [&] {
      Shapes shapes(1);
      return RandomTransfer(shapes, card);
    }();
    IndirectTransfer& transfer = random.transfer;
    transfer.store = store;
    random.extents = {kCount};
    transfer.tile = card.core.buffer(ElementType::F32, kCount, {1});
    transfer.variables = card.core.integers(random.extents);
    const int64_t strides[] = {64, 1}, sizes[] = {100, 64};
    transfer.view = card.view(ElementType::F32, kIndices, strides);
    transfer.view.extents = card.core.integers(sizes);
    const Term x{TermKind::kVariable, 0}, stick{TermKind::kConstant, 64};
    transfer.subscripts = {{false, {{x, stick, {TermKind::kFloorDivide, 0}}}, {}},
                           {false, {{x, stick, {TermKind::kModulo, 0}}}, {}}};
    execute(transfer, card.core.core, card.memory);
    CHECK(std::memcmp(card.core.at(transfer.tile), card.array.data() + kIndices, 4 * kCount) == 0);
  }
}

TEST("a scatter reads indices that it has stored itself") {
  // Point 0 stores 1 to the index of point 1, which then stores to element 1.
  Card card(1 << 10, 1);
  IndirectTransfer transfer;
  transfer.store = true;
  transfer.tile = card.core.buffer(ElementType::I32, 2, {1});
  const int32_t tile[] = {1, 7}, indices[] = {2, 0};
  std::memcpy(card.core.at(transfer.tile), tile, sizeof tile);
  std::memcpy(card.array.data(), indices, sizeof indices);
  const int64_t two[] = {2}, many[] = {100}, one[] = {1};
  transfer.variables = card.core.integers(two);
  // Element 2 of the table is element 1 of the indices.
  transfer.view = card.view(ElementType::I32, 0, one);
  transfer.view.base = card.core.integer(card.memory.array_addresses()[0] / 4 - 1);
  transfer.view.extents = card.core.integers(many);
  View index = card.view(ElementType::I32, 0, one);
  index.extents = card.core.integers(two);
  transfer.subscripts = {{true, {{{TermKind::kVariable, 0}}}, index}};
  CHECK_THROWS(KernelError, execute(transfer, card.core.core, card.memory));
}

TEST("the error of an invalid index names its value, dimension and position") {
  Card card(1 << 12, 1);
  const int32_t indices[] = {3, 0, 20, 1};
  std::memcpy(card.array.data(), indices, sizeof indices);
  IndirectTransfer transfer;
  transfer.tile = card.core.buffer(ElementType::F32, 4 * 16, {16, 1});
  const int64_t space[] = {4, 16}, strides[] = {16, 1}, sizes[] = {20, 16}, one[] = {1},
                four[] = {4};
  transfer.variables = card.core.integers(space);
  transfer.view = card.view(ElementType::F32, kIndices, strides);
  transfer.view.extents = card.core.integers(sizes);
  Subscript row{true, {{{TermKind::kVariable, 0}}}, card.view(ElementType::I32, 0, one)};
  row.index.extents = card.core.integers(four);
  transfer.subscripts = {row, {false, {{{TermKind::kVariable, 1}}}, {}}};
  try {
    execute(transfer, card.core.core, card.memory);
    CHECK(false);
  } catch (const KernelIndexError& error) {
    CHECK(error.index()->value == 20 && error.index()->size == 20);
    CHECK(error.index()->dimension == 0);
    CHECK(error.index()->position == std::vector<int64_t>{2});
  }
}
