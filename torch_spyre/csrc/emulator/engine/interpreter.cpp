#include "emulator/engine/interpreter.h"

#include <array>
#include <cstring>
#include <utility>

#include "emulator/engine/box_copy.h"
#include "emulator/engine/scalars.h"
#include "emulator/engine/transfers.h"
#include "emulator/engine/value_blocks.h"

namespace spyre::emulator::engine {

namespace {

constexpr int32_t kWait = -1;

// How many instructions are executed between two checks whether the launch has to stop: reading the
// clock takes as long as a short instruction. Long instructions check it themselves.
constexpr uint32_t kInstructionsPerCheck = 16;

int64_t checked_step(const Core& core, const LoopBegin& loop) {
  const int64_t step = core.integer(loop.step);
  if (step <= 0) {
    throw KernelError("the step of a loop is " + std::to_string(step) + ", not positive");
  }
  return step;
}

void set(Core& core, Register target, int64_t value) {
  core.registers[static_cast<size_t>(target)] = static_cast<uint64_t>(value);
}

// Returns whether a fault must be injected into the result of the instruction of this name and has
// not been injected yet.
bool is_fault_due(const Core& core, std::string_view name) {
  return core.injection != nullptr && !core.injection->done && core.injection->op == name;
}

// Injects the fault in one element of a scratchpad.
void inject_fault_in(Core& core, std::byte* element, ElementType type) {
  std::array<std::byte, 8> lane{};
  load_lanes(type)(element, 1, lane.data(), 1);
  inject_fault(lane.data(), type);
  store_lanes(type)(lane.data(), element, 1, 1);
  core.injection->done = true;
}

// Returns the first element of the operand; nullptr if its buffer has none.
std::byte* first_element(const Core& core, const Operand& operand) {
  if (operand.bytes < bytes_of(operand.type)) return nullptr;
  return elements_of(core, operand, std::vector<int64_t>(operand.strides.size(), 1));
}

std::string message_at(const flex::FailedInstruction& failed, const std::string& problem) {
  return "kernel " + failed.kernel + ", core " + std::to_string(failed.core) + ", instruction " +
         std::to_string(failed.number) + " (" + text_of({failed.op, failed.line, failed.column}) +
         "): " + problem;
}

}  // namespace

Interpreter::Interpreter(const Program& program, const Memory& memory, Mailboxes& mailboxes,
                         const Limits& limits, const StopConditions& stop)
    : program_(program), memory_(memory), mailboxes_(mailboxes), limits_(limits), stop_(stop) {}

void Interpreter::advance(CoreRun& run) const { advance(run, program_.code.size()); }

void Interpreter::advance(CoreRun& run, size_t stop) const {
  const DefaultFloatingPoint settings;
  const auto end = static_cast<int32_t>(stop);
  using State = CoreRun::State;
  // An instruction that had to wait was counted before it did.
  bool is_counted = run.state == State::kReceiving || run.state == State::kPublishing;
  run.state = State::kReady;
  try {
    while (run.next < end) {
      if (++run.num_executed % kInstructionsPerCheck == 0) stop_.check();
      if (run.executed != nullptr && !std::exchange(is_counted, false)) {
        run.executed->count(static_cast<size_t>(run.next), run.core);
      }
      const Action& action = program_.code[static_cast<size_t>(run.next)].action;
      const int32_t next =
          std::visit([&](const auto& kind) { return execute_one(kind, run); }, action);
      if (next == kWait) return;
      run.next = next;
    }
    if (stop == program_.code.size()) run.state = CoreRun::State::kDone;
  } catch (const KernelIndexError& error) {
    const flex::FailedInstruction failed = failed_instruction(run);
    run.state = CoreRun::State::kFailed;
    run.error = std::make_exception_ptr(
        KernelIndexError(message_at(failed, error.what()), error.index(), failed));
  } catch (const KernelError& error) {
    const flex::FailedInstruction failed = failed_instruction(run);
    run.state = CoreRun::State::kFailed;
    run.error = std::make_exception_ptr(KernelError(message_at(failed, error.what()), failed));
  } catch (...) {
    run.state = CoreRun::State::kFailed;
    run.error = std::current_exception();
  }
}

flex::FailedInstruction Interpreter::failed_instruction(const CoreRun& run) const {
  const Instruction& instruction = program_.code[static_cast<size_t>(run.next)];
  const SourceLocation& location = program_.locations[static_cast<size_t>(instruction.location)];
  return {program_.name, run.core.id, run.next, location.op, location.line, location.column};
}

int32_t Interpreter::execute_one(const LoopBegin& loop, CoreRun& run) const {
  checked_step(run.core, loop);
  const int64_t lower = run.core.integer(loop.lower);
  set(run.core, loop.variable, lower);
  return lower < run.core.integer(loop.upper) ? run.next + 1 : loop.end + 1;
}

int32_t Interpreter::execute_one(const LoopEnd& end, CoreRun& run) const {
  if (run.core.id > limits_.last_core.load(std::memory_order_relaxed)) {
    run.state = CoreRun::State::kStopped;
    return kWait;
  }
  const auto& loop = std::get<LoopBegin>(program_.code[static_cast<size_t>(end.begin)].action);
  int64_t next = 0;
  const bool overflows =
      __builtin_add_overflow(run.core.integer(loop.variable), checked_step(run.core, loop), &next);
  const int64_t upper = end.begin == run.bounded_loop ? run.bound : run.core.integer(loop.upper);
  if (overflows || next >= upper) return run.next + 1;
  set(run.core, loop.variable, next);
  return end.begin + 1;
}

int32_t Interpreter::execute_one(const Branch& branch, CoreRun& run) const {
  int32_t condition = 0;
  std::memcpy(&condition, run.core.lane(branch.condition), sizeof condition);
  return condition == 0 ? branch.target : run.next + 1;
}

int32_t Interpreter::execute_one(const Jump& jump, CoreRun&) const { return jump.target; }

int32_t Interpreter::execute_one(const Move& move, CoreRun& run) const {
  set(run.core, move.destination, run.core.integer(move.source));
  return run.next + 1;
}

template <typename Plain>
int32_t Interpreter::execute_one(const Plain& action, CoreRun& run) const {
  execute(action, run.core);
  return run.next + 1;
}

template <typename Tile>
int32_t Interpreter::transfer_tile(const Tile& transfer, CoreRun& run) const {
  Core& core = run.core;
  const bool is_faulty = is_fault_due(core, transfer.store ? "store" : "load");
  std::byte* const element = is_faulty ? first_element(core, transfer.tile) : nullptr;
  if (element == nullptr) {
    execute(transfer, core, memory_);
    return run.next + 1;
  }
  if (!transfer.store) {
    execute(transfer, core, memory_);
    inject_fault_in(core, element, transfer.tile.type);
    return run.next + 1;
  }
  // Only the stored element is faulty: the tile in the scratchpad is restored.
  const auto bytes = static_cast<size_t>(bytes_of(transfer.tile.type));
  std::array<std::byte, 8> original{};
  std::memcpy(original.data(), element, bytes);
  inject_fault_in(core, element, transfer.tile.type);
  execute(transfer, core, memory_);
  std::memcpy(element, original.data(), bytes);
  return run.next + 1;
}

int32_t Interpreter::execute_one(const Transfer& transfer, CoreRun& run) const {
  return transfer_tile(transfer, run);
}

int32_t Interpreter::execute_one(const IndirectTransfer& transfer, CoreRun& run) const {
  return transfer_tile(transfer, run);
}

int32_t Interpreter::execute_one(const Matmul& matmul, CoreRun& run) const {
  execute(matmul, run.core);
  if (is_fault_due(run.core, "matmul")) {
    std::byte* const element = first_element(run.core, matmul.output);
    if (element != nullptr) inject_fault_in(run.core, element, matmul.output.type);
  }
  return run.next + 1;
}

int32_t Interpreter::execute_one(const Publish& publish, CoreRun& run) const {
  if (!run.may_overfill && mailboxes_.is_full(run.core.id)) {
    run.state = CoreRun::State::kPublishing;
    return kWait;
  }
  run.may_overfill = false;
  Publication publication;
  for (const PublishedTile& tile : publish.tiles) {
    const std::byte* begin = run.core.scratchpad + tile.address;
    publication.emplace_back(begin, begin + tile.bytes);
  }
  mailboxes_.publish(run.core.id, publish.channel, std::move(publication));
  return run.next + 1;
}

int32_t Interpreter::execute_one(const Receive& receive, CoreRun& run) const {
  const int64_t producer = run.core.integer(receive.producer);
  if (producer < 0 || producer >= program_.cores()) {
    throw KernelError("there is no core " + std::to_string(producer) +
                      " to receive from: the grid has " + std::to_string(program_.cores()));
  }
  const auto publication = mailboxes_.find(producer, receive.channel,
                                           run.deliveries[static_cast<size_t>(receive.channel)]);
  if (publication == nullptr) {
    run.state = CoreRun::State::kReceiving;
    run.producer = producer;
    run.channel = receive.channel;
    return kWait;
  }
  receive_tile(receive, (*publication)[static_cast<size_t>(receive.role)], run.core);
  return run.next + 1;
}

int32_t Interpreter::execute_one(const Delivered& delivered, CoreRun& run) const {
  ++run.deliveries[static_cast<size_t>(delivered.channel)];
  return run.next + 1;
}

int32_t Interpreter::execute_one(const TableLookup& lookup, CoreRun& run) const {
  const std::vector<int64_t>& list =
      program_.tables[static_cast<size_t>(lookup.table)][static_cast<size_t>(run.core.id)];
  const auto length = static_cast<int64_t>(list.size());
  if (lookup.index == kNoRegister) {
    set(run.core, lookup.destination, length);
    return run.next + 1;
  }
  const int64_t index = run.core.integer(lookup.index);
  if (index < 0 || index >= length) {
    throw KernelError("entry " + std::to_string(index) + " of a table of " +
                      std::to_string(length));
  }
  set(run.core, lookup.destination, list[static_cast<size_t>(index)]);
  return run.next + 1;
}

}  // namespace spyre::emulator::engine
