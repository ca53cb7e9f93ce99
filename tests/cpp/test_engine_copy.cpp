// Compares copies inside the scratchpad with loops over single elements.
#include "check.h"
#include "engine_fixture.h"

namespace spyre::emulator::engine {
namespace {

void check_like_plain_loops(const Copy& copy, TestCore& test, const std::string& what) {
  TestCore plain = test;
  plain.core.scratchpad = plain.scratchpad().data();
  execute(copy, test.core);
  const int64_t element = bytes_of(copy.source.type);
  for_each_point(extents_of(plain.core, copy.extents), [&](std::span<const int64_t> point) {
    std::memcpy(plain.at(copy.destination) + offset_of(point, copy.destination.strides) * element,
                plain.at(copy.source) + offset_of(point, copy.source.strides) * element,
                static_cast<size_t>(element));
  });
  if (test.scratchpad() != plain.scratchpad()) check::fail(__FILE__, __LINE__, what);
}

constexpr ElementType kTypes[] = {ElementType::I8, ElementType::F16, ElementType::F32,
                                  ElementType::I64};

TEST("a copy moves every element to its position for all shapes and strides") {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    Shapes shapes(seed);
    TestCore test(1 << 20, seed);
    const std::vector<int64_t> extents = shapes.extents();
    const ElementType type = kTypes[seed % 4];
    int64_t size = 0;
    std::vector<int64_t> strides = shapes.source_layout(extents, size);
    Copy copy;
    copy.extents = test.integers(extents);
    copy.source = test.buffer(type, size, std::move(strides));
    strides = shapes.layout(extents, size);
    copy.destination = test.buffer(type, size, std::move(strides));
    check_like_plain_loops(copy, test, "seed " + std::to_string(seed));
  }
}

TEST("matrices are transposed, also inside larger boxes") {
  for (const ElementType type : kTypes) {
    for_each_instruction_set([&] {
      TestCore test(4 << 20);
      Copy copy;
      copy.extents = test.integers(std::vector<int64_t>{3, 65, 130});
      copy.source = test.buffer(type, 3 * 65 * 130, {65 * 130, 130, 1});
      copy.destination = test.buffer(type, 3 * 65 * 130, {65, 1, 65 * 3});
      check_like_plain_loops(copy, test, "transposed");
    });
  }
}

TEST("an extent of 0 copies nothing, and out-of-bounds copies are rejected") {
  TestCore test(1 << 16);
  Copy copy;
  copy.source = test.buffer(ElementType::F16, 12, {4, 1});
  copy.destination = test.buffer(ElementType::F16, 12, {4, 1});
  copy.extents = test.integers(std::vector<int64_t>{0, 50});
  const std::vector<std::byte> before = test.scratchpad();
  execute(copy, test.core);
  CHECK(before == test.scratchpad());
  copy.extents = test.integers(std::vector<int64_t>{4, 4});
  CHECK_THROWS(KernelError, execute(copy, test.core));
}

TEST("elements are copied in reverse order") {
  TestCore test(1 << 16);
  Copy copy;
  copy.extents = test.integers(std::vector<int64_t>{6, 5});
  copy.source = test.buffer(ElementType::F16, 30, {5, 1});
  copy.destination = test.buffer(ElementType::F16, 30, {-5, -1});
  copy.destination.offset = test.integer(29);
  TestCore plain = test;
  execute(copy, test.core);
  for (int64_t i = 0; i < 30; ++i) {
    CHECK(std::memcmp(test.at(copy.destination) + 2 * (29 - i), test.at(copy.source) + 2 * i, 2) ==
          0);
  }
}

}  // namespace
}  // namespace spyre::emulator::engine
