#include "emulator/engine/scratchpad_use.h"

#include <algorithm>
#include <map>
#include <utility>

namespace spyre::emulator::engine {

namespace {

using Kind = ScratchpadAccess::Kind;
using Visit = std::function<void(const ScratchpadAccess&)>;

struct AccessVisitor {
  const Visit& visit;

  void read(const Operand& operand) const { visit({Kind::kRead, operand, {}}); }
  void write(const Operand& operand, std::span<const Register> extents) const {
    visit({Kind::kWrite, operand, extents});
  }
  void inputs_of(const ChainBody& chain) const {
    for (const Input& input : chain.inputs) {
      if (input.kind == InputKind::kOperand) read(input.operand);
    }
    for (const Lookup& lookup : chain.lookups) read(lookup.operand);
  }
  template <typename Tile>
  void tile_of(const Tile& transfer, std::span<const Register> extents) const {
    transfer.store ? read(transfer.tile) : write(transfer.tile, extents);
  }

  void operator()(const Extract& extract) const { read(extract.source); }
  void operator()(const Transfer& transfer) const { tile_of(transfer, transfer.extents); }
  void operator()(const IndirectTransfer& transfer) const { tile_of(transfer, transfer.variables); }
  void operator()(const Chain& chain) const {
    inputs_of(chain);
    for (const ChainOutput& output : chain.outputs) write(output.operand, chain.extents);
  }
  void operator()(const Reduce& reduce) const {
    inputs_of(reduce);
    for (const Operand& initial : reduce.initial) read(initial);
    for (const Operand& output : reduce.outputs) write(output, reduce.extents);
  }
  void operator()(const Matmul& matmul) const {
    read(matmul.a);
    read(matmul.b);
    if (matmul.has_initial) read(matmul.initial);
    write(matmul.output, std::array{matmul.batch, matmul.rows, matmul.columns});
  }
  void operator()(const Copy& copy) const {
    read(copy.source);
    write(copy.destination, copy.extents);
  }
  void operator()(const Sort& sort) const {
    read(sort.keys);
    read(sort.indices);
    std::vector<Register> extents = sort.extents;
    extents.back() = sort.kept;
    write(sort.sorted_keys, extents);
    write(sort.sorted_indices, extents);
  }
  void operator()(const Indexed& indexed) const {
    read(indexed.index);
    // Elements that no index selects keep their values.
    read(indexed.tile);
    read(indexed.table);
    const Operand& written = indexed.scatter ? indexed.table : indexed.tile;
    write(written, {});
  }
  void operator()(const Receive& receive) const { write(receive.destination, receive.extents); }
  template <typename Other>
  void operator()(const Other&) const {}
};

ScratchpadRange range_of(const Operand& operand) {
  return {operand.address, operand.address + operand.bytes};
}

// A set of bytes: disjoint, non-adjacent ranges in ascending order.
class ByteSet {
 public:
  void add(ScratchpadRange added) {
    if (added.begin >= added.end) return;
    const auto first = std::ranges::lower_bound(ranges_, added.begin, {}, &ScratchpadRange::end);
    auto last = first;
    for (; last != ranges_.end() && last->begin <= added.end; ++last) {
      added = {std::min(added.begin, last->begin), std::max(added.end, last->end)};
    }
    ranges_.insert(ranges_.erase(first, last), added);
  }

  // Adds the bytes of the range that are not in this set to `missing`.
  void add_missing(ScratchpadRange range, ByteSet& missing) const {
    auto next = std::ranges::upper_bound(ranges_, range.begin, {}, &ScratchpadRange::end);
    for (; next != ranges_.end() && next->begin < range.end; ++next) {
      missing.add({range.begin, next->begin});
      range.begin = next->end;
    }
    missing.add(range);
  }

  ByteSet intersection(const ByteSet& other) const {
    ByteSet result;
    for (const ScratchpadRange& range : ranges_) {
      auto match = std::ranges::upper_bound(other.ranges_, range.begin, {}, &ScratchpadRange::end);
      for (; match != other.ranges_.end() && match->begin < range.end; ++match) {
        result.add({std::max(range.begin, match->begin), std::min(range.end, match->end)});
      }
    }
    return result;
  }

  const std::vector<ScratchpadRange>& ranges() const { return ranges_; }

 private:
  std::vector<ScratchpadRange> ranges_;
};

// Data-flow analysis in one pass over the code. One pass is enough because jumps go forward and the
// set of written bytes only grows: the first iteration of a loop has the fewest written bytes.
class WrittenBytes {
 public:
  explicit WrittenBytes(const Program& program) : program_(program), constants_(program) {}

  std::vector<ScratchpadRange> read_before_written(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      merge_edges_at(static_cast<int32_t>(i));
      if (written_) step(program_.code[i].action);
    }
    return unwritten_reads_.ranges();
  }

 private:
  // Sets written_ to the bytes that are written on all paths to the instruction; nothing if the
  // instruction is unreachable.
  void merge_edges_at(int32_t at) {
    const auto pending = pending_.find(at);
    if (pending == pending_.end()) return;
    written_ = written_ ? written_->intersection(pending->second) : pending->second;
    pending_.erase(pending);
  }
  void add_edge_to(int32_t target) {
    const auto [pending, is_new] = pending_.try_emplace(target, *written_);
    if (!is_new) pending->second = pending->second.intersection(*written_);
  }

  void step(const Action& action) {
    if (const auto* loop = std::get_if<LoopBegin>(&action)) {
      const auto bounds = constants_.values(std::array{loop->lower, loop->upper});
      const bool has_trips = bounds && bounds->at(0) < bounds->at(1);
      return has_trips ? void() : add_edge_to(loop->end + 1);
    }
    if (const auto* branch = std::get_if<Branch>(&action)) return add_edge_to(branch->target);
    if (const auto* jump = std::get_if<Jump>(&action)) {
      add_edge_to(jump->target);
      written_.reset();
      return;
    }
    if (const auto* publish = std::get_if<Publish>(&action)) {
      for (const PublishedTile& tile : publish->tiles) {
        note_read({tile.address, tile.address + tile.bytes});
      }
    }
    if (const auto* literal = std::get_if<Literal>(&action)) {
      const Operand& to = literal->destination;
      const auto count = static_cast<int64_t>(literal->values.size());
      return written_->add({to.address, to.address + count * bytes_of(to.type)});
    }
    visit_accesses(action, [&](const ScratchpadAccess& access) {
      if (access.kind == Kind::kRead) note_read(range_of(access.operand));
    });
    visit_accesses(action, [&](const ScratchpadAccess& access) {
      if (access.kind == Kind::kRead) return;
      const auto extents = constants_.values(access.extents);
      if (extents && covers_buffer(access.operand, *extents)) {
        written_->add(range_of(access.operand));
      }
    });
  }

  void note_read(ScratchpadRange range) { written_->add_missing(range, unwritten_reads_); }

  const Program& program_;
  const ConstantRegisters constants_;
  std::optional<ByteSet> written_ = ByteSet();
  std::map<int32_t, ByteSet> pending_;  // written bytes at the targets of jumps and loops
  ByteSet unwritten_reads_;
};

}  // namespace

void visit_accesses(const Action& action, const Visit& visit) {
  std::visit(AccessVisitor{visit}, action);
}

ConstantRegisters::ConstantRegisters(const Program& program)
    : values_(static_cast<size_t>(program.registers)) {
  for (const Constant& constant : program.constants) {
    values_[static_cast<size_t>(constant.destination)] = static_cast<int64_t>(constant.bits);
  }
  const auto invalidate = [this](Register target) { values_[static_cast<size_t>(target)].reset(); };
  for (const Argument& argument : program.arguments) invalidate(argument.destination);
  for (const Instruction& instruction : program.code) {
    const Action& action = instruction.action;
    if (const auto* loop = std::get_if<LoopBegin>(&action)) invalidate(loop->variable);
    if (const auto* scalar = std::get_if<Scalar>(&action)) invalidate(scalar->destination);
    if (const auto* move = std::get_if<Move>(&action)) invalidate(move->destination);
    if (const auto* extract = std::get_if<Extract>(&action)) invalidate(extract->destination);
    if (const auto* lookup = std::get_if<TableLookup>(&action)) invalidate(lookup->destination);
  }
}

std::optional<std::vector<int64_t>> ConstantRegisters::values(
    std::span<const Register> registers) const {
  std::vector<int64_t> values;
  for (Register source : registers) {
    const auto& value = values_[static_cast<size_t>(source)];
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

bool covers_buffer(const Operand& operand, std::span<const int64_t> extents) {
  if (operand.offset != kNoRegister) return false;
  std::vector<std::pair<int64_t, int64_t>> dimensions;  // stride and extent
  for (size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] <= 0) return false;
    const bool is_moving = extents[d] > 1 && operand.strides[d] != 0;
    if (is_moving) dimensions.emplace_back(operand.strides[d], extents[d]);
  }
  std::ranges::sort(dimensions);
  const int64_t count = operand.bytes / bytes_of(operand.type);
  int64_t covered = 1;
  for (const auto& [stride, extent] : dimensions) {
    // Neither overflows: a buffer is smaller than a scratchpad.
    if (stride != covered || extent > count / covered) return false;
    covered *= extent;
  }
  return covered == count && count * bytes_of(operand.type) == operand.bytes;
}

std::vector<ScratchpadRange> read_before_written(const Program& program) {
  // Longer programs are not analysed, to bound the time of loading. No compiled kernel is that
  // long.
  constexpr size_t kMaxAnalysedInstructions = 20000;
  if (program.code.size() > kMaxAnalysedInstructions) return {{0, program.scratchpad_bytes}};
  return read_before_written(program, 0, program.code.size());
}

std::vector<ScratchpadRange> read_before_written(const Program& program, size_t begin, size_t end) {
  return WrittenBytes(program).read_before_written(begin, end);
}

}  // namespace spyre::emulator::engine
