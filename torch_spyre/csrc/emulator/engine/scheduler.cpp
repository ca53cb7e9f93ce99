#include "emulator/engine/scheduler.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>

#include "emulator/engine/interpreter.h"
#include "emulator/engine/shared_loops.h"
#include "emulator/thread_pool.h"

namespace spyre::emulator::engine {

namespace {

using State = CoreRun::State;
using Clock = std::chrono::steady_clock;

// The registers all cores start with.
std::vector<uint64_t> first_registers(const Program& program, const Memory& memory,
                                      std::span<const uint64_t> scalars) {
  std::vector<uint64_t> registers(static_cast<size_t>(program.registers), 0);
  for (const Constant& constant : program.constants) {
    registers[static_cast<size_t>(constant.destination)] = constant.bits;
  }
  auto address = memory.array_addresses().begin();
  auto scalar = scalars.begin();
  for (const Argument& argument : program.arguments) {
    registers[static_cast<size_t>(argument.destination)] =
        argument.is_array ? static_cast<uint64_t>(*address++ / bytes_of(argument.type)) : *scalar++;
  }
  return registers;
}

uint64_t next_number() {
  static std::atomic<uint64_t> numbers{0};
  return ++numbers;
}

// Programs that take less than this are not worth waking a thread for.
constexpr auto kShortLaunch = std::chrono::microseconds(60);
constexpr auto kNever = Clock::time_point::max();

// The core that a thread runs for one after the other. Always the same: then plans that
// instructions prepared for one core serve the next, and those of the next launch.
struct ThreadCore {
  CoreRun run;
  const uint64_t* registers = nullptr;
  const std::byte* scratchpad = nullptr;
  uint64_t place = 0;

  // The number for where the run's registers and scratchpad are now.
  uint64_t current_place() {
    const uint64_t* const registers_now = run.core.registers.data();
    if (registers != registers_now || scratchpad != run.core.scratchpad) {
      registers = registers_now;
      scratchpad = run.core.scratchpad;
      place = next_number();
    }
    return place;
  }
};

ThreadCore& thread_core() {
  thread_local ThreadCore core;
  return core;
}

class Scheduler {
 public:
  Scheduler(const Program& program, const Memory& memory, std::span<const uint64_t> scalars,
            ScratchpadPool& scratchpads, const RunOptions& options)
      : program_(program),
        memory_(memory),
        scratchpads_(scratchpads),
        injection_{options.faulty_instruction},
        ordered_(options.ordered || !options.faulty_instruction.empty()),
        history_(options.history),
        program_number_(history_ != nullptr ? history_->number : launch_),
        registers_(first_registers(program, memory, scalars)),
        mailboxes_(program.cores(), program.channels),
        limits_{.watchdog_seconds = options.watchdog_seconds},
        interpreter_(program, memory, mailboxes_, limits_) {}

  void run() {
    if (program_.channels == 0) {
      run_independently();
    } else {
      run_in_passes();
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  // A core must not see what another one left.
  void fill(const CoreRun& run) const {
    if (!program_.filled) {
      return scratchpads_.fill(run.scratchpad, 0, program_.scratchpad_bytes);
    }
    for (const ScratchpadRange& range : *program_.filled) {
      scratchpads_.fill(run.scratchpad, range.begin, range.end);
    }
  }

  // The scratchpad is there already.
  void start(int64_t id, CoreRun& run) {
    run.next = 0;
    run.error = nullptr;
    run.core.id = id;
    run.core.launch = launch_;
    run.core.program = program_number_;
    run.core.scratchpad = run.scratchpad.data();
    run.core.injection = injection_.op.empty() ? nullptr : &injection_;
    run.core.registers = registers_;
    run.core.direct_tiles.assign(static_cast<size_t>(program_.direct_tiles), {});
    const auto [x, y, z] = program_.grid;
    const int64_t coordinates[] = {id, id % x, id / x % y, id / x / y};
    static_assert(kCoreRegister == 0 && kCoreX == 1 && kCoreY == 2 && kCoreZ == 3);
    std::copy(std::begin(coordinates), std::end(coordinates), run.core.registers.begin());
    run.deliveries.assign(static_cast<size_t>(program_.channels), 0);
  }

  // Without channels each core runs from its first instruction to its last, and its scratchpad
  // goes to the next one.
  void run_independently() {
    const int64_t cores = program_.cores();
    const int64_t done = ordered_ ? run_cores(0, cores, kNever) : run_while_short();
    if (done == cores) return;
    if (program_.shared_loop != kNoLoop && threads_here() > 1) return run_in_shares();
    parallel_for(cores - done, 1, [this, done](int64_t first, int64_t last) {
      run_cores(done + first, done + last, kNever);
    });
  }

  // Threads share the trips of the only core's loop. Each begins on its own, with all that comes
  // before it; what comes after the loop is done when all of them are, by the one that did the last
  // trip.
  void run_in_shares() {
    const auto begin = static_cast<size_t>(program_.shared_loop);
    const auto& loop = std::get<LoopBegin>(program_.code[begin].action);
    // More than threads, so that one that is preempted delays little.
    constexpr int64_t kSharesPerThread = 2;
    std::vector<CoreRun> shares(static_cast<size_t>(kSharesPerThread * threads_here()));
    const auto start_share = [&](CoreRun& share) {
      share.scratchpad = scratchpads_.take();
      fill(share);
      start(0, share);
      share.core.place = next_number();
      interpreter_.advance(share, begin);
    };
    CoreRun& first = shares.front();
    start_share(first);
    const int64_t lower = first.core.integer(loop.lower), upper = first.core.integer(loop.upper);
    const int64_t step = first.core.integer(loop.step);
    const auto is_far_from_overflow = [](int64_t value) {
      constexpr int64_t kMost = int64_t{1} << 40;
      return -kMost < value && value < kMost;
    };
    const bool has_trips = is_far_from_overflow(lower) && is_far_from_overflow(upper) &&
                           is_far_from_overflow(step) && step > 0 && upper - lower > step;
    if (first.state == State::kFailed || !has_trips ||
        !may_share_trips(program_, first.core, memory_)) {
      if (first.state != State::kFailed) interpreter_.advance(first);
      error_ = first.error;
      return;
    }
    const int64_t trips = (upper - lower + step - 1) / step;
    const int64_t count = std::min(trips, std::ssize(shares));
    const auto trips_before = [&](int64_t share) { return trips * share / count; };
    parallel_for(count, 1, [&](int64_t begin_share, int64_t end_share) {
      for (int64_t i = begin_share; i < end_share; ++i) {
        CoreRun& share = shares[static_cast<size_t>(i)];
        if (i > 0) start_share(share);
        share.core.registers[static_cast<size_t>(loop.variable)] =
            static_cast<uint64_t>(lower + trips_before(i) * step);
        share.next = static_cast<int32_t>(begin) + 1;
        share.bounded_loop = program_.shared_loop;
        share.bound = std::min(upper, lower + trips_before(i + 1) * step);
        interpreter_.advance(share, static_cast<size_t>(loop.end) + 1);
        if (i + 1 < count) share.scratchpad = {};
      }
    });
    for (int64_t i = 0; i < count && !error_; ++i) error_ = shares[static_cast<size_t>(i)].error;
    if (error_) return;
    CoreRun& last = shares[static_cast<size_t>(count - 1)];
    interpreter_.advance(last);
    error_ = last.error;
  }

  // Runs the first cores here, as long as it takes no longer than waking others; returns how many.
  int64_t run_while_short() {
    if (history_ == nullptr) return 0;
    if (history_->launches_to_next_try > 0) {
      --history_->launches_to_next_try;
      return 0;
    }
    const auto deadline = Clock::now() + kShortLaunch;
    const int64_t done = run_cores(0, program_.cores(), deadline);
    using History = ProgramHistory;
    const bool could_be_shared = program_.cores() > 1 || program_.shared_loop != kNoLoop;
    if (!could_be_shared || (done == program_.cores() && Clock::now() < deadline)) {
      history_->launches_between_tries = History::kFewestBetweenTries;
    } else {
      const int launches = history_->launches_between_tries;
      history_->launches_to_next_try = launches;
      history_->launches_between_tries = std::min(2 * launches, History::kMostBetweenTries);
    }
    return done;
  }

  // Runs these cores one after the other; returns the first that is left when the time is over.
  int64_t run_cores(int64_t begin, int64_t end, Clock::time_point deadline) {
    ThreadCore& mine = thread_core();
    CoreRun& run = mine.run;
    run.scratchpad = scratchpads_.take();
    int64_t id = begin;
    while (id < end && id <= limits_.last_core) {
      fill(run);
      start(id, run);
      run.core.place = mine.current_place();
      interpreter_.advance(run);
      if (run.state == State::kFailed) note_failure(id, run.error);
      ++id;
      if (deadline != kNever && Clock::now() >= deadline) break;
    }
    run.error = nullptr;
    run.scratchpad = {};
    return id > limits_.last_core ? end : id;
  }

  void note_failure(int64_t id, const std::exception_ptr& error) {
    const std::lock_guard lock(failure_mutex_);
    if (id >= limits_.last_core) return;
    limits_.last_core = id;
    error_ = error;
  }

  // With channels: every core runs until it is done or waits for others; then each pass runs those
  // that can go on until they wait again. What a core computes does not depend on when it runs,
  // because it only ever takes what was published in its own round. After an error the others go
  // on as far as they can, so that the error of the lowest core is always the same.
  void run_in_passes() {
    const int64_t cores = program_.cores();
    waiting_.resize(static_cast<size_t>(cores));
    for_each(cores, [&](int64_t i) {
      // Whoever folds what others publish is usually the first of its group: last, it finds all
      // of it there and need not wait.
      begin_core(ordered_ ? i : cores - 1 - i);
    });
    forget_publications();
    for (std::vector<int64_t> ready = next_pass(); !ready.empty(); ready = next_pass()) {
      for_each(std::ssize(ready), [&](int64_t i) { go_on(ready[static_cast<size_t>(i)]); });
      forget_publications();
    }
    if (!error_) check_deadlock();
  }

  // Calls `body` for each of `count` items, in order and on this thread if the run is ordered.
  void for_each(int64_t count, const std::function<void(int64_t)>& body) {
    const auto range = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i);
    };
    if (ordered_) return range(0, count);
    parallel_for(count, 1, range);
  }

  // A core that must wait keeps its registers and scratchpad; the thread takes others.
  void begin_core(int64_t id) {
    ThreadCore& mine = thread_core();
    mine.run.scratchpad = scratchpads_.take();
    fill(mine.run);
    start(id, mine.run);
    mine.run.core.place = mine.current_place();
    interpreter_.advance(mine.run);
    if (waits(mine.run)) {
      waiting_[static_cast<size_t>(id)] = std::make_unique<ThreadCore>(std::move(mine));
      mine = {};
    } else {
      leave(mine.run);
    }
  }

  void go_on(int64_t id) {
    std::unique_ptr<ThreadCore>& core = waiting_[static_cast<size_t>(id)];
    interpreter_.advance(core->run);
    if (waits(core->run)) return;
    leave(core->run);
    core = nullptr;
  }

  static bool waits(const CoreRun& run) {
    return run.state == State::kReceiving || run.state == State::kPublishing;
  }

  void leave(CoreRun& run) {
    run.scratchpad = {};
    if (run.state != State::kFailed) return;
    const std::lock_guard lock(failure_mutex_);
    if (run.core.id < failed_core_) {
      failed_core_ = run.core.id;
      error_ = run.error;
    }
    run.error = nullptr;
  }

  std::vector<int64_t> next_pass() {
    std::vector<int64_t> ready;
    CoreRun* blocked = nullptr;
    for (const std::unique_ptr<ThreadCore>& core : waiting_) {
      if (core == nullptr) continue;
      CoreRun& run = core->run;
      if (can_go_on(run)) ready.push_back(run.core.id);
      if (run.state == State::kPublishing && blocked == nullptr) blocked = &run;
    }
    if (ready.empty() && blocked != nullptr) {
      // Everybody waits, so nobody will make room: sending must not be what stops a kernel.
      blocked->may_overfill = true;
      ready.push_back(blocked->core.id);
    }
    return ready;
  }

  bool can_go_on(CoreRun& run) {
    if (run.state == State::kPublishing) return !mailboxes_.is_full(run.core.id);
    return mailboxes_.has(run.producer, run.channel,
                          run.deliveries[static_cast<size_t>(run.channel)]);
  }

  // What no core will ask for any more. At the end all of it goes anyway.
  void forget_publications() {
    if (std::ranges::all_of(waiting_, [](const auto& core) { return core == nullptr; })) return;
    for (int32_t channel = 0; channel < program_.channels; ++channel) {
      int64_t earliest = std::numeric_limits<int64_t>::max();
      for (const std::unique_ptr<ThreadCore>& core : waiting_) {
        if (core == nullptr) continue;
        earliest = std::min(earliest, core->run.deliveries[static_cast<size_t>(channel)]);
      }
      mailboxes_.forget_before(channel, earliest);
    }
  }

  void check_deadlock() const {
    std::string who;
    for (const std::unique_ptr<ThreadCore>& core : waiting_) {
      if (core == nullptr || core->run.state != State::kReceiving) continue;
      who += (who.empty() ? "core " : "; core ") + std::to_string(core->run.core.id) +
             " waiting on recv from core " + std::to_string(core->run.producer);
    }
    if (!who.empty()) {
      throw KernelError("Deadlock detected: " + who + " (kernel " + program_.name + ")");
    }
  }

  const Program& program_;
  const Memory& memory_;
  ScratchpadPool& scratchpads_;
  Injection injection_;
  const bool ordered_;
  ProgramHistory* const history_;
  const uint64_t launch_ = next_number();
  const uint64_t program_number_;
  const std::vector<uint64_t> registers_;
  Mailboxes mailboxes_;
  Interpreter::Limits limits_;
  const Interpreter interpreter_;
  std::vector<std::unique_ptr<ThreadCore>> waiting_;  // by core; of programs with channels
  std::mutex failure_mutex_;
  int64_t failed_core_ = std::numeric_limits<int64_t>::max();
  std::exception_ptr error_;  // of the core with the lowest id
};

}  // namespace

ProgramHistory::ProgramHistory() : number(next_number()) {}

void run_program(const Program& program, const Memory& memory, std::span<const uint64_t> scalars,
                 ScratchpadPool& scratchpads, const RunOptions& options) {
  Scheduler(program, memory, scalars, scratchpads, options).run();
}

}  // namespace spyre::emulator::engine
