// Counts the launches of each kernel while a program asks for it. While it does not, a launch costs
// one load.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

namespace spyre {

class LaunchCounts {
 public:
  static LaunchCounts& get();

  bool is_counting() const { return num_users_.load(std::memory_order_relaxed) > 0; }
  // Counting goes on until every user has stopped it.
  void start();
  void stop();
  // Counts a launch; 0 is no kernel.
  void add(uint64_t kernel);
  // Returns the launches by kernel, since the first user has started.
  std::map<uint64_t, uint64_t> counts();

 private:
  std::atomic<int> num_users_{0};
  std::mutex mutex_;
  std::map<uint64_t, uint64_t> counts_;
};

}  // namespace spyre
