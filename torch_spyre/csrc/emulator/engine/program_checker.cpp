// What must hold of a program whatever its registers contain. The engine relies on it: it looks at
// register numbers, ranks, types and scratchpad buffers no more.
#include <algorithm>
#include <string>

#include "emulator/engine/control_flow.h"
#include "emulator/engine/program.h"
#include "emulator/engine/program_decoder.h"
#include "emulator/engine/program_limits.h"
#include "emulator/engine/value_checker.h"

namespace spyre::emulator::engine {

namespace {

constexpr int32_t kDeliveryKinds = 6;
constexpr int64_t kMatrixRank = 3;  // batch, row, column

void require(bool holds, const char* problem) {
  if (!holds) refuse_program(problem);
}

class Checker {
 public:
  Checker(const Program& program, int64_t capacity) : program_(program) {
    check_header(capacity);
    roles_.assign(static_cast<size_t>(program.channels), kUnknownRoles);
    for (const Instruction& instruction : program.code) find_roles(instruction.action);
  }

  void check(const LoopBegin& loop) const {
    destination(loop.variable);
    source(loop.lower);
    source(loop.upper);
    source(loop.step);
  }
  void check(const LoopEnd&) const {}
  void check(const Branch& branch) const { source(branch.condition); }
  void check(const Jump&) const {}
  void check(const Scalar& scalar) const {
    check_vector_op(scalar.op, scalar.operand, scalar.result, scalar.inputs.size());
    destination(scalar.destination);
    sources(scalar.inputs);
  }
  void check(const Move& move) const {
    destination(move.destination);
    source(move.source);
  }
  void check(const Extract& extract) const {
    destination(extract.destination);
    operand(extract.source, extract.extents.size());
    rank(extract.indices, extract.extents.size());
    sources(extract.indices);
    sources(extract.extents);
  }

  void check(const Transfer& transfer) const {
    const size_t dimensions = transfer.anchor.size();
    operand(transfer.tile, transfer.extents.size());
    sources(transfer.extents);
    sources(transfer.anchor);
    points(transfer.points, dimensions, transfer.extents.size());
    require(!transfer.views.empty(), "a transfer has no view");
    const bool partitioned = transfer.views.size() > 1;
    for (const View& part : transfer.views) {
      view(part, dimensions);
      require(part.type == transfer.tile.type, "a tile and its view have different types");
      require(!partitioned || !part.lower.empty() || dimensions == 0,
              "one of several views of a transfer is no partition");
      require(part.lower.empty() || !part.extents.empty(), "a partition has no extents");
    }
  }

  void check(const IndirectTransfer& transfer) const {
    const size_t variables =
        transfer.points.empty() ? transfer.variables.size() : transfer.points.size();
    sources(transfer.variables);
    operand(transfer.tile, transfer.variables.size());
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
      operand(output.operand, chain.extents.size());
      require_same_lanes(type_of(types, output.value), output.operand.type);
    }
  }

  void check(const Reduce& reduce) const {
    const size_t dimensions = reduce.chain.extents.size();
    const ValueTypes types = chain_values(reduce.chain);
    check_ascending(reduce.reduced, dimensions);
    ValueTypes folded;
    for (int32_t value : reduce.values) folded.push_back(type_of(types, value));
    require(!folded.empty(), "a reduction has no value");
    require(reduce.outputs.size() == folded.size(), "a reduction needs an output for each value");
    require(reduce.initial.empty() || reduce.initial.size() == folded.size(),
            "a reduction needs an initial value for each value, or none");
    for (const auto* operands : {&reduce.initial, &reduce.outputs}) {
      for (size_t i = 0; i < operands->size(); ++i) {
        reduced_operand((*operands)[i], reduce.reduced, dimensions);
        require_same_lanes(folded[i], (*operands)[i].type);
      }
    }
    if (reduce.named) {
      require(folded.size() == 1, "a named reduction folds one value");
      require(combine_lanes(reduce.combine, folded[0]) != nullptr &&
                  combine_lanes(reduce.combine, reduce.outputs[0].type) != nullptr,
              "a reduction does not exist for its type");
      return;
    }
    check_combiner(reduce, folded);
  }

  void check(const MatrixProduct& product) const {
    for (Register size : {product.batch, product.rows, product.columns, product.inner}) {
      source(size);
    }
    matrix(product.a);
    matrix(product.b);
    matrix(product.output);
    if (product.has_initial) matrix(product.initial);
    const bool floats = is_float(product.output.type);
    require(is_float(product.a.type) == floats && is_float(product.b.type) == floats &&
                (!product.has_initial || is_float(product.initial.type) == floats),
            "a matrix product mixes floats and integers");
    require(product.output.type != ElementType::I1, "a matrix product has an i1 result");
  }

  void check(const Copy& copy) const {
    sources(copy.extents);
    operand(copy.source, copy.extents.size());
    operand(copy.destination, copy.extents.size());
    require(copy.source.type == copy.destination.type, "a copy changes the type");
  }

  void check(const Publish& publish) const {
    channel(publish.channel);
    for (const Publish::Tile& tile : publish.tiles) buffer(tile.address, tile.bytes);
    require(
        roles_[static_cast<size_t>(publish.channel)] == static_cast<int64_t>(publish.tiles.size()),
        "publications of one channel have different roles");
  }
  void check(const Receive& receive) const {
    channel(receive.channel);
    const int64_t roles = roles_[static_cast<size_t>(receive.channel)];
    require(receive.role >= 0 && (roles == kUnknownRoles || receive.role < roles),
            "a channel has no such role");
    source(receive.producer);
    optional_source(receive.source_offset);
    sources(receive.extents);
    operand(receive.destination, receive.extents.size());
    rank(receive.source_strides, receive.extents.size());
  }
  void check(const Delivered& delivered) const {
    channel(delivered.channel);
    require(delivered.kind >= 0 && delivered.kind < kDeliveryKinds, "no such delivery");
    require(delivered.cores >= 0 && delivered.tile_bytes >= 0, "a delivery of negative size");
  }
  void check(const TableLookup& lookup) const {
    destination(lookup.destination);
    optional_source(lookup.index);
    require(lookup.table >= 0 && static_cast<size_t>(lookup.table) < program_.tables.size(),
            "no such table");
  }
  void check(const Literal& literal) const {
    operand(literal.destination, 1);
    const auto bytes = static_cast<size_t>(bytes_of(literal.destination.type));
    require(literal.destination.offset == kNoRegister && literal.destination.strides[0] == 1 &&
                literal.values.size() <= static_cast<size_t>(literal.destination.bytes) / bytes,
            "a literal does not fit its buffer");
  }

 private:
  static constexpr int64_t kUnknownRoles = -1;

  void check_header(int64_t capacity) const {
    int64_t cores = 1;
    for (int64_t extent : program_.grid) {
      require(extent >= 1 && extent <= kMostCores, "a grid extent is not between 1 and 1024");
      cores *= extent;
    }
    require(cores <= kMostCores, "the grid has more than 1024 cores");
    require(program_.registers >= kFirstFreeRegister &&
                program_.registers <= static_cast<int64_t>(kMostRegisters),
            "the number of registers is out of range");
    require(program_.channels >= 0 && program_.channels <= kMostChannels,
            "the number of channels is out of range");
    require(program_.scratchpad_bytes >= 0, "the scratchpad has a negative size");
    if (program_.scratchpad_bytes > capacity) {
      refuse_program("its tensors need " + std::to_string(program_.scratchpad_bytes) +
                     " bytes of a scratchpad of " + std::to_string(capacity));
    }
    for (const Program::Constant& constant : program_.constants) destination(constant.target);
    for (const Argument& argument : program_.arguments) {
      destination(argument.target);
      shape(argument.shape);
    }
    for (const FixedBuffer& fixed : program_.fixed_buffers) {
      require(fixed.address >= 0 && fixed.bytes >= 0 && fixed.address <= kHighestAddress &&
                  fixed.bytes <= kHighestAddress,
              "a fixed buffer lies outside the address space");
      shape(fixed.shape);
    }
    check_fixed_buffers_apart();
    for (const auto& table : program_.tables) {
      require(static_cast<int64_t>(table.size()) == cores,
              "a table has not one list for each core");
    }
  }

  void check_fixed_buffers_apart() const {
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
    channel(publish->channel);
    roles_[static_cast<size_t>(publish->channel)] = static_cast<int64_t>(publish->tiles.size());
  }

  void source(Register index) const {
    require(index >= 0 && index < program_.registers, "there is no such register");
  }
  void sources(const std::vector<Register>& indices) const {
    for (Register index : indices) source(index);
  }
  void optional_source(Register index) const {
    if (index != kNoRegister) source(index);
  }
  void destination(Register index) const {
    source(index);
    require(index >= kFirstFreeRegister, "a register that the engine fills is overwritten");
  }
  void channel(int32_t index) const {
    require(index >= 0 && index < program_.channels, "there is no such channel");
  }
  static void shape(const std::vector<int64_t>& extents) {
    require(std::ranges::all_of(extents, [](int64_t extent) { return extent >= 0; }),
            "a shape has a negative extent");
  }
  template <typename Item>
  static void rank(const std::vector<Item>& items, size_t dimensions) {
    require(items.size() == dimensions, "ranks do not agree");
  }

  void buffer(int64_t address, int64_t bytes) const {
    require(address >= 0 && bytes >= 0 && address <= program_.scratchpad_bytes &&
                bytes <= program_.scratchpad_bytes - address,
            "a buffer lies outside the scratchpad");
  }
  void operand(const Operand& item, size_t dimensions) const {
    buffer(item.address, item.bytes);
    optional_source(item.offset);
    rank(item.strides, dimensions);
  }
  void matrix(const Operand& item) const {
    operand(item, kMatrixRank);
    require(std::ranges::all_of(item.strides, [](int64_t stride) { return stride >= 0; }),
            "a matrix has a negative stride");
  }
  void reduced_operand(const Operand& item, const std::vector<int32_t>& reduced,
                       size_t dimensions) const {
    operand(item, dimensions);
    for (int32_t dimension : reduced) {
      require(item.strides[static_cast<size_t>(dimension)] == 0,
              "a reduced dimension has a stride in the result");
    }
  }

  void view(const View& item, size_t dimensions) const {
    optional_source(item.core);
    source(item.base);
    rank(item.strides, dimensions);
    for (const auto* list : {&item.strides, &item.lower, &item.extents}) sources(*list);
    for (const auto* list : {&item.lower, &item.extents}) {
      if (!list->empty()) rank(*list, dimensions);
    }
  }
  void whole_view(const View& item, size_t dimensions) const {
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
      if (term.kind == Term::Kind::kRegister) {
        require(term.value >= 0 && term.value < program_.registers, "there is no such register");
      }
    }
  }

  ValueTypes chain_values(const Chain& chain) const {
    const size_t dimensions = chain.extents.size();
    sources(chain.extents);
    for (const Lookup& lookup : chain.lookups) {
      sources(lookup.extents);
      operand(lookup.operand, lookup.extents.size());
    }
    ValueTypes types;
    for (const Input& input : chain.inputs) {
      if (input.kind == Input::Kind::kOperand) operand(input.operand, dimensions);
      if (input.kind == Input::Kind::kScalar) source(input.source);
      if (input.kind == Input::Kind::kIndex) {
        require(input.dimension >= 0 && static_cast<size_t>(input.dimension) < dimensions,
                "there is no such dimension");
      }
      types.push_back(type_of(input));
    }
    append_steps(types, chain.steps, chain.lookups);
    return types;
  }

  const Program& program_;
  std::vector<int64_t> roles_;  // of each channel
};

}  // namespace

void check_program(const Program& program, int64_t scratchpad_capacity) {
  Checker checker(program, scratchpad_capacity);
  check_control_flow(program);
  for (size_t i = 0; i < program.code.size(); ++i) {
    const Instruction& instruction = program.code[i];
    try {
      require(
          instruction.place >= 0 && static_cast<size_t>(instruction.place) < program.places.size(),
          "its place in the kernel's text is missing");
      std::visit([&](const auto& action) { checker.check(action); }, instruction.action);
    } catch (const ProgramError& error) {
      throw ProgramError(std::string(error.what()) + " (instruction " + std::to_string(i) + ")");
    }
  }
}

}  // namespace spyre::emulator::engine
