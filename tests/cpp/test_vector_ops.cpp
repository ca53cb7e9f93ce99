// The vector instructions: every instruction set gives the same bits, for any number of lanes and
// for outputs that alias inputs. Python tests compare the bits with the golden model.
#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "check.h"
#include "emulator/convert.h"
#include "emulator/engine/lanes.h"
#include "emulator/engine/vector_ops.h"
#include "engine_settings.h"

namespace spyre::emulator::engine {
namespace {

using Bytes = std::vector<std::byte>;

struct Case {
  VectorOp op;
  ElementType operand;
  ElementType result;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const VectorOp op : vector_ops()) {
    for (const ElementType operand : all_types()) {
      for (const ElementType result : all_types()) {
        if (vector_function(op, operand, result) != nullptr) cases.push_back({op, operand, result});
      }
    }
  }
  return cases;
}

ElementType type_of_input(const Case& tested, int input) {
  return tested.op == VectorOp::SELECT && input == 0 ? ElementType::I1 : tested.operand;
}

// Lanes of random codes: floats of every exponent, including NaN and infinity.
Bytes random_lanes(ElementType type, int64_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes codes(static_cast<size_t>(n * bytes_of(type)));
  for (std::byte& byte : codes) byte = static_cast<std::byte>(random());
  Bytes lanes(static_cast<size_t>(n * lane_bytes(type)));
  load_lanes(type)(codes.data(), 1, lanes.data(), n);
  return lanes;
}

std::vector<Bytes> random_inputs(const Case& tested, int64_t n) {
  std::vector<Bytes> inputs;
  for (int i = 0; i < vector_op_info(tested.op)->inputs; ++i) {
    inputs.push_back(random_lanes(type_of_input(tested, i), n, static_cast<uint64_t>(i) + 17));
  }
  return inputs;
}

Bytes run(const Case& tested, const std::vector<Bytes>& inputs, int64_t first, int64_t n) {
  std::vector<const void*> pointers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int bytes = lane_bytes(type_of_input(tested, static_cast<int>(i)));
    pointers.push_back(inputs[i].data() + first * bytes);
  }
  // One more byte, to detect writes beyond the end.
  Bytes output(static_cast<size_t>(n * lane_bytes(tested.result)) + 1, std::byte{0xA5});
  vector_function(tested.op, tested.operand, tested.result)(pointers.data(), output.data(), n);
  CHECK(output.back() == std::byte{0xA5});
  output.pop_back();
  return output;
}

std::string describe(const Case& tested) {
  return std::string(vector_op_info(tested.op)->name) + " from " +
         std::string(name_of(tested.operand)) + " to " + std::string(name_of(tested.result));
}

TEST("vector ops: every instruction set gives the bits of the default one") {
  for (const bool ieee : {false, true}) {
    const EngineSettings settings("default", ieee);
    for (const Case& tested : all_cases()) {
      const auto inputs = random_inputs(tested, 2055);
      set_cpu_capability("default");
      const Bytes expected = run(tested, inputs, 0, 2055);
      for (const std::string_view capability : available_capabilities()) {
        set_cpu_capability(capability);
        CHECK_THAT(run(tested, inputs, 0, 2055) == expected,
                   describe(tested) + " on " + std::string(capability));
      }
    }
  }
}

TEST("vector ops: functions of one 16-bit operand give the same bits for all operands") {
  constexpr int64_t kCodes = 1 << 16;
  std::vector<uint16_t> codes(kCodes);
  std::iota(codes.begin(), codes.end(), uint16_t{0});
  const EngineSettings settings("default", false);
  std::vector<Bytes> inputs(1, Bytes(kCodes * sizeof(float)));
  load_lanes(ElementType::F16)(reinterpret_cast<const std::byte*>(codes.data()), 1,
                               inputs[0].data(), kCodes);
  for (const Case& tested : all_cases()) {
    if (tested.operand != ElementType::F16 || vector_op_info(tested.op)->inputs != 1) continue;
    set_cpu_capability("default");
    const Bytes expected = run(tested, inputs, 0, kCodes);
    for (const std::string_view capability : available_capabilities()) {
      set_cpu_capability(capability);
      const Bytes actual = run(tested, inputs, 0, kCodes);
      const auto different = std::mismatch(actual.begin(), actual.end(), expected.begin());
      const auto at = (different.first - actual.begin()) / lane_bytes(tested.result);
      CHECK_THAT(actual == expected, describe(tested) + " on " + std::string(capability) +
                                         ", code " + std::to_string(at));
    }
  }
}

// Every fraction with some exponents, NaN, infinities and extreme values.
std::vector<float> telling_sen169_numbers() {
  std::vector<uint16_t> codes = {0x0000, 0x8000, 0x0001, 0x8001, 0x7FFE, 0xFFFE, 0x7FFF};
  for (const int exponent : {0, 1, 20, 31, 32, 33, 62, 63}) {
    for (int fraction = 0; fraction < 512; fraction += exponent == 31 ? 1 : 37) {
      codes.push_back(static_cast<uint16_t>(exponent << 9 | fraction));
      codes.push_back(codes.back() | 0x8000);
    }
  }
  std::vector<float> numbers(codes.size());
  load_lanes(ElementType::F16)(reinterpret_cast<const std::byte*>(codes.data()), 1, numbers.data(),
                               static_cast<int64_t>(codes.size()));
  return numbers;
}

TEST("vector ops: a scalar operand gives the bits of a splat operand") {
  for (const std::string_view capability : available_capabilities()) {
    const EngineSettings settings(capability, false);
    const std::vector<float> numbers = telling_sen169_numbers();
    const auto n = static_cast<int64_t>(numbers.size());
    for (const ElementType type : {ElementType::F16, ElementType::F32}) {
      for (const VectorOp op : {VectorOp::ADDF, VectorOp::SUBF, VectorOp::MULF, VectorOp::DIVF}) {
        std::vector<float> expected(numbers.size()), actual(numbers.size());
        for (const float scalar : numbers) {
          const std::vector<float> everywhere(numbers.size(), scalar);
          const void* const all[] = {numbers.data(), everywhere.data()};
          const void* const one[] = {numbers.data(), &scalar};
          vector_function(op, type, type)(all, expected.data(), n);
          vector_function_with_scalar(op, type, type)(one, actual.data(), n);
          CHECK_THAT(std::memcmp(actual.data(), expected.data(), numbers.size() * 4) == 0,
                     describe({op, type, type}) + " with " + std::to_string(scalar));
        }
      }
    }
  }
}

TEST("vector ops: a lane's result does not depend on its position or the number of lanes") {
  for (const std::string_view capability : available_capabilities()) {
    const EngineSettings settings(capability, false);
    for (const Case& tested : all_cases()) {
      const auto inputs = random_inputs(tested, 64);
      const Bytes expected = run(tested, inputs, 0, 64);
      const auto size = static_cast<size_t>(lane_bytes(tested.result));
      for (int64_t n = 1; n < 36; ++n) {
        const int64_t first = 28 - n % 7;
        const Bytes part = run(tested, inputs, first, n);
        CHECK_THAT(std::memcmp(part.data(), expected.data() + static_cast<size_t>(first) * size,
                               part.size()) == 0,
                   describe(tested));
      }
    }
  }
}

TEST("vector ops: the output may be an input whose lanes have the same size") {
  for (const std::string_view capability : available_capabilities()) {
    const EngineSettings settings(capability, false);
    for (const Case& tested : all_cases()) {
      const auto inputs = random_inputs(tested, 133);
      const Bytes expected = run(tested, inputs, 0, 133);
      for (size_t shared = 0; shared < inputs.size(); ++shared) {
        const ElementType type = type_of_input(tested, static_cast<int>(shared));
        if (lane_bytes(type) != lane_bytes(tested.result)) continue;
        auto buffers = inputs;
        std::vector<const void*> pointers;
        for (const Bytes& buffer : buffers) pointers.push_back(buffer.data());
        vector_function(tested.op, tested.operand, tested.result)(pointers.data(),
                                                                  buffers[shared].data(), 133);
        CHECK_THAT(buffers[shared] == expected, describe(tested));
      }
    }
  }
}

TEST("vector ops: the result type can represent all results") {
  for (const bool ieee : {false, true}) {
    const EngineSettings settings("", ieee);
    for (const Case& tested : all_cases()) {
      const Bytes lanes = run(tested, random_inputs(tested, 1000), 0, 1000);
      Bytes codes(static_cast<size_t>(1000 * bytes_of(tested.result)));
      store_lanes(tested.result)(lanes.data(), codes.data(), 1, 1000);
      Bytes again(lanes.size());
      load_lanes(tested.result)(codes.data(), 1, again.data(), 1000);
      // Raw copies of F32 and BF16 may hold any NaN.
      CHECK_THAT(again == lanes, describe(tested));
    }
  }
}

TEST("vector ops: the host's floating-point settings do not matter inside DefaultFloatingPoint") {
  const EngineSettings settings("", false);
  for (const Case& tested : all_cases()) {
    const auto inputs = random_inputs(tested, 512);
    const Bytes expected = run(tested, inputs, 0, 512);
    const UnusualFloatingPoint unusual;
    const DefaultFloatingPoint usual;
    CHECK_THAT(run(tested, inputs, 0, 512) == expected, describe(tested));
  }
}

TEST("vector ops: DefaultFloatingPoint restores the settings of the thread") {
  // Tests the arithmetic: the host may have further settings that nothing here uses.
  const auto third = [] {
    volatile float one = -1, three = 3;
    return one / three;
  };
  const float nearest = third();
  const UnusualFloatingPoint unusual;
  const int before = std::fegetround();
  const float other = third();
  CHECK(other != nearest);
  {
    const DefaultFloatingPoint usual;
    CHECK_EQUAL(third(), nearest);
  }
  CHECK_EQUAL(std::fegetround(), before);
  CHECK_EQUAL(third(), other);
}

TEST("vector ops: codes ascend, names are unique, and unknown names are rejected") {
  const auto ops = vector_ops();
  for (size_t i = 0; i < ops.size(); ++i) {
    if (i > 0) CHECK(ops[i - 1] < ops[i]);
    CHECK(vector_op_named(vector_op_info(ops[i])->name) == ops[i]);
  }
  CHECK(vector_op_info(static_cast<VectorOp>(13)) == nullptr);
  CHECK(vector_op_info(static_cast<VectorOp>(0xFFFF)) == nullptr);
  CHECK(!vector_op_named("frobnicate").has_value());
  const auto nothing = static_cast<VectorOp>(13);
  CHECK(vector_function(nothing, ElementType::F16, ElementType::F16) == nullptr);
  CHECK(vector_function(VectorOp::ADDF, ElementType::I32, ElementType::I32) == nullptr);
  CHECK(vector_function(VectorOp::ADDF, ElementType::F32, ElementType::F16) == nullptr);
  CHECK(vector_function(VectorOp::ADDI, ElementType::F16, ElementType::F16) == nullptr);
  CHECK(vector_function(VectorOp::BITCAST, ElementType::F16, ElementType::I32) == nullptr);
}

}  // namespace
}  // namespace spyre::emulator::engine
