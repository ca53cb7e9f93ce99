// Compares reductions with loops over single elements in the order that reduce.cpp defines.
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

using Values = std::vector<Lane>;  // one lane for each value of the reduction

Values combined(const Reduce& reduce, const Values& left, const Values& right) {
  if (reduce.combine) {
    Lane result = left[0];
    const ElementType type = reduce.outputs[0].type;
    combine_lanes(combine_of(*reduce.combine).value(), type)(result.bytes, right[0].bytes, 1);
    return {result};
  }
  Values values = left;
  values.insert(values.end(), right.begin(), right.end());
  for (const ChainStep& step : reduce.combiner) {
    std::vector<const void*> inputs;
    for (const int32_t input : step.inputs)
      inputs.push_back(values[static_cast<size_t>(input)].bytes);
    Lane result;
    vector_function(step.op, step.operand, step.result)(inputs.data(), result.bytes, 1);
    values.push_back(result);
  }
  Values results;
  for (const int32_t result : reduce.results)
    results.push_back(values[static_cast<size_t>(result)]);
  return results;
}

// Reduces with 64 accumulators and a tree, or with one accumulator.
Values reduced(const Reduce& reduce, const std::vector<Values>& elements, bool is_innermost) {
  const size_t width = is_innermost ? 64 : 1;
  std::vector<Values> accumulators;
  for (size_t k = 0; k < elements.size(); ++k) {
    if (k < width) {
      accumulators.push_back(elements[k]);
    } else {
      accumulators[k % width] = combined(reduce, accumulators[k % width], elements[k]);
    }
  }
  for (size_t half = 32; half > 0; half /= 2) {
    for (size_t l = 0; l < half && l + half < accumulators.size(); ++l) {
      accumulators[l] = combined(reduce, accumulators[l], accumulators[l + half]);
    }
    if (accumulators.size() > half) accumulators.resize(half);
  }
  return accumulators[0];
}

void execute_plainly(const Reduce& reduce, TestCore& test) {
  const std::vector<int64_t> extents = extents_of(test.core, reduce.extents);
  std::vector<int64_t> kept = extents, removed(extents.size(), 1);
  for (const int32_t dimension : reduce.reduced) {
    removed[static_cast<size_t>(dimension)] = kept[static_cast<size_t>(dimension)];
    kept[static_cast<size_t>(dimension)] = 1;
  }
  const bool is_innermost =
      std::find(reduce.reduced.begin(), reduce.reduced.end(),
                static_cast<int32_t>(extents.size()) - 1) != reduce.reduced.end();
  for_each_point(kept, [&](std::span<const int64_t> output) {
    std::vector<Values> elements;
    for_each_point(removed, [&](std::span<const int64_t> element) {
      std::vector<int64_t> point(extents.size());
      for (size_t i = 0; i < point.size(); ++i) point[i] = output[i] + element[i];
      Values values;
      for (const int32_t value : reduce.values) {
        const Input& input = reduce.inputs[static_cast<size_t>(value)];
        if (input.kind == InputKind::kIndex) {
          Lane lane;
          std::memcpy(lane.bytes, &point[static_cast<size_t>(input.dimension)], 8);
          values.push_back(lane);
          continue;
        }
        const ElementType type = input.operand.type;
        const int64_t offset = offset_of(point, input.operand.strides) * bytes_of(type);
        values.push_back(load_lane(test.at(input.operand) + offset, type));
      }
      elements.push_back(values);
    });
    Values results;
    for (const Operand& initial : reduce.initial) {
      const int64_t offset = offset_of(output, initial.strides) * bytes_of(initial.type);
      results.push_back(load_lane(test.at(initial) + offset, initial.type));
    }
    if (!elements.empty()) {
      results = combined(reduce, results, reduced(reduce, elements, is_innermost));
    }
    for (size_t i = 0; i < results.size(); ++i) {
      const Operand& to = reduce.outputs[i];
      if (is_float(to.type)) {
        float lane = results[i].as<float>();
        round_lanes(to.type)(&lane, 1);
        std::memcpy(results[i].bytes, &lane, 4);
      }
      const int64_t offset = offset_of(output, to.strides) * bytes_of(to.type);
      store_lanes(to.type)(results[i].bytes, test.at(to) + offset, 1, 1);
    }
  });
}

void check_like_plain_loops(const Reduce& reduce, TestCore& test, const std::string& what) {
  TestCore plain = test;
  plain.core.scratchpad = plain.scratchpad().data();
  execute(reduce, test.core);
  execute_plainly(reduce, plain);
  if (test.scratchpad() != plain.scratchpad()) check::fail(__FILE__, __LINE__, what);
}

// Outputs have stride 0 along reduced dimensions.
Operand result_operand(TestCore& test, Shapes& shapes, ElementType type,
                       std::vector<int64_t> extents, std::span<const int32_t> reduced) {
  for (const int32_t dimension : reduced) extents[static_cast<size_t>(dimension)] = 1;
  int64_t size = 0;
  std::vector<int64_t> strides = shapes.layout(extents, size);
  for (const int32_t dimension : reduced) strides[static_cast<size_t>(dimension)] = 0;
  const Operand operand = test.buffer(type, size, std::move(strides));
  test.fill(operand, 77);
  return operand;
}

std::vector<int32_t> some_dimensions(Shapes& shapes, size_t rank) {
  std::vector<int32_t> dimensions;
  for (size_t i = 0; i < rank; ++i) {
    if (shapes.below(2) == 0) dimensions.push_back(static_cast<int32_t>(i));
  }
  return dimensions;
}

Reduce random_reduce(TestCore& test, Shapes& shapes, const std::vector<int64_t>& extents) {
  constexpr ElementType kTypes[] = {ElementType::F16, ElementType::F32, ElementType::BF16,
                                    ElementType::I8,  ElementType::I32, ElementType::I64};
  const ElementType type = kTypes[shapes.below(std::size(kTypes))];
  Reduce reduce;
  reduce.extents = test.integers(extents);
  int64_t size = 0;
  std::vector<int64_t> strides = shapes.source_layout(extents, size);
  reduce.inputs = {operand_input(test.buffer(type, size, std::move(strides)))};
  test.fill(reduce.inputs[0].operand, static_cast<uint32_t>(shapes.below(1 << 30)));
  reduce.reduced = some_dimensions(shapes, extents.size());
  reduce.values = {0};
  constexpr VectorOp kFloatOps[] = {VectorOp::ADDF, VectorOp::MULF, VectorOp::MAXIMUMF,
                                    VectorOp::MINIMUMF};
  constexpr VectorOp kIntegerOps[] = {VectorOp::ADDI, VectorOp::MULI, VectorOp::MAXSI,
                                      VectorOp::MINSI};
  reduce.combine = (is_float(type) ? kFloatOps : kIntegerOps)[shapes.below(4)];
  reduce.initial = {result_operand(test, shapes, type, extents, reduce.reduced)};
  reduce.outputs = {result_operand(test, shapes, type, extents, reduce.reduced)};
  return reduce;
}

TEST("reductions combine elements in the defined order for all shapes and strides") {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    Shapes shapes(seed);
    TestCore test(1 << 20, seed);
    const Reduce reduce = random_reduce(test, shapes, shapes.extents());
    check_like_plain_loops(reduce, test, "seed " + std::to_string(seed));
  }
}

TEST("long rows, rows of about 64 elements and long columns are reduced in the defined order") {
  const std::vector<std::vector<int64_t>> all{{3, 5000}, {70, 63},  {70, 64}, {70, 65},  {2, 1024},
                                              {2, 1025}, {3000, 1}, {900, 3}, {7, 2500}, {1, 1}};
  for (uint32_t seed = 0; seed < 6; ++seed) {
    for (const std::vector<int64_t>& extents : all) {
      Shapes shapes(seed);
      TestCore test(1 << 20, seed);
      Reduce reduce = random_reduce(test, shapes, extents);
      check_like_plain_loops(reduce, test, "seed " + std::to_string(seed));
    }
  }
}

TEST("a reduction of no elements gives the initial value") {
  for (const std::vector<int64_t>& extents : {std::vector<int64_t>{5, 0}, {0, 5}}) {
    Shapes shapes(1);
    TestCore test(1 << 20);
    Reduce reduce;
    reduce.extents = test.integers(extents);
    reduce.inputs = {operand_input(test.buffer(ElementType::F16, 8, {0, 0}))};
    reduce.reduced = {extents[0] == 0 ? 0 : 1};
    reduce.values = {0};
    reduce.combine = VectorOp::MULF;
    const std::vector<int64_t> strides =
        extents[0] == 0 ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{1, 0};
    reduce.initial = {test.buffer(ElementType::F16, 5, strides)};
    reduce.outputs = {test.buffer(ElementType::F16, 5, strides)};
    test.fill(reduce.initial[0], 5);
    execute(reduce, test.core);
    CHECK(test.content(reduce.outputs[0]) == test.content(reduce.initial[0]));
  }
}

// The maximum and its first index.
Reduce argmax(TestCore& test, Shapes& shapes, const std::vector<int64_t>& extents, int32_t along) {
  Reduce reduce;
  reduce.extents = test.integers(extents);
  int64_t size = 0;
  std::vector<int64_t> strides = shapes.layout(extents, size);
  Input index;
  index.kind = InputKind::kIndex;
  index.dimension = along;
  reduce.inputs = {operand_input(test.buffer(ElementType::F16, size, std::move(strides))), index};
  test.fill(reduce.inputs[0].operand, 5);
  reduce.reduced = {along};
  reduce.values = {0, 1};
  // 0, 1: value and index of the accumulator; 2, 3: those of the element.
  const auto f16 = ElementType::F16;
  const auto i64 = ElementType::I64;
  const auto i1 = ElementType::I1;
  reduce.combiner = {
      {-1, VectorOp::CMPF_OGT, f16, i1, {2, 0}},   {-1, VectorOp::CMPF_OEQ, f16, i1, {2, 0}},
      {-1, VectorOp::CMPI_SLT, i64, i1, {3, 1}},   {-1, VectorOp::ANDI, i1, i1, {5, 6}},
      {-1, VectorOp::ORI, i1, i1, {4, 7}},         {-1, VectorOp::SELECT, f16, f16, {8, 2, 0}},
      {-1, VectorOp::SELECT, i64, i64, {8, 3, 1}},
  };
  reduce.results = {9, 10};
  for (const ElementType type : {f16, i64}) {
    reduce.initial.push_back(result_operand(test, shapes, type, extents, reduce.reduced));
  }
  for (const ElementType type : {f16, i64}) {
    reduce.outputs.push_back(result_operand(test, shapes, type, extents, reduce.reduced));
  }
  return reduce;
}

TEST("a combiner of several steps reduces several values together") {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    Shapes shapes(seed);
    TestCore test(1 << 20, seed);
    const std::vector<int64_t> extents{1 + shapes.below(40), 1 + shapes.below(300)};
    const Reduce reduce = argmax(test, shapes, extents, static_cast<int32_t>(seed % 2));
    check_like_plain_loops(reduce, test, "seed " + std::to_string(seed));
  }
}

TEST("a combiner may permute its accumulators") {
  Shapes shapes(2);
  TestCore test(1 << 20);
  const std::vector<int64_t> extents{5, 130};
  Reduce reduce = argmax(test, shapes, extents, 1);
  reduce.inputs[1] = reduce.inputs[0];
  reduce.combiner = {{-1, VectorOp::ADDF, ElementType::F16, ElementType::F16, {0, 3}}};
  reduce.results = {1, 4};
  reduce.initial[1] = result_operand(test, shapes, ElementType::F16, extents, reduce.reduced);
  reduce.outputs[1] = result_operand(test, shapes, ElementType::F16, extents, reduce.reduced);
  check_like_plain_loops(reduce, test, "exchanged");
}

TEST("threads and instruction sets do not change the results of a reduction") {
  for (const int32_t along : {0, 1}) {
    Shapes shapes(3);
    TestCore test(4 << 20);
    Reduce reduce;
    reduce.extents = test.integers(std::vector<int64_t>{411, 2037});
    reduce.inputs = {operand_input(test.buffer(ElementType::F16, 411 * 2037, {2037, 1}))};
    test.fill(reduce.inputs[0].operand, 8);
    reduce.steps = {{-1, VectorOp::EXP, ElementType::F16, ElementType::F16, {0}}};
    reduce.reduced = {along};
    reduce.values = {1};
    reduce.combine = VectorOp::ADDF;
    reduce.initial = {result_operand(test, shapes, ElementType::F16, {411, 2037}, reduce.reduced)};
    reduce.outputs = {result_operand(test, shapes, ElementType::F16, {411, 2037}, reduce.reduced)};
    std::vector<std::byte> expected;
    for (const int threads : {1, 3, 7}) {
      const WithThreads limited(threads);
      for_each_instruction_set([&] {
        execute(reduce, test.core);
        if (expected.empty()) expected = test.content(reduce.outputs[0]);
        CHECK(expected == test.content(reduce.outputs[0]));
      });
    }
  }
}

TEST("partial sums are not rounded to the element type") {
  // 5000 times 2^-9 on top of 512: in 9 fraction bits no single one would change the sum.
  TestCore test(1 << 16);
  Reduce reduce;
  reduce.extents = test.integers(std::vector<int64_t>{5000});
  const Operand x = test.buffer(ElementType::F16, 1, {0});
  const float small = 0x1p-9f, large = 512;
  store_lanes(ElementType::F16)(&small, test.at(x), 1, 1);
  reduce.inputs = {operand_input(x)};
  reduce.reduced = {0};
  reduce.values = {0};
  reduce.combine = VectorOp::ADDF;
  reduce.initial = {test.buffer(ElementType::F16, 1, {0})};
  reduce.outputs = {test.buffer(ElementType::F16, 1, {0})};
  store_lanes(ElementType::F16)(&large, test.at(reduce.initial[0]), 1, 1);
  execute(reduce, test.core);
  const float sum = load_lane(test.at(reduce.outputs[0]), ElementType::F16).as<float>();
  CHECK_EQUAL(sum, 522.0f);  // 521.77 to the nearest even: steps of 1 above 512
}

TEST("an injected fault changes the result of a reduction") {
  Shapes shapes(3);
  TestCore test(1 << 20);
  Reduce reduce;
  reduce.extents = test.integers(std::vector<int64_t>{100, 10});
  reduce.inputs = {operand_input(test.buffer(ElementType::F16, 1000, {10, 1}))};
  test.fill(reduce.inputs[0].operand, 8);
  reduce.reduced = {1};
  reduce.values = {0};
  reduce.combine = VectorOp::MAXIMUMF;
  reduce.initial = {result_operand(test, shapes, ElementType::F16, {100, 10}, reduce.reduced)};
  reduce.outputs = {result_operand(test, shapes, ElementType::F16, {100, 10}, reduce.reduced)};
  execute(reduce, test.core);
  const std::vector<std::byte> right = test.content(reduce.outputs[0]);
  Injection injection{.op = vector_op_info(VectorOp::MAXIMUMF)->name};
  test.core.injection = &injection;
  execute(reduce, test.core);
  CHECK(injection.done && right != test.content(reduce.outputs[0]));
  execute(reduce, test.core);
  CHECK(right == test.content(reduce.outputs[0]));
}

}  // namespace
}  // namespace spyre::emulator::engine
