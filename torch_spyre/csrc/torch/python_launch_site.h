// Where launches from Python come from, and the log of launches. All functions need the GIL.
#pragma once

#include "torch/bundle.h"
#include "torch/launch_site.h"

namespace spyre {

// Returns where the calling thread launches a bundle. The line of an eager call is only found if
// it may be needed: by an error of the kernel that depends on its arguments, or by a profiler.
LaunchSite site_of(const Bundle& bundle);

// Logs a launch of a bundle on a card, if launches are logged.
void log_launch(const Bundle& bundle, c10::DeviceIndex card);

}  // namespace spyre
