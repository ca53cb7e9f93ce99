// Tests of loads and stores of lanes, of their rounding, and of reductions.
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "check.h"
#include "emulator/engine/lanes.h"
#include "engine_settings.h"
#include "flex/float_formats.h"

namespace spyre::emulator::engine {
namespace {

using Bytes = std::vector<std::byte>;

Bytes every_code(ElementType type) {
  const size_t count = type == ElementType::I1 ? 2 : size_t{1} << (8 * bytes_of(type));
  Bytes codes(count * static_cast<size_t>(bytes_of(type)));
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(codes.data() + i * static_cast<size_t>(bytes_of(type)), &i,
                static_cast<size_t>(bytes_of(type)));
  }
  return codes;
}

bool is_nan_code(ElementType type, const std::byte* code, bool ieee) {
  uint16_t bits = 0;
  std::memcpy(&bits, code, static_cast<size_t>(bytes_of(type)));
  switch (type) {
    case ElementType::F16:
      return ieee ? (bits & 0x7FFF) > 0x7C00 : (bits & 0x7FFF) == kSen169NaN;
    case ElementType::F8E4M3:
      return (bits & 0x7F) == 0x7F;
    default:
      return false;
  }
}

TEST("lanes: every code of 8 and 16 bits survives a load and a store") {
  for (const bool ieee : {false, true}) {
    for (const std::string_view capability : available_capabilities()) {
      const EngineSettings settings(capability, ieee);
      for (const ElementType type : all_types()) {
        if (bytes_of(type) > 2) continue;
        const Bytes codes = every_code(type);
        const auto n = static_cast<int64_t>(codes.size()) / bytes_of(type);
        Bytes lanes(static_cast<size_t>(n * lane_bytes(type)));
        Bytes back(codes.size());
        load_lanes(type)(codes.data(), 1, lanes.data(), n);
        store_lanes(type)(lanes.data(), back.data(), 1, n);
        for (int64_t i = 0; i < n; ++i) {
          const int64_t at = i * bytes_of(type);
          if (is_nan_code(type, codes.data() + at, ieee)) {
            CHECK(is_nan_code(type, back.data() + at, ieee));
          } else {
            CHECK(std::memcmp(codes.data() + at, back.data() + at,
                              static_cast<size_t>(bytes_of(type))) == 0);
          }
        }
      }
    }
  }
}

TEST("lanes: 16-bit floats have the values of float_formats.h") {
  for (const std::string_view capability : available_capabilities()) {
    for (const bool ieee : {false, true}) {
      const EngineSettings settings(capability, ieee);
      const Bytes codes = every_code(ElementType::F16);
      std::vector<uint32_t> lanes(1 << 16);
      load_lanes(ElementType::F16)(codes.data(), 1, lanes.data(), 1 << 16);
      for (uint32_t code = 0; code < (1 << 16); ++code) {
        const auto half = static_cast<uint16_t>(code);
        const uint32_t expected = ieee ? fp32_from_fp16(half) : sen169_value_bits(half);
        const bool both_nan = std::isnan(std::bit_cast<float>(expected)) &&
                              std::isnan(std::bit_cast<float>(lanes[code]));
        CHECK(both_nan || lanes[code] == expected);
      }
    }
  }
}

TEST("lanes: strides of any size and sign access the same elements as single loads and stores") {
  std::mt19937 random(5);
  Bytes memory(4096);
  for (std::byte& byte : memory) byte = static_cast<std::byte>(random() & 1);
  for (const std::string_view capability : available_capabilities()) {
    const EngineSettings settings(capability, false);
    for (const ElementType type : all_types()) {
      for (const int64_t stride : {1, 0, 2, 3, -1, -2}) {
        for (const int64_t n : {1, 7, 16, 65}) {
          const std::byte* src = memory.data() + 2049;
          Bytes lanes(static_cast<size_t>(n * lane_bytes(type)));
          load_lanes(type)(src, stride, lanes.data(), n);
          Bytes stored = memory;
          Bytes expected = memory;
          for (int64_t i = 0; i < n; ++i) {
            Bytes lane(static_cast<size_t>(lane_bytes(type)));
            load_lanes(type)(src + i * stride * bytes_of(type), 1, lane.data(), 1);
            CHECK(std::memcmp(lane.data(), lanes.data() + i * lane_bytes(type), lane.size()) == 0);
          }
          // Stored elsewhere, with the lanes reversed, to detect a store that does nothing.
          std::vector<int64_t> order(static_cast<size_t>(n));
          Bytes reversed(lanes.size());
          for (int64_t i = 0; i < n; ++i) {
            std::memcpy(reversed.data() + i * lane_bytes(type),
                        lanes.data() + (n - 1 - i) * lane_bytes(type),
                        static_cast<size_t>(lane_bytes(type)));
          }
          store_lanes(type)(reversed.data(), stored.data() + 2051, stride, n);
          for (int64_t i = 0; i < n; ++i) {
            store_lanes(type)(reversed.data() + i * lane_bytes(type),
                              expected.data() + 2051 + i * stride * bytes_of(type), 1, 1);
          }
          CHECK(stored == expected);
        }
      }
    }
  }
}

// Every 419th float, each with the extremes and the ties of its lower half.
template <typename Visit>
void for_many_floats(Visit visit) {
  std::vector<float> batch;
  const auto add = [&](uint32_t bits) {
    batch.push_back(std::bit_cast<float>(bits));
    if (batch.size() < 4096) return;
    visit(batch);
    batch.clear();
  };
  for (uint64_t bits = 0; bits < (1ull << 32); bits += 419) add(static_cast<uint32_t>(bits));
  for (uint32_t upper = 0; upper < (1u << 16); ++upper) {
    for (const uint32_t lower :
         {0x0, 0x1, 0x0FFF, 0x1000, 0x1001, 0x1FFF, 0x2000, 0x7FFF, 0x8000, 0x8001, 0xFFFF}) {
      add(upper << 16 | lower);
    }
  }
  visit(batch);
}

void check_rounding(ElementType type, bool ieee, uint32_t (*expected)(uint32_t)) {
  for (const std::string_view capability : available_capabilities()) {
    const EngineSettings settings(capability, ieee);
    const RoundLanes round = round_lanes(type);
    for_many_floats([&](const std::vector<float>& floats) {
      auto lanes = floats;
      round(lanes.data(), static_cast<int64_t>(lanes.size()));
      for (size_t i = 0; i < lanes.size(); ++i) {
        const uint32_t wanted =
            std::isnan(floats[i]) ? kFp32QuietNaN : expected(std::bit_cast<uint32_t>(floats[i]));
        CHECK_EQUAL(std::bit_cast<uint32_t>(lanes[i]), wanted);
      }
    });
  }
}

TEST("lanes: rounding to SEN169 is that of float_formats.h") {
  check_rounding(ElementType::F16, false,
                 [](uint32_t bits) { return sen169_value_bits(sen169_rounded(bits)); });
}
TEST("lanes: rounding to binary16 is that of float_formats.h") {
  check_rounding(ElementType::F16, true,
                 [](uint32_t bits) { return fp32_from_fp16(fp16_from_fp32(bits)); });
}
TEST("lanes: rounding to bfloat16 is that of float_formats.h") {
  check_rounding(ElementType::BF16, false,
                 [](uint32_t bits) { return fp32_from_bf16(bf16_from_fp32(bits)); });
}

// --- Reductions

// The definition of the order.
template <typename Lane, typename Apply>
Lane reduce_in_order(const std::vector<Lane>& lanes, Lane start, Apply apply) {
  std::vector<Lane> accumulators(64, start);
  for (size_t k = 0; k < lanes.size(); ++k) {
    accumulators[k % 64] = apply(accumulators[k % 64], lanes[k]);
  }
  for (size_t half = 32; half > 0; half /= 2) {
    for (size_t l = 0; l < half; ++l) {
      accumulators[l] = apply(accumulators[l], accumulators[l + half]);
    }
  }
  return accumulators[0];
}

// Accumulates in chunks of every length.
template <typename Lane>
Lane reduce_in_pieces(Combine combine, ElementType type, const std::vector<Lane>& lanes,
                      int64_t piece) {
  std::vector<Lane> accumulators(kReductionAccumulators);
  start_reduction(combine, type)(accumulators.data());
  const auto n = static_cast<int64_t>(lanes.size());
  for (int64_t first = 0; first < n; first += piece) {
    reduce_lanes(combine, type)(accumulators.data(), lanes.data() + first, first,
                                std::min(piece, n - first));
  }
  finish_lanes(combine, type)(accumulators.data());
  return accumulators[0];
}

template <typename Lane, typename Apply>
void check_reduction(Combine combine, ElementType type, const std::vector<Lane>& all, Lane start,
                     Apply apply) {
  for (const std::string_view capability : available_capabilities()) {
    const EngineSettings settings(capability, false);
    for (const size_t n : {1, 2, 63, 64, 65, 200, 1000}) {
      const std::vector<Lane> lanes(all.begin(), all.begin() + static_cast<int64_t>(n));
      const Lane expected = reduce_in_order(lanes, start, apply);
      for (const int64_t piece : {1, 5, 16, 64, 100, 1000}) {
        const Lane found = reduce_in_pieces(combine, type, lanes, piece);
        CHECK(std::memcmp(&found, &expected, sizeof(Lane)) == 0);
      }
    }
  }
}

TEST("lanes: float reductions have the documented order") {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> lanes(1000);
  for (float& lane : lanes) lane = normal(random) * std::exp2(normal(random) * 8);
  const ElementType type = ElementType::F16;
  check_reduction(Combine::ADD, type, lanes, -0.0f, [](float a, float b) { return a + b; });
  check_reduction(Combine::MUL, type, lanes, 1.0f, [](float a, float b) { return a * b; });
  check_reduction(Combine::MAXIMUM, type, lanes, -INFINITY,
                  [](float a, float b) { return std::max(a, b); });
  check_reduction(Combine::MINIMUM, type, lanes, INFINITY,
                  [](float a, float b) { return std::min(a, b); });
}

float reduce_all(Combine combine, const std::vector<float>& lanes) {
  return reduce_in_pieces(combine, ElementType::F32, lanes, 1000);
}

TEST("lanes: MAXIMUM returns NaN if an operand is NaN, MAXNUM the other operand") {
  const std::vector<float> some = {1.0f, NAN, 3.0f};
  const std::vector<float> none = {NAN, NAN};
  for (const std::string_view capability : available_capabilities()) {
    const EngineSettings settings(capability, false);
    CHECK(std::isnan(reduce_all(Combine::MAXIMUM, some)));
    CHECK(std::isnan(reduce_all(Combine::MINIMUM, some)));
    CHECK_EQUAL(reduce_all(Combine::MAXNUM, some), 3.0f);
    CHECK_EQUAL(reduce_all(Combine::MINNUM, some), 1.0f);
    CHECK(std::isnan(reduce_all(Combine::MAXNUM, none)));
    CHECK(std::signbit(reduce_all(Combine::ADD, {-0.0f, -0.0f})));
    CHECK(!std::signbit(reduce_all(Combine::MAXIMUM, {-0.0f, 0.0f})));
    CHECK(std::signbit(reduce_all(Combine::MINIMUM, {0.0f, -0.0f})));
  }
}

template <typename Lane>
void check_integer_reductions(ElementType type, Lane (*wrap)(uint64_t)) {
  std::mt19937_64 random(9);
  std::vector<Lane> lanes(1000);
  for (Lane& lane : lanes) lane = wrap(random());
  const uint64_t mask = ~uint64_t{0} >> (64 - bits_of(type));
  const auto word = [mask](Lane lane) { return static_cast<uint64_t>(lane) & mask; };
  const Lane ones = wrap(~uint64_t{0});
  const Lane smallest = wrap(uint64_t{1} << (bits_of(type) - 1));
  const auto is_i1 = type == ElementType::I1;
  const auto signed_less = [is_i1](Lane a, Lane b) { return is_i1 ? -a < -b : a < b; };
  check_reduction(Combine::ADD, type, lanes, Lane{0},
                  [&](Lane a, Lane b) { return wrap(word(a) + word(b)); });
  check_reduction(Combine::MUL, type, lanes, Lane{1},
                  [&](Lane a, Lane b) { return wrap(word(a) * word(b)); });
  check_reduction(Combine::AND, type, lanes, ones,
                  [&](Lane a, Lane b) { return wrap(word(a) & word(b)); });
  check_reduction(Combine::OR, type, lanes, Lane{0},
                  [&](Lane a, Lane b) { return wrap(word(a) | word(b)); });
  check_reduction(Combine::XOR, type, lanes, Lane{0},
                  [&](Lane a, Lane b) { return wrap(word(a) ^ word(b)); });
  check_reduction(Combine::MAXIMUM, type, lanes, smallest,
                  [&](Lane a, Lane b) { return signed_less(a, b) ? b : a; });
  check_reduction(Combine::MINIMUM, type, lanes, wrap(word(smallest) - 1),
                  [&](Lane a, Lane b) { return signed_less(b, a) ? b : a; });
  check_reduction(Combine::UNSIGNED_MAXIMUM, type, lanes, Lane{0},
                  [&](Lane a, Lane b) { return word(a) < word(b) ? b : a; });
  check_reduction(Combine::UNSIGNED_MINIMUM, type, lanes, ones,
                  [&](Lane a, Lane b) { return word(b) < word(a) ? b : a; });
}

TEST("lanes: integer reductions wrap in their type") {
  check_integer_reductions<int32_t>(ElementType::I1,
                                    [](uint64_t x) { return static_cast<int32_t>(x & 1); });
  check_integer_reductions<int32_t>(ElementType::I8,
                                    [](uint64_t x) { return int32_t{static_cast<int8_t>(x)}; });
  check_integer_reductions<int32_t>(ElementType::I16,
                                    [](uint64_t x) { return int32_t{static_cast<int16_t>(x)}; });
  check_integer_reductions<int32_t>(ElementType::I32,
                                    [](uint64_t x) { return static_cast<int32_t>(x); });
  check_integer_reductions<int64_t>(ElementType::I64,
                                    [](uint64_t x) { return static_cast<int64_t>(x); });
}

TEST("lanes: reductions exist for the types they are documented for") {
  for (const ElementType type : all_types()) {
    for (int i = 0; i < kCombineCount; ++i) {
      const auto combine = static_cast<Combine>(i);
      const bool float_only = combine == Combine::MAXNUM || combine == Combine::MINNUM;
      const bool exists = is_float(type) ? combine <= Combine::MINNUM : !float_only;
      CHECK_EQUAL(combine_lanes(combine, type) != nullptr, exists);
      CHECK_EQUAL(start_reduction(combine, type) != nullptr, exists);
      CHECK_EQUAL(reduce_lanes(combine, type) != nullptr, exists);
      CHECK_EQUAL(finish_lanes(combine, type) != nullptr, exists);
    }
    CHECK_EQUAL(round_lanes(type) != nullptr, is_float(type));
  }
}

}  // namespace
}  // namespace spyre::emulator::engine
