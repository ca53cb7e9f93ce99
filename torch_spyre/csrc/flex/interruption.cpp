#include "flex/interruption.h"

namespace spyre::flex {

namespace {

std::atomic<SignalCheck> signal_check{nullptr};
std::atomic<uint64_t> interruptions{0};
thread_local StopRequest request_here;

}  // namespace

void set_signal_check(SignalCheck check) { signal_check = check; }

void check_signals() {
  const SignalCheck check = signal_check;
  if (check != nullptr) check();
}

uint64_t num_interruptions() { return interruptions.load(); }

uint64_t count_interruption() { return ++interruptions; }

StopRequest stop_request_here() { return request_here; }

WorkScope::WorkScope(uint64_t num_interruptions) : outer_(request_here) {
  request_here = {&interruptions, num_interruptions};
}

WorkScope::~WorkScope() { request_here = outer_; }

}  // namespace spyre::flex
