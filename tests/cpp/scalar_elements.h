// A scalar reference implementation of the engine's element types, with which tests compare the
// vector code.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "emulator/convert.h"
#include "emulator/engine/element_type.h"
#include "flex/float_formats.h"

namespace spyre::emulator::engine {

// An 8-bit float format without infinity.
struct SmallFloat {
  int fraction_bits;
  int bias;
  uint8_t nan;
  uint8_t largest;
};

inline SmallFloat small_float(ElementType type) {
  return type == ElementType::F8E4M3 ? SmallFloat{3, 7, 0x7F, 0x7E} : SmallFloat{2, 16, 0x80, 0x7F};
}

inline float small_float_value(ElementType type, uint8_t code) {
  const SmallFloat format = small_float(type);
  const bool is_nan = code == format.nan || (format.nan == 0x7F && code == 0xFF);
  if (is_nan) return std::numeric_limits<float>::quiet_NaN();
  const int exponent = (code & 0x7F) >> format.fraction_bits;
  const int fraction = code & ((1 << format.fraction_bits) - 1);
  const int significand = exponent == 0 ? fraction : fraction + (1 << format.fraction_bits);
  const float magnitude = std::ldexp(static_cast<float>(significand),
                                     std::max(exponent, 1) - format.bias - format.fraction_bits);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

// Returns the nearest code, ties to even; overflow saturates to the maximum.
inline uint8_t small_float_code(ElementType type, float value) {
  const SmallFloat format = small_float(type);
  if (std::isnan(value)) return format.nan;
  const double magnitude = std::fabs(static_cast<double>(value));
  uint8_t nearest = 0;
  for (int code = 1; code <= format.largest; ++code) {
    const double previous = small_float_value(type, nearest);
    const double middle = (previous + small_float_value(type, static_cast<uint8_t>(code))) / 2;
    if (magnitude > middle || (magnitude == middle && code % 2 == 0)) {
      nearest = static_cast<uint8_t>(code);
    } else {
      break;
    }
  }
  const bool has_negative_zero = format.nan != 0x80;
  const bool is_negative = std::signbit(value) && (nearest != 0 || has_negative_zero);
  return is_negative ? nearest | 0x80 : nearest;
}

template <typename Code>
Code load_code(const std::byte* data, int64_t index) {
  Code code;
  std::memcpy(&code, data + index * static_cast<int64_t>(sizeof(Code)), sizeof(Code));
  return code;
}

template <typename Code>
void store_code(std::byte* data, int64_t index, Code code) {
  std::memcpy(data + index * static_cast<int64_t>(sizeof(Code)), &code, sizeof(Code));
}

inline float load_float(const std::byte* data, int64_t index, ElementType type) {
  switch (type) {
    case ElementType::F16: {
      const auto code = load_code<uint16_t>(data, index);
      return std::bit_cast<float>(ieee_fp16() ? fp32_from_fp16(code) : sen169_value_bits(code));
    }
    case ElementType::BF16:
      return std::bit_cast<float>(fp32_from_bf16(load_code<uint16_t>(data, index)));
    case ElementType::F32:
      return load_code<float>(data, index);
    default:
      return small_float_value(type, load_code<uint8_t>(data, index));
  }
}

// Rounds once; NaN loses its sign and payload.
inline void store_float(std::byte* data, int64_t index, ElementType type, float value) {
  const uint32_t bits = std::isnan(value) ? kFp32QuietNaN : std::bit_cast<uint32_t>(value);
  switch (type) {
    case ElementType::F16:
      return store_code(data, index, ieee_fp16() ? fp16_from_fp32(bits) : sen169_rounded(bits));
    case ElementType::BF16:
      return store_code(data, index, bf16_from_fp32(bits));
    case ElementType::F32:
      return store_code(data, index, bits);
    default:
      return store_code(data, index, small_float_code(type, value));
  }
}

// Sign-extended to 64 bits.
inline uint64_t load_integer(const std::byte* data, int64_t index, ElementType type) {
  switch (type) {
    case ElementType::I8:
      return static_cast<uint64_t>(load_code<int8_t>(data, index));
    case ElementType::I16:
      return static_cast<uint64_t>(load_code<int16_t>(data, index));
    case ElementType::I32:
      return static_cast<uint64_t>(load_code<int32_t>(data, index));
    case ElementType::I64:
      return load_code<uint64_t>(data, index);
    default:
      return load_code<uint8_t>(data, index);
  }
}

inline void store_integer(std::byte* data, int64_t index, ElementType type, uint64_t value) {
  switch (type) {
    case ElementType::I1:
      return store_code(data, index, static_cast<uint8_t>(value & 1));
    case ElementType::I8:
      return store_code(data, index, static_cast<uint8_t>(value));
    case ElementType::I16:
      return store_code(data, index, static_cast<uint16_t>(value));
    case ElementType::I32:
      return store_code(data, index, static_cast<uint32_t>(value));
    default:
      return store_code(data, index, value);
  }
}

}  // namespace spyre::emulator::engine
