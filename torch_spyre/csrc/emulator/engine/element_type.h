// The element types of instructions, in memory and as lanes.
//
// In memory (DDR and LX) an element is its code: F16 is SEN169, or IEEE binary16 while
// spyre::ieee_fp16() is on; BF16 is bfloat16; F8E4M3 and F8E5M2 are torch's float8_e4m3fn and
// float8_e5m2fnuz; I1 is a byte of 0 or 1. Lanes are the working form: every float type is held as
// the exact value in a float (SEN169's largest code is the finite value 8573157376), I1 ... I32 as
// an int32_t (I1 as 0 or 1, the others sign-extended), I64 as an int64_t.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#include "emulator/engine/instruction_fields.h"

// Always inlined: files compiled per instruction set use these functions too, and the linker must
// not select their copies for other files.
#define SPYRE_TYPE_FUNCTION [[gnu::always_inline]] constexpr

namespace spyre::emulator::engine {

// The types with their codes in program files, see torch_spyre/backend/program/element_types.py.
enum class ElementType : uint8_t {
#define SPYRE_ELEMENT_TYPE(type, code, bits, bytes, is_float, name) type = code,
#include "emulator/engine/generated/element_types.inc"
};

struct ElementTypeInfo {
  int bits;  // significant bits: 1 for I1, else all bits
  int bytes;
  bool is_float;
  std::string_view name;  // in MLIR
};
inline constexpr ElementTypeInfo kElementTypes[] = {
#define SPYRE_ELEMENT_TYPE(type, code, bits, bytes, is_float, name) {bits, bytes, is_float, name},
#include "emulator/engine/generated/element_types.inc"
};
inline constexpr int kElementTypeCount = static_cast<int>(std::size(kElementTypes));

SPYRE_TYPE_FUNCTION const ElementTypeInfo& info_of(ElementType type) {
  return kElementTypes[static_cast<int>(type)];
}
SPYRE_TYPE_FUNCTION bool is_float(ElementType type) { return info_of(type).is_float; }
SPYRE_TYPE_FUNCTION int bytes_of(ElementType type) { return info_of(type).bytes; }
SPYRE_TYPE_FUNCTION int bits_of(ElementType type) { return info_of(type).bits; }

// Returns the bytes of one lane.
SPYRE_TYPE_FUNCTION int lane_bytes(ElementType type) { return type == ElementType::I64 ? 8 : 4; }

// Returns the MLIR name.
SPYRE_TYPE_FUNCTION std::string_view name_of(ElementType type) { return info_of(type).name; }

SPYRE_TYPE_FUNCTION std::optional<ElementType> element_type_named(std::string_view name) {
  for (int i = 0; i < kElementTypeCount; ++i) {
    if (kElementTypes[i].name == name) return static_cast<ElementType>(i);
  }
  return std::nullopt;
}

template <>
struct EnumInfo<ElementType> {
  static constexpr std::string_view kName = "ElementType";
  static constexpr int64_t kCount = kElementTypeCount;
};

}  // namespace spyre::emulator::engine

#undef SPYRE_TYPE_FUNCTION
