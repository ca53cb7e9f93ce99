// Control flow and scalars of the recorder. recorder_work.cpp, recorder_memory.cpp and
// recorder_indirect.cpp count the work of instructions.
#include "emulator/engine/recorder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>

namespace spyre::emulator::engine {
namespace {

// After this many visits, all loops are approximated by their first iteration.
constexpr int64_t kMaxVisited = 8'000'000;
constexpr size_t kMaxNesting = 500;

// Returns the trip count of a loop with a positive step.
int64_t trips_of(int64_t lower, int64_t upper, int64_t step) {
  if (lower >= upper) return 0;
  const auto distance = static_cast<uint64_t>(upper) - static_cast<uint64_t>(lower);
  const uint64_t trips = (distance - 1) / static_cast<uint64_t>(step) + 1;
  return static_cast<int64_t>(std::min<uint64_t>(trips, std::numeric_limits<int64_t>::max()));
}

// Both wrap around, as registers do.
int64_t added(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t multiplied(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

}  // namespace

Recording Recorder::record(const CoreVisitor& visit_core) {
  for (int64_t core = 0; core < program_.cores(); ++core) {
    start_core(core);
    visit_range(0, program_.code.size());
    add_core_counts();
    if (visit_core) visit_core(core, counts_);
  }
  add_shared_counts();
  result_.has_conflict |= accessed_.has_conflict();
  return std::move(result_);
}

void Recorder::add_shared_counts() {
  const auto is_uniform = [this](size_t loop) { return loops_[loop].is_uniform; };
  for (size_t at = 0; at < program_.code.size(); ++at) {
    InstructionCounts& counts = result_.instructions[at];
    counts.distinct_device_bytes += transfers_.distinct_sticks(at, is_uniform) * kBytesInStick;
    const BoxCost unique = transfers_.unique_sticks(at);
    counts.unique_device_bytes += unique.sticks * kBytesInStick;
    if (unique.is_exact) continue;
    result_.is_approximate = true;
    limit_exactness(at, Exactness::kEstimate);
  }
}

void Recorder::start_core(int64_t core) {
  core_.id = core;
  core_.registers.assign(static_cast<size_t>(program_.registers), 0);
  is_known_.assign(static_cast<size_t>(program_.registers), true);
  counts_.assign(program_.code.size(), {});
  executions_.assign(program_.code.size(), 0);
  const auto [across, down, deep] = program_.grid;
  static_cast<void>(deep);
  set(kCoreRegister, static_cast<uint64_t>(core), true);
  set(kCoreX, static_cast<uint64_t>(core % across), true);
  set(kCoreY, static_cast<uint64_t>(core / across % down), true);
  set(kCoreZ, static_cast<uint64_t>(core / (across * down)), true);
  for (const auto& constant : program_.constants) set(constant.destination, constant.bits, true);
  size_t array = 0, scalar = 0;
  for (const Argument& argument : program_.arguments) {
    const uint64_t bits =
        argument.is_array
            ? static_cast<uint64_t>(arrays_[array++].address / bytes_of(argument.type))
            : scalars_[scalar++];
    set(argument.destination, bits, true);
  }
  accessed_.begin_core(core);
}

void Recorder::add_core_counts() {
  for (size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i].executions > 0) add_core(result_.instructions[i], counts_[i]);
  }
}

// --- Control flow -------------------------------------------------------------------------------

void Recorder::visit_range(size_t begin, size_t end) {
  if (++nesting_ > kMaxNesting) throw KernelError("a kernel's loops are nested too deeply");
  for (size_t at = begin; at < end;) {
    ++num_visited_;
    const Action& action = program_.code[at].action;
    if (const auto* loop = std::get_if<LoopBegin>(&action)) {
      at = visit_loop(at, *loop);
    } else if (const auto* branch = std::get_if<Branch>(&action)) {
      at = visit_branch(at, *branch);
    } else if (const auto* jump = std::get_if<Jump>(&action)) {
      at = static_cast<size_t>(jump->target);
    } else {
      std::visit([&](const auto& instruction) { visit(at, instruction); }, action);
      ++at;
    }
  }
  --nesting_;
}

void Recorder::visit_uncertain_range(size_t begin, size_t end) {
  result_.is_data_dependent = true;
  ++uncertain_nesting_;
  visit_range(begin, end);
  --uncertain_nesting_;
}

size_t Recorder::visit_loop(size_t at, const LoopBegin& loop) {
  const size_t begin = at + 1;
  const auto end = static_cast<size_t>(loop.end);
  const ScalarValue lower = value_of(loop.lower), upper = value_of(loop.upper),
                    step = value_of(loop.step);
  if (!lower.is_known || !upper.is_known || !step.is_known) {
    set(loop.variable, static_cast<uint64_t>(lower.value), lower.is_known);
    visit_uncertain_range(begin, end);
    invalidate(written_registers(program_, at, end));
    return end + 1;
  }
  if (step.value <= 0) {
    throw KernelError("a loop has the step " + std::to_string(step.value) +
                      ", and steps must be positive");
  }
  const int64_t trips = trips_of(lower.value, upper.value, step.value);
  if (trips > 1 && (loops_[at].is_uniform || num_visited_ > kMaxVisited)) {
    visit_once_for_all_trips(at, loop, trips);
    return end + 1;
  }
  for (int64_t trip = 0; trip < trips; ++trip) {
    // The limit may be reached within the loop.
    if (num_visited_ > kMaxVisited && trips - trip > 1) {
      set(loop.variable, static_cast<uint64_t>(lower.value + trip * step.value), true);
      visit_once_for_all_trips(at, loop, trips - trip);
      break;
    }
    set(loop.variable, static_cast<uint64_t>(lower.value + trip * step.value), true);
    visit_range(begin, end);
  }
  return end + 1;
}

void Recorder::visit_once_for_all_trips(size_t at, const LoopBegin& loop, int64_t trips) {
  const auto end = static_cast<size_t>(loop.end);
  const int64_t outer = multiplier_;
  if (__builtin_mul_overflow(multiplier_, trips, &multiplier_)) {
    throw KernelError("a kernel's loops have more trips than can be counted");
  }
  const bool is_exact = loops_[at].is_uniform;
  if (is_exact) set(loop.variable, core_.registers[static_cast<size_t>(loop.lower)], true);
  begin_level(at, loop, trips);
  visit_range(at + 1, end);
  const std::vector<Register> written = written_registers(program_, at, end);
  for (const Register target : written) {
    const int64_t slope = levels_.back().slopes[static_cast<size_t>(target)];
    auto& bits = core_.registers[static_cast<size_t>(target)];
    bits = static_cast<uint64_t>(added(static_cast<int64_t>(bits), multiplied(slope, trips - 1)));
    levels_.back().slopes[static_cast<size_t>(target)] = 0;
  }
  end_level(at, loop);
  multiplier_ = outer;
  if (is_exact) return invalidate(loops_[at].irregular);
  result_.is_approximate = true;
  result_.has_conflict = true;
  invalidate(written);
}

void Recorder::begin_level(size_t at, const LoopBegin& loop, int64_t trips) {
  std::vector<int64_t> slopes(static_cast<size_t>(program_.registers), 0);
  slopes[static_cast<size_t>(loop.variable)] = core_.integer(loop.step);
  Level level{at, trips, loops_[at].is_uniform, std::move(slopes), {}, {}};
  for (size_t i = at + 1; i < static_cast<size_t>(loop.end); ++i) {
    level.executions.push_back(executions_[i]);
    level.num_transfers.push_back(transfers_.num_transfers(i));
  }
  levels_.push_back(std::move(level));
}

void Recorder::end_level(size_t at, const LoopBegin& loop) {
  const Level& level = levels_.back();
  for (size_t i = at + 1; i < static_cast<size_t>(loop.end); ++i) {
    const size_t in_body = i - at - 1;
    const int64_t period = executions_[i] - level.executions[in_body];
    transfers_.set_period(i, level.num_transfers[in_body], levels_.size() - 1, period);
    executions_[i] += period * (level.trips - 1);
  }
  levels_.pop_back();
}

size_t Recorder::visit_branch(size_t at, const Branch& branch) {
  const auto target = static_cast<size_t>(branch.target);
  if (is_known_[static_cast<size_t>(branch.condition)]) {
    int32_t condition = 0;
    std::memcpy(&condition, core_.lane(branch.condition), sizeof condition);
    return condition != 0 ? at + 1 : target;
  }
  // An arm that ends with a jump is followed by the else arm.
  const Jump* const jump =
      target > at + 1 ? std::get_if<Jump>(&program_.code[target - 1].action) : nullptr;
  const size_t next = jump == nullptr ? target : static_cast<size_t>(jump->target);
  visit_uncertain_range(at + 1, jump == nullptr ? target : target - 1);
  visit_uncertain_range(target, next);
  invalidate(written_registers(program_, at + 1, next));
  return next;
}

// --- Scalars ------------------------------------------------------------------------------------

void Recorder::set(Register target, uint64_t bits, bool is_known) {
  // An unknown extent or trip count counts as 1.
  core_.registers[static_cast<size_t>(target)] = is_known ? bits : 1;
  is_known_[static_cast<size_t>(target)] = is_known;
  for (Level& level : levels_) level.slopes[static_cast<size_t>(target)] = 0;
}

void Recorder::invalidate(std::span<const Register> targets) {
  for (const Register target : targets) set(target, 0, false);
}

Recorder::ScalarValue Recorder::value_of(Register source) const {
  return {core_.integer(source), is_known_[static_cast<size_t>(source)]};
}

void Recorder::visit(size_t, const Scalar& scalar) {
  bool is_known = true;
  std::array<const void*, 8> inputs{};
  for (size_t i = 0; i < scalar.inputs.size(); ++i) {
    is_known &= is_known_[static_cast<size_t>(scalar.inputs[i])];
    inputs[i] = core_.lane(scalar.inputs[i]);
  }
  if (!is_known) return set(scalar.destination, 0, false);
  const VectorFunction function = vector_function(scalar.op, scalar.operand, scalar.result);
  if (function == nullptr) throw KernelError("a scalar instruction does not exist for its type");
  uint64_t bits = 0;
  function(inputs.data(), &bits, 1);
  std::array<int64_t, kMaxNesting> slopes;
  for (size_t i = 0; i < levels_.size(); ++i) slopes[i] = slope_of(levels_[i], scalar);
  set(scalar.destination, bits, true);
  for (size_t i = 0; i < levels_.size(); ++i) {
    levels_[i].slopes[static_cast<size_t>(scalar.destination)] = slopes[i];
  }
}

// Returns the slope of the result, for the instructions that compute addresses in uniform loops.
int64_t Recorder::slope_of(const Level& level, const Scalar& scalar) const {
  const auto slope = [&](size_t i) { return level.slopes[static_cast<size_t>(scalar.inputs[i])]; };
  const auto value = [&](size_t i) { return core_.integer(scalar.inputs[i]); };
  switch (scalar.op) {
    case VectorOp::ADDI:
      return added(slope(0), slope(1));
    case VectorOp::SUBI:
      return added(slope(0), -slope(1));
    case VectorOp::MULI:
      return added(multiplied(slope(0), value(1)), multiplied(value(0), slope(1)));
    case VectorOp::INDEX_CAST:
      return slope(0);
    default:
      return 0;
  }
}

void Recorder::visit(size_t, const Move& move) {
  std::array<int64_t, kMaxNesting> slopes;
  for (size_t i = 0; i < levels_.size(); ++i) {
    slopes[i] = levels_[i].slopes[static_cast<size_t>(move.source)];
  }
  const auto source = static_cast<size_t>(move.source);
  set(move.destination, core_.registers[source], is_known_[source]);
  for (size_t i = 0; i < levels_.size(); ++i) {
    levels_[i].slopes[static_cast<size_t>(move.destination)] = slopes[i];
  }
}

void Recorder::visit(size_t, const Extract& extract) { set(extract.destination, 0, false); }

void Recorder::visit(size_t, const TableLookup& lookup) {
  const auto& list =
      program_.tables[static_cast<size_t>(lookup.table)][static_cast<size_t>(core_.id)];
  if (lookup.index == kNoRegister) return set(lookup.destination, list.size(), true);
  const ScalarValue index = value_of(lookup.index);
  if (!index.is_known) return set(lookup.destination, 0, false);
  if (index.value < 0 || static_cast<size_t>(index.value) >= list.size()) {
    throw KernelError("entry " + std::to_string(index.value) + " of a table with " +
                      std::to_string(list.size()) + " entries");
  }
  const int64_t value = list[static_cast<size_t>(index.value)];
  set(lookup.destination, static_cast<uint64_t>(value), true);
}

}  // namespace spyre::emulator::engine
