// Compares chains with loops over single elements.
#include <algorithm>

#include "check.h"
#include "emulator/engine/value_blocks.h"
#include "engine_fixture.h"

namespace spyre::emulator::engine {
namespace {

Input operand_input(Operand operand) {
  Input input;
  input.operand = std::move(operand);
  return input;
}
Input scalar_input(ElementType type, Register source) {
  Input input;
  input.kind = InputKind::kScalar;
  input.type = type;
  input.source = source;
  return input;
}
Input index_input(int32_t dimension) {
  Input input;
  input.kind = InputKind::kIndex;
  input.dimension = dimension;
  return input;
}
ChainStep step(VectorOp op, ElementType type, std::vector<int32_t> inputs) {
  return {-1, op, type, type, std::move(inputs)};
}

Lane input_lane(const Input& input, TestCore& test, std::span<const int64_t> point) {
  Lane lane;
  switch (input.kind) {
    case InputKind::kOperand: {
      const int64_t offset = offset_of(point, input.operand.strides);
      return load_lane(test.at(input.operand) + offset * bytes_of(input.operand.type),
                       input.operand.type);
    }
    case InputKind::kScalar:
      std::memcpy(lane.bytes, test.core.lane(input.source), 8);
      return lane;
    case InputKind::kIndex:
      std::memcpy(lane.bytes, &point[static_cast<size_t>(input.dimension)], 8);
      return lane;
  }
  return lane;
}

// Computes the chain element by element and step by step.
void execute_plainly(const Chain& chain, TestCore& test) {
  for_each_point(extents_of(test.core, chain.extents), [&](std::span<const int64_t> point) {
    std::vector<Lane> values;
    for (const Input& input : chain.inputs) values.push_back(input_lane(input, test, point));
    for (const ChainStep& step : chain.steps) {
      Lane result;
      if (step.lookup >= 0) {
        const Lookup& lookup = chain.lookups[static_cast<size_t>(step.lookup)];
        int64_t offset = 0;
        for (size_t i = 0; i < step.inputs.size(); ++i) {
          offset +=
              values[static_cast<size_t>(step.inputs[i])].as<int64_t>() * lookup.operand.strides[i];
        }
        result = load_lane(test.at(lookup.operand) + offset * bytes_of(lookup.operand.type),
                           lookup.operand.type);
      } else {
        std::vector<const void*> inputs;
        for (const int32_t input : step.inputs) {
          inputs.push_back(values[static_cast<size_t>(input)].bytes);
        }
        vector_function(step.op, step.operand, step.result)(inputs.data(), result.bytes, 1);
      }
      values.push_back(result);
    }
    for (const ChainOutput& output : chain.outputs) {
      const ElementType type = output.operand.type;
      const int64_t offset = offset_of(point, output.operand.strides) * bytes_of(type);
      store_lanes(type)(values[static_cast<size_t>(output.value)].bytes,
                        test.at(output.operand) + offset, 1, 1);
    }
  });
}

constexpr ElementType kTypes[] = {ElementType::F16,    ElementType::F32, ElementType::BF16,
                                  ElementType::F8E4M3, ElementType::I8,  ElementType::I32,
                                  ElementType::I64,    ElementType::I16};

// A random chain: some operands of one type, steps on any values of that type.
Chain random_chain(TestCore& test, Shapes& shapes) {
  const ElementType type = kTypes[shapes.below(std::size(kTypes))];
  const std::vector<int64_t> extents = shapes.extents();
  Chain chain;
  chain.extents = test.integers(extents);
  int64_t size = 0;
  for (int64_t i = shapes.below(4); i >= 0; --i) {
    std::vector<int64_t> strides = shapes.source_layout(extents, size);
    chain.inputs.push_back(operand_input(test.buffer(type, size, std::move(strides))));
    test.fill(chain.inputs.back().operand, static_cast<uint32_t>(shapes.below(1 << 30)));
  }
  if (shapes.below(2) == 0) {
    const Register scalar = is_float(type) ? test.number(1.5f) : test.integer(3);
    chain.inputs.push_back(scalar_input(type, scalar));
  }
  if (type == ElementType::I64 && !extents.empty()) {
    const auto rank = static_cast<int64_t>(extents.size());
    chain.inputs.push_back(index_input(static_cast<int32_t>(shapes.below(rank))));
  }
  auto values = static_cast<int32_t>(chain.inputs.size());
  for (int64_t i = shapes.below(8); i > 0; --i) {
    constexpr VectorOp kFloat[] = {VectorOp::ADDF, VectorOp::SUBF, VectorOp::MULF,
                                   VectorOp::MAXIMUMF};
    constexpr VectorOp kInteger[] = {VectorOp::ADDI, VectorOp::SUBI, VectorOp::MULI,
                                     VectorOp::MAXSI};
    const int64_t op = shapes.below(4);
    chain.steps.push_back(step(
        is_float(type) ? kFloat[op] : kInteger[op], type,
        {static_cast<int32_t>(shapes.below(values)), static_cast<int32_t>(shapes.below(values))}));
    ++values;
  }
  for (int64_t i = shapes.below(2); i >= 0; --i) {
    std::vector<int64_t> strides = shapes.layout(extents, size);
    const auto value = i == 0 ? values - 1 : static_cast<int32_t>(shapes.below(values));
    chain.outputs.push_back({value, test.buffer(type, size, std::move(strides))});
  }
  return chain;
}

TEST("a chain gives the results of its steps element by element for all shapes and strides") {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Shapes shapes(seed);
    TestCore test(1 << 20, seed);
    const Chain chain = random_chain(test, shapes);
    TestCore plain = test;
    plain.core.scratchpad = plain.scratchpad().data();
    execute(chain, test.core);
    execute_plainly(chain, plain);
    if (test.scratchpad() != plain.scratchpad()) {
      check::fail(__FILE__, __LINE__, "seed " + std::to_string(seed));
    }
  }
}

TEST("a chain may overwrite its operand") {
  TestCore test(1 << 20);
  const std::vector<int64_t> extents{7, 300};
  const Operand x = test.buffer(ElementType::F16, 7 * 300, {300, 1});
  test.fill(x, 3);
  Chain chain;
  chain.extents = test.integers(extents);
  chain.inputs = {operand_input(x)};
  chain.steps = {step(VectorOp::ADDF, ElementType::F16, {0, 0}),
                 step(VectorOp::MULF, ElementType::F16, {1, 0})};
  chain.outputs = {{2, x}};
  TestCore plain = test;
  plain.core.scratchpad = plain.scratchpad().data();
  execute_plainly(chain, plain);
  execute(chain, test.core);
  CHECK(test.scratchpad() == plain.scratchpad());
}

Chain large_chain(TestCore& test) {
  const int64_t rows = 300, columns = 1037;
  Chain chain;
  chain.extents = test.integers(std::vector<int64_t>{rows, columns});
  chain.inputs = {
      operand_input(test.buffer(ElementType::F16, rows * columns, {columns, 1})),
      operand_input(test.buffer(ElementType::F16, columns, {0, 1})),
      scalar_input(ElementType::F16, test.number(0.75f)),
  };
  for (size_t i = 0; i < 2; ++i) test.fill(chain.inputs[i].operand, static_cast<uint32_t>(i));
  chain.steps = {step(VectorOp::MULF, ElementType::F16, {0, 1}),
                 step(VectorOp::EXP, ElementType::F16, {3}),
                 step(VectorOp::DIVF, ElementType::F16, {4, 2})};
  chain.outputs = {{5, test.buffer(ElementType::F16, rows * columns, {1, rows})}};
  return chain;
}

TEST("threads and instruction sets do not change the results of a chain") {
  TestCore test(8 << 20);
  const Chain chain = large_chain(test);
  std::vector<std::byte> expected;
  for (const int threads : {1, 2, 5}) {
    const WithThreads limited(threads);
    for_each_instruction_set([&] {
      std::fill_n(test.at(chain.outputs[0].operand), chain.outputs[0].operand.bytes, std::byte{});
      execute(chain, test.core);
      if (expected.empty()) expected = test.content(chain.outputs[0].operand);
      CHECK(expected == test.content(chain.outputs[0].operand));
    });
  }
}

Chain lookup_chain(TestCore& test, const std::vector<int64_t>& indices) {
  const auto count = static_cast<int64_t>(indices.size());
  const Operand index = test.buffer(ElementType::I64, count, {1, 0});
  std::memcpy(test.at(index), indices.data(), indices.size() * 8);
  const Operand table = test.buffer(ElementType::F16, 6 * 3, {3, 1});
  test.fill(table, 9);
  Chain chain;
  chain.extents = test.integers(std::vector<int64_t>{count, 3});
  chain.inputs = {operand_input(index), index_input(1)};
  chain.lookups = {{table, test.integers(std::vector<int64_t>{6, 3})}};
  ChainStep read;
  read.lookup = 0;
  read.inputs = {0, 1};
  chain.steps = {read, step(VectorOp::NEGF, ElementType::F16, {2})};
  chain.outputs = {{3, test.buffer(ElementType::F16, count * 3, {3, 1})}};
  return chain;
}

TEST("a lookup reads the element at computed coordinates") {
  TestCore test(1 << 20);
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < 2000; ++i) indices.push_back(i * 7 % 6);
  const Chain chain = lookup_chain(test, indices);
  TestCore plain = test;
  plain.core.scratchpad = plain.scratchpad().data();
  execute(chain, test.core);
  execute_plainly(chain, plain);
  CHECK(test.scratchpad() == plain.scratchpad());
}

TEST("a lookup outside its tensor is an index error that names index and size") {
  for (const int64_t wrong : {int64_t{6}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    TestCore test(1 << 20);
    const Chain chain = lookup_chain(test, {0, 5, wrong, 70});
    try {
      execute(chain, test.core);
      CHECK(false);
    } catch (const KernelIndexError& error) {
      const std::string text = error.what();
      CHECK(text.find("index " + std::to_string(wrong)) != std::string::npos);
      CHECK(text.find("size 6") != std::string::npos);
    }
  }
}

TEST("out-of-bounds operands and invalid extents are rejected") {
  TestCore test(1 << 16);
  Chain chain;
  Operand x = test.buffer(ElementType::F32, 12, {4, 1});
  chain.inputs = {operand_input(x)};
  chain.outputs = {{0, test.buffer(ElementType::F32, 12, {4, 1})}};
  const auto run = [&](const std::vector<int64_t>& extents) {
    chain.extents = test.integers(extents);
    execute(chain, test.core);
  };
  run({3, 4});
  run({0, int64_t{1} << 39});
  CHECK_THROWS(KernelError, run({3, 5}));
  CHECK_THROWS(KernelError, run({-1, 4}));
  CHECK_THROWS(KernelError, run({int64_t{1} << 40, 2}));
  CHECK_THROWS(KernelError, run({int64_t{1} << 62, int64_t{1} << 62}));
  chain.inputs[0].operand.offset = test.integer(1);
  CHECK_THROWS(KernelError, run({3, 4}));
  chain.inputs[0].operand.offset = test.integer(std::numeric_limits<int64_t>::max());
  CHECK_THROWS(KernelError, run({3, 4}));
  chain.inputs[0].operand.offset = test.integer(11);
  chain.inputs[0].operand.strides = {-4, -1};
  run({3, 4});
  for (int64_t i = 0; i < 12; ++i) {
    CHECK(std::memcmp(test.at(chain.outputs[0].operand) + 4 * i, test.at(x) + 4 * (11 - i), 4) ==
          0);
  }
}

TEST("an injected fault changes one element of the first result of its op, once") {
  TestCore test(4 << 20);
  const Chain chain = large_chain(test);
  execute(chain, test.core);
  const std::vector<std::byte> right = test.content(chain.outputs[0].operand);
  Injection injection{.op = vector_op_info(VectorOp::DIVF)->name};
  test.core.injection = &injection;
  execute(chain, test.core);
  CHECK(injection.done);
  const std::vector<std::byte> wrong = test.content(chain.outputs[0].operand);
  int different = 0;
  for (size_t i = 0; i < right.size(); i += 2) {
    different += right[i] != wrong[i] || right[i + 1] != wrong[i + 1];
  }
  CHECK_EQUAL(different, 1);
  execute(chain, test.core);
  CHECK(test.content(chain.outputs[0].operand) == right);
}

TEST("a faulty lane differs after rounding, in every type") {
  for (int i = 0; i < kElementTypeCount; ++i) {
    const auto type = static_cast<ElementType>(i);
    for (const int32_t value : {0, 1, 2, 96}) {
      if (type == ElementType::I1 && value > 1) continue;
      Lane lane;
      const auto number = static_cast<float>(value);
      const int64_t integer = value;
      std::memcpy(lane.bytes, is_float(type) ? static_cast<const void*>(&number) : &integer,
                  static_cast<size_t>(lane_bytes(type)));
      std::byte before[8] = {}, after[8] = {};
      store_lanes(type)(lane.bytes, before, 1, 1);
      inject_fault(lane.bytes, type);
      store_lanes(type)(lane.bytes, after, 1, 1);
      CHECK(std::memcmp(before, after, 8) != 0);
    }
  }
}

}  // namespace
}  // namespace spyre::emulator::engine
