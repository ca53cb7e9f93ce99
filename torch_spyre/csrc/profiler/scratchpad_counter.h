// The counter "LX bytes" in traces: what tensors occupy in the scratchpad of a core while kernels
// run.
#pragma once

#include <libkineto.h>

#include "flex/activity.h"

namespace spyre {

// Adds samples for each kernel of a recording, whose last one is 0.
void add_scratchpad_counter(libkineto::CpuTraceBuffer& buffer, const flex::Recording& recording);

}  // namespace spyre
