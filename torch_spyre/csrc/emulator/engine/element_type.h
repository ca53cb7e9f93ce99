// The types of the elements that instructions work on, in memory and as lanes.
//
// In memory (DDR and LX) an element is its code: F16 is SEN169, or IEEE binary16 while
// spyre::ieee_fp16() is on; BF16 is bfloat16; F8E4M3 and F8E5M2 are torch's float8_e4m3fn and
// float8_e5m2fnuz; I1 is a byte of 0 or 1. Lanes are the working form: every float type is held as
// the exact value in a float (SEN169's largest code is the finite number 8573157376), I1 ... I32 as
// an int32_t (I1 as 0 or 1, the others sign-extended), I64 as an int64_t.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

// Always inlined: files compiled per instruction set use these too, and the linker must not pick
// their copy for everyone.
#define SPYRE_TYPE_FUNCTION [[gnu::always_inline]] constexpr

namespace spyre::emulator::engine {

enum class ElementType : uint8_t {
  F16 = 0,
  BF16 = 1,
  F32 = 2,
  F8E4M3 = 3,
  F8E5M2 = 4,
  I1 = 5,
  I8 = 6,
  I16 = 7,
  I32 = 8,
  I64 = 9,
};
inline constexpr int kElementTypeCount = 10;

SPYRE_TYPE_FUNCTION bool is_float(ElementType type) { return type <= ElementType::F8E5M2; }

// The bytes of one element in memory.
SPYRE_TYPE_FUNCTION int bytes_of(ElementType type) {
  constexpr int kBytes[kElementTypeCount] = {2, 2, 4, 1, 1, 1, 1, 2, 4, 8};
  return kBytes[static_cast<int>(type)];
}

// The bits that carry meaning: 1 for I1, else all of them.
SPYRE_TYPE_FUNCTION int bits_of(ElementType type) {
  return type == ElementType::I1 ? 1 : 8 * bytes_of(type);
}

// The bytes of one lane.
SPYRE_TYPE_FUNCTION int lane_bytes(ElementType type) { return type == ElementType::I64 ? 8 : 4; }

inline constexpr std::string_view kElementTypeNames[kElementTypeCount] = {
    "f16", "bf16", "f32", "f8E4M3FN", "f8E5M2FNUZ", "i1", "i8", "i16", "i32", "i64"};

// As MLIR spells it.
SPYRE_TYPE_FUNCTION std::string_view name_of(ElementType type) {
  return kElementTypeNames[static_cast<int>(type)];
}

SPYRE_TYPE_FUNCTION std::optional<ElementType> element_type_named(std::string_view name) {
  for (int i = 0; i < kElementTypeCount; ++i) {
    if (kElementTypeNames[i] == name) return static_cast<ElementType>(i);
  }
  return std::nullopt;
}

}  // namespace spyre::emulator::engine

#undef SPYRE_TYPE_FUNCTION
