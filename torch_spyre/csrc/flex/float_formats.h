// Scalar conversions between float formats, on bit patterns. They use only integer arithmetic, so
// that the host's rounding mode and flush-to-zero setting have no effect. The vector kernels in
// convert_kernels.inc must return the same bits.
//
// SEN169 ("DLFloat"): sign | 6 exponent bits, bias 31 | 9 fraction bits. No subnormals: a zero
// exponent with a fraction is a normal number of the binade 2^-31. Code 0x7FFF is NaN. Arithmetic
// treats the largest code, 0x7FFE, as a finite value to which overflow saturates. Conversions treat
// it as infinity, and map finite values to codes below it.
#pragma once

#include <bit>
#include <cstdint>

// Always inlined: the kernels are compiled once per instruction set, and the linker must not select
// an AVX-512 copy of these functions for other files.
#define SPYRE_FORMAT_FUNCTION [[gnu::always_inline]] constexpr

namespace spyre {

inline constexpr uint16_t kSen169NaN = 0x7FFF;
inline constexpr uint16_t kSen169Largest = 0x7FFE;
inline constexpr uint16_t kSen169LargestFinite = 0x7FFD;
inline constexpr uint16_t kSen169One = 0x3E00;
inline constexpr uint16_t kFp16One = 0x3C00;
inline constexpr uint32_t kFp32Infinity = 0x7F800000;
inline constexpr uint32_t kFp32QuietNaN = 0x7FC00000;

// IEEE binary16 -> binary32: exact; a NaN preserves sign and payload and becomes quiet.
SPYRE_FORMAT_FUNCTION uint32_t fp32_from_fp16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t magnitude = half & 0x7FFF;
  if (magnitude == 0) return sign;
  if (magnitude > 0x7C00) return sign | kFp32QuietNaN | magnitude << 13;
  if (magnitude == 0x7C00) return sign | kFp32Infinity;
  if (magnitude >= 0x0400) return sign | (magnitude + ((127 - 15) << 10)) << 13;
  // Subnormal, magnitude * 2^-24: move its highest one to bit 23, the position of the implicit one.
  const uint32_t shift = static_cast<uint32_t>(std::countl_zero(magnitude)) - 8;
  const uint32_t exponent = 127 - 24 + 23 - shift;
  return sign | exponent << 23 | ((magnitude << shift) & 0x7FFFFF);
}

// IEEE binary32 -> binary16, to nearest, ties to even; infinity from 65520 on. A NaN preserves its
// sign and the upper bits of its payload and becomes quiet. Selects instead of branches let it
// vectorise.
SPYRE_FORMAT_FUNCTION uint16_t fp16_from_fp32(uint32_t single) {
  const uint32_t sign = (single >> 16) & 0x8000;
  const uint32_t magnitude = single & 0x7FFFFFFF;
  const uint32_t rebiased = magnitude - ((127 - 15) << 23);
  const uint32_t normal = (rebiased + 0xFFF + ((rebiased >> 13) & 1)) >> 13;
  // Below 2^-14 the result counts units of 2^-24; a shift of 25 or more leaves nothing.
  const uint32_t exponent = magnitude >> 23;
  const uint32_t significand = (magnitude & 0x7FFFFF) | 0x800000;
  const uint32_t shift = exponent < 101 ? 25 : exponent > 112 ? 14 : 126 - exponent;
  const uint32_t below_half = (1u << (shift - 1)) - 1;
  const uint32_t subnormal = (significand + below_half + ((significand >> shift) & 1)) >> shift;
  const uint32_t finite = magnitude < 0x38800000 ? subnormal : normal;
  const uint32_t number = magnitude >= 0x477FF000 ? 0x7C00 : finite;
  const uint32_t nan = 0x7E00 | ((magnitude >> 13) & 0x3FF);
  return static_cast<uint16_t>(sign | (magnitude > kFp32Infinity ? nan : number));
}

// bfloat16 is the upper half of binary32.
SPYRE_FORMAT_FUNCTION uint32_t fp32_from_bf16(uint16_t brain) {
  return static_cast<uint32_t>(brain) << 16;
}

// binary32 -> bfloat16, to nearest, ties to even; NaN as in fp16_from_fp32.
SPYRE_FORMAT_FUNCTION uint16_t bf16_from_fp32(uint32_t single) {
  const uint32_t rounded = (single + 0x7FFF + ((single >> 16) & 1)) >> 16;
  const uint32_t nan = (single >> 16) | 0x0040;
  return static_cast<uint16_t>((single & 0x7FFFFFFF) > kFp32Infinity ? nan : rounded);
}

// Returns the nearest SEN169 code up to `limit`, ties away from zero; NaN loses its sign.
SPYRE_FORMAT_FUNCTION uint16_t sen169_up_to(uint32_t single, int32_t limit) {
  const uint32_t sign = (single >> 16) & 0x8000;
  const uint32_t magnitude = single & 0x7FFFFFFF;
  // Half a fraction step up, then keep 9 fraction bits and move the bias from 127 to 31.
  const int32_t rounded = static_cast<int32_t>((magnitude + 0x2000) >> 14) - ((127 - 31) << 9);
  // The code after zero is 2^-31 * 513/512; from half of that on, it is the nearer one.
  const int32_t smallest = magnitude >= ((127u - 32) << 23 | 1u << 14) ? 1 : 0;
  const int32_t raised = rounded < smallest ? smallest : rounded;
  const int32_t code = raised > limit ? limit : raised;
  const uint32_t signed_code = sign | static_cast<uint32_t>(code);
  return static_cast<uint16_t>(magnitude > kFp32Infinity ? kSen169NaN : signed_code);
}

// Rounds a result of arithmetic: overflow and infinity saturate to the largest code.
SPYRE_FORMAT_FUNCTION uint16_t sen169_rounded(uint32_t single) {
  return sen169_up_to(single, kSen169Largest);
}

// Converts a value. Infinity and the largest finite value stay different, because masks use both.
SPYRE_FORMAT_FUNCTION uint16_t sen169_from_fp32(uint32_t single) {
  const bool is_finite = (single & 0x7FFFFFFF) < kFp32Infinity;
  return sen169_up_to(single, is_finite ? kSen169LargestFinite : kSen169Largest);
}

// Returns the value of a code in arithmetic as binary32 bits. Exact.
SPYRE_FORMAT_FUNCTION uint32_t sen169_value_bits(uint16_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x8000) << 16;
  const uint32_t magnitude = code & 0x7FFF;
  const uint32_t number = (magnitude << 14) + ((127 - 31) << 23);
  const uint32_t value = sign | (magnitude == 0 ? 0 : number);
  return magnitude == kSen169NaN ? kFp32QuietNaN : value;
}

// Converts a code for the host: as above, but the largest code becomes infinity.
SPYRE_FORMAT_FUNCTION uint32_t sen169_to_fp32(uint16_t code) {
  const uint32_t infinity = static_cast<uint32_t>(code & 0x8000) << 16 | kFp32Infinity;
  return (code & 0x7FFF) == kSen169Largest ? infinity : sen169_value_bits(code);
}

// The 16-bit host formats widen to binary32 exactly, so these functions round only once.
SPYRE_FORMAT_FUNCTION uint16_t sen169_from_fp16(uint16_t half) {
  return sen169_from_fp32(fp32_from_fp16(half));
}
SPYRE_FORMAT_FUNCTION uint16_t sen169_from_bf16(uint16_t brain) {
  return sen169_from_fp32(fp32_from_bf16(brain));
}
SPYRE_FORMAT_FUNCTION uint16_t sen169_to_fp16(uint16_t code) {
  return fp16_from_fp32(sen169_to_fp32(code));
}
SPYRE_FORMAT_FUNCTION uint16_t sen169_to_bf16(uint16_t code) {
  return bf16_from_fp32(sen169_to_fp32(code));
}

}  // namespace spyre

#undef SPYRE_FORMAT_FUNCTION
