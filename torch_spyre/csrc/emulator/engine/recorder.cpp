// The recorder's control flow and scalars. What instructions cost is in recorder_work.cpp.
#include "emulator/engine/recorder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>

namespace spyre::emulator::engine {
namespace {

// After so many instructions loops are counted by their first trip, whatever they look like.
constexpr int64_t kMostWalked = 8'000'000;
constexpr size_t kDeepestNesting = 500;

void add(Count& count, int64_t of_core) {
  if (__builtin_add_overflow(count.total, of_core, &count.total)) {
    throw KernelError("a kernel does more than can be counted");
  }
  count.busiest = std::max(count.busiest, of_core);
}

// The trips of a loop with a positive step.
int64_t trips_of(int64_t lower, int64_t upper, int64_t step) {
  if (lower >= upper) return 0;
  const auto distance = static_cast<uint64_t>(upper) - static_cast<uint64_t>(lower);
  const uint64_t trips = (distance - 1) / static_cast<uint64_t>(step) + 1;
  return static_cast<int64_t>(std::min<uint64_t>(trips, std::numeric_limits<int64_t>::max()));
}

// Wraps, as registers do.
int64_t added(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t multiplied(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

}  // namespace

Recording Recorder::record() {
  for (int64_t core = 0; core < program_.cores(); ++core) {
    start_core(core);
    walk(0, program_.code.size());
    add_up();
  }
  result_.has_conflict |= accessed_.has_conflict();
  return std::move(result_);
}

void Recorder::start_core(int64_t core) {
  core_.id = core;
  core_.registers.assign(static_cast<size_t>(program_.registers), 0);
  is_known_.assign(static_cast<size_t>(program_.registers), true);
  counts_.assign(program_.code.size(), {});
  walked_.assign(program_.code.size(), 0);
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

void Recorder::add_up() {
  for (size_t i = 0; i < counts_.size(); ++i) {
    const CoreCounts& of_core = counts_[i];
    if (of_core.executions == 0) continue;
    InstructionCounts& counts = result_.instructions[i];
    ++counts.cores;
    add(counts.executions, of_core.executions);
    add(counts.elements, of_core.elements);
    add(counts.lanes, of_core.lanes);
    add(counts.reduced_sticks, of_core.reduced_sticks);
    add(counts.macs, of_core.macs);
    add(counts.scratchpad_bytes, of_core.scratchpad_bytes);
    add(counts.remote_bytes, of_core.remote_bytes);
    add(counts.device_bytes, of_core.device_bytes);
    add(counts.index_bytes, of_core.index_bytes);
  }
}

// --- Control flow -------------------------------------------------------------------------------

void Recorder::walk(size_t begin, size_t end) {
  if (++nesting_ > kDeepestNesting) throw KernelError("a kernel's loops are nested too deeply");
  for (size_t at = begin; at < end;) {
    ++walked_in_all_;
    const Action& action = program_.code[at].action;
    if (const auto* loop = std::get_if<LoopBegin>(&action)) {
      at = walk_loop(at, *loop);
    } else if (const auto* branch = std::get_if<Branch>(&action)) {
      at = walk_branch(at, *branch);
    } else if (const auto* jump = std::get_if<Jump>(&action)) {
      at = static_cast<size_t>(jump->target);
    } else {
      std::visit([&](const auto& instruction) { take(at, instruction); }, action);
      ++at;
    }
  }
  --nesting_;
}

size_t Recorder::walk_loop(size_t at, const LoopBegin& loop) {
  const size_t begin = at + 1;
  const auto end = static_cast<size_t>(loop.end);
  const Known lower = known(loop.lower), upper = known(loop.upper), step = known(loop.step);
  if (!lower.is_known || !upper.is_known || !step.is_known) {
    result_.is_data_dependent = true;
    set(loop.variable, static_cast<uint64_t>(lower.value), lower.is_known);
    walk(begin, end);
    forget(written_registers(program_, at, end));
    return end + 1;
  }
  if (step.value <= 0) {
    throw KernelError("a loop has the step " + std::to_string(step.value) +
                      ", and steps must be positive");
  }
  const int64_t trips = trips_of(lower.value, upper.value, step.value);
  if (trips > 1 && (loops_[at].is_uniform || walked_in_all_ > kMostWalked)) {
    walk_once_for_all(at, loop, trips);
    return end + 1;
  }
  for (int64_t trip = 0; trip < trips; ++trip) {
    // A loop that was begun in good time may turn out to be too long.
    if (walked_in_all_ > kMostWalked && trips - trip > 1) {
      set(loop.variable, static_cast<uint64_t>(lower.value + trip * step.value), true);
      walk_once_for_all(at, loop, trips - trip);
      break;
    }
    set(loop.variable, static_cast<uint64_t>(lower.value + trip * step.value), true);
    walk(begin, end);
  }
  return end + 1;
}

void Recorder::walk_once_for_all(size_t at, const LoopBegin& loop, int64_t trips) {
  const auto end = static_cast<size_t>(loop.end);
  const int64_t outer = multiplier_;
  if (__builtin_mul_overflow(multiplier_, trips, &multiplier_)) {
    throw KernelError("a kernel's loops have more trips than can be counted");
  }
  const bool is_exact = loops_[at].is_uniform;
  if (is_exact) set(loop.variable, core_.registers[static_cast<size_t>(loop.lower)], true);
  levels_.push_back(
      {at, trips, is_exact, std::vector<int64_t>(static_cast<size_t>(program_.registers), 0)});
  levels_.back().slopes[static_cast<size_t>(loop.variable)] = core_.integer(loop.step);
  walk(at + 1, end);
  const std::vector<Register> written = written_registers(program_, at, end);
  for (const Register target : written) {
    const int64_t slope = levels_.back().slopes[static_cast<size_t>(target)];
    auto& bits = core_.registers[static_cast<size_t>(target)];
    bits = static_cast<uint64_t>(added(static_cast<int64_t>(bits), multiplied(slope, trips - 1)));
    levels_.back().slopes[static_cast<size_t>(target)] = 0;
  }
  levels_.pop_back();
  multiplier_ = outer;
  if (is_exact) return forget(loops_[at].irregular);
  result_.has_conflict = true;
  forget(written);
}

size_t Recorder::walk_branch(size_t at, const Branch& branch) {
  const auto target = static_cast<size_t>(branch.target);
  if (is_known_[static_cast<size_t>(branch.condition)]) {
    int32_t condition = 0;
    std::memcpy(&condition, core_.lane(branch.condition), sizeof condition);
    return condition != 0 ? at + 1 : target;
  }
  result_.is_data_dependent = true;
  // What ends with a jump has an arm for the other case behind it.
  const Jump* const jump =
      target > at + 1 ? std::get_if<Jump>(&program_.code[target - 1].action) : nullptr;
  const size_t next = jump == nullptr ? target : static_cast<size_t>(jump->target);
  walk(at + 1, jump == nullptr ? target : target - 1);
  walk(target, next);
  forget(written_registers(program_, at + 1, next));
  return next;
}

// --- Scalars ------------------------------------------------------------------------------------

void Recorder::set(Register target, uint64_t bits, bool is_known) {
  // What is not known counts as 1 where something is counted by it.
  core_.registers[static_cast<size_t>(target)] = is_known ? bits : 1;
  is_known_[static_cast<size_t>(target)] = is_known;
  for (Level& level : levels_) level.slopes[static_cast<size_t>(target)] = 0;
}

void Recorder::forget(std::span<const Register> targets) {
  for (const Register target : targets) set(target, 0, false);
}

Recorder::Known Recorder::known(Register source) const {
  return {core_.integer(source), is_known_[static_cast<size_t>(source)]};
}

void Recorder::take(size_t, const Scalar& scalar) {
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
  std::array<int64_t, kDeepestNesting> slopes;
  for (size_t i = 0; i < levels_.size(); ++i) slopes[i] = slope_of(levels_[i], scalar);
  set(scalar.destination, bits, true);
  for (size_t i = 0; i < levels_.size(); ++i) {
    levels_[i].slopes[static_cast<size_t>(scalar.destination)] = slopes[i];
  }
}

// For the instructions that uniform loops compute addresses with.
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

void Recorder::take(size_t, const Move& move) {
  std::array<int64_t, kDeepestNesting> slopes;
  for (size_t i = 0; i < levels_.size(); ++i) {
    slopes[i] = levels_[i].slopes[static_cast<size_t>(move.source)];
  }
  const auto source = static_cast<size_t>(move.source);
  set(move.destination, core_.registers[source], is_known_[source]);
  for (size_t i = 0; i < levels_.size(); ++i) {
    levels_[i].slopes[static_cast<size_t>(move.destination)] = slopes[i];
  }
}

void Recorder::take(size_t, const Extract& extract) { set(extract.destination, 0, false); }

void Recorder::take(size_t, const TableLookup& lookup) {
  const auto& list =
      program_.tables[static_cast<size_t>(lookup.table)][static_cast<size_t>(core_.id)];
  if (lookup.index == kNoRegister) return set(lookup.destination, list.size(), true);
  const Known index = known(lookup.index);
  if (!index.is_known) return set(lookup.destination, 0, false);
  if (index.value < 0 || static_cast<size_t>(index.value) >= list.size()) {
    throw KernelError("entry " + std::to_string(index.value) + " of a table with " +
                      std::to_string(list.size()) + " entries");
  }
  const int64_t value = list[static_cast<size_t>(index.value)];
  set(lookup.destination, static_cast<uint64_t>(value), true);
}

}  // namespace spyre::emulator::engine
