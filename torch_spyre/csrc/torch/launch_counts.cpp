#include "torch/launch_counts.h"

namespace spyre {

LaunchCounts& LaunchCounts::get() {
  static auto* counts = new LaunchCounts();  // threads may outlive static objects
  return *counts;
}

void LaunchCounts::start() {
  const std::lock_guard lock(mutex_);
  if (num_users_++ == 0) counts_.clear();
}

void LaunchCounts::stop() {
  const std::lock_guard lock(mutex_);
  if (num_users_ > 0) --num_users_;
}

void LaunchCounts::add(uint64_t kernel) {
  if (kernel == 0) return;
  const std::lock_guard lock(mutex_);
  ++counts_[kernel];
}

std::map<uint64_t, uint64_t> LaunchCounts::counts() {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace spyre
