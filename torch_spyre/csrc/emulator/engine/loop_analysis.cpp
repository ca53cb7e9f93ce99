#include "emulator/engine/loop_analysis.h"

#include <algorithm>
#include <span>

namespace spyre::emulator::engine {
Register destination_of(const Action& action) {
  Register destination = kNoRegister;
  const auto note = [&]<typename Type>(const FieldInfo& field, const Type& value) {
    if constexpr (std::is_same_v<Type, Register>) {
      if (field.role == Role::kDestination) destination = value;
    }
  };
  std::visit([&]<typename Type>(const Type& fields) { Type::visit_fields(fields, note); }, action);
  return destination;
}

namespace {

// How a register depends on the loop variable.
enum class Dependence : uint8_t { kNone, kAffine, kOther };

class BodyAnalysis {
 public:
  BodyAnalysis(const Program& program, size_t begin)
      : program_(program),
        code_(program.code),
        begin_(begin),
        loop_(std::get<LoopBegin>(code_[begin].action)),
        dependence_(static_cast<size_t>(program.registers), Dependence::kNone),
        is_written_(static_cast<size_t>(program.registers), false) {}

  LoopFacts facts() {
    LoopFacts facts{is_uniform(), {}};
    for (size_t i = 0; i < dependence_.size(); ++i) {
      if (dependence_[i] == Dependence::kOther) facts.irregular.push_back(static_cast<Register>(i));
    }
    return facts;
  }

 private:
  bool is_uniform() {
    for (size_t i = begin_ + 1; i < end(); ++i) note_written(destination_of(code_[i].action));
    if (carries_scalars()) return false;
    raise(loop_.variable, Dependence::kAffine);
    // Inner loops may carry scalars: iterate to a fixed point.
    for (has_changed_ = true; has_changed_;) {
      has_changed_ = false;
      for (size_t i = begin_ + 1; i < end(); ++i) propagate(code_[i].action);
    }
    for (size_t i = begin_ + 1; i < end(); ++i) {
      if (!std::visit([this](const auto& action) { return allows(action); }, code_[i].action)) {
        return false;
      }
    }
    return true;
  }

  size_t end() const { return static_cast<size_t>(loop_.end); }
  Dependence& of(Register source) { return dependence_[static_cast<size_t>(source)]; }
  bool is_fixed(Register source) {
    return source == kNoRegister || of(source) == Dependence::kNone;
  }
  bool are_fixed(std::span<const Register> sources) {
    return std::all_of(sources.begin(), sources.end(), [this](Register r) { return is_fixed(r); });
  }
  bool is_invariant(Register source) {
    return is_fixed(source) && !is_written_[static_cast<size_t>(source)];
  }
  void note_written(Register target) {
    if (target != kNoRegister) is_written_[static_cast<size_t>(target)] = true;
  }
  void raise(Register target, Dependence dependence) {
    if (of(target) >= dependence) return;
    of(target) = dependence;
    has_changed_ = true;
  }

  // Registers are written once, except for results of branches, whose arms are in the same body,
  // and loop-carried registers, which are written before the loop and in it.
  bool carries_scalars() const {
    const auto is_carried = [this](Register target) {
      return target != kNoRegister && is_written_[static_cast<size_t>(target)];
    };
    for (const auto& constant : program_.constants) {
      if (is_carried(constant.destination)) return true;
    }
    for (const Argument& argument : program_.arguments) {
      if (is_carried(argument.destination)) return true;
    }
    for (size_t i = 0; i < code_.size(); ++i) {
      if (i > begin_ && i < end()) continue;
      if (is_carried(destination_of(code_[i].action))) return true;
    }
    return false;
  }

  void propagate(const Action& action) {
    if (const auto* move = std::get_if<Move>(&action)) {
      raise(move->destination, of(move->source));
    } else if (const auto* table = std::get_if<TableLookup>(&action)) {
      if (!is_fixed(table->index)) raise(table->destination, Dependence::kOther);
    } else if (const auto* scalar = std::get_if<Scalar>(&action)) {
      if (!are_fixed(scalar->inputs)) raise(scalar->destination, dependence_of(*scalar));
    }
  }

  Dependence dependence_of(const Scalar& scalar) {
    for (const Register input : scalar.inputs) {
      if (of(input) == Dependence::kOther) return Dependence::kOther;
    }
    switch (scalar.op) {
      case VectorOp::ADDI:
      case VectorOp::SUBI:
      case VectorOp::INDEX_CAST:
        return scalar.result == ElementType::I64 ? Dependence::kAffine : Dependence::kOther;
      case VectorOp::MULI: {
        const bool is_affine = is_invariant(scalar.inputs[0]) || is_invariant(scalar.inputs[1]);
        return is_affine && scalar.result == ElementType::I64 ? Dependence::kAffine
                                                              : Dependence::kOther;
      }
      default:
        return Dependence::kOther;
    }
  }

  bool allows(const LoopBegin& loop) {
    return is_fixed(loop.lower) && is_fixed(loop.upper) && is_fixed(loop.step);
  }
  bool allows(const Branch& branch) { return is_fixed(branch.condition); }
  bool allows(const Transfer& transfer) {
    if (!are_fixed(transfer.extents)) return false;
    for (const View& view : transfer.views) {
      if (!allows(view)) return false;
    }
    bool moves = false;
    for (const View& view : transfer.views) moves |= !is_fixed(view.base);
    for (const Register anchor : transfer.anchor) {
      moves |= !is_fixed(anchor);
      if (of(anchor) == Dependence::kOther) return false;
    }
    if (!moves) return true;
    const View& view = transfer.views[0];
    return transfer.views.size() == 1 && view.lower.empty() &&
           std::all_of(view.strides.begin(), view.strides.end(),
                       [this](Register stride) { return is_invariant(stride); });
  }
  bool allows(const View& view) {
    return are_fixed(view.strides) && are_fixed(view.lower) && are_fixed(view.extents) &&
           is_fixed(view.core) && of(view.base) != Dependence::kOther;
  }
  bool allows(const IndirectTransfer& transfer) {
    if (!are_fixed(transfer.variables) || !allows(transfer.view)) return false;
    return std::ranges::all_of(transfer.subscripts, [this](const Subscript& subscript) {
      if (subscript.indirect && !allows(subscript.index)) return false;
      return std::ranges::all_of(subscript.expressions, [this](const Expression& expression) {
        return std::ranges::none_of(expression, [this](const Term& term) {
          return term.kind == TermKind::kRegister &&
                 of(static_cast<Register>(term.value)) == Dependence::kOther;
        });
      });
    });
  }
  bool allows(const Chain& chain) { return has_fixed_extents(chain); }
  bool allows(const Reduce& reduce) { return has_fixed_extents(reduce); }
  bool has_fixed_extents(const ChainBody& chain) {
    return are_fixed(chain.extents) &&
           std::all_of(chain.lookups.begin(), chain.lookups.end(),
                       [this](const Lookup& lookup) { return are_fixed(lookup.extents); });
  }
  bool allows(const Matmul& matmul) {
    return is_fixed(matmul.batch) && is_fixed(matmul.rows) && is_fixed(matmul.columns) &&
           is_fixed(matmul.inner);
  }
  bool allows(const Copy& copy) { return are_fixed(copy.extents); }
  bool allows(const Sort& sort) { return are_fixed(sort.extents) && is_fixed(sort.kept); }
  bool allows(const Indexed& indexed) { return are_fixed(indexed.extents); }
  bool allows(const Receive& receive) {
    return are_fixed(receive.extents) && is_fixed(receive.producer);
  }
  // The work of all other instructions is constant.
  template <typename Other>
  bool allows(const Other&) {
    return true;
  }

  const Program& program_;
  const std::vector<Instruction>& code_;
  const size_t begin_;
  const LoopBegin& loop_;
  std::vector<Dependence> dependence_;
  std::vector<bool> is_written_;
  bool has_changed_ = false;
};

}  // namespace

std::vector<LoopFacts> loop_facts(const Program& program) {
  std::vector<LoopFacts> facts(program.code.size());
  for (size_t i = 0; i < program.code.size(); ++i) {
    if (!std::holds_alternative<LoopBegin>(program.code[i].action)) continue;
    facts[i] = BodyAnalysis(program, i).facts();
  }
  return facts;
}

std::vector<Register> written_registers(const Program& program, size_t begin, size_t end) {
  std::vector<Register> written;
  for (size_t i = begin; i < end; ++i) {
    const Register target = destination_of(program.code[i].action);
    if (target != kNoRegister) written.push_back(target);
  }
  return written;
}

}  // namespace spyre::emulator::engine
