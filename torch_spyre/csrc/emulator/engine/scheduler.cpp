#include "emulator/engine/scheduler.h"

#include <algorithm>
#include <functional>

#include "emulator/engine/interpreter.h"
#include "emulator/thread_pool.h"

namespace spyre::emulator::engine {

namespace {

using State = CoreRun::State;

// The registers all cores start with.
std::vector<uint64_t> first_registers(const Program& program, const Memory& memory,
                                      std::span<const uint64_t> scalars) {
  std::vector<uint64_t> registers(static_cast<size_t>(program.registers), 0);
  for (const Program::Constant& constant : program.constants) {
    registers[static_cast<size_t>(constant.target)] = constant.bits;
  }
  auto address = memory.array_addresses().begin();
  auto scalar = scalars.begin();
  for (const Argument& argument : program.arguments) {
    registers[static_cast<size_t>(argument.target)] =
        argument.is_array ? static_cast<uint64_t>(*address++ / bytes_of(argument.type)) : *scalar++;
  }
  return registers;
}

class Scheduler {
 public:
  Scheduler(const Program& program, const Memory& memory, std::span<const uint64_t> scalars,
            ScratchpadPool& scratchpads, const RunOptions& options)
      : program_(program),
        scratchpads_(scratchpads),
        injection_{options.spoiled_instruction},
        ordered_(options.ordered || !options.spoiled_instruction.empty()),
        registers_(first_registers(program, memory, scalars)),
        mailboxes_(program.cores(), program.channels),
        limits_{.watchdog_seconds = options.watchdog_seconds},
        interpreter_(program, memory, mailboxes_, limits_),
        runs_(static_cast<size_t>(program.cores())) {}

  void run() {
    if (program_.channels == 0) {
      run_independently();
    } else {
      run_in_passes();
    }
    for (const CoreRun& run : runs_) {
      if (run.error) std::rethrow_exception(run.error);
    }
  }

 private:
  void start(int64_t id) {
    CoreRun& run = runs_[static_cast<size_t>(id)];
    run.scratchpad = scratchpads_.take(program_.scratchpad_bytes);
    run.core.id = id;
    run.core.scratchpad = run.scratchpad.data();
    run.core.injection = injection_.op.empty() ? nullptr : &injection_;
    run.core.registers = registers_;
    const auto [x, y, z] = program_.grid;
    const int64_t coordinates[] = {id, id % x, id / x % y, id / x / y};
    static_assert(kCoreRegister == 0 && kCoreX == 1 && kCoreY == 2 && kCoreZ == 3);
    std::copy(std::begin(coordinates), std::end(coordinates), run.core.registers.begin());
    run.deliveries.assign(static_cast<size_t>(program_.channels), 0);
  }

  void finish(CoreRun& run) {
    run.scratchpad = {};
    run.core.registers = {};
  }

  // Calls `body` for each of `count` items, in order and on this thread if the run is ordered.
  void for_each(int64_t count, const std::function<void(int64_t)>& body) {
    const auto range = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i);
    };
    if (ordered_) return range(0, count);
    parallel_for(count, 1, range);
  }

  // Without channels each core runs from its first instruction to its last, and its scratchpad
  // goes to the next one.
  void run_independently() {
    for_each(program_.cores(), [this](int64_t id) {
      if (id > limits_.last_core) return;
      start(id);
      CoreRun& run = runs_[static_cast<size_t>(id)];
      interpreter_.advance(run);
      if (run.state == State::kFailed) note_failure(id);
      finish(run);
    });
  }

  void note_failure(int64_t id) {
    int64_t last = limits_.last_core;
    while (id < last && !limits_.last_core.compare_exchange_weak(last, id)) {
    }
  }

  // With channels: each pass runs every core that can go on until it waits again. What a core
  // computes does not depend on when it runs, because it only ever takes what was published in its
  // own round. After an error the others go on as far as they can, so that the error of the lowest
  // core is always the same.
  void run_in_passes() {
    for (int64_t id = 0; id < program_.cores(); ++id) start(id);
    for (std::vector<CoreRun*> ready = all_runs(); !ready.empty(); ready = next_pass()) {
      for_each(static_cast<int64_t>(ready.size()), [&](int64_t i) {
        CoreRun& run = *ready[static_cast<size_t>(i)];
        interpreter_.advance(run);
        if (run.state == State::kDone || run.state == State::kFailed) finish(run);
      });
      forget_publications();
    }
    const bool failed =
        std::ranges::any_of(runs_, [](const CoreRun& run) { return run.state == State::kFailed; });
    if (!failed) check_deadlock();
  }

  std::vector<CoreRun*> all_runs() {
    std::vector<CoreRun*> all;
    for (CoreRun& run : runs_) all.push_back(&run);
    return all;
  }

  std::vector<CoreRun*> next_pass() {
    std::vector<CoreRun*> ready;
    CoreRun* blocked = nullptr;
    for (CoreRun& run : runs_) {
      if (can_go_on(run)) ready.push_back(&run);
      if (run.state == State::kPublishing && blocked == nullptr) blocked = &run;
    }
    if (ready.empty() && blocked != nullptr) {
      // Everybody waits, so nobody will make room: sending must not be what stops a kernel.
      blocked->may_overfill = true;
      ready.push_back(blocked);
    }
    return ready;
  }

  bool can_go_on(CoreRun& run) {
    if (run.state == State::kPublishing) return !mailboxes_.is_full(run.core.id);
    if (run.state != State::kReceiving) return false;
    return mailboxes_.has(run.producer, run.channel,
                          run.deliveries[static_cast<size_t>(run.channel)]);
  }

  void forget_publications() {
    for (int32_t channel = 0; channel < program_.channels; ++channel) {
      int64_t earliest = std::numeric_limits<int64_t>::max();
      for (const CoreRun& run : runs_) {
        if (run.state == State::kDone || run.state == State::kFailed) continue;
        earliest = std::min(earliest, run.deliveries[static_cast<size_t>(channel)]);
      }
      mailboxes_.forget_before(channel, earliest);
    }
  }

  void check_deadlock() const {
    std::string waiting;
    for (const CoreRun& run : runs_) {
      if (run.state != State::kReceiving) continue;
      waiting += (waiting.empty() ? "core " : "; core ") + std::to_string(run.core.id) +
                 " waiting on recv from core " + std::to_string(run.producer);
    }
    if (!waiting.empty()) {
      throw KernelError("Deadlock detected: " + waiting + " (kernel " + program_.name + ")");
    }
  }

  const Program& program_;
  ScratchpadPool& scratchpads_;
  Injection injection_;
  const bool ordered_;
  const std::vector<uint64_t> registers_;
  Mailboxes mailboxes_;
  Interpreter::Limits limits_;
  const Interpreter interpreter_;
  std::vector<CoreRun> runs_;
};

}  // namespace

void run_program(const Program& program, const Memory& memory, std::span<const uint64_t> scalars,
                 ScratchpadPool& scratchpads, const RunOptions& options) {
  Scheduler(program, memory, scalars, scratchpads, options).run();
}

}  // namespace spyre::emulator::engine
