#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "emulator/engine/direct_tiles.h"
#include "emulator/engine/program.h"
#include "emulator/engine/program_decoder.h"
#include "emulator/engine/program_limits.h"
#include "emulator/engine/scratchpad_use.h"
#include "emulator/engine/sha256.h"
#include "emulator/engine/shared_loops.h"

namespace spyre::emulator::engine {

namespace {

constexpr char kMagic[] = {'S', 'P', 'Y', 'R', 'E', 'P', 'R', 'G'};
constexpr uint32_t kVersion = 1;
constexpr size_t kVersionAt = sizeof(kMagic), kLengthAt = kVersionAt + 4, kHashAt = kLengthAt + 8;
constexpr size_t kHeaderBytes = kHashAt + sizeof(Sha256);
constexpr int64_t kOpcodes = std::variant_size_v<Action>;  // numbered from 1, in order

// A reduction has the name of the vector instruction that combines two elements.
struct CombineName {
  std::string_view name;
  Combine combine;
};
constexpr CombineName kCombineNames[] = {
    {"addf", Combine::ADD},
    {"addi", Combine::ADD},
    {"mulf", Combine::MUL},
    {"muli", Combine::MUL},
    {"maximumf", Combine::MAXIMUM},
    {"maxsi", Combine::MAXIMUM},
    {"minimumf", Combine::MINIMUM},
    {"minsi", Combine::MINIMUM},
    {"maxnumf", Combine::MAXNUM},
    {"minnumf", Combine::MINNUM},
    {"andi", Combine::AND},
    {"ori", Combine::OR},
    {"xori", Combine::XOR},
    {"maxui", Combine::UNSIGNED_MAXIMUM},
    {"minui", Combine::UNSIGNED_MINIMUM},
};

Combine combine_named(const std::string& name) {
  const auto* found = std::ranges::find(kCombineNames, name, &CombineName::name);
  if (found == std::end(kCombineNames)) refuse_program("no reduction is called '" + name + "'");
  return found->combine;
}

// The combination itself does not say whether it is one of floats or of integers.
void check_combine(const std::string& name, ElementType type) {
  if (vector_function(*vector_op_named(name), type, type) != nullptr) return;
  refuse_program("there is no reduction " + name + " of " + std::string(name_of(type)));
}

// Takes the members from the file one by one. The order is that of the Python dataclasses.
class Reader : ProgramDecoder {
 public:
  using ProgramDecoder::ProgramDecoder;

  Program program() {
    Program result;
    result.name = text();
    const std::vector<int64_t> grid = integers(result.grid.size());
    std::copy(grid.begin(), grid.end(), result.grid.begin());
    result.registers = number<int32_t>();
    result.constants = list(
        [this] {
          const Register target = register_index();
          return Program::Constant{target, static_cast<uint64_t>(integer())};
        },
        kMostRegisters);
    result.arguments = list([this] { return argument(); }, kMostArguments);
    result.fixed_buffers = list([this] { return fixed_buffer(); }, kMostArguments);
    result.scratchpad_bytes = integer();
    result.channels = number<int32_t>();
    result.tables = list(
        [this] {
          return list([this] { return integers(kMostPoints); }, static_cast<size_t>(kMostCores));
        },
        kMostTables);
    result.places = list([this] { return place(); }, kMostInstructions);
    result.code = list([this] { return instruction(); }, kMostInstructions);
    if (!at_end()) refuse_program("something follows the last instruction");
    return result;
  }

 private:
  Register register_index() { return number<Register>(); }
  std::vector<Register> registers() {
    return list([this] { return register_index(); }, kMostRank);
  }
  std::vector<int64_t> integers(size_t most = kMostRank) {
    return list([this] { return integer(); }, most);
  }
  std::vector<int32_t> value_ids() {
    return list([this] { return number<int32_t>(); }, kMostSteps);
  }
  ElementType element_type() { return choice<ElementType>(kElementTypeCount, "element type"); }

  VectorOp vector_op() {
    const std::string name = text();
    const std::optional<VectorOp> op = vector_op_named(name);
    if (!op) refuse_program("no vector instruction is called '" + name + "'");
    return *op;
  }

  Argument argument() {
    Argument result;
    result.name = text();
    result.is_array = boolean();
    result.target = register_index();
    result.type = element_type();
    result.has_shape = boolean();
    result.shape = integers();
    return result;
  }

  FixedBuffer fixed_buffer() {
    FixedBuffer result;
    result.name = text();
    result.address = integer();
    result.bytes = integer();
    result.type = element_type();
    result.shape = integers();
    return result;
  }

  SourcePlace place() {
    SourcePlace result;
    result.op = text();
    result.line = integer();
    result.column = integer();
    return result;
  }

  Operand operand() {
    Operand result;
    result.address = integer();
    result.bytes = integer();
    result.type = element_type();
    result.offset = register_index();
    result.strides = integers();
    return result;
  }
  std::vector<Operand> operands() {
    return list([this] { return operand(); }, kMostSteps);
  }

  View view() {
    View result;
    result.space = choice<Space>(2, "memory space");
    result.type = element_type();
    result.core = register_index();
    result.base = register_index();
    result.strides = registers();
    result.lower = registers();
    result.extents = registers();
    return result;
  }

  Expression expression() {
    return list(
        [this] {
          Term term;
          term.kind = choice<Term::Kind>(8, "term");
          term.value = integer();
          return term;
        },
        kMostTerms);
  }

  Subscript subscript() {
    Subscript result;
    result.indirect = boolean();
    result.expressions = list([this] { return expression(); }, kMostRank);
    result.index = view();
    return result;
  }

  Input input() {
    Input result;
    result.kind = choice<Input::Kind>(3, "kind of input");
    result.operand = operand();
    result.type = element_type();
    result.source = register_index();
    result.dimension = number<int32_t>();
    return result;
  }

  ChainStep step() {
    ChainStep result;
    result.lookup = number<int32_t>();
    if (result.lookup >= 0) {
      text();
    } else {
      result.op = vector_op();
    }
    result.operand = element_type();
    result.result = element_type();
    result.inputs = value_ids();
    return result;
  }
  std::vector<ChainStep> steps() {
    return list([this] { return step(); }, kMostSteps);
  }

  Lookup lookup() {
    Lookup result;
    result.operand = operand();
    result.extents = registers();
    return result;
  }

  // All of a chain but its outputs: what a Reduce starts with as well.
  Chain chain_without_outputs() {
    Chain result;
    result.extents = registers();
    result.inputs = list([this] { return input(); }, kMostSteps);
    result.steps = steps();
    result.lookups = list([this] { return lookup(); }, kMostSteps);
    return result;
  }

  Instruction instruction() {
    const int64_t opcode = integer();
    if (opcode < 1 || opcode > kOpcodes) {
      refuse_program("no instruction has the opcode " + std::to_string(opcode));
    }
    Instruction result;
    result.place = number<int32_t>();
    // One function for each alternative of Action, in order.
    static constexpr auto kReaders = []<size_t... index>(std::index_sequence<index...>) {
      return std::array{&Reader::read_alternative<index>...};
    }(std::make_index_sequence<std::variant_size_v<Action>>());
    result.action = (this->*kReaders[static_cast<size_t>(opcode - 1)])();
    return result;
  }

  template <size_t index>
  Action read_alternative() {
    std::variant_alternative_t<index, Action> action{};
    read(action);
    return action;
  }

  void read(LoopBegin& loop) {
    loop.variable = register_index();
    loop.lower = register_index();
    loop.upper = register_index();
    loop.step = register_index();
    loop.end = number<int32_t>();
  }
  void read(LoopEnd& loop) { loop.begin = number<int32_t>(); }
  void read(Branch& branch) {
    branch.condition = register_index();
    branch.target = number<int32_t>();
  }
  void read(Jump& jump) { jump.target = number<int32_t>(); }
  void read(Scalar& scalar) {
    scalar.op = vector_op();
    scalar.operand = element_type();
    scalar.result = element_type();
    scalar.destination = register_index();
    scalar.inputs = registers();
  }
  void read(Move& move) {
    move.destination = register_index();
    move.source = register_index();
  }
  void read(Extract& extract) {
    extract.destination = register_index();
    extract.source = operand();
    extract.indices = registers();
    extract.extents = registers();
  }
  void read(Transfer& transfer) {
    transfer.store = boolean();
    transfer.tile = operand();
    transfer.extents = registers();
    transfer.anchor = registers();
    transfer.views = list([this] { return view(); }, kMostViews);
    transfer.points = integers(kMostPoints);
  }
  void read(IndirectTransfer& transfer) {
    transfer.store = boolean();
    transfer.tile = operand();
    transfer.variables = registers();
    transfer.view = view();
    transfer.subscripts = list([this] { return subscript(); }, kMostRank);
    transfer.points = integers(kMostPoints);
  }
  void read(Chain& chain) {
    chain = chain_without_outputs();
    chain.outputs = list(
        [this] {
          const auto value = number<int32_t>();
          return ChainOutput{value, operand()};
        },
        kMostSteps);
  }
  void read(Reduce& reduce) {
    reduce.chain = chain_without_outputs();
    reduce.reduced = value_ids();
    reduce.values = value_ids();
    const std::string name = text();
    reduce.named = !name.empty();
    if (reduce.named) reduce.combine = combine_named(name);
    reduce.combiner = steps();
    reduce.results = value_ids();
    reduce.initial = operands();
    reduce.outputs = operands();
    if (reduce.named) {
      for (const Operand& output : reduce.outputs) check_combine(name, output.type);
    }
  }
  void read(MatrixProduct& product) {
    product.batch = register_index();
    product.rows = register_index();
    product.columns = register_index();
    product.inner = register_index();
    product.a = operand();
    product.b = operand();
    product.has_initial = boolean();
    product.initial = operand();
    product.output = operand();
  }
  void read(Copy& copy) {
    copy.extents = registers();
    copy.source = operand();
    copy.destination = operand();
  }
  void read(Publish& publish) {
    publish.channel = number<int32_t>();
    publish.tiles = list(
        [this] {
          const int64_t address = integer();
          return Publish::Tile{address, integer()};
        },
        kMostRoles);
  }
  void read(Receive& receive) {
    receive.channel = number<int32_t>();
    receive.role = number<int32_t>();
    receive.producer = register_index();
    receive.source_offset = register_index();
    receive.source_strides = integers();
    receive.destination = operand();
    receive.extents = registers();
  }
  void read(Delivered& delivered) {
    delivered.channel = number<int32_t>();
    delivered.kind = number<int32_t>();
    delivered.cores = number<int32_t>();
    delivered.tile_bytes = integer();
  }
  void read(TableLookup& lookup) {
    lookup.destination = register_index();
    lookup.table = number<int32_t>();
    lookup.index = register_index();
  }
  void read(Literal& literal) {
    literal.destination = operand();
    literal.values = integers(kMostPoints);
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
    refuse_program("not a program file");
  }
  const auto version_bytes = file.subspan(kVersionAt, 4);
  const uint64_t version = little_endian(version_bytes);
  if (version != kVersion) {
    refuse_program("version " + std::to_string(version) + "; this is version " +
                   std::to_string(kVersion) + ". Compile the kernel again");
  }
  if (file.size() > kMostFileBytes) refuse_program("the file is too large");
  const auto payload = file.subspan(kHeaderBytes);
  if (little_endian(file.subspan(kLengthAt, 8)) != payload.size()) {
    refuse_program("the file is cut off or has something after its end");
  }
  if (!std::ranges::equal(file.subspan(kHashAt, sizeof(Sha256)), sha256(version_bytes, payload))) {
    refuse_program("the content does not match its hash");
  }
  Program program = Reader(payload).program();
  check_program(program, scratchpad_capacity);
  program.filled = read_before_written(program);
  find_direct_tiles(program);
  find_shared_loop(program);
  return program;
}

}  // namespace spyre::emulator::engine
