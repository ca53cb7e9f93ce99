#include "emulator/engine/parallel_loops.h"

#include <algorithm>
#include <span>

#include "emulator/engine/loop_analysis.h"
#include "emulator/engine/scratchpad_use.h"

namespace spyre::emulator::engine {

namespace {

// Longer programs are not analysed, to bound the time of loading. No compiled kernel is that long.
constexpr size_t kMaxAnalysedInstructions = 20000;

// Calls `visit` for each register that an instruction reads, and with kNoRegister for absent
// operands.
template <typename Visit>
struct RegisterReads {
  Visit visit;

  template <Record Type>
  void operator()(const Type& record) const {
    Type::visit_fields(record, *this);
  }
  template <typename Type>
  void operator()(const FieldInfo& field, const Type& value) const {
    read(field, value);
  }

 private:
  template <typename Type>
  void read(const FieldInfo&, const Type&) const {}
  void read(const FieldInfo& field, int32_t value) const {
    if (field.role == Role::kSource || field.role == Role::kOptionalSource) visit(value);
  }
  template <typename Item>
  void read(const FieldInfo& field, const std::vector<Item>& items) const {
    for (const Item& item : items) read(field.item(), item);
  }
  template <Record Type>
  void read(const FieldInfo&, const Type& record) const {
    (*this)(record);
  }
};

bool is_direct_transfer(const Transfer& transfer) {
  return transfer.points.empty() && std::ranges::all_of(transfer.views, [](const View& view) {
           return view.space == Space::kGlobal;
         });
}

// Returns whether the analysis supports the instruction: no control flow, no communication with
// other cores, and no data-dependent addresses.
bool is_analysable(const Action& action) {
  if (const auto* transfer = std::get_if<Transfer>(&action)) return is_direct_transfer(*transfer);
  return std::holds_alternative<Scalar>(action) || std::holds_alternative<Move>(action) ||
         std::holds_alternative<Extract>(action) || std::holds_alternative<Chain>(action) ||
         std::holds_alternative<Reduce>(action) || std::holds_alternative<Matmul>(action) ||
         std::holds_alternative<Copy>(action) || std::holds_alternative<TableLookup>(action) ||
         std::holds_alternative<Literal>(action) || std::holds_alternative<Sort>(action) ||
         std::holds_alternative<Indexed>(action);
}

// The loop that begins at `begin`.
class LoopIterations {
 public:
  LoopIterations(const Program& program, size_t begin)
      : code_(program.code),
        begin_(begin),
        loop_(std::get<LoopBegin>(code_[begin].action)),
        num_writes_(static_cast<size_t>(program.registers), 0) {
    ++num_writes_[static_cast<size_t>(loop_.variable)];
    for (const Register target : written_registers(program, begin + 1, end())) {
      ++num_writes_[static_cast<size_t>(target)];
    }
  }

  bool are_independent(const Program& program) const {
    const auto body = std::span(code_).subspan(begin_ + 1, end() - begin_ - 1);
    return std::ranges::all_of(
               body, [](const auto& instruction) { return is_analysable(instruction.action); }) &&
           std::ranges::all_of(num_writes_, [](int count) { return count <= 1; }) &&
           is_invariant(loop_.lower) && is_invariant(loop_.upper) && is_invariant(loop_.step) &&
           !carries_registers() && !carries_tensors(program) &&
           std::ranges::all_of(body, [&](const auto& instruction) {
             return has_known_accesses(instruction.action);
           });
  }

  // Returns whether the stores of different iterations write different elements of this region. The
  // magnitudes of the loop's bounds and step must be below 2^40.
  bool write_disjoint_elements(const Transfer& store, const Core& core,
                               const Region& region) const {
    struct Dimension {
      int64_t stride, extent;
    };
    std::vector<Dimension> dimensions;
    for (size_t d = 0; d < store.anchor.size(); ++d) {
      int64_t extent = core.integer(store.extents[d]);
      if (is_moving(store.anchor[d])) {
        const int64_t step = core.integer(loop_.step);
        if (extent > step) return false;
        const int64_t last = core.integer(loop_.upper) - 1 - core.integer(loop_.lower);
        extent += last - last % step;
      }
      if (extent > 1) dimensions.push_back({region.strides[d], extent});
    }
    std::ranges::sort(dimensions, {}, &Dimension::stride);
    int64_t reached = region.element_bytes;
    for (const auto& [stride, extent] : dimensions) {
      if (stride < reached || __builtin_mul_overflow(stride, extent, &reached)) return false;
    }
    return true;
  }

 private:
  size_t end() const { return static_cast<size_t>(loop_.end); }
  bool is_invariant(Register source) const {
    return source == kNoRegister || num_writes_[static_cast<size_t>(source)] == 0;
  }

  // Returns whether the register holds the loop variable, or its sum with a loop-invariant
  // register.
  bool is_moving(Register source) const {
    if (source == loop_.variable) return true;
    for (size_t i = begin_ + 1; i < end(); ++i) {
      const auto* scalar = std::get_if<Scalar>(&code_[i].action);
      if (scalar == nullptr || scalar->destination != source) continue;
      if (scalar->op != VectorOp::ADDI || scalar->result != ElementType::I64) return false;
      const auto [a, b] = std::pair(scalar->inputs[0], scalar->inputs[1]);
      return (a == loop_.variable && is_invariant(b)) || (b == loop_.variable && is_invariant(a));
    }
    return false;
  }

  // Returns whether an iteration may read a register that the previous one has written.
  bool carries_registers() const {
    std::vector<bool> is_written(num_writes_.size(), false);
    is_written[static_cast<size_t>(loop_.variable)] = true;
    bool is_carried = false;
    const RegisterReads reads{[&](Register source) {
      is_carried |= !is_invariant(source) && !is_written[static_cast<size_t>(source)];
    }};
    for (size_t i = begin_ + 1; i < end(); ++i) {
      std::visit(reads, code_[i].action);
      const Register target = destination_of(code_[i].action);
      if (target != kNoRegister) is_written[static_cast<size_t>(target)] = true;
    }
    return is_carried;
  }

  // Returns whether an iteration may read scratchpad bytes that the previous one has written.
  bool carries_tensors(const Program& program) const {
    const auto carried = read_before_written(program, begin_ + 1, end());
    const auto overlaps = [&](const Operand& written) {
      return std::ranges::any_of(carried, [&](const ScratchpadRange& read) {
        return read.begin < written.address + written.bytes && written.address < read.end;
      });
    };
    bool is_carried = false;
    for (size_t i = begin_ + 1; i < end(); ++i) {
      visit_accesses(code_[i].action, [&](const ScratchpadAccess& access) {
        is_carried |= access.kind == ScratchpadAccess::Kind::kWrite && overlaps(access.operand);
      });
      const auto* literal = std::get_if<Literal>(&code_[i].action);
      is_carried |= literal != nullptr && overlaps(literal->destination);
    }
    return is_carried;
  }

  // Returns whether the views and extents of a transfer are loop-invariant, and a store moves along
  // exactly one dimension.
  bool has_known_accesses(const Action& action) const {
    const auto* transfer = std::get_if<Transfer>(&action);
    if (transfer == nullptr) return true;
    bool is_fixed = true;
    const RegisterReads reads{[&](Register source) { is_fixed &= is_invariant(source); }};
    for (const View& view : transfer->views) reads(view);
    for (const Register extent : transfer->extents) is_fixed &= is_invariant(extent);
    if (!is_fixed || !transfer->store) return is_fixed;
    if (transfer->views.size() != 1 || !transfer->views[0].lower.empty()) return false;
    const auto moving = std::ranges::count_if(
        transfer->anchor, [this](Register anchor) { return is_moving(anchor); });
    const auto fixed = std::ranges::count_if(
        transfer->anchor, [this](Register anchor) { return is_invariant(anchor); });
    return moving == 1 && moving + fixed == std::ssize(transfer->anchor);
  }

  const std::vector<Instruction>& code_;
  const size_t begin_;
  const LoopBegin& loop_;
  std::vector<int> num_writes_;  // by register: the instructions of an iteration that write it
};

bool overlap(const Region& a, const Region& b) {
  return a.data < b.data + b.bytes && b.data < a.data + a.bytes;
}

}  // namespace

void find_parallel_loop(Program& program) {
  program.parallel_loop = kNoLoop;
  if (program.cores() != 1 || program.channels > 0 ||
      program.code.size() > kMaxAnalysedInstructions)
    return;
  const auto is_loop = [](const Instruction& instruction) {
    return std::holds_alternative<LoopBegin>(instruction.action);
  };
  const auto loop = std::ranges::find_if(program.code, is_loop);
  const bool is_repeatable = std::all_of(program.code.begin(), loop, [](const auto& instruction) {
    const auto* transfer = std::get_if<Transfer>(&instruction.action);
    return is_analysable(instruction.action) && (transfer == nullptr || !transfer->store);
  });
  if (loop == program.code.end() || !is_repeatable) return;
  const auto begin = loop - program.code.begin();
  if (LoopIterations(program, static_cast<size_t>(begin)).are_independent(program)) {
    program.parallel_loop = static_cast<int32_t>(begin);
  }
}

bool can_run_in_parallel(const Program& program, const Core& core, const Memory& memory) {
  const auto begin = static_cast<size_t>(program.parallel_loop);
  const LoopIterations iterations(program, begin);
  const auto end = static_cast<size_t>(std::get<LoopBegin>(program.code[begin].action).end);
  struct Access {
    const Transfer* transfer;
    Region region;
  };
  // Instructions before the loop count too: one thread may execute them while another one already
  // executes iterations.
  std::vector<Access> accesses;
  try {
    for (size_t i = 0; i < end; ++i) {
      const auto* transfer = std::get_if<Transfer>(&program.code[i].action);
      if (transfer == nullptr) continue;
      for (const View& view : transfer->views) {
        accesses.push_back({transfer, memory.region(view, core)});
      }
    }
  } catch (const KernelError&) {
    return false;  // the instruction throws the same error when it is executed
  }
  return std::ranges::all_of(accesses, [&](const Access& access) {
    if (!access.transfer->store) return true;
    if (!iterations.write_disjoint_elements(*access.transfer, core, access.region)) return false;
    return std::ranges::all_of(accesses, [&](const Access& other) {
      return &other == &access || !overlap(access.region, other.region);
    });
  });
}

}  // namespace spyre::emulator::engine
