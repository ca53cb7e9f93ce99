// Checks everything of a program that does not depend on register contents. The engine relies on
// these checks: it does not check register numbers, ranks, types and scratchpad buffers again.
#include <algorithm>
#include <string>

#include "emulator/engine/control_flow.h"
#include "emulator/engine/program.h"
#include "emulator/engine/program_decoder.h"
#include "emulator/engine/program_limits.h"
#include "emulator/engine/value_checker.h"

namespace spyre::emulator::engine {

namespace {

constexpr int64_t kMatrixRank = 3;  // batch, row, column

void require(bool holds, const char* problem) {
  if (!holds) reject_program(problem);
}

// Checks that each field satisfies its role, and that buffers are inside the scratchpad.
class FieldChecker {
 public:
  explicit FieldChecker(const Program& program) : program_(program) {}

  template <typename Type>
  void operator()(const FieldInfo& field, const Type& value) const {
    check(field, value);
  }

 private:
  template <typename Type>
  void check(const FieldInfo&, const Type&) const {}
  void check(const FieldInfo& field, int64_t value) const { integer(field, value); }
  void check(const FieldInfo& field, int32_t value) const { integer(field, value); }
  template <typename Item>
  void check(const FieldInfo& field, const std::vector<Item>& items) const {
    for (const Item& item : items) check(field.item(), item);
  }
  template <Record Type>
  void check(const FieldInfo&, const Type& record) const {
    if constexpr (requires { record.address + record.bytes; }) {
      buffer(record.address, record.bytes);
    }
    Type::visit_fields(record, *this);
  }

  void integer(const FieldInfo& field, int64_t value) const {
    switch (field.role) {
      case Role::kSource:
        return below(value, program_.registers, "there is no such register");
      case Role::kOptionalSource:
        if (value == kNoRegister) return;
        return below(value, program_.registers, "there is no such register");
      case Role::kDestination:
        below(value, program_.registers, "there is no such register");
        return require(value >= kFirstFreeRegister,
                       "a register that the engine fills is overwritten");
      case Role::kLocation:
        return below(value, program_.locations.size(), "its source location is missing");
      case Role::kChannel:
        return below(value, program_.channels, "there is no such channel");
      case Role::kTable:
        return below(value, program_.tables.size(), "no such table");
      case Role::kSize:
        if (value >= 0) return;
        reject_program(std::string(field.name).append(" is a negative size"));
      default:  // Control flow and lookups depend on more than the field.
        return;
    }
  }
  template <typename Count>
  static void below(int64_t value, Count count, const char* problem) {
    require(value >= 0 && value < static_cast<int64_t>(count), problem);
  }
  void buffer(int64_t address, int64_t bytes) const {
    require(address >= 0 && bytes >= 0 && address <= program_.scratchpad_bytes &&
                bytes <= program_.scratchpad_bytes - address,
            "a buffer lies outside the scratchpad");
  }

  const Program& program_;
};

// Checks conditions on several fields of an instruction, or on several instructions.
class Checker {
 public:
  Checker(const Program& program, int64_t capacity) : program_(program) {
    check_header(capacity);
    roles_.assign(static_cast<size_t>(program.channels), kUnknownRoles);
    for (const Instruction& instruction : program.code) find_roles(instruction.action);
  }

  // Other instructions have no such conditions.
  template <typename Action>
  void check(const Action&) const {}
  void check(const Scalar& scalar) const {
    check_vector_op(scalar.op, scalar.operand, scalar.result, scalar.inputs.size());
  }
  void check(const Extract& extract) const {
    rank(extract.source.strides, extract.extents.size());
    rank(extract.indices, extract.extents.size());
  }

  void check(const Transfer& transfer) const {
    const size_t dimensions = transfer.anchor.size();
    rank(transfer.tile.strides, transfer.extents.size());
    points(transfer.points, dimensions, transfer.extents.size());
    require(!transfer.views.empty(), "a transfer has no view");
    const bool is_partitioned = transfer.views.size() > 1;
    for (const View& partition : transfer.views) {
      view(partition, dimensions);
      require(partition.type == transfer.tile.type, "a tile and its view have different types");
      require(!is_partitioned || !partition.lower.empty() || dimensions == 0,
              "one of several views of a transfer is no partition");
      require(partition.lower.empty() || !partition.extents.empty(), "a partition has no extents");
    }
  }

  void check(const IndirectTransfer& transfer) const {
    const size_t variables =
        transfer.points.empty() ? transfer.variables.size() : transfer.points.size();
    rank(transfer.tile.strides, transfer.variables.size());
    require(transfer.points.empty() || transfer.variables.size() == 1,
            "a list of points has more than one length");
    whole_view(transfer.view, transfer.subscripts.size());
    require(transfer.view.type == transfer.tile.type, "a tile and its view have different types");
    for (const Subscript& subscript : transfer.subscripts) {
      for (const Expression& item : subscript.expressions) expression(item, variables);
      if (!subscript.indirect) {
        require(subscript.expressions.size() == 1, "a direct subscript is not one expression");
        continue;
      }
      whole_view(subscript.index, subscript.expressions.size());
      require(!is_float(subscript.index.type) && subscript.index.type != ElementType::I1,
              "indices are neither i8, i16, i32 nor i64");
    }
  }

  void check(const Chain& chain) const {
    const ValueTypes types = chain_values(chain);
    for (const ChainOutput& output : chain.outputs) {
      rank(output.operand.strides, chain.extents.size());
      require_same_lanes(type_of(types, output.value), output.operand.type);
    }
  }

  void check(const Reduce& reduce) const {
    const size_t dimensions = reduce.extents.size();
    const ValueTypes types = chain_values(reduce);
    check_ascending(reduce.reduced, dimensions);
    ValueTypes values;
    for (int32_t value : reduce.values) values.push_back(type_of(types, value));
    require(!values.empty(), "a reduction has no value");
    require(reduce.outputs.size() == values.size(), "a reduction needs an output for each value");
    require(reduce.initial.empty() || reduce.initial.size() == values.size(),
            "a reduction needs an initial value for each value, or none");
    for (const auto* operands : {&reduce.initial, &reduce.outputs}) {
      for (size_t i = 0; i < operands->size(); ++i) {
        reduced_operand((*operands)[i], reduce.reduced, dimensions);
        require_same_lanes(values[i], (*operands)[i].type);
      }
    }
    if (reduce.combine) {
      require(values.size() == 1, "a named reduction has one value");
      check_combine(*reduce.combine, values[0]);
      return check_combine(*reduce.combine, reduce.outputs[0].type);
    }
    check_combiner(reduce, values);
  }

  void check(const Matmul& matmul) const {
    matrix(matmul.a);
    matrix(matmul.b);
    matrix(matmul.output);
    if (matmul.has_initial) matrix(matmul.initial);
    const bool floats = is_float(matmul.output.type);
    require(is_float(matmul.a.type) == floats && is_float(matmul.b.type) == floats &&
                (!matmul.has_initial || is_float(matmul.initial.type) == floats),
            "a matmul mixes floats and integers");
    require(matmul.output.type != ElementType::I1, "a matmul has an i1 result");
  }

  void check(const Copy& copy) const {
    rank(copy.source.strides, copy.extents.size());
    rank(copy.destination.strides, copy.extents.size());
    require(copy.source.type == copy.destination.type, "a copy changes the type");
  }

  void check(const Sort& sort) const {
    require(!sort.extents.empty(), "a sort has no dimension");
    for (const Operand* operand :
         {&sort.keys, &sort.indices, &sort.sorted_keys, &sort.sorted_indices}) {
      rank(operand->strides, sort.extents.size());
    }
    require(sort.keys.type == sort.sorted_keys.type, "a sort changes the type of the keys");
    require(sort.keys.type != ElementType::I64, "a sort has keys of 64 bits");
    require(sort.indices.type == ElementType::I32 && sort.sorted_indices.type == ElementType::I32,
            "a sort has indices that are not i32");
    require(sort.run >= 1, "a sort has runs without elements");
  }

  void check(const Indexed& indexed) const {
    for (const Operand* operand : {&indexed.index, &indexed.tile, &indexed.table}) {
      rank(operand->strides, indexed.extents.size());
    }
    rank(indexed.origin, indexed.extents.size());
    require(!is_float(indexed.index.type) && indexed.index.type != ElementType::I1,
            "indices are neither i8, i16, i32 nor i64");
    if (!indexed.combine) {
      return require(indexed.tile.type == indexed.table.type,
                     "a table and its tile have different types");
    }
    require(indexed.scatter, "a gather combines elements");
    require_same_lanes(indexed.tile.type, indexed.table.type);
    check_combine(*indexed.combine, indexed.table.type);
  }

  void check(const Publish& publish) const {
    require(
        roles_[static_cast<size_t>(publish.channel)] == static_cast<int64_t>(publish.tiles.size()),
        "publications of one channel have different roles");
  }
  void check(const Receive& receive) const {
    const int64_t roles = roles_[static_cast<size_t>(receive.channel)];
    require(receive.role >= 0 && (roles == kUnknownRoles || receive.role < roles),
            "a channel has no such role");
    rank(receive.destination.strides, receive.extents.size());
    rank(receive.source_strides, receive.extents.size());
  }
  void check(const Literal& literal) const {
    rank(literal.destination.strides, 1);
    const auto bytes = static_cast<size_t>(bytes_of(literal.destination.type));
    require(literal.destination.offset == kNoRegister && literal.destination.strides[0] == 1 &&
                literal.values.size() <= static_cast<size_t>(literal.destination.bytes) / bytes,
            "a literal does not fit its buffer");
  }

 private:
  static constexpr int64_t kUnknownRoles = -1;

  void check_header(int64_t capacity) const {
    constexpr auto kMaxExtent = static_cast<int64_t>(kMaxCores);
    int64_t cores = 1;
    for (int64_t extent : program_.grid) {
      require(extent >= 1 && extent <= kMaxExtent, "a grid extent is not between 1 and 1024");
      cores *= extent;
    }
    require(cores <= kMaxExtent, "the grid has more than 1024 cores");
    require(program_.registers >= kFirstFreeRegister &&
                program_.registers <= static_cast<int64_t>(kMaxRegisters),
            "the number of registers is out of range");
    require(program_.channels >= 0 && program_.channels <= kMaxChannels,
            "the number of channels is out of range");
    require(program_.scratchpad_bytes >= 0, "the scratchpad has a negative size");
    if (program_.scratchpad_bytes > capacity) {
      reject_program("its tensors need " + std::to_string(program_.scratchpad_bytes) +
                     " bytes of a scratchpad of " + std::to_string(capacity));
    }
    const FieldChecker fields(program_);
    for (const Constant& constant : program_.constants) Constant::visit_fields(constant, fields);
    for (const Argument& argument : program_.arguments) Argument::visit_fields(argument, fields);
    for (const FixedBuffer& fixed : program_.fixed_buffers) {
      require(fixed.address >= 0 && fixed.bytes >= 0 && fixed.address <= kMaxAddress &&
                  fixed.bytes <= kMaxAddress,
              "a fixed buffer lies outside the address space");
      FixedBuffer::visit_fields(fixed, fields);
    }
    check_fixed_buffers_disjoint();
    for (const auto& table : program_.tables) {
      require(static_cast<int64_t>(table.size()) == cores,
              "a table has not one list for each core");
    }
  }

  void check_fixed_buffers_disjoint() const {
    std::vector<const FixedBuffer*> sorted;
    for (const FixedBuffer& fixed : program_.fixed_buffers) sorted.push_back(&fixed);
    std::ranges::sort(sorted, {}, [](const FixedBuffer* fixed) {
      return std::pair(fixed->address, fixed->bytes);
    });
    for (size_t i = 1; i < sorted.size(); ++i) {
      require(sorted[i - 1]->address + sorted[i - 1]->bytes <= sorted[i]->address,
              "fixed buffers overlap: they must be one");
    }
  }

  void find_roles(const Action& action) {
    const auto* publish = std::get_if<Publish>(&action);
    if (publish == nullptr) return;
    require(publish->channel >= 0 && publish->channel < program_.channels,
            "there is no such channel");
    roles_[static_cast<size_t>(publish->channel)] = static_cast<int64_t>(publish->tiles.size());
  }

  template <typename Item>
  static void rank(const std::vector<Item>& items, size_t dimensions) {
    require(items.size() == dimensions, "ranks do not agree");
  }

  static void matrix(const Operand& item) {
    rank(item.strides, kMatrixRank);
    require(std::ranges::all_of(item.strides, [](int64_t stride) { return stride >= 0; }),
            "a matrix has a negative stride");
  }
  static void reduced_operand(const Operand& item, const std::vector<int32_t>& reduced,
                              size_t dimensions) {
    rank(item.strides, dimensions);
    for (int32_t dimension : reduced) {
      require(item.strides[static_cast<size_t>(dimension)] == 0,
              "a reduced dimension has a stride in the result");
    }
  }

  static void view(const View& item, size_t dimensions) {
    rank(item.strides, dimensions);
    for (const auto* list : {&item.lower, &item.extents}) {
      if (!list->empty()) rank(*list, dimensions);
    }
  }
  static void whole_view(const View& item, size_t dimensions) {
    view(item, dimensions);
    require(item.lower.empty(), "an indirect access goes to a partition");
  }
  static void points(const std::vector<int64_t>& list, size_t dimensions, size_t tile_rank) {
    if (list.empty()) {
      require(tile_rank == dimensions, "ranks do not agree");
      return;
    }
    require(dimensions > 0 && list.size() % dimensions == 0 && tile_rank == 1,
            "a list of points has the wrong rank");
  }
  void expression(const Expression& terms, size_t variables) const {
    check_expression(terms, variables);
    for (const Term& term : terms) {
      if (term.kind == TermKind::kRegister) {
        require(term.value >= 0 && term.value < program_.registers, "there is no such register");
      }
    }
  }

  static ValueTypes chain_values(const ChainBody& chain) {
    const size_t dimensions = chain.extents.size();
    for (const Lookup& lookup : chain.lookups) rank(lookup.operand.strides, lookup.extents.size());
    ValueTypes types;
    for (const Input& input : chain.inputs) {
      if (input.kind == InputKind::kOperand) rank(input.operand.strides, dimensions);
      require(input.kind != InputKind::kScalar || input.source != kNoRegister,
              "there is no such register");
      if (input.kind == InputKind::kIndex) {
        require(input.dimension >= 0 && static_cast<size_t>(input.dimension) < dimensions,
                "there is no such dimension");
      }
      types.push_back(type_of(input));
    }
    append_steps(types, chain.steps, chain.lookups);
    return types;
  }

  const Program& program_;
  std::vector<int64_t> roles_;  // by channel: the number of roles
};

}  // namespace

void check_program(const Program& program, int64_t scratchpad_capacity) {
  const Checker checker(program, scratchpad_capacity);
  const FieldChecker fields(program);
  check_control_flow(program);
  for (size_t i = 0; i < program.code.size(); ++i) {
    const Instruction& instruction = program.code[i];
    try {
      Instruction::visit_fields(instruction, fields);
      std::visit(
          [&]<typename Type>(const Type& action) {
            Type::visit_fields(action, fields);
            checker.check(action);
          },
          instruction.action);
    } catch (const ProgramError& error) {
      throw ProgramError(std::string(error.what()) + " (instruction " + std::to_string(i) + ")");
    }
  }
}

}  // namespace spyre::emulator::engine
