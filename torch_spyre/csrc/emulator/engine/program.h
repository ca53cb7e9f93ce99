// A device program in memory: what one core executes, the same on all cores of its grid. The form
// on disk is that of docs/program.md; `read_program` checks everything that does not depend on
// register contents, the engine the rest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "emulator/engine/element_type.h"
#include "emulator/engine/lanes.h"
#include "emulator/engine/vector_ops.h"
#include "flex/driver.h"

namespace spyre::emulator::engine {

// Registers are 64-bit slots, one file per core. Integers of type I64 (`index` too) fill the slot;
// other scalars lie in its first four bytes, as a lane does.
using Register = int32_t;
inline constexpr Register kNoRegister = -1;
// Set when a program starts: the core's flat id and its place in the grid.
inline constexpr Register kCoreRegister = 0, kCoreX = 1, kCoreY = 2, kCoreZ = 3;
inline constexpr Register kFirstFreeRegister = 4;

// Elements in a core's scratchpad. `bytes` is the size of the buffer they must lie in.
struct Operand {
  int64_t address = 0;
  int64_t bytes = 0;
  ElementType type = ElementType::F16;
  Register offset = kNoRegister;  // elements to add
  std::vector<int64_t> strides;   // elements, one for each dimension of the instruction
};

enum class Space : uint8_t { kGlobal = 0, kScratchpad = 1 };

// A view of memory, or one partition of a distributed view. `base` and `strides` are registers and
// count elements. A partition holds the global coordinates [lower, lower + extents).
struct View {
  Space space = Space::kGlobal;
  ElementType type = ElementType::F16;
  Register core = kNoRegister;  // whose scratchpad; none: the executing core's
  Register base = 0;
  std::vector<Register> strides;
  std::vector<Register> lower;    // empty: not a partition
  std::vector<Register> extents;  // sizes; empty: unknown
};

// Postfix arithmetic on int64.
struct Term {
  enum class Kind : uint8_t {
    kConstant = 0,
    kRegister = 1,
    kVariable = 2,
    kAdd = 3,
    kMultiply = 4,
    kFloorDivide = 5,
    kCeilDivide = 6,
    kModulo = 7,
  } kind = Kind::kConstant;
  int64_t value = 0;  // of the first three
};
using Expression = std::vector<Term>;

// One coordinate of an indirect access: an expression of the variables, or an element of `index`.
struct Subscript {
  bool indirect = false;
  std::vector<Expression> expressions;
  View index;
};

struct LoopBegin {
  Register variable, lower, upper, step;
  int32_t end;
};
struct LoopEnd {
  int32_t begin;
};
// Goes on at `target` when the condition (I1) is 0.
struct Branch {
  Register condition;
  int32_t target;
};
struct Jump {
  int32_t target;
};
struct Scalar {
  VectorOp op;
  ElementType operand, result;
  Register destination;
  std::vector<Register> inputs;
};
struct Move {
  Register destination, source;
};
// One element of a tensor to a register; an index outside `extents` is an error.
struct Extract {
  Register destination;
  Operand source;
  std::vector<Register> indices, extents;
};
// The number of a tile that a load may leave in memory, see direct_tiles.h; not part of the file.
inline constexpr int32_t kNoDirectTile = -1;
// A tile between memory and the scratchpad: element p of the box `extents` is at coordinate
// anchor + p of the view. Where there are several views each is a partition. With `points` (their
// coordinates one after the other) the tile is this list, and `extents` its one length.
struct Transfer {
  bool store = false;
  Operand tile;
  std::vector<Register> extents, anchor;
  std::vector<View> views;
  std::vector<int64_t> points;
  int32_t direct_tile = kNoDirectTile;
};
// The same through subscripts: `variables` are the extents of their space. With `points` (their
// variables one after the other) the tile is this list, and `variables` its one length.
struct IndirectTransfer {
  bool store = false;
  Operand tile;
  std::vector<Register> variables;
  View view;
  std::vector<Subscript> subscripts;
  std::vector<int64_t> points;
};
struct Input {
  enum class Kind : uint8_t { kOperand = 0, kScalar = 1, kIndex = 2 } kind = Kind::kOperand;
  Operand operand;                      // kOperand
  ElementType type = ElementType::F16;  // kScalar
  Register source = kNoRegister;        // kScalar
  int32_t dimension = 0;                // kIndex: the coordinate in this dimension, as I64
};
// Values are numbered: first the inputs, then the results of the steps in order.
struct ChainStep {
  // The value of `lookups[lookup]` at the coordinates given by the inputs (I64), instead of an op.
  int32_t lookup = -1;
  VectorOp op{};
  ElementType operand = ElementType::F16, result = ElementType::F16;
  std::vector<int32_t> inputs;
};
struct Lookup {
  Operand operand;
  std::vector<Register> extents;
};
struct ChainOutput {
  int32_t value = 0;
  Operand operand;
};
// Elementwise work on one iteration space, no intermediate in memory.
struct Chain {
  std::vector<Register> extents;
  std::vector<Input> inputs;
  std::vector<ChainStep> steps;
  std::vector<Lookup> lookups;
  std::vector<ChainOutput> outputs;
};
// A chain whose `values` are folded along `reduced` dimensions. With a `combine` there is one
// value, accumulated in float32 (or the integer type) and rounded once; otherwise `combiner` folds
// the accumulators (values 0..n-1) with the next ones (n..2n-1) and its `results` are the new ones.
// Operands in `initial` and `outputs` have stride 0 in reduced dimensions.
struct Reduce {
  Chain chain;
  std::vector<int32_t> reduced;
  std::vector<int32_t> values;
  bool named = true;
  Combine combine{};
  std::vector<ChainStep> combiner;
  std::vector<int32_t> results;
  std::vector<Operand> initial, outputs;
};
// output = round(initial + a b); operands have strides for batch, row and column.
struct MatrixProduct {
  Register batch, rows, columns, inner;
  Operand a, b;
  bool has_initial = false;
  Operand initial, output;
  int32_t direct_tile = kNoDirectTile;  // of b
};
// Elements as they are, from one place of the scratchpad to another that does not overlap it.
struct Copy {
  std::vector<Register> extents;
  Operand source, destination;
};
// Offers the core's tiles to others: one [address, bytes) per role.
struct Publish {
  int32_t channel;
  struct Tile {
    int64_t address, bytes;
  };
  std::vector<Tile> tiles;
};
// Takes part of a tile that core `producer` published in the same round of the channel; waits for
// it.
struct Receive {
  int32_t channel, role;
  Register producer;
  Register source_offset;  // elements
  std::vector<int64_t> source_strides;
  Operand destination;
  std::vector<Register> extents;
};
// This core has what it wanted of this round. The rest is for the clock.
struct Delivered {
  int32_t channel;
  int32_t kind;  // the delivery op, in the order of docs/program.md
  int32_t cores;
  int64_t tile_bytes;
};
// destination = tables[table][core][index]; without an index, the length of that list.
struct TableLookup {
  Register destination;
  int32_t table;
  Register index;
};

// Elements one after the other: float32 bits, rounded to the operand's type, or integers.
struct Literal {
  Operand destination;
  std::vector<int64_t> values;
};

using Action = std::variant<LoopBegin, LoopEnd, Branch, Jump, Scalar, Move, Extract, Transfer,
                            IndirectTransfer, Chain, Reduce, MatrixProduct, Copy, Publish, Receive,
                            Delivered, TableLookup, Literal>;

struct Instruction {
  int32_t place = 0;  // index into Program::places
  Action action;
};

struct Argument {
  std::string name;
  bool is_array = false;
  Register target = 0;  // an array's address in elements, or the scalar
  ElementType type = ElementType::I64;
  bool has_shape = false;  // of the one plain view on it, where there is one
  std::vector<int64_t> shape;
};

// Memory at an address that the program text fixes.
struct FixedBuffer {
  std::string name;
  int64_t address = 0, bytes = 0;
  ElementType type = ElementType::F16;
  std::vector<int64_t> shape;
};

// Where an instruction comes from.
struct SourcePlace {
  std::string op;
  int64_t line = 0, column = 0;
};

// Bytes [begin, end) of a core's scratchpad.
struct ScratchpadRange {
  int64_t begin, end;
};

inline constexpr int32_t kNoLoop = -1;

struct Program {
  std::string name;
  std::array<int64_t, 3> grid{1, 1, 1};
  int32_t registers = kFirstFreeRegister;
  struct Constant {
    Register target;
    uint64_t bits;
  };
  std::vector<Constant> constants;
  std::vector<Argument> arguments;
  std::vector<FixedBuffer> fixed_buffers;
  int64_t scratchpad_bytes = 0;  // that its tensors take in each core
  int32_t channels = 0;
  std::vector<std::vector<std::vector<int64_t>>> tables;  // [table][core][index]
  std::vector<SourcePlace> places;
  std::vector<Instruction> code;
  // What of the scratchpad is filled before a core begins; none: all that its tensors take.
  std::optional<std::vector<ScratchpadRange>> filled;
  int32_t direct_tiles = 0;  // how many there are
  // Where the loop begins whose trips host threads may share, see shared_loops.h.
  int32_t shared_loop = kNoLoop;

  int64_t cores() const { return grid[0] * grid[1] * grid[2]; }
};

// A file that is damaged, of another version, or no valid program.
using flex::ProgramError;

// Throws ProgramError. Nothing in the file is trusted; the program needs at most
// `scratchpad_capacity` bytes of each core's scratchpad.
Program read_program(std::span<const std::byte> file, int64_t scratchpad_capacity);
// The second half of it: what the file says must make sense.
void check_program(const Program& program, int64_t scratchpad_capacity);

}  // namespace spyre::emulator::engine
