#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "emulator/engine/direct_tiles.h"
#include "emulator/engine/lanes.h"
#include "emulator/engine/parallel_loops.h"
#include "emulator/engine/program.h"
#include "emulator/engine/program_decoder.h"
#include "emulator/engine/program_limits.h"
#include "emulator/engine/scratchpad_use.h"
#include "emulator/engine/sha256.h"

namespace spyre::emulator::engine {

namespace {

constexpr char kMagic[] = {'S', 'P', 'Y', 'R', 'E', 'P', 'R', 'G'};
constexpr uint32_t kVersion = 2;
constexpr size_t kVersionAt = sizeof(kMagic), kLengthAt = kVersionAt + 4, kHashAt = kLengthAt + 8;
constexpr size_t kHeaderBytes = kHashAt + sizeof(Sha256);
constexpr int64_t kOpcodes = std::variant_size_v<Action>;  // numbered from 1, in order

VectorOp op_named(const std::string& name) {
  const std::optional<VectorOp> op = vector_op_named(name);
  if (!op) reject_program("no vector instruction is called '" + name + "'");
  return *op;
}

// Reads the fields of records in the order of the structs.
class Reader : ProgramDecoder {
 public:
  using ProgramDecoder::ProgramDecoder;

  void read_program(ProgramContent& content) {
    ProgramContent::visit_fields(content, *this);
    if (!at_end()) reject_program("something follows the last instruction");
  }

  template <typename Type>
  void operator()(const FieldInfo& field, Type& value) {
    read(field, value);
  }

 private:
  void read(const FieldInfo&, int64_t& value) { value = integer(); }
  void read(const FieldInfo&, int32_t& value) { value = number<int32_t>(); }
  void read(const FieldInfo&, bool& value) { value = boolean(); }
  void read(const FieldInfo&, std::string& value) { value = text(); }
  void read(const FieldInfo& field, VectorOp& op) {
    const std::string name = text();
    const bool is_absent = name.empty() && field.role == Role::kOptionalOp;
    op = is_absent ? kNoVectorOp : op_named(name);
  }
  void read(const FieldInfo&, std::optional<VectorOp>& reduction) {
    const std::string name = text();
    if (name.empty()) return;
    reduction = vector_op_named(name);
    if (!reduction || !combine_of(*reduction)) {
      reject_program("no reduction is called '" + name + "'");
    }
  }
  template <typename Enum>
    requires std::is_enum_v<Enum>
  void read(const FieldInfo&, Enum& value) {
    value = choice<Enum>(EnumInfo<Enum>::kCount, EnumInfo<Enum>::kName);
  }
  template <Record Type>
  void read(const FieldInfo&, Type& value) {
    Type::visit_fields(value, *this);
  }
  void read(const FieldInfo&, Instruction& instruction) {
    const int64_t opcode = integer();
    if (opcode < 1 || opcode > kOpcodes) {
      reject_program("no instruction has the opcode " + std::to_string(opcode));
    }
    Instruction::visit_fields(instruction, *this);
    // One function for each alternative of Action, in order.
    static constexpr auto kReaders = []<size_t... index>(std::index_sequence<index...>) {
      return std::array{&Reader::read_action<index>...};
    }(std::make_index_sequence<std::variant_size_v<Action>>());
    (this->*kReaders[static_cast<size_t>(opcode - 1)])(instruction.action);
  }
  template <size_t index>
  void read_action(Action& action) {
    using Type = std::variant_alternative_t<index, Action>;
    static_assert(Type::kOpcode == static_cast<int64_t>(index) + 1);
    Type::visit_fields(action.emplace<index>(), *this);
  }
  template <typename Item>
  void read(const FieldInfo& field, std::vector<Item>& items) {
    const size_t count = length(field.limits[0]);
    for (size_t i = 0; i < count; ++i) read(field.item(), items.emplace_back());
  }
  // A shorter list leaves the last items unchanged.
  template <typename Item, size_t size>
  void read(const FieldInfo& field, std::array<Item, size>& items) {
    const size_t count = length(size);
    for (size_t i = 0; i < count; ++i) read(field.item(), items[i]);
  }
};

uint64_t little_endian(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint64_t>(bytes[i]);
  return value;
}

}  // namespace

Program read_program(std::span<const std::byte> file, int64_t scratchpad_capacity) {
  if (file.size() < kHeaderBytes || std::memcmp(file.data(), kMagic, sizeof(kMagic)) != 0) {
    reject_program("not a program file");
  }
  const auto version_bytes = file.subspan(kVersionAt, 4);
  const uint64_t version = little_endian(version_bytes);
  if (version != kVersion) {
    reject_program("version " + std::to_string(version) + "; this is version " +
                   std::to_string(kVersion) + ". Compile the kernel again");
  }
  if (file.size() > kMaxFileBytes) reject_program("the file is too large");
  const auto payload = file.subspan(kHeaderBytes);
  if (little_endian(file.subspan(kLengthAt, 8)) != payload.size()) {
    reject_program("the file is cut off or has something after its end");
  }
  if (!std::ranges::equal(file.subspan(kHashAt, sizeof(Sha256)), sha256(version_bytes, payload))) {
    reject_program("the content does not match its hash");
  }
  Program program;
  Reader(payload).read_program(program);
  check_program(program, scratchpad_capacity);
  program.filled = read_before_written(program);
  find_direct_tiles(program);
  find_parallel_loop(program);
  return program;
}

}  // namespace spyre::emulator::engine
