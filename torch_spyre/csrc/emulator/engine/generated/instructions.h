// Written by scripts/generate_instruction_set.py from torch_spyre/backend/program: do not edit.
// clang-format off
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "emulator/engine/element_type.h"
#include "emulator/engine/instruction_fields.h"
#include "emulator/engine/program_limits.h"
#include "emulator/engine/vector_ops.h"

namespace spyre::emulator::engine {

// The memory that a view addresses.
enum class Space : uint8_t {
  kGlobal = 0,
  kScratchpad = 1,
};
template <>
struct EnumInfo<Space> {
  static constexpr std::string_view kName = "Space";
  static constexpr int64_t kCount = 2;
};

// Postfix arithmetic of subscripts.
enum class TermKind : uint8_t {
  kConstant = 0,
  kRegister = 1,
  kVariable = 2,
  kAdd = 3,
  kMultiply = 4,
  kFloorDivide = 5,
  kCeilDivide = 6,
  kModulo = 7,
};
template <>
struct EnumInfo<TermKind> {
  static constexpr std::string_view kName = "TermKind";
  static constexpr int64_t kCount = 8;
};

// The source of a chain's input.
enum class InputKind : uint8_t {
  kOperand = 0,
  kScalar = 1,
  kIndex = 2,
};
template <>
struct EnumInfo<InputKind> {
  static constexpr std::string_view kName = "InputKind";
  static constexpr int64_t kCount = 3;
};

// The KTIR op that a delivery comes from, for the timing model.
enum class DeliveryKind : uint8_t {
  kConsume = 0,
  kReduce = 1,
  kReduceScatter = 2,
  kGather = 3,
  kAllToAll = 4,
  kScatter = 5,
};
template <>
struct EnumInfo<DeliveryKind> {
  static constexpr std::string_view kName = "DeliveryKind";
  static constexpr int64_t kCount = 6;
};

// Elements in the core's scratchpad, inside the buffer [address, address + bytes). offset is a
// register that counts elements. There is one stride, in elements, for each dimension of the
// instruction.
struct Operand {
  static constexpr std::string_view kName = "Operand";
  int64_t address{};
  int64_t bytes{};
  ElementType type{};
  Register offset = kNoRegister;
  std::vector<int64_t> strides;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"address", Role::kValue, {}}, self.address);
    visit(FieldInfo{"bytes", Role::kValue, {}}, self.bytes);
    visit(FieldInfo{"type", Role::kValue, {}}, self.type);
    visit(FieldInfo{"offset", Role::kOptionalSource, {}}, self.offset);
    visit(FieldInfo{"strides", Role::kValue, {kMaxRank}}, self.strides);
  }
};

// Memory as a kernel addresses it; registers hold all quantities, in elements. A scratchpad view
// addresses the window of core, or of the executing core if there is none. A view with lower is a
// partition: it holds the global coordinates [lower, lower + extents).
struct View {
  static constexpr std::string_view kName = "View";
  Space space{};
  ElementType type{};
  Register core = kNoRegister;
  Register base{};
  std::vector<Register> strides;
  std::vector<Register> lower;
  std::vector<Register> extents;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"space", Role::kValue, {}}, self.space);
    visit(FieldInfo{"type", Role::kValue, {}}, self.type);
    visit(FieldInfo{"core", Role::kOptionalSource, {}}, self.core);
    visit(FieldInfo{"base", Role::kSource, {}}, self.base);
    visit(FieldInfo{"strides", Role::kSource, {kMaxRank}}, self.strides);
    visit(FieldInfo{"lower", Role::kSource, {kMaxRank}}, self.lower);
    visit(FieldInfo{"extents", Role::kSource, {kMaxRank}}, self.extents);
  }
};

// One term of a postfix expression on 64-bit integers. value is the constant, or the number of the
// register or variable.
struct Term {
  static constexpr std::string_view kName = "Term";
  TermKind kind{};
  int64_t value{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"kind", Role::kValue, {}}, self.kind);
    visit(FieldInfo{"value", Role::kValue, {}}, self.value);
  }
};

// A coordinate: the value of one expression, or the element of index at all of them.
struct Subscript {
  static constexpr std::string_view kName = "Subscript";
  bool indirect{};
  std::vector<std::vector<Term>> expressions;
  View index{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"indirect", Role::kValue, {}}, self.indirect);
    visit(FieldInfo{"expressions", Role::kValue, {kMaxRank, kMaxTerms}}, self.expressions);
    visit(FieldInfo{"index", Role::kValue, {}}, self.index);
  }
};

// A value of a chain: an operand, a register's scalar, or the coordinate in a dimension (i64). type
// is the type of the value.
struct Input {
  static constexpr std::string_view kName = "Input";
  InputKind kind{};
  Operand operand{};
  ElementType type{};
  Register source = kNoRegister;
  int32_t dimension{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"kind", Role::kValue, {}}, self.kind);
    visit(FieldInfo{"operand", Role::kValue, {}}, self.operand);
    visit(FieldInfo{"type", Role::kValue, {}}, self.type);
    visit(FieldInfo{"source", Role::kOptionalSource, {}}, self.source);
    visit(FieldInfo{"dimension", Role::kValue, {}}, self.dimension);
  }
};

// A vector instruction on values of a chain, by number. With a lookup that is not -1 the step
// instead returns the element of that lookup at the coordinates in inputs.
struct ChainStep {
  static constexpr std::string_view kName = "ChainStep";
  int32_t lookup = kNoLookup;
  VectorOp op = kNoVectorOp;
  ElementType operand{};
  ElementType result{};
  std::vector<int32_t> inputs;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"lookup", Role::kLookup, {}}, self.lookup);
    visit(FieldInfo{"op", Role::kOptionalOp, {}}, self.op);
    visit(FieldInfo{"operand", Role::kValue, {}}, self.operand);
    visit(FieldInfo{"result", Role::kValue, {}}, self.result);
    visit(FieldInfo{"inputs", Role::kValue, {kMaxSteps}}, self.inputs);
  }
};

// A tensor that steps index; an index out of bounds is an IndexError.
struct Lookup {
  static constexpr std::string_view kName = "Lookup";
  Operand operand{};
  std::vector<Register> extents;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"operand", Role::kValue, {}}, self.operand);
    visit(FieldInfo{"extents", Role::kSource, {kMaxRank}}, self.extents);
  }
};

// The operand that a value of a chain is stored to.
struct ChainOutput {
  static constexpr std::string_view kName = "ChainOutput";
  int32_t value{};
  Operand operand{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"value", Role::kValue, {}}, self.value);
    visit(FieldInfo{"operand", Role::kValue, {}}, self.operand);
  }
};

// The buffer that one role of a channel offers.
struct PublishedTile {
  static constexpr std::string_view kName = "PublishedTile";
  int64_t address{};
  int64_t bytes{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"address", Role::kValue, {}}, self.address);
    visit(FieldInfo{"bytes", Role::kValue, {}}, self.bytes);
  }
};

// bits fill the register: an integer, or an f32 in the low half.
struct Constant {
  static constexpr std::string_view kName = "Constant";
  Register destination{};
  int64_t bits{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"destination", Role::kDestination, {}}, self.destination);
    visit(FieldInfo{"bits", Role::kValue, {}}, self.bits);
  }
};

// A scalar, or an array whose address in elements goes to the register. shape is that of the only
// plain view of the array, if there is exactly one; launches check it.
struct Argument {
  static constexpr std::string_view kName = "Argument";
  std::string name{};
  bool is_array{};
  Register destination{};
  ElementType type{};
  bool has_shape{};
  std::vector<int64_t> shape;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"name", Role::kValue, {}}, self.name);
    visit(FieldInfo{"is_array", Role::kValue, {}}, self.is_array);
    visit(FieldInfo{"destination", Role::kDestination, {}}, self.destination);
    visit(FieldInfo{"type", Role::kValue, {}}, self.type);
    visit(FieldInfo{"has_shape", Role::kValue, {}}, self.has_shape);
    visit(FieldInfo{"shape", Role::kSize, {kMaxRank}}, self.shape);
  }
};

// Memory at an address that the kernel's text fixes; name is that of the first view.
struct FixedBuffer {
  static constexpr std::string_view kName = "FixedBuffer";
  std::string name{};
  int64_t address{};
  int64_t bytes{};
  ElementType type{};
  std::vector<int64_t> shape;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"name", Role::kValue, {}}, self.name);
    visit(FieldInfo{"address", Role::kValue, {}}, self.address);
    visit(FieldInfo{"bytes", Role::kValue, {}}, self.bytes);
    visit(FieldInfo{"type", Role::kValue, {}}, self.type);
    visit(FieldInfo{"shape", Role::kSize, {kMaxRank}}, self.shape);
  }
};

// The op of the kernel's text that instructions come from.
struct SourceLocation {
  static constexpr std::string_view kName = "SourceLocation";
  std::string op{};
  int64_t line{};
  int64_t column{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"op", Role::kValue, {}}, self.op);
    visit(FieldInfo{"line", Role::kValue, {}}, self.line);
    visit(FieldInfo{"column", Role::kValue, {}}, self.column);
  }
};

// Sets variable = lower; continues after the loop's next, at end, unless variable < upper. A step
// that is not positive is an error.
struct LoopBegin {
  static constexpr std::string_view kName = "LoopBegin";
  static constexpr int64_t kOpcode = 1;
  static constexpr std::string_view kMnemonic = "loop";
  Register variable{};
  Register lower{};
  Register upper{};
  Register step{};
  int32_t end{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"variable", Role::kDestination, {}}, self.variable);
    visit(FieldInfo{"lower", Role::kSource, {}}, self.lower);
    visit(FieldInfo{"upper", Role::kSource, {}}, self.upper);
    visit(FieldInfo{"step", Role::kSource, {}}, self.step);
    visit(FieldInfo{"end", Role::kCodeIndex, {}}, self.end);
  }
};

// Adds the step of the loop at begin; continues with its body while variable < upper.
struct LoopEnd {
  static constexpr std::string_view kName = "LoopEnd";
  static constexpr int64_t kOpcode = 2;
  static constexpr std::string_view kMnemonic = "next";
  int32_t begin{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"begin", Role::kCodeIndex, {}}, self.begin);
  }
};

// Continues at target if the condition, an i1, is 0.
struct Branch {
  static constexpr std::string_view kName = "Branch";
  static constexpr int64_t kOpcode = 3;
  static constexpr std::string_view kMnemonic = "unless";
  Register condition{};
  int32_t target{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"condition", Role::kSource, {}}, self.condition);
    visit(FieldInfo{"target", Role::kCodeIndex, {}}, self.target);
  }
};

// Continues at target.
struct Jump {
  static constexpr std::string_view kName = "Jump";
  static constexpr int64_t kOpcode = 4;
  static constexpr std::string_view kMnemonic = "jump";
  int32_t target{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"target", Role::kCodeIndex, {}}, self.target);
  }
};

// Executes a vector instruction on registers.
struct Scalar {
  static constexpr std::string_view kName = "Scalar";
  static constexpr int64_t kOpcode = 5;
  static constexpr std::string_view kMnemonic = "scalar";
  VectorOp op{};
  ElementType operand{};
  ElementType result{};
  Register destination{};
  std::vector<Register> inputs;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"op", Role::kOp, {}}, self.op);
    visit(FieldInfo{"operand", Role::kValue, {}}, self.operand);
    visit(FieldInfo{"result", Role::kValue, {}}, self.result);
    visit(FieldInfo{"destination", Role::kDestination, {}}, self.destination);
    visit(FieldInfo{"inputs", Role::kSource, {kMaxRank}}, self.inputs);
  }
};

// Copies a register.
struct Move {
  static constexpr std::string_view kName = "Move";
  static constexpr int64_t kOpcode = 6;
  static constexpr std::string_view kMnemonic = "move";
  Register destination{};
  Register source{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"destination", Role::kDestination, {}}, self.destination);
    visit(FieldInfo{"source", Role::kSource, {}}, self.source);
  }
};

// Loads one element of a tensor to a register; an index out of bounds is an IndexError.
struct Extract {
  static constexpr std::string_view kName = "Extract";
  static constexpr int64_t kOpcode = 7;
  static constexpr std::string_view kMnemonic = "extract";
  Register destination{};
  Operand source{};
  std::vector<Register> indices;
  std::vector<Register> extents;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"destination", Role::kDestination, {}}, self.destination);
    visit(FieldInfo{"source", Role::kValue, {}}, self.source);
    visit(FieldInfo{"indices", Role::kSource, {kMaxRank}}, self.indices);
    visit(FieldInfo{"extents", Role::kSource, {kMaxRank}}, self.extents);
  }
};

// Loads a tile from memory, or stores it: element p is at coordinate anchor + p of the view.
// Several views are partitions of one. With points, coordinates one after the other, the tile is
// this list, and extents holds its length.
struct Transfer {
  static constexpr std::string_view kName = "Transfer";
  static constexpr int64_t kOpcode = 8;
  static constexpr std::string_view kMnemonic = "transfer";
  bool store{};
  Operand tile{};
  std::vector<Register> extents;
  std::vector<Register> anchor;
  std::vector<View> views;
  std::vector<int64_t> points;
  int32_t direct_tile = kNoDirectTile;  // see direct_tiles.h

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"store", Role::kValue, {}}, self.store);
    visit(FieldInfo{"tile", Role::kValue, {}}, self.tile);
    visit(FieldInfo{"extents", Role::kSource, {kMaxRank}}, self.extents);
    visit(FieldInfo{"anchor", Role::kSource, {kMaxRank}}, self.anchor);
    visit(FieldInfo{"views", Role::kValue, {kMaxViews}}, self.views);
    visit(FieldInfo{"points", Role::kValue, {kMaxPoints}}, self.points);
  }
};

// Loads or stores a tile whose coordinates are computed for each point of variables. With points,
// variables one after the other, the tile is this list, and variables holds its length. If a store
// has equal coordinates, the last one wins.
struct IndirectTransfer {
  static constexpr std::string_view kName = "IndirectTransfer";
  static constexpr int64_t kOpcode = 9;
  static constexpr std::string_view kMnemonic = "indirect";
  bool store{};
  Operand tile{};
  std::vector<Register> variables;
  View view{};
  std::vector<Subscript> subscripts;
  std::vector<int64_t> points;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"store", Role::kValue, {}}, self.store);
    visit(FieldInfo{"tile", Role::kValue, {}}, self.tile);
    visit(FieldInfo{"variables", Role::kSource, {kMaxRank}}, self.variables);
    visit(FieldInfo{"view", Role::kValue, {}}, self.view);
    visit(FieldInfo{"subscripts", Role::kValue, {kMaxRank}}, self.subscripts);
    visit(FieldInfo{"points", Role::kValue, {kMaxPoints}}, self.points);
  }
};

// The elementwise part that chain and reduce have in common. Values are numbered: the inputs first,
// then the results of the steps.
struct ChainBody {
  static constexpr std::string_view kName = "ChainBody";
  std::vector<Register> extents;
  std::vector<Input> inputs;
  std::vector<ChainStep> steps;
  std::vector<Lookup> lookups;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"extents", Role::kSource, {kMaxRank}}, self.extents);
    visit(FieldInfo{"inputs", Role::kValue, {kMaxSteps}}, self.inputs);
    visit(FieldInfo{"steps", Role::kValue, {kMaxSteps}}, self.steps);
    visit(FieldInfo{"lookups", Role::kValue, {kMaxSteps}}, self.lookups);
  }
};

// Computes elementwise on one iteration space; no intermediate is in the scratchpad.
struct Chain : ChainBody {
  static constexpr std::string_view kName = "Chain";
  static constexpr int64_t kOpcode = 10;
  static constexpr std::string_view kMnemonic = "chain";
  std::vector<ChainOutput> outputs;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    ChainBody::visit_fields(self, visit);
    visit(FieldInfo{"outputs", Role::kValue, {kMaxSteps}}, self.outputs);
  }
};

// Reduces values of a chain along the reduced dimensions. With a combine, the name of a vector
// instruction, there is one value, accumulated in f32 or the integer type and rounded once.
// Otherwise the steps of combiner combine the accumulators (values 0 to n-1) with the next elements
// (n to 2n-1), and results are the new accumulators. initial values are combined in once; there may
// be none. initial and outputs have stride 0 in reduced dimensions.
struct Reduce : ChainBody {
  static constexpr std::string_view kName = "Reduce";
  static constexpr int64_t kOpcode = 11;
  static constexpr std::string_view kMnemonic = "reduce";
  std::vector<int32_t> reduced;
  std::vector<int32_t> values;
  std::optional<VectorOp> combine{};
  std::vector<ChainStep> combiner;
  std::vector<int32_t> results;
  std::vector<Operand> initial;
  std::vector<Operand> outputs;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    ChainBody::visit_fields(self, visit);
    visit(FieldInfo{"reduced", Role::kValue, {kMaxSteps}}, self.reduced);
    visit(FieldInfo{"values", Role::kValue, {kMaxSteps}}, self.values);
    visit(FieldInfo{"combine", Role::kReduction, {}}, self.combine);
    visit(FieldInfo{"combiner", Role::kValue, {kMaxSteps}}, self.combiner);
    visit(FieldInfo{"results", Role::kValue, {kMaxSteps}}, self.results);
    visit(FieldInfo{"initial", Role::kValue, {kMaxSteps}}, self.initial);
    visit(FieldInfo{"outputs", Role::kValue, {kMaxSteps}}, self.outputs);
  }
};

// Computes output = round(initial + a b); operands have strides for batch, row and column.
struct Matmul {
  static constexpr std::string_view kName = "Matmul";
  static constexpr int64_t kOpcode = 12;
  static constexpr std::string_view kMnemonic = "matmul";
  Register batch{};
  Register rows{};
  Register columns{};
  Register inner{};
  Operand a{};
  Operand b{};
  bool has_initial{};
  Operand initial{};
  Operand output{};
  int32_t direct_tile = kNoDirectTile;  // of b

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"batch", Role::kSource, {}}, self.batch);
    visit(FieldInfo{"rows", Role::kSource, {}}, self.rows);
    visit(FieldInfo{"columns", Role::kSource, {}}, self.columns);
    visit(FieldInfo{"inner", Role::kSource, {}}, self.inner);
    visit(FieldInfo{"a", Role::kValue, {}}, self.a);
    visit(FieldInfo{"b", Role::kValue, {}}, self.b);
    visit(FieldInfo{"has_initial", Role::kValue, {}}, self.has_initial);
    visit(FieldInfo{"initial", Role::kValue, {}}, self.initial);
    visit(FieldInfo{"output", Role::kValue, {}}, self.output);
  }
};

// Copies elements unchanged inside the scratchpad; source and destination do not overlap.
struct Copy {
  static constexpr std::string_view kName = "Copy";
  static constexpr int64_t kOpcode = 13;
  static constexpr std::string_view kMnemonic = "copy";
  std::vector<Register> extents;
  Operand source{};
  Operand destination{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"extents", Role::kSource, {kMaxRank}}, self.extents);
    visit(FieldInfo{"source", Role::kValue, {}}, self.source);
    visit(FieldInfo{"destination", Role::kValue, {}}, self.destination);
  }
};

// Offers tiles of this core to other cores, one for each role of the channel.
struct Publish {
  static constexpr std::string_view kName = "Publish";
  static constexpr int64_t kOpcode = 14;
  static constexpr std::string_view kMnemonic = "publish";
  int32_t channel{};
  std::vector<PublishedTile> tiles;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"channel", Role::kChannel, {}}, self.channel);
    visit(FieldInfo{"tiles", Role::kValue, {kMaxRoles}}, self.tiles);
  }
};

// Copies part of a tile that core producer published in this round; waits for it. source_offset and
// source_strides count elements of the published tile.
struct Receive {
  static constexpr std::string_view kName = "Receive";
  static constexpr int64_t kOpcode = 15;
  static constexpr std::string_view kMnemonic = "receive";
  int32_t channel{};
  int32_t role{};
  Register producer{};
  Register source_offset = kNoRegister;
  std::vector<int64_t> source_strides;
  Operand destination{};
  std::vector<Register> extents;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"channel", Role::kChannel, {}}, self.channel);
    visit(FieldInfo{"role", Role::kValue, {}}, self.role);
    visit(FieldInfo{"producer", Role::kSource, {}}, self.producer);
    visit(FieldInfo{"source_offset", Role::kOptionalSource, {}}, self.source_offset);
    visit(FieldInfo{"source_strides", Role::kValue, {kMaxRank}}, self.source_strides);
    visit(FieldInfo{"destination", Role::kValue, {}}, self.destination);
    visit(FieldInfo{"extents", Role::kSource, {kMaxRank}}, self.extents);
  }
};

// Ends this core's round of the channel; the other fields are for the timing model.
struct Delivered {
  static constexpr std::string_view kName = "Delivered";
  static constexpr int64_t kOpcode = 16;
  static constexpr std::string_view kMnemonic = "delivered";
  int32_t channel{};
  DeliveryKind kind{};
  int32_t cores{};
  int64_t tile_bytes{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"channel", Role::kChannel, {}}, self.channel);
    visit(FieldInfo{"kind", Role::kValue, {}}, self.kind);
    visit(FieldInfo{"cores", Role::kSize, {}}, self.cores);
    visit(FieldInfo{"tile_bytes", Role::kSize, {}}, self.tile_bytes);
  }
};

// Loads tables[table][core][index], or the length of that list if there is no index.
struct TableLookup {
  static constexpr std::string_view kName = "TableLookup";
  static constexpr int64_t kOpcode = 17;
  static constexpr std::string_view kMnemonic = "table";
  Register destination{};
  int32_t table{};
  Register index = kNoRegister;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"destination", Role::kDestination, {}}, self.destination);
    visit(FieldInfo{"table", Role::kTable, {}}, self.table);
    visit(FieldInfo{"index", Role::kOptionalSource, {}}, self.index);
  }
};

// Writes constant elements: f32 bits, rounded to the operand's type, or integers.
struct Literal {
  static constexpr std::string_view kName = "Literal";
  static constexpr int64_t kOpcode = 18;
  static constexpr std::string_view kMnemonic = "literal";
  Operand destination{};
  std::vector<int64_t> values;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"destination", Role::kValue, {}}, self.destination);
    visit(FieldInfo{"values", Role::kValue, {kMaxPoints}}, self.values);
  }
};

// Sorts keys along the last dimension, and moves their indices (i32) with them. Equal keys are
// sorted by index. Zeros are equal; NaNs are equal, and larger than all other keys. Of each row,
// kept elements are written, from the element first on. If it is not 0, they are the last ones, and
// at least half of the row. The keys are runs of run sorted elements; the last may be shorter.
struct Sort {
  static constexpr std::string_view kName = "Sort";
  static constexpr int64_t kOpcode = 19;
  static constexpr std::string_view kMnemonic = "sort";
  std::vector<Register> extents;
  Register first{};
  Register kept{};
  int64_t run{};
  bool descending{};
  Operand keys{};
  Operand indices{};
  Operand sorted_keys{};
  Operand sorted_indices{};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"extents", Role::kSource, {kMaxRank}}, self.extents);
    visit(FieldInfo{"first", Role::kSource, {}}, self.first);
    visit(FieldInfo{"kept", Role::kSource, {}}, self.kept);
    visit(FieldInfo{"run", Role::kSize, {}}, self.run);
    visit(FieldInfo{"descending", Role::kValue, {}}, self.descending);
    visit(FieldInfo{"keys", Role::kValue, {}}, self.keys);
    visit(FieldInfo{"indices", Role::kValue, {}}, self.indices);
    visit(FieldInfo{"sorted_keys", Role::kValue, {}}, self.sorted_keys);
    visit(FieldInfo{"sorted_indices", Role::kValue, {}}, self.sorted_indices);
  }
};

// Gathers elements of a table in the scratchpad to a tile, or scatters those of a tile to it. A
// point of extents selects the element of the table at the point, moved by index - first times
// step. Points whose index is not among the length indices from first on do nothing. A scatter
// stores the tile's element, or its combination with the table's by the vector instruction combine,
// one point after the other in row-major order. An index outside of [0, size) is an IndexError at
// the position origin + point.
struct Indexed {
  static constexpr std::string_view kName = "Indexed";
  static constexpr int64_t kOpcode = 20;
  static constexpr std::string_view kMnemonic = "indexed";
  bool scatter{};
  std::optional<VectorOp> combine{};
  std::vector<Register> extents;
  Operand index{};
  Operand tile{};
  Operand table{};
  int64_t step{};
  Register first{};
  Register length{};
  Register size{};
  std::vector<Register> origin;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"scatter", Role::kValue, {}}, self.scatter);
    visit(FieldInfo{"combine", Role::kReduction, {}}, self.combine);
    visit(FieldInfo{"extents", Role::kSource, {kMaxRank}}, self.extents);
    visit(FieldInfo{"index", Role::kValue, {}}, self.index);
    visit(FieldInfo{"tile", Role::kValue, {}}, self.tile);
    visit(FieldInfo{"table", Role::kValue, {}}, self.table);
    visit(FieldInfo{"step", Role::kSize, {}}, self.step);
    visit(FieldInfo{"first", Role::kSource, {}}, self.first);
    visit(FieldInfo{"length", Role::kSource, {}}, self.length);
    visit(FieldInfo{"size", Role::kSource, {}}, self.size);
    visit(FieldInfo{"origin", Role::kSource, {kMaxRank}}, self.origin);
  }
};

// What an instruction does; alternative i has the opcode i + 1.
using Action = std::variant<LoopBegin, LoopEnd, Branch, Jump, Scalar, Move, Extract, Transfer,
                            IndirectTransfer, Chain, Reduce, Matmul, Copy, Publish, Receive,
                            Delivered, TableLookup, Literal, Sort, Indexed>;

// location is the index of the source location of the op that the instruction comes from.
struct Instruction {
  static constexpr std::string_view kName = "Instruction";
  int32_t location{};
  Action action;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"location", Role::kLocation, {}}, self.location);
  }
};

// The content of a program file; tables[table][core] is a list of integers. scratchpad_bytes is
// what the tensors need in each core.
struct ProgramContent {
  static constexpr std::string_view kName = "ProgramContent";
  std::string name{};
  std::array<int64_t, kMaxGrid> grid{1, 1, 1};
  int32_t registers{};
  std::vector<Constant> constants;
  std::vector<Argument> arguments;
  std::vector<FixedBuffer> fixed_buffers;
  int64_t scratchpad_bytes{};
  int32_t channels{};
  std::vector<std::vector<std::vector<int64_t>>> tables;
  std::vector<SourceLocation> locations;
  std::vector<Instruction> code;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit(FieldInfo{"name", Role::kValue, {}}, self.name);
    visit(FieldInfo{"grid", Role::kValue, {kMaxGrid}}, self.grid);
    visit(FieldInfo{"registers", Role::kValue, {}}, self.registers);
    visit(FieldInfo{"constants", Role::kValue, {kMaxRegisters}}, self.constants);
    visit(FieldInfo{"arguments", Role::kValue, {kMaxArguments}}, self.arguments);
    visit(FieldInfo{"fixed_buffers", Role::kValue, {kMaxArguments}}, self.fixed_buffers);
    visit(FieldInfo{"scratchpad_bytes", Role::kValue, {}}, self.scratchpad_bytes);
    visit(FieldInfo{"channels", Role::kValue, {}}, self.channels);
    visit(FieldInfo{"tables", Role::kValue, {kMaxTables, kMaxCores, kMaxPoints}}, self.tables);
    visit(FieldInfo{"locations", Role::kValue, {kMaxInstructions}}, self.locations);
    visit(FieldInfo{"code", Role::kValue, {kMaxInstructions}}, self.code);
  }
};

}  // namespace spyre::emulator::engine
