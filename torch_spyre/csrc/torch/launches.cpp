#include "torch/launches.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace spyre {

namespace {

constexpr std::string_view kFlip = "flip:";

FailureHook& failure_hook() {
  static auto* hook = new FailureHook();  // never destroyed: it may outlive the interpreter
  return *hook;
}

template <typename Failure>
std::exception_ptr failure(const std::string& message) {
  return std::make_exception_ptr(Failure({__func__, __FILE__, __LINE__}, message));
}

// Adds to the message of a kernel's error what the hook returns.
std::exception_ptr with_note(std::exception_ptr error) {
  const FailureHook& hook = failure_hook();
  if (!hook) return error;
  try {
    std::rethrow_exception(error);
  } catch (const KernelIndexFailure& known) {
    const std::string message = known.what_without_backtrace();
    return failure<KernelIndexFailure>(message + hook("IndexError", message));
  } catch (const KernelFailure& known) {
    const std::string message = known.what_without_backtrace();
    return failure<KernelFailure>(message + hook("RuntimeError", message));
  } catch (...) {
    return error;
  }
}

// Appends a JSON string to a list of them.
void append_json(std::string& list, const std::string& text) {
  list += list.empty() ? "\"" : ", ";
  for (const char c : text) {
    if (c == '"' || c == '\\') list += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) list += c;
  }
}

// Returns the metrics with the ops, lines and modules that the kernel comes from.
std::shared_ptr<const flex::Metrics> with_lines(const std::shared_ptr<const flex::Metrics>& metrics,
                                                const std::vector<SourceLine>& lines) {
  std::map<std::string, std::vector<std::string>> values;
  const auto add = [&](const char* name, const std::string& value) {
    std::vector<std::string>& known = values[name];
    if (!value.empty() && std::ranges::find(known, value) == known.end()) known.push_back(value);
  };
  for (const SourceLine& line : lines) {
    add("aten", line.op);
    add("source", line.location);
    add("module", line.module);
  }
  auto result = std::make_shared<flex::Metrics>();
  if (metrics != nullptr) *result = *metrics;
  for (const auto& [name, texts] : values) {
    std::string list;
    for (const std::string& text : texts) append_json(list, text);
    if (!list.empty()) (*result)[name] = list + "\"";
  }
  return result;
}

}  // namespace

void set_failure_hook(FailureHook hook) {
  failure_hook() = std::move(hook);
  flex::set_error_filter(&with_note);
}

std::string parse_fault_injection(const char* function, const std::string& inject) {
  if (inject.empty()) return inject;
  TORCH_CHECK_VALUE(inject.starts_with(kFlip) && inject.size() > kFlip.size(), function,
                    ": inject must be empty or 'flip:<instruction>', got '", inject, "'");
  return inject.substr(kFlip.size());
}

void execute_launch(flex::Card& card, const flex::LoadedProgram& program,
                    const flex::Launch& launch, const Describe& describe) {
  const auto message = [&](const flex::KernelError& error) {
    return describe ? describe(error) : std::string(error.what());
  };
  try {
    card.launch(program, launch);
  } catch (const flex::KernelIndexError& error) {
    std::rethrow_exception(failure<KernelIndexFailure>(message(error)));
  } catch (const flex::KernelError& error) {
    std::rethrow_exception(failure<KernelFailure>(message(error)));
  } catch (const flex::OutOfHostMemory& error) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
  }
}

flex::WorkTime charge(const LaunchCost& cost, uint64_t launches, const flex::Card& card) {
  using enum flex::Amount;
  flex::Counters& counters = flex::Runtime::get().counters();
  counters.launches += launches;
  counters.device_time_ps += cost.time_ps;
  counters.ddr_read_bytes += cost.ddr_read_bytes;
  counters.ddr_write_bytes += cost.ddr_write_bytes;
  const auto launch_ps = static_cast<uint64_t>(card.description().launch_ps);
  flex::WorkTime time{
      flex::Unit::kCores, cost.time_ps, cost.time_ps > 0 ? launch_ps : 0, cost.ddr_bytes(), {}};
  time.amounts[kLaunches] = launches;
  time.amounts[kDdrReadBytes] = cost.ddr_read_bytes;
  time.amounts[kDdrWriteBytes] = cost.ddr_write_bytes;
  time.amounts[kPtPs] = cost.pt_ps;
  time.amounts[kSfpPs] = cost.sfp_ps;
  time.amounts[kLxPs] = cost.lx_ps;
  time.amounts[kRingPs] = cost.ring_ps;
  return time;
}

flex::DeviceWork kernel_work(const std::string& name, int card, int64_t stream,
                             const LaunchCost& cost, const std::vector<SourceLine>& lines) {
  return {.kind = flex::WorkKind::kKernel,
          .name = name,
          .card = card,
          .stream = stream,
          .bytes = cost.ddr_bytes(),
          .metrics = lines.empty() ? cost.metrics : with_lines(cost.metrics, lines),
          .kernel = cost.kernel};
}

}  // namespace spyre
