// Compares float_formats.h with independent definitions: sorted tables of doubles, which represent
// every value of these formats and every midpoint of two adjacent values exactly.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "check.h"
#include "flex/data_format.h"
#include "flex/float_formats.h"

namespace spyre::emulator {
namespace {

double as_double(uint32_t single_bits) { return std::bit_cast<float>(single_bits); }

uint32_t exponent_field(uint32_t code, int fraction_bits) { return code >> fraction_bits; }

// The magnitudes of a format by code, for codes 0 to `largest`.
template <typename Value>
std::vector<double> table_of(uint32_t largest, Value value) {
  std::vector<double> table;
  for (uint32_t code = 0; code <= largest; ++code) table.push_back(value(code));
  return table;
}

double ieee_value(uint32_t code, int fraction_bits, int bias) {
  const auto exponent = static_cast<int>(exponent_field(code, fraction_bits));
  const double fraction = std::ldexp(code & ((1u << fraction_bits) - 1), -fraction_bits);
  return exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
}

double sen169_value(uint32_t code) {
  if (code == 0) return 0;
  return std::ldexp(1 + (code & 511) / 512.0, static_cast<int>(exponent_field(code, 9)) - 31);
}

const std::vector<double>& sen169_table() {
  static const std::vector<double> table = table_of(0x7FFE, sen169_value);
  return table;
}
// The code after the largest finite one stands in for infinity: its value as if the format went on.
const std::vector<double>& fp16_table() {
  static const std::vector<double> table =
      table_of(0x7C00, [](uint32_t code) { return ieee_value(code, 10, 15); });
  return table;
}
const std::vector<double>& bf16_table() {
  static const std::vector<double> table =
      table_of(0x7F80, [](uint32_t code) { return ieee_value(code, 7, 127); });
  return table;
}

enum class Ties { AWAY, TO_EVEN };

uint32_t nearest_code(const std::vector<double>& table, double magnitude, Ties ties) {
  if (magnitude >= table.back()) return static_cast<uint32_t>(table.size() - 1);
  const auto above = std::upper_bound(table.begin(), table.end(), magnitude);
  const auto upper = static_cast<uint32_t>(above - table.begin());
  const double midpoint = (table[upper - 1] + table[upper]) / 2;
  if (magnitude != midpoint) return magnitude < midpoint ? upper - 1 : upper;
  return ties == Ties::AWAY || upper % 2 == 0 ? upper : upper - 1;
}

uint16_t expected_sen169(double value) {
  if (std::isnan(value)) return 0x7FFF;
  const uint32_t sign = std::signbit(value) ? 0x8000 : 0;
  return static_cast<uint16_t>(sign | nearest_code(sen169_table(), std::fabs(value), Ties::AWAY));
}

uint16_t expected_conversion(double value) {
  const uint16_t rounded = expected_sen169(value);
  return std::isfinite(value) && (rounded & 0x7FFF) == 0x7FFE ? rounded - 1 : rounded;
}

uint16_t expected_ieee(const std::vector<double>& table, double value) {
  const uint32_t sign = std::signbit(value) ? 0x8000 : 0;
  return static_cast<uint16_t>(sign | nearest_code(table, std::fabs(value), Ties::TO_EVEN));
}

// Returns the value of a code on the host.
double expected_host_value(uint16_t code) {
  const uint32_t magnitude = code & 0x7FFF;
  if (magnitude == 0x7FFF) return std::numeric_limits<double>::quiet_NaN();
  const double value =
      magnitude == 0x7FFE ? std::numeric_limits<double>::infinity() : sen169_value(magnitude);
  return code & 0x8000 ? -value : value;
}

// Bit patterns of every exponent, and adjacent to all special values.
template <typename Visit>
void for_sampled_singles(uint32_t step, Visit visit) {
  for (uint64_t bits = 0; bits < (1ull << 32); bits += step) visit(static_cast<uint32_t>(bits));
  for (uint32_t upper = 0; upper < (1u << 16); ++upper) {
    for (const uint32_t lower : {0u, 1u, 0x1FFFu, 0x2000u, 0x2001u, 0x7FFFu, 0x8000u, 0xFFFFu}) {
      visit(upper << 16 | lower);
    }
  }
}

static_assert(sen169_from_fp32(std::bit_cast<uint32_t>(1.0f)) == kSen169One);
static_assert(sen169_value_bits(0x7FFE) == std::bit_cast<uint32_t>(8573157376.0f));

TEST("formats: the published examples of SEN169") {
  const auto encode = [](float value) { return sen169_from_fp32(std::bit_cast<uint32_t>(value)); };
  CHECK_EQUAL(encode(-2.0f), 0xC000);
  CHECK_EQUAL(encode(0.5f), 0x3C00);
  CHECK_EQUAL(encode(3.14f), 0x4124);
  CHECK_EQUAL(encode(0.1f), 0x3733);
  CHECK_EQUAL(encode(1.0f + 0x1p-10f), 0x3E01);
  CHECK_EQUAL(encode(1024.0f), 0x5200);
  CHECK_EQUAL(encode(1025.0f), 0x5201);
  CHECK_EQUAL(encode(2049.0f), 0x5400);
  CHECK_EQUAL(encode(0x1p-24f), 0x0E00);
  CHECK_EQUAL(encode(65504.0f), 0x5E00);
  CHECK_EQUAL(sen169_to_fp16(0x5E00), 0x7C00);
  CHECK_EQUAL(as_double(sen169_value_bits(0x7FFE)), 8573157376.0);
}

TEST("formats: SEN169 around zero") {
  const auto encode = [](double value) {
    return sen169_from_fp32(std::bit_cast<uint32_t>(static_cast<float>(value)));
  };
  const double smallest = std::ldexp(513.0 / 512, -31);
  CHECK_EQUAL(encode(0.0), 0x0000);
  CHECK_EQUAL(encode(-0.0), 0x8000);
  CHECK_EQUAL(encode(smallest), 0x0001);
  CHECK_EQUAL(encode(0x1p-31), 0x0001);
  CHECK_EQUAL(encode(smallest / 2), 0x0001);
  CHECK_EQUAL(encode(std::nextafterf(static_cast<float>(smallest / 2), 0.0f)), 0x0000);
  CHECK_EQUAL(encode(-0x1p-32), 0x8000);
  CHECK_EQUAL(encode(0x1p-149), 0x0000);
}

TEST("formats: SEN169 saturates and has one NaN") {
  CHECK_EQUAL(sen169_from_fp32(0x7F800000), 0x7FFE);
  CHECK_EQUAL(sen169_from_fp32(0xFF800000), 0xFFFE);
  CHECK_EQUAL(sen169_from_fp32(0x7F7FFFFF), 0x7FFD);
  CHECK_EQUAL(sen169_from_fp32(std::bit_cast<uint32_t>(0x1p33f)), 0x7FFD);
  CHECK_EQUAL(sen169_from_bf16(0xFF7F), 0xFFFD);
  CHECK_EQUAL(sen169_from_bf16(0xFF80), 0xFFFE);
  CHECK_EQUAL(sen169_rounded(0x7F800000), 0x7FFE);
  CHECK_EQUAL(sen169_rounded(0xFF7FFFFF), 0xFFFE);
  CHECK_EQUAL(sen169_from_fp32(0xFFC00001), 0x7FFF);
  CHECK_EQUAL(sen169_from_fp16(0xFC01), 0x7FFF);
  CHECK_EQUAL(sen169_from_bf16(0xFF81), 0x7FFF);
  for (const uint16_t nan : {0x7FFF, 0xFFFF}) {
    CHECK_EQUAL(sen169_to_fp32(nan), 0x7FC00000u);
    CHECK_EQUAL(sen169_value_bits(nan), 0x7FC00000u);
    CHECK_EQUAL(sen169_to_fp16(nan), 0x7E00);
    CHECK_EQUAL(sen169_to_bf16(nan), 0x7FC0);
  }
  CHECK_EQUAL(sen169_to_fp32(0xFFFE), 0xFF800000u);
  CHECK_EQUAL(sen169_to_fp16(0x7FFE), 0x7C00);
  CHECK_EQUAL(sen169_to_bf16(0x7FFE), 0x7F80);
}

TEST("formats: every SEN169 code decodes to its value in every host format") {
  for (uint32_t i = 0; i < (1u << 16); ++i) {
    const auto code = static_cast<uint16_t>(i);
    const double value = expected_host_value(code);
    if (std::isnan(value)) continue;
    CHECK_EQUAL(sen169_to_fp32(code), std::bit_cast<uint32_t>(static_cast<float>(value)));
    CHECK_EQUAL(sen169_to_fp16(code), expected_ieee(fp16_table(), value));
    CHECK_EQUAL(sen169_to_bf16(code), expected_ieee(bf16_table(), value));
    const double number = code & 0x8000 ? -sen169_value(code & 0x7FFF) : sen169_value(code);
    CHECK_EQUAL(sen169_value_bits(code), std::bit_cast<uint32_t>(static_cast<float>(number)));
  }
}

TEST("formats: every SEN169 code survives the round trip to binary32") {
  for (uint32_t i = 0; i < (1u << 16); ++i) {
    const auto code = static_cast<uint16_t>(i);
    const uint16_t expected = code == 0xFFFF ? 0x7FFF : code;
    CHECK_EQUAL(sen169_rounded(sen169_value_bits(code)), expected);
    CHECK_EQUAL(sen169_from_fp32(sen169_to_fp32(code)), expected);
  }
}

TEST("formats: every 16-bit host value encodes to the nearest SEN169 value") {
  for (uint32_t i = 0; i < (1u << 16); ++i) {
    const auto bits = static_cast<uint16_t>(i);
    CHECK_EQUAL(sen169_from_bf16(bits), expected_conversion(as_double(i << 16)));
    const uint32_t magnitude = i & 0x7FFF;
    const double size = magnitude > 0x7C00    ? std::numeric_limits<double>::quiet_NaN()
                        : magnitude == 0x7C00 ? std::numeric_limits<double>::infinity()
                                              : fp16_table()[magnitude];
    CHECK_EQUAL(sen169_from_fp16(bits), expected_conversion(i & 0x8000 ? -size : size));
  }
}

TEST("formats: binary32 values encode to the nearest value of every format") {
  for_sampled_singles(4099, [](uint32_t bits) {
    const double value = as_double(bits);
    CHECK_EQUAL(sen169_from_fp32(bits), expected_conversion(value));
    CHECK_EQUAL(sen169_rounded(bits), expected_sen169(value));
    if (std::isnan(value)) return;
    CHECK_EQUAL(fp16_from_fp32(bits), expected_ieee(fp16_table(), value));
    CHECK_EQUAL(bf16_from_fp32(bits), expected_ieee(bf16_table(), value));
  });
}

TEST("formats: binary16 widens exactly and survives the round trip") {
  for (uint32_t i = 0; i < (1u << 16); ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const uint32_t magnitude = i & 0x7FFF;
    if (magnitude > 0x7C00) continue;
    const double size =
        magnitude == 0x7C00 ? std::numeric_limits<double>::infinity() : fp16_table()[magnitude];
    const auto single = static_cast<float>(i & 0x8000 ? -size : size);
    CHECK_EQUAL(fp32_from_fp16(bits), std::bit_cast<uint32_t>(single));
    CHECK_EQUAL(fp16_from_fp32(fp32_from_fp16(bits)), bits);
  }
}

TEST("formats: IEEE conversions preserve a NaN's sign and payload and make it quiet") {
  CHECK_EQUAL(fp32_from_fp16(0xFC01), 0xFFC02000u);
  CHECK_EQUAL(fp32_from_fp16(0x7E00), 0x7FC00000u);
  CHECK_EQUAL(fp16_from_fp32(0xFF802000), 0xFE01);
  CHECK_EQUAL(fp16_from_fp32(0x7F800001), 0x7E00);
  CHECK_EQUAL(bf16_from_fp32(0x7F800001), 0x7FC0);
  CHECK_EQUAL(bf16_from_fp32(0xFFFFFFFF), 0xFFFF);
}

TEST("formats: names and sizes agree with the specification") {
  for (int value = 0; value < kDataFormatCount; ++value) {
    CHECK(name_of(static_cast<DataFormat>(value)) != "unknown DataFormat");
  }
  CHECK(name_of(DataFormat::SEN169_FP16) == "SEN169_FP16");
  CHECK(name_of(ElementArrangement::QFP8WT) == "QFP8WT");
  CHECK_EQUAL(elems_per_stick(DataFormat::SEN169_FP16), 64);
  CHECK_EQUAL(elems_per_stick(DataFormat::SENUINT32), 32);
  CHECK_EQUAL(elems_per_stick(DataFormat::SENINT4), 256);
  CHECK_EQUAL(elems_per_stick(DataFormat::BOOL), 0);
  CHECK_EQUAL(elems_per_stick(DataFormat::HOST_UINT8), 0);
  CHECK_EQUAL(bits_per_element(DataFormat::HOST_UINT8), 8);
}

}  // namespace
}  // namespace spyre::emulator
