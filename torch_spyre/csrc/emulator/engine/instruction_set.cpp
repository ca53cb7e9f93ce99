#include "emulator/engine/instruction_set.h"

#include <algorithm>
#include <type_traits>

#include "emulator/engine/generated/instructions.h"

namespace spyre::emulator::engine {

namespace {

constexpr std::string_view kRoleNames[] = {
    "value",    "source",      "optional_source", "destination", "code_index",
    "location", "channel",     "lookup",          "table",       "size",
    "op",       "optional_op", "reduction",
};

template <typename Type>
struct ItemOf {
  using Item = Type;
};
template <typename Type>
struct ItemOf<std::vector<Type>> : ItemOf<Type> {};
template <typename Type, size_t size>
struct ItemOf<std::array<Type, size>> : ItemOf<Type> {};

template <typename Item>
std::string_view name_of_item() {
  if constexpr (Record<Item>) {
    return Item::kName;
  } else if constexpr (std::is_same_v<Item, bool>) {
    return "bool";
  } else if constexpr (std::is_same_v<Item, int32_t>) {
    return "int32";
  } else if constexpr (std::is_same_v<Item, int64_t>) {
    return "int64";
  } else if constexpr (std::is_same_v<Item, std::string> || std::is_same_v<Item, VectorOp> ||
                       std::is_same_v<Item, std::optional<VectorOp>>) {
    return "text";
  } else {
    return EnumInfo<Item>::kName;
  }
}

class Describer {
 public:
  // Describes a record after those that its fields consist of.
  template <typename Type>
  void add() {
    const auto is_known = [](const RecordDescription& record) {
      return record.name == Type::kName;
    };
    if (std::ranges::any_of(records, is_known)) return;
    RecordDescription description{std::string(Type::kName), 0, "", {}};
    if constexpr (requires { Type::kOpcode; }) {
      description.opcode = Type::kOpcode;
      description.mnemonic = Type::kMnemonic;
    }
    const Type value{};
    Type::visit_fields(value, [&]<typename Field>(const FieldInfo& field, const Field&) {
      using Item = typename ItemOf<Field>::Item;
      if constexpr (Record<Item> && !std::is_same_v<Item, Instruction>) add<Item>();
      std::string type(name_of_item<Item>());
      for (const size_t limit : field.limits) {
        if (limit > 0) type += "[" + std::to_string(limit) + "]";
      }
      type += " " + std::string(kRoleNames[static_cast<size_t>(field.role)]);
      description.fields.emplace_back(field.name, type);
    });
    records.push_back(std::move(description));
  }

  std::vector<RecordDescription> records;
};

}  // namespace

std::vector<RecordDescription> describe_instruction_set() {
  Describer describer;
  [&]<size_t... index>(std::index_sequence<index...>) {
    (describer.add<std::variant_alternative_t<index, Action>>(), ...);
  }(std::make_index_sequence<std::variant_size_v<Action>>());
  describer.add<ProgramContent>();
  const auto is_record = [](const RecordDescription& record) { return record.opcode == 0; };
  std::ranges::stable_partition(describer.records, is_record);
  return std::move(describer.records);
}

}  // namespace spyre::emulator::engine
