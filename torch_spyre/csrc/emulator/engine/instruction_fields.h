// The roles of instruction fields, for the code that visits them: reader, checker and description.
// torch_spyre/backend/program/fields.py defines the roles.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace spyre::emulator::engine {

// Registers are 64-bit slots; each core has its own register file. Integers of type I64 (also
// `index`) fill the slot; other scalars occupy its first four bytes, as lanes do.
using Register = int32_t;
inline constexpr Register kNoRegister = -1;
// Set when a program starts: the core's flat id and its coordinates in the grid.
inline constexpr Register kCoreRegister = 0, kCoreX = 1, kCoreY = 2, kCoreZ = 3;
inline constexpr Register kFirstFreeRegister = 4;
inline constexpr int32_t kNoLookup = -1;
// The tile is not a direct tile, see direct_tiles.h. Program files do not contain these numbers.
inline constexpr int32_t kNoDirectTile = -1;

enum class Role : uint8_t {
  kValue,
  kSource,
  kOptionalSource,
  kDestination,
  kCodeIndex,
  kLocation,
  kChannel,
  kLookup,
  kTable,
  kSize,
  kOp,
  kOptionalOp,
  kReduction,
};

// Describes a field: an item, in as many nested lists as there are nonzero limits, outermost first.
struct FieldInfo {
  std::string_view name;
  Role role = Role::kValue;
  std::array<size_t, 3> limits{};

  // Returns the description of the items of the outermost list.
  constexpr FieldInfo item() const { return {name, role, {limits[1], limits[2], 0}}; }
};

// Holds kName and kCount of an enum whose values are 0 to kCount - 1.
template <typename Enum>
struct EnumInfo;

// A struct of generated/instructions.h: `Record::visit_fields(record, visit)` calls
// visit(FieldInfo, field) for every field in the order of the file.
template <typename Type>
concept Record = requires { Type::kName; };

}  // namespace spyre::emulator::engine
