#include "emulator/engine/scheduler.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>

#include "emulator/engine/interpreter.h"
#include "emulator/engine/parallel_loops.h"
#include "emulator/stop.h"
#include "emulator/thread_pool.h"

namespace spyre::emulator::engine {

namespace {

using State = CoreRun::State;
using Clock = std::chrono::steady_clock;

// Returns the registers that all cores start with.
std::vector<uint64_t> initial_registers(const Program& program, const Memory& memory,
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

uint64_t next_id() {
  static std::atomic<uint64_t> last_id{0};
  return ++last_id;
}

// Waking another thread does not pay off for programs that take less time than this.
constexpr auto kShortLaunch = std::chrono::microseconds(60);
constexpr auto kNever = Clock::time_point::max();

// The core state that a thread reuses for all cores it runs. Its addresses stay the same, so that
// cached plans of instructions are valid for the next core and the next launch.
struct ThreadCore {
  CoreRun run;
  const uint64_t* registers = nullptr;
  const std::byte* scratchpad = nullptr;
  uint64_t address_id = 0;

  // Returns an id that changes whenever the addresses of the registers or scratchpad change.
  uint64_t current_address_id() {
    const uint64_t* const registers_now = run.core.registers.data();
    if (registers != registers_now || scratchpad != run.core.scratchpad) {
      registers = registers_now;
      scratchpad = run.core.scratchpad;
      address_id = next_id();
    }
    return address_id;
  }
};

ThreadCore& this_thread_core() {
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
        executed_(options.executed),
        program_id_(history_ != nullptr ? history_->id : launch_),
        registers_(initial_registers(program, memory, scalars)),
        mailboxes_(program.cores(), program.channels),
        stop_(options.stop, options.watchdog_seconds),
        interpreter_(program, memory, mailboxes_, limits_, stop_) {}

  void run() {
    const StopScope scope(&stop_);
    stop_.check();
    if (program_.channels == 0) {
      run_independently();
    } else {
      run_in_passes();
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  // Clears the content that a previous core left in the scratchpad.
  void fill_scratchpad(const CoreRun& run) const {
    if (!program_.filled) {
      return scratchpads_.fill(run.scratchpad, 0, program_.scratchpad_bytes);
    }
    for (const ScratchpadRange& range : *program_.filled) {
      scratchpads_.fill(run.scratchpad, range.begin, range.end);
    }
  }

  // Initialises the run. It must have a scratchpad already.
  void start(int64_t id, CoreRun& run) {
    run.next = 0;
    run.error = nullptr;
    run.state = State::kReady;
    run.executed = executed_ == nullptr ? nullptr : &executed_->add_part(id);
    run.core.id = id;
    run.core.launch = launch_;
    run.core.program = program_id_;
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

  // Without channels each core runs from its first instruction to its last without waiting, and the
  // next core reuses its scratchpad.
  void run_independently() {
    const int64_t cores = program_.cores();
    const int64_t done = ordered_ ? run_cores(0, cores, kNever) : run_until_deadline();
    if (done == cores) return;
    if (program_.parallel_loop != kNoLoop && threads_here() > 1) return run_loop_in_parallel();
    parallel_for(cores - done, 1, [this, done](int64_t first, int64_t last) {
      run_cores(done + first, done + last, kNever);
    });
  }

  // Splits the iterations of the only core's parallel loop into chunks. Each chunk first executes
  // the instructions before the loop. After all chunks, the last one executes the instructions
  // after the loop.
  void run_loop_in_parallel() {
    const auto begin = static_cast<size_t>(program_.parallel_loop);
    const auto& loop = std::get<LoopBegin>(program_.code[begin].action);
    // More chunks than threads, to bound the delay by a preempted thread.
    constexpr int64_t kChunksPerThread = 2;
    std::vector<CoreRun> chunks(static_cast<size_t>(kChunksPerThread * threads_here()));
    const auto start_chunk = [&](CoreRun& chunk) {
      chunk.scratchpad = scratchpads_.acquire();
      fill_scratchpad(chunk);
      start(0, chunk);
      chunk.core.address_id = next_id();
      // The card executes the instructions before the loop once.
      ExecutedCore* const executed = chunk.executed;
      if (&chunk != &chunks.front()) chunk.executed = nullptr;
      interpreter_.advance(chunk, begin);
      chunk.executed = executed;
    };
    CoreRun& first = chunks.front();
    start_chunk(first);
    const int64_t lower = first.core.integer(loop.lower), upper = first.core.integer(loop.upper);
    const int64_t step = first.core.integer(loop.step);
    const auto is_far_from_overflow = [](int64_t value) {
      constexpr int64_t kBound = int64_t{1} << 40;
      return -kBound < value && value < kBound;
    };
    const bool has_trips = is_far_from_overflow(lower) && is_far_from_overflow(upper) &&
                           is_far_from_overflow(step) && step > 0 && upper - lower > step;
    if (first.state == State::kFailed || !has_trips ||
        !can_run_in_parallel(program_, first.core, memory_)) {
      if (first.state != State::kFailed) interpreter_.advance(first);
      error_ = first.error;
      return;
    }
    const int64_t trips = (upper - lower + step - 1) / step;
    const int64_t count = std::min(trips, std::ssize(chunks));
    const auto trips_before = [&](int64_t chunk) { return trips * chunk / count; };
    parallel_for(count, 1, [&](int64_t begin_chunk, int64_t end_chunk) {
      for (int64_t i = begin_chunk; i < end_chunk; ++i) {
        CoreRun& chunk = chunks[static_cast<size_t>(i)];
        if (i > 0) start_chunk(chunk);
        chunk.core.registers[static_cast<size_t>(loop.variable)] =
            static_cast<uint64_t>(lower + trips_before(i) * step);
        chunk.next = static_cast<int32_t>(begin) + 1;
        chunk.bounded_loop = program_.parallel_loop;
        chunk.bound = std::min(upper, lower + trips_before(i + 1) * step);
        interpreter_.advance(chunk, static_cast<size_t>(loop.end) + 1);
        if (i + 1 < count) chunk.scratchpad = {};
      }
    });
    for (int64_t i = 0; i < count && !error_; ++i) error_ = chunks[static_cast<size_t>(i)].error;
    if (error_) return;
    CoreRun& last = chunks[static_cast<size_t>(count - 1)];
    interpreter_.advance(last);
    error_ = last.error;
  }

  // Runs the first cores on this thread until the deadline; returns how many have run.
  int64_t run_until_deadline() {
    if (history_ == nullptr) return 0;
    if (history_->launches_to_next_try > 0) {
      --history_->launches_to_next_try;
      return 0;
    }
    const auto deadline = Clock::now() + kShortLaunch;
    const int64_t done = run_cores(0, program_.cores(), deadline);
    using History = ProgramHistory;
    const bool can_run_in_parallel_threads =
        program_.cores() > 1 || program_.parallel_loop != kNoLoop;
    if (!can_run_in_parallel_threads || (done == program_.cores() && Clock::now() < deadline)) {
      history_->launches_between_tries = History::kMinBetweenTries;
    } else {
      const int launches = history_->launches_between_tries;
      history_->launches_to_next_try = launches;
      history_->launches_between_tries = std::min(2 * launches, History::kMaxBetweenTries);
    }
    return done;
  }

  // Runs the cores [begin, end) sequentially until the deadline; returns the first that has not
  // run.
  int64_t run_cores(int64_t begin, int64_t end, Clock::time_point deadline) {
    ThreadCore& thread_core = this_thread_core();
    CoreRun& run = thread_core.run;
    run.scratchpad = scratchpads_.acquire();
    int64_t id = begin;
    while (id < end && id <= limits_.last_core) {
      fill_scratchpad(run);
      start(id, run);
      run.core.address_id = thread_core.current_address_id();
      interpreter_.advance(run);
      if (run.state == State::kFailed) record_failure(id, run.error);
      ++id;
      if (deadline != kNever && Clock::now() >= deadline) break;
    }
    run.error = nullptr;
    run.scratchpad = {};
    return id > limits_.last_core ? end : id;
  }

  void record_failure(int64_t id, const std::exception_ptr& error) {
    const std::lock_guard lock(failure_mutex_);
    if (id >= limits_.last_core) return;
    limits_.last_core = id;
    error_ = error;
  }

  // With channels: every core runs until it is done or waits for another one. Each further pass
  // resumes the cores that can continue. The result of a core does not depend on the order, because
  // a core only receives tiles that were published in its own round. After an error the other cores
  // continue as far as possible, so that the error of the lowest core is always the same.
  void run_in_passes() {
    const int64_t cores = program_.cores();
    waiting_.resize(static_cast<size_t>(cores));
    for_each(cores, [&](int64_t i) {
      // The core that reduces the tiles of a group is usually the first one of the group. If it
      // runs last, all tiles are published already and it does not wait.
      begin_core(ordered_ ? i : cores - 1 - i);
    });
    discard_publications();
    for (std::vector<int64_t> ready = next_pass(); !ready.empty(); ready = next_pass()) {
      for_each(std::ssize(ready), [&](int64_t i) { resume(ready[static_cast<size_t>(i)]); });
      discard_publications();
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

  // A core that has to wait keeps its registers and scratchpad; the thread gets new ones.
  void begin_core(int64_t id) {
    ThreadCore& thread_core = this_thread_core();
    thread_core.run.scratchpad = scratchpads_.acquire();
    fill_scratchpad(thread_core.run);
    start(id, thread_core.run);
    thread_core.run.core.address_id = thread_core.current_address_id();
    interpreter_.advance(thread_core.run);
    if (is_waiting(thread_core.run)) {
      waiting_[static_cast<size_t>(id)] = std::make_unique<ThreadCore>(std::move(thread_core));
      thread_core = {};
    } else {
      retire(thread_core.run);
    }
  }

  void resume(int64_t id) {
    std::unique_ptr<ThreadCore>& core = waiting_[static_cast<size_t>(id)];
    interpreter_.advance(core->run);
    if (is_waiting(core->run)) return;
    retire(core->run);
    core = nullptr;
  }

  static bool is_waiting(const CoreRun& run) {
    return run.state == State::kReceiving || run.state == State::kPublishing;
  }

  void retire(CoreRun& run) {
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
      if (can_resume(run)) ready.push_back(run.core.id);
      if (run.state == State::kPublishing && blocked == nullptr) blocked = &run;
    }
    if (ready.empty() && blocked != nullptr) {
      // All cores wait, so no mailbox will be emptied. A full mailbox must not cause a deadlock.
      blocked->may_overfill = true;
      ready.push_back(blocked->core.id);
    }
    return ready;
  }

  bool can_resume(CoreRun& run) {
    if (run.state == State::kPublishing) return !mailboxes_.is_full(run.core.id);
    return mailboxes_.has(run.producer, run.channel,
                          run.deliveries[static_cast<size_t>(run.channel)]);
  }

  // Discards publications that no core can receive any more. At the end of the launch all are
  // discarded anyway.
  void discard_publications() {
    if (std::ranges::all_of(waiting_, [](const auto& core) { return core == nullptr; })) return;
    for (int32_t channel = 0; channel < program_.channels; ++channel) {
      int64_t earliest = std::numeric_limits<int64_t>::max();
      for (const std::unique_ptr<ThreadCore>& core : waiting_) {
        if (core == nullptr) continue;
        earliest = std::min(earliest, core->run.deliveries[static_cast<size_t>(channel)]);
      }
      mailboxes_.discard_before(channel, earliest);
    }
  }

  void check_deadlock() const {
    std::string waiting_cores;
    for (const std::unique_ptr<ThreadCore>& core : waiting_) {
      if (core == nullptr || core->run.state != State::kReceiving) continue;
      waiting_cores += (waiting_cores.empty() ? "core " : "; core ") +
                       std::to_string(core->run.core.id) + " waiting on recv from core " +
                       std::to_string(core->run.producer);
    }
    if (!waiting_cores.empty()) {
      throw KernelError("Deadlock detected: " + waiting_cores + " (kernel " + program_.name + ")");
    }
  }

  const Program& program_;
  const Memory& memory_;
  ScratchpadPool& scratchpads_;
  Injection injection_;
  const bool ordered_;
  ProgramHistory* const history_;
  ExecutedCounts* const executed_;
  const uint64_t launch_ = next_id();
  const uint64_t program_id_;
  const std::vector<uint64_t> registers_;
  Mailboxes mailboxes_;
  Interpreter::Limits limits_;
  const StopConditions stop_;
  const Interpreter interpreter_;
  std::vector<std::unique_ptr<ThreadCore>> waiting_;  // by core; for programs with channels
  std::mutex failure_mutex_;
  int64_t failed_core_ = std::numeric_limits<int64_t>::max();
  std::exception_ptr error_;  // of the core with the lowest id
};

}  // namespace

ProgramHistory::ProgramHistory() : id(next_id()) {}

void run_program(const Program& program, const Memory& memory, std::span<const uint64_t> scalars,
                 ScratchpadPool& scratchpads, const RunOptions& options) {
  Scheduler(program, memory, scalars, scratchpads, options).run();
}

}  // namespace spyre::emulator::engine
