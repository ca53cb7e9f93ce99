#include "torch/launches.h"

#include <c10/util/Exception.h>

#include <string_view>

namespace spyre {

namespace {

constexpr std::string_view kFlip = "flip:";

}  // namespace

std::string parse_fault_injection(const char* function, const std::string& inject) {
  if (inject.empty()) return inject;
  TORCH_CHECK_VALUE(inject.starts_with(kFlip) && inject.size() > kFlip.size(), function,
                    ": inject must be empty or 'flip:<instruction>', got '", inject, "'");
  return inject.substr(kFlip.size());
}

void execute_launch(flex::Card& card, const flex::LoadedProgram& program,
                    const flex::Launch& launch) {
  try {
    card.launch(program, launch);
  } catch (const flex::KernelIndexError& error) {
    TORCH_CHECK_INDEX(false, error.what());
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
                             const LaunchCost& cost) {
  return {.kind = flex::WorkKind::kKernel,
          .name = name,
          .card = card,
          .stream = stream,
          .bytes = cost.ddr_bytes(),
          .metrics = cost.metrics,
          .kernel = cost.kernel};
}

}  // namespace spyre
