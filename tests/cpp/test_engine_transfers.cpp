// Compares transfers of tiles with loops over single elements.
#include <algorithm>
#include <numeric>

#include "check.h"
#include "emulator/engine/memory.h"
#include "emulator/engine/subscripts.h"
#include "emulator/engine/transfers.h"
#include "engine_fixture.h"

using namespace spyre::emulator::engine;

namespace {

// A core with one array of device memory, and windows of scratchpad for three cores.
struct Card {
  explicit Card(int64_t bytes, uint32_t seed = 1)
      : core(1 << 16, seed),
        array(static_cast<size_t>(bytes)),
        window_memory(3, std::vector<std::byte>(256)),
        memory(program(), std::vector<Buffer>{{array.data(), bytes}}, {}, windows()) {
    std::mt19937 random(seed);
    for (std::byte& byte : array) byte = static_cast<std::byte>(1 + random() % 255);
  }
  static Program program() {
    Program program;
    program.arguments.resize(1);
    program.arguments[0].is_array = true;
    return program;
  }
  std::vector<Buffer> windows() {
    std::vector<Buffer> buffers;
    for (auto& window : window_memory) {
      buffers.push_back({window.data(), static_cast<int64_t>(window.size())});
    }
    return buffers;
  }

  // `first` is the element of the array at coordinate 0.
  View view(ElementType type, int64_t first, std::span<const int64_t> strides) {
    View view;
    view.type = type;
    view.base = core.integer(memory.array_addresses()[0] / bytes_of(type) + first);
    view.strides = core.integers(strides);
    return view;
  }

  TestCore core;
  std::vector<std::byte> array;
  std::vector<std::vector<std::byte>> window_memory;
  Memory memory;
};

constexpr ElementType kTypes[] = {ElementType::I8, ElementType::F16, ElementType::F32,
                                  ElementType::I64};

// The element of the array, zero beyond its end; `at` counts elements.
std::vector<std::byte> element_at(const std::vector<std::byte>& array, int64_t at, int bytes) {
  std::vector<std::byte> element(static_cast<size_t>(bytes));
  if ((at + 1) * bytes <= static_cast<int64_t>(array.size())) {
    std::memcpy(element.data(), array.data() + at * bytes, element.size());
  }
  return element;
}

// A random strided box that does not go below the array's begin.
struct RandomBox {
  std::vector<int64_t> extents, strides, anchor, tile_strides;
  int64_t tile_size = 0, first = 0;

  explicit RandomBox(Shapes& shapes) {
    const auto rank = static_cast<size_t>(shapes.below(4));
    int64_t below = 0;
    for (size_t d = 0; d < rank; ++d) {
      extents.push_back(shapes.below(6) == 0 ? 0 : 1 + shapes.below(7));
      strides.push_back(shapes.below(25) - 8);
      anchor.push_back(shapes.below(9) - 4);
      const int64_t ends[] = {anchor[d] * strides[d], (anchor[d] + extents[d]) * strides[d]};
      below += std::min({int64_t{0}, ends[0], ends[1]});
    }
    first = -below;
    tile_strides = shapes.layout(extents, tile_size);
  }

  int64_t element(std::span<const int64_t> point) const {
    int64_t element = first;
    for (size_t d = 0; d < point.size(); ++d) element += (anchor[d] + point[d]) * strides[d];
    return element;
  }
};

}  // namespace

TEST("a loaded tile has the elements of the view, and zeros beyond the end") {
  Shapes shapes(1);
  for (int round = 0; round < 400; ++round) {
    const ElementType type = kTypes[round % 4];
    const int bytes = bytes_of(type);
    const RandomBox box(shapes);
    Card card(64 + shapes.below(200), static_cast<uint32_t>(round));
    Transfer transfer;
    transfer.tile = card.core.buffer(type, std::max<int64_t>(box.tile_size, 1), box.tile_strides);
    transfer.extents = card.core.integers(box.extents);
    transfer.anchor = card.core.integers(box.anchor);
    if (box.first * bytes > static_cast<int64_t>(card.array.size())) continue;
    transfer.views = {card.view(type, box.first, box.strides)};
    execute(transfer, card.core.core, card.memory);
    for_each_point(box.extents, [&](std::span<const int64_t> point) {
      const std::vector<std::byte> expected = element_at(card.array, box.element(point), bytes);
      const std::byte* found =
          card.core.at(transfer.tile) + offset_of(point, box.tile_strides) * bytes;
      CHECK(std::memcmp(found, expected.data(), expected.size()) == 0);
    });
  }
}

TEST("a repeated load uses the current values of its registers") {
  Card card(4096);
  Core& core = card.core.core;
  core.launch = 1;  // plans are cached within a launch
  Transfer transfer;
  transfer.tile = card.core.buffer(ElementType::I32, 16, {4, 1});
  transfer.extents = card.core.integers(std::vector<int64_t>{4, 4});
  transfer.anchor = card.core.integers(std::vector<int64_t>{0, 0});
  transfer.views = {card.view(ElementType::I32, 0, std::vector<int64_t>{4, 1})};
  const auto set = [&](Register target, int64_t value) {
    core.registers[static_cast<size_t>(target)] = static_cast<uint64_t>(value);
  };
  const int64_t begin = core.integer(transfer.views[0].base);
  // Ascending anchors, so that the next tile is prefetched, also beyond the array's end.
  Shapes shapes(5);
  for (int64_t trip = 0; trip < 80; ++trip) {
    const int64_t first = trip % 10 == 9 ? shapes.below(100) : 0, row = 4 + trip / 20 * 3,
                  column = 1 + trip / 40, rows = 1 + trip / 7 % 4, anchor = 13 * (trip % 20);
    set(transfer.views[0].base, begin + first);
    set(transfer.views[0].strides[0], row);
    set(transfer.views[0].strides[1], column);
    set(transfer.extents[0], rows);
    set(transfer.anchor[0], anchor);
    execute(transfer, core, card.memory);
    for_each_point(std::vector<int64_t>{rows, 4}, [&](std::span<const int64_t> point) {
      const int64_t at = first + (anchor + point[0]) * row + point[1] * column;
      const std::byte* found = card.core.at(transfer.tile) + (point[0] * 4 + point[1]) * 4;
      CHECK(std::memcmp(found, element_at(card.array, at, 4).data(), 4) == 0);
    });
  }
}

TEST("a stored tile changes only its elements of the array") {
  Shapes shapes(2);
  for (int round = 0; round < 400; ++round) {
    const ElementType type = kTypes[round % 4];
    const auto bytes = static_cast<size_t>(bytes_of(type));
    RandomBox box(shapes);
    Card card(64 + shapes.below(200), static_cast<uint32_t>(round));
    Transfer transfer;
    transfer.store = true;
    transfer.tile = card.core.buffer(type, std::max<int64_t>(box.tile_size, 1), box.tile_strides);
    transfer.extents = card.core.integers(box.extents);
    transfer.anchor = card.core.integers(box.anchor);
    if (box.first * static_cast<int64_t>(bytes) > static_cast<int64_t>(card.array.size())) continue;
    transfer.views = {card.view(type, box.first, box.strides)};
    // The elements that may be stored at each position: several if the view overlaps itself.
    std::vector<std::vector<const std::byte*>> candidates(card.array.size() / bytes);
    for_each_point(box.extents, [&](std::span<const int64_t> point) {
      const auto at = static_cast<size_t>(box.element(point));
      const int64_t tile = offset_of(point, box.tile_strides) * static_cast<int64_t>(bytes);
      if (at < candidates.size()) candidates[at].push_back(card.core.at(transfer.tile) + tile);
    });
    const std::vector<std::byte> before = card.array;
    execute(transfer, card.core.core, card.memory);
    for (size_t i = 0; i < candidates.size(); ++i) {
      const std::byte* found = card.array.data() + i * bytes;
      const auto equals = [&](const std::byte* other) {
        return std::memcmp(found, other, bytes) == 0;
      };
      CHECK(candidates[i].empty() ? equals(before.data() + i * bytes)
                                  : std::ranges::any_of(candidates[i], equals));
    }
    CHECK(std::equal(before.begin() + static_cast<std::ptrdiff_t>(candidates.size() * bytes),
                     before.end(),
                     card.array.begin() + static_cast<std::ptrdiff_t>(candidates.size() * bytes)));
  }
}

TEST("accesses before an array, with invalid sizes or with huge strides are errors") {
  constexpr int64_t kHuge = int64_t{1} << 62, kSmallest = std::numeric_limits<int64_t>::min();
  Card card(256);
  const auto run = [&](int64_t first, int64_t stride, int64_t anchor, int64_t extent) {
    Transfer transfer;
    transfer.tile = card.core.buffer(ElementType::F32, 4, {0});
    transfer.extents = {card.core.integer(extent)};
    transfer.anchor = {card.core.integer(anchor)};
    const int64_t strides[] = {stride};
    transfer.views = {card.view(ElementType::F32, first, strides)};
    execute(transfer, card.core.core, card.memory);
  };
  run(0, 1, 0, 64);
  run(64, 1, 0, 1);         // at the end: zeros
  run(0, kHuge / 8, 0, 1);  // never moves
  CHECK_THROWS(KernelError, run(0, 1, -1, 2));
  CHECK_THROWS(KernelError, run(63, -1, 0, 65));
  CHECK_THROWS(KernelError, run(65, 1, 0, 1));
  CHECK_THROWS(KernelError, run(0, 1, 0, -1));
  CHECK_THROWS(KernelError, run(0, kHuge, 0, 2));
  CHECK_THROWS(KernelError, run(0, kHuge / 8, 0, 100));
  CHECK_THROWS(KernelError, run(0, kSmallest, 1, 2));
  CHECK_THROWS(KernelError, run(kHuge, 1, 0, 1));
  CHECK_THROWS(KernelError, run(0, 1, kHuge, 1));
  CHECK_THROWS(KernelError, run(0, 0, 0, int64_t{1} << 35));
  CHECK_THROWS(KernelError, run(0, 1, std::numeric_limits<int64_t>::max(), 2));
}

TEST("an element is loaded from the last partition that holds it") {
  Shapes shapes(3);
  for (int round = 0; round < 300; ++round) {
    Card card(1 << 12, static_cast<uint32_t>(round));
    const std::vector<int64_t> extents = {1 + shapes.below(6), 1 + shapes.below(6)};
    const std::vector<int64_t> anchor = {shapes.below(5), shapes.below(5)};
    Transfer transfer;
    transfer.tile = card.core.buffer(ElementType::F16, extents[0] * extents[1], {extents[1], 1});
    transfer.extents = card.core.integers(extents);
    transfer.anchor = card.core.integers(anchor);
    struct Part {
      std::vector<int64_t> lower, sizes;
      int64_t first;
    };
    std::vector<Part> parts;
    for (int64_t i = 0; i < 2 + shapes.below(3); ++i) {
      Part part{{shapes.below(6), shapes.below(6)},
                {2 + shapes.below(12), 2 + shapes.below(12)},
                i * 256};
      const int64_t strides[] = {16, 1};
      View view = card.view(ElementType::F16, part.first, strides);
      view.lower = card.core.integers(part.lower);
      view.extents = card.core.integers(part.sizes);
      transfer.views.push_back(view);
      parts.push_back(part);
    }
    const auto place_of = [&](std::span<const int64_t> point) -> int64_t {
      for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
        const int64_t x = anchor[0] + point[0] - part->lower[0];
        const int64_t y = anchor[1] + point[1] - part->lower[1];
        if (x >= 0 && x < part->sizes[0] && y >= 0 && y < part->sizes[1]) {
          return part->first + x * 16 + y;
        }
      }
      return -1;
    };
    bool covered = true;
    for_each_point(extents, [&](auto point) { covered &= place_of(point) >= 0; });
    if (!covered) {
      CHECK_THROWS(KernelError, execute(transfer, card.core.core, card.memory));
      continue;
    }
    execute(transfer, card.core.core, card.memory);
    for_each_point(extents, [&](std::span<const int64_t> point) {
      const std::vector<std::byte> expected = element_at(card.array, place_of(point), 2);
      const std::byte* found = card.core.at(transfer.tile) + 2 * (point[0] * extents[1] + point[1]);
      CHECK(std::memcmp(found, expected.data(), 2) == 0);
    });
  }
}

TEST("accesses beyond the scratchpad window of a core are errors") {
  Card card(128);
  const auto run = [&](int64_t owner, int64_t base, bool store) {
    Transfer transfer;
    transfer.store = store;
    transfer.tile = card.core.buffer(ElementType::I8, 4, {1});
    transfer.extents = {card.core.integer(4)};
    transfer.anchor = {card.core.integer(0)};
    View view;
    view.space = Space::kScratchpad;
    view.type = ElementType::I8;
    view.core = owner < 0 ? kNoRegister : card.core.integer(owner);
    view.base = card.core.integer(base);
    view.strides = {card.core.integer(1)};
    transfer.views = {view};
    execute(transfer, card.core.core, card.memory);
    return card.core.content(transfer.tile);
  };
  const std::vector<std::byte> stored = run(2, 252, true);
  CHECK(stored ==
        std::vector<std::byte>(card.window_memory[2].begin() + 252, card.window_memory[2].end()));
  CHECK(run(2, 252, false) == stored);
  CHECK(run(-1, 252, false) == std::vector<std::byte>(4));
  CHECK_THROWS(KernelError, run(0, 253, true));
  CHECK_THROWS(KernelError, run(0, -1, false));
  CHECK_THROWS(KernelError, run(3, 0, false));
}

TEST("expressions divide as MLIR does") {
  TestCore core(16);
  for (int64_t a = -7; a <= 7; ++a) {
    for (const int64_t b : {-3, -1, 1, 2, 5}) {
      const auto value = [&](TermKind kind) {
        return evaluate({{TermKind::kConstant, a}, {TermKind::kConstant, b}, {kind, 0}}, core.core,
                        {});
      };
      const auto quotient = static_cast<double>(a) / static_cast<double>(b);
      CHECK_EQUAL(value(TermKind::kFloorDivide), static_cast<int64_t>(std::floor(quotient)));
      CHECK_EQUAL(value(TermKind::kCeilDivide), static_cast<int64_t>(std::ceil(quotient)));
      CHECK_EQUAL(value(TermKind::kModulo), a - b * value(TermKind::kFloorDivide));
    }
  }
  const auto apply = [&](TermKind kind, int64_t a, int64_t b) {
    return evaluate({{TermKind::kConstant, a}, {TermKind::kConstant, b}, {kind, 0}}, core.core, {});
  };
  constexpr int64_t kSmallest = std::numeric_limits<int64_t>::min();
  CHECK_THROWS(KernelError, apply(TermKind::kModulo, 1, 0));
  CHECK_THROWS(KernelError, apply(TermKind::kFloorDivide, kSmallest, -1));
  CHECK_EQUAL(apply(TermKind::kModulo, kSmallest, -1), 0);
  CHECK_THROWS(KernelError, apply(TermKind::kMultiply, kSmallest, 2));
  CHECK_THROWS(KernelError, apply(TermKind::kAdd, kSmallest, -1));
}

TEST("the coefficient of a variable is found if the expression is linear") {
  using Kind = TermKind;
  const Term x{Kind::kVariable, 1}, y{Kind::kVariable, 0}, three{Kind::kConstant, 3},
      unknown{Kind::kRegister, 0};
  const auto coefficient = [](Expression expression) { return coefficient_of(expression, 1); };
  CHECK(coefficient({x}) == 1);
  CHECK(coefficient({y}) == 0);
  CHECK(coefficient({y, three, {Kind::kModulo, 0}}) == 0);
  CHECK(coefficient({x, three, {Kind::kMultiply, 0}, y, {Kind::kAdd, 0}}) == 3);
  CHECK(coefficient({three, x, {Kind::kMultiply, 0}, x, {Kind::kAdd, 0}}) == 4);
  CHECK(coefficient({x, unknown, {Kind::kAdd, 0}}) == 1);
  CHECK(!coefficient({x, unknown, {Kind::kMultiply, 0}}));
  CHECK(!coefficient({x, x, {Kind::kMultiply, 0}}));
  CHECK(!coefficient({x, three, {Kind::kFloorDivide, 0}}));
  CHECK(!coefficient({x, three, {Kind::kModulo, 0}}));
}

TEST("runs of an indirect transfer give the same elements as single points") {
  Shapes shapes(4);
  for (int round = 0; round < 200; ++round) {
    Card card(1 << 12, static_cast<uint32_t>(round));
    const int64_t rows = 1 + shapes.below(5), columns = 1 + shapes.below(9);
    // Indices in the first 32 elements, a table of 20 x 16 after them.
    for (int64_t i = 0; i < 8; ++i) {
      const auto index = static_cast<int32_t>(shapes.below(20));
      std::memcpy(card.array.data() + 4 * i, &index, sizeof index);
    }
    IndirectTransfer transfer;
    transfer.store = round % 2 == 1;
    transfer.tile = card.core.buffer(ElementType::F32, rows * columns, {columns, 1});
    const int64_t space[] = {rows, columns};
    transfer.variables = card.core.integers(space);
    const int64_t table_strides[] = {16, 1}, table_sizes[] = {20, 16}, one[] = {1}, eight[] = {8};
    transfer.view = card.view(ElementType::F32, 32, table_strides);
    transfer.view.extents = card.core.integers(table_sizes);
    Subscript row{true, {{{TermKind::kVariable, 0}}}, card.view(ElementType::I32, 0, one)};
    row.index.extents = card.core.integers(eight);
    const int64_t step = columns < 8 ? 2 : 1;
    Subscript column{
        false,
        {{{TermKind::kVariable, 1}, {TermKind::kConstant, step}, {TermKind::kMultiply, 0}}},
        {}};
    transfer.subscripts = {row, column};
    // The same with a column that the analysis does not recognise as linear.
    IndirectTransfer slow = transfer;
    slow.subscripts[1].expressions[0] = {{TermKind::kVariable, 1},
                                         {TermKind::kConstant, 1},
                                         {TermKind::kFloorDivide, 0},
                                         {TermKind::kConstant, step},
                                         {TermKind::kMultiply, 0}};
    const std::vector<std::byte> array = card.array, tile = card.core.content(transfer.tile);
    execute(transfer, card.core.core, card.memory);
    const std::vector<std::byte> fast_array = card.array,
                                 fast_tile = card.core.content(transfer.tile);
    card.array = array;
    std::copy(tile.begin(), tile.end(), card.core.at(transfer.tile));
    execute(slow, card.core.core, card.memory);
    CHECK(fast_array == card.array);
    CHECK(fast_tile == card.core.content(transfer.tile));
    CHECK(transfer.store ? array != card.array : tile != fast_tile);
    // An out-of-bounds index: both forms reject it.
    const int32_t bad = 20;
    std::memcpy(card.array.data() + 4 * (rows - 1), &bad, sizeof bad);
    CHECK_THROWS(KernelIndexError, execute(transfer, card.core.core, card.memory));
    CHECK_THROWS(KernelIndexError, execute(slow, card.core.core, card.memory));
    try {
      execute(transfer, card.core.core, card.memory);
    } catch (const KernelIndexError& error) {
      // The last index, of the first dimension.
      CHECK(error.index()->value == bad && error.index()->dimension == 0);
      CHECK(error.index()->position == std::vector<int64_t>{rows - 1});
    }
  }
}
