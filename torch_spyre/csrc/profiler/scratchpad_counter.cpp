#include "profiler/scratchpad_counter.h"

#include <pybind11/stl.h>

#include <unordered_map>
#include <utility>
#include <vector>

#include "torch/bindings.h"

namespace py = pybind11;

namespace spyre {

namespace {

using libkineto::ActivityType;

// The bytes in use from a share of a kernel's time on.
using Samples = std::vector<std::pair<double, int64_t>>;

// The Python function that returns the samples of a kernel by its number. The GIL guards it. It is
// never destroyed, because it may outlive the interpreter.
py::function* read_samples = nullptr;

Samples samples_of(uint64_t kernel) { return (*read_samples)(kernel).cast<Samples>(); }

void add_sample(libkineto::CpuTraceBuffer& buffer, int card, int64_t time_ns, int64_t bytes) {
  // Of Kineto's activities, those of this type are counters in traces.
  buffer.emplace_activity(buffer.span, ActivityType::MTIA_COUNTERS, "LX bytes");
  libkineto::GenericTraceActivity& activity = *buffer.activities.back();
  activity.startTime = activity.endTime = time_ns;
  activity.device = card;
  activity.addCounterValue("bytes", static_cast<double>(bytes));
}

}  // namespace

void add_scratchpad_counter(libkineto::CpuTraceBuffer& buffer, const flex::Recording& recording) {
  const py::gil_scoped_acquire locked;
  if (read_samples == nullptr) return;
  std::unordered_map<uint64_t, Samples> known;
  for (const flex::DeviceWork& work : recording.work) {
    if (work.kernel == 0) continue;
    const auto [samples, is_new] = known.try_emplace(work.kernel);
    if (is_new) samples->second = samples_of(work.kernel);
    const auto duration_ns = static_cast<double>(work.end_ns - work.begin_ns);
    for (const auto& [share, bytes] : samples->second) {
      const auto offset_ns = static_cast<int64_t>(share * duration_ns);
      add_sample(buffer, work.card, work.begin_ns + offset_ns, bytes);
    }
  }
}

void bind_scratchpad_counter(py::module_& module) {
  module.def(
      "_set_scratchpad_samples",
      [](py::function read) {
        delete read_samples;
        read_samples = new py::function(std::move(read));
      },
      py::arg("read"),
      "Sets the function that returns, for the number of a kernel, shares of its time and the "
      "bytes "
      "of a scratchpad that are in use from then on.");
}

}  // namespace spyre
