// Tests of instructions on elements in memory: the results are those of load, instruction and
// store.
#include <cstring>
#include <random>
#include <vector>

#include "check.h"
#include "emulator/engine/lanes.h"
#include "emulator/engine/vector_ops.h"
#include "engine_settings.h"

using namespace spyre::emulator;
using namespace spyre::emulator::engine;

namespace {

constexpr size_t kAllCodes = 1 << 16;
constexpr VectorOp kOps[] = {VectorOp::ADDF, VectorOp::SUBF,    VectorOp::MULF, VectorOp::DIVF,
                             VectorOp::EXP,  VectorOp::SIGMOID, VectorOp::SILU, VectorOp::GELU};

using Codes = std::vector<uint16_t>;
using LaneArray = std::vector<float>;

LaneArray lanes_of(const Codes& codes) {
  LaneArray lanes(codes.size());
  load_lanes(ElementType::F16)(reinterpret_cast<const std::byte*>(codes.data()), 1, lanes.data(),
                               static_cast<int64_t>(codes.size()));
  return lanes;
}
Codes codes_of(const LaneArray& lanes) {
  Codes codes(lanes.size());
  store_lanes(ElementType::F16)(lanes.data(), reinterpret_cast<std::byte*>(codes.data()), 1,
                                static_cast<int64_t>(codes.size()));
  return codes;
}

// All values, in order or shuffled, with few NaNs: most vectors have none.
Codes all_codes(bool with_nan) {
  Codes codes;
  for (size_t code = 0; code < kAllCodes; ++code) {
    const bool is_nan = (code & 0x7FFF) == 0x7FFF;
    if (!is_nan || with_nan) codes.push_back(static_cast<uint16_t>(code));
  }
  return codes;
}
Codes shuffled(Codes codes, uint32_t seed) {
  std::mt19937 random(seed);
  for (size_t i = codes.size(); i > 1; --i) std::swap(codes[i - 1], codes[random() % i]);
  return codes;
}

bool has_same_bits(const LaneArray& a, const LaneArray& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
}

// Runs the form on `n` elements of each operand and compares it with the plain instruction.
void check_form(VectorOp op, MemoryForm form, const Codes& a, const Codes& b) {
  const VectorFunction in_memory =
      vector_function_in_memory(op, ElementType::F16, ElementType::F16, form);
  if (in_memory == nullptr) return;
  const LaneArray first = lanes_of(a), second = lanes_of(b);
  const void* const plain_inputs[] = {first.data(), second.data()};
  LaneArray expected(a.size());
  const auto n = static_cast<int64_t>(a.size());
  const VectorFunction plain =
      form.scalar ? vector_function_with_scalar(op, ElementType::F16, ElementType::F16)
                  : vector_function(op, ElementType::F16, ElementType::F16);
  plain(plain_inputs, expected.data(), n);
  const void* const inputs[] = {form.first ? static_cast<const void*>(a.data()) : first.data(),
                                form.second ? static_cast<const void*>(b.data()) : second.data()};
  if (form.result) {
    Codes result(a.size());
    in_memory(inputs, result.data(), n);
    CHECK(result == codes_of(expected));
    return;
  }
  LaneArray result(a.size());
  in_memory(inputs, result.data(), n);
  CHECK(has_same_bits(result, expected));
}

template <typename Body>
void for_each_form(Body body) {
  for (int bits = 1; bits < 8; ++bits) {
    body(MemoryForm{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, false});
    body(MemoryForm{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, true});
  }
}

}  // namespace

TEST("memory forms give the bits of the plain instructions for all operands") {
  for (const std::string_view capability : available_capabilities()) {
    const EngineSettings settings(capability, false);
    for (const bool with_nan : {false, true}) {
      const Codes a = all_codes(with_nan), b = shuffled(a, 7);
      for (const VectorOp op : kOps) {
        for_each_form([&](MemoryForm form) { check_form(op, form, a, b); });
      }
    }
  }
}

TEST("memory forms accept any number of elements") {
  for (int64_t n = 1; n <= 150; ++n) {
    const Codes all = shuffled(all_codes(n % 2 == 0), static_cast<uint32_t>(n));
    const Codes a(all.begin(), all.begin() + n), b(all.begin() + n, all.begin() + 2 * n);
    for (const VectorOp op : {VectorOp::ADDF, VectorOp::EXP}) {
      for_each_form([&](MemoryForm form) { check_form(op, form, a, b); });
    }
  }
}

TEST("in-place quotients by a scalar and products near the smallest value") {
  const Codes all = shuffled(all_codes(false), 3);
  for (const uint16_t scalar : {0x0001, 0x0002, 0x0200, 0x3E00, 0x7FFE, 0x8001, 0xBE01, 0x0000}) {
    for (const VectorOp op : {VectorOp::DIVF, VectorOp::MULF}) {
      const MemoryForm form{.first = true, .result = true, .scalar = true};
      check_form(op, form, all, Codes(all.size(), scalar));
      const VectorFunction in_place =
          vector_function_in_memory(op, ElementType::F16, ElementType::F16, form);
      if (in_place == nullptr) continue;
      Codes apart(all.size()), same = all;
      const LaneArray lane = lanes_of(Codes{scalar});
      const void* const inputs[] = {all.data(), lane.data()};
      in_place(inputs, apart.data(), static_cast<int64_t>(all.size()));
      const void* const own[] = {same.data(), lane.data()};
      in_place(own, same.data(), static_cast<int64_t>(same.size()));
      CHECK(apart == same);
    }
  }
}

TEST("other types have no memory forms") {
  const MemoryForm form{.first = true, .result = true};
  CHECK(vector_function_in_memory(VectorOp::ADDF, ElementType::BF16, ElementType::BF16, form) ==
        nullptr);
  CHECK(vector_function_in_memory(VectorOp::ADDF, ElementType::F16, ElementType::F32, form) ==
        nullptr);
  const EngineSettings settings("", true);
  CHECK(vector_function_in_memory(VectorOp::ADDF, ElementType::F16, ElementType::F16, form) ==
        nullptr);
  CHECK(reduce_elements(Combine::ADD, ElementType::F16) == nullptr);
}

TEST("reductions of elements give the bits of reductions of lanes") {
  for (const std::string_view capability : available_capabilities()) {
    const EngineSettings settings(capability, false);
    for (const Combine combine : {Combine::ADD, Combine::MAXIMUM}) {
      const ReduceLanes from_memory = reduce_elements(combine, ElementType::F16);
      if (from_memory == nullptr) continue;
      const auto check = [&](const Codes& codes, int64_t first) {
        const auto result = [&](ReduceLanes take, const void* elements) {
          LaneArray accumulators(kReductionAccumulators);
          start_reduction(combine, ElementType::F16)(accumulators.data());
          take(accumulators.data(), elements, first, static_cast<int64_t>(codes.size()));
          finish_lanes(combine, ElementType::F16)(accumulators.data());
          round_lanes(ElementType::F16)(accumulators.data(), 1);
          return LaneArray{accumulators[0]};
        };
        const LaneArray lanes = lanes_of(codes);
        CHECK(has_same_bits(result(from_memory, codes.data()),
                            result(reduce_lanes(combine, ElementType::F16), lanes.data())));
      };
      for (int64_t n = 1; n <= 200; ++n) {
        const Codes all = shuffled(all_codes(n % 3 == 0), static_cast<uint32_t>(n));
        const Codes some(all.begin(), all.begin() + n);
        check(some, 0);
        check(some, n % 70);
        Codes negative = some;
        for (uint16_t& code : negative) code |= 0x8000;
        check(negative, 0);
      }
      check(all_codes(false), 0);
      check(all_codes(true), 0);
      check({0x8000, 0x0000}, 0);
      check({0x8000, 0x8000}, 0);
      check({0xFFFF}, 0);
      check({0x0001, 0xFFFF, 0x7FFE}, 0);
    }
  }
}
