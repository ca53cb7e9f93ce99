// Stops of running work: a launch that is asked to stop, its watchdog, and the work of a stream.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "check.h"
#include "emulator/engine/scheduler.h"
#include "engine_fixture.h"
#include "flex/interruption.h"
#include "flex/stream.h"
#include "program_builder.h"

using namespace spyre;
using namespace spyre::emulator::engine;

namespace {

// A program of four cores whose loops never end.
Program endless_program() {
  ProgramBuilder build({4, 1, 1});
  build.program.locations = {{"test.op", 1, 2}};
  const Register zero = build.constant(0), one = build.constant(1);
  build.loop(zero, build.constant(int64_t{1} << 62), one,
             [&](Register variable) { build.sum(variable, one); });
  return build.program;
}

void run(const Program& program, double watchdog_seconds, const flex::StopRequest& stop = {}) {
  ScratchpadPool scratchpads(program.scratchpad_bytes, true);
  const Memory memory(program, {}, {}, {});
  RunOptions options;
  options.watchdog_seconds = watchdog_seconds;
  options.stop = stop;
  run_program(program, memory, {}, scratchpads, options);
}

}  // namespace

TEST("a launch stops soon after it is asked to") {
  const Program program = endless_program();
  for (const int threads : {1, 4}) {
    const WithThreads with(threads);
    std::atomic<uint64_t> interruptions{0};
    std::thread interrupter([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ++interruptions;
    });
    CHECK_THROWS(flex::WorkInterrupted, run(program, 0, {&interruptions, 0}));
    interrupter.join();
    // A launch that begins after the request does not run at all.
    CHECK_THROWS(flex::WorkInterrupted, run(program, 0, {&interruptions, 0}));
  }
}

TEST("the watchdog stops a launch, and a request to stop has precedence") {
  const Program program = endless_program();
  const std::atomic<uint64_t> interruptions{1};
  CHECK_THROWS(KernelError, run(program, 0.02));
  CHECK_THROWS(KernelError, run(program, 0.02, {&interruptions, 1}));
  CHECK_THROWS(flex::WorkInterrupted, run(program, 0.02, {&interruptions, 0}));
}

TEST("an interruption drops the queue of a stream, and later work runs") {
  // Never destroyed, because its thread never ends.
  auto& stream = *new flex::Stream(1, std::make_shared<flex::Timeline>(204'800'000'000));
  std::atomic<bool> is_running{false}, has_run_dropped{false}, has_run_later{false};
  stream.submit([&] {
    is_running = true;
    while (!flex::stop_request_here().is_set()) std::this_thread::yield();
    throw flex::WorkInterrupted();
  });
  stream.submit([&] { has_run_dropped = true; });
  const auto event = std::make_shared<flex::Event>();
  stream.record(event);
  while (!is_running) std::this_thread::yield();
  CHECK(!event->complete());
  const uint64_t interruption = flex::count_interruption();
  stream.drop_queue(interruption);
  stream.submit([&] { has_run_later = true; });
  stream.finish_drop(interruption);
  CHECK(event->complete());
  stream.synchronize();
  CHECK(has_run_later && !has_run_dropped);
}
