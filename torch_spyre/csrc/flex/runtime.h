// The cards, streams and counters of this process. The runtime starts on first use, and not in a
// forked child of a process that has started it.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "flex/driver.h"
#include "flex/monitor_file.h"
#include "flex/stream.h"

namespace spyre::flex {

// The visible cards. Enumerating them is cheap and opens no card.
struct Enumeration {
  std::string mode = "EMU";
  // The physical card of each logical index.
  std::vector<int> cards;
  // The card of this process if the program selects none.
  int default_card = 0;
};

struct RuntimeConfig {
  CardDescription card;
  DriverOptions driver;
  MonitorOptions monitor;
  bool ieee_fp16 = false;
  bool trace = false;
};

// The source of the configuration. `enumerate` and `configure` are called at most once each, on
// first use.
struct ConfigSource {
  std::function<Enumeration()> enumerate;
  std::function<RuntimeConfig()> configure;
  // Called if no monitor file can be created in a folder, with the reason.
  std::function<void(const std::string& folder, const std::string& reason)> warn_unmonitored{};
  // Runs a function that may wait for other threads (for their calls of the two functions above, or
  // for a stream), after releasing a lock that those threads may need (Python's GIL).
  std::function<void(const std::function<void()>&)> run_unlocked;
};

struct Counters {
  std::atomic<uint64_t> launches{0}, fallbacks{0}, h2d_bytes{0}, d2h_bytes{0}, d2d_bytes{0},
      device_time_ps{0}, ddr_read_bytes{0}, ddr_write_bytes{0}, allocations{0}, frees{0};
};

inline constexpr int64_t kStreamsPerPool = 32;
inline constexpr int64_t kStreamsPerCard = 1 + 2 * kStreamsPerPool;

// Memory of a card. The last reference releases it.
class Allocation {
 public:
  Allocation(Card& card, int card_index, size_t bytes);
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  // The owner frees the memory; queued work may still use it.
  void retire() noexcept;

  Card& card() const { return card_; }
  int card_index() const { return card_index_; }
  uint64_t address() const { return address_; }
  size_t bytes() const { return bytes_; }
  void* handle() const { return card_.handle(address_); }
  MemoryRange range() const { return {nullptr, &card_, address_, bytes_}; }

 private:
  Card& card_;
  const int card_index_;
  const size_t bytes_;
  const uint64_t address_;
  std::atomic<bool> retired_{false};
};

class Runtime {
 public:
  static Runtime& get();

  void set_config_source(ConfigSource source);

  // Number of visible cards; 0 if enumeration fails (check_cards throws the reason).
  int card_count() noexcept;
  void check_cards();

  bool started() const { return started_.load(std::memory_order_acquire) && !in_bad_fork(); }
  bool in_bad_fork() const { return in_bad_fork_.load(std::memory_order_relaxed); }
  // Opens the cards. Throws std::runtime_error: no cards, no driver, forked child.
  void start();

  int default_card();
  Card& card(int index);
  // Returns the device time that the host has reached.
  uint64_t host_time_ps(int card);
  std::shared_ptr<Allocation> allocate(int card, size_t bytes);

  // Streams of a card: 0 is the default, 1..32 the low and 33..64 the high priority pool.
  Stream& stream(int card, int64_t id);
  // Throws for an invalid stream id, without opening a card.
  static void check_stream_id(int64_t id);
  int64_t next_stream(int card, bool high_priority);
  // Stops the running kernels of all cards and drops all queued work. Returns when no such work
  // runs any more. A running copy is completed.
  void interrupt();
  // Waits for all streams, then throws the first error of their work.
  void synchronize(int card);
  // Waits for all streams. The next synchronisation throws errors of their work.
  void wait_idle(int card);
  // The same, without advancing the host's device time.
  void drain(int card);

  Counters& counters() { return counters_; }

 private:
  struct OpenCard {
    std::unique_ptr<Card> card;
    std::shared_ptr<Timeline> timeline;
    std::unique_ptr<CardMeter> meter;  // nullptr: monitors do not see the card
    std::mutex mutex;
    std::array<std::unique_ptr<Stream>, kStreamsPerCard> streams;
    std::array<uint64_t, 2> next_in_pool{};
  };
  Runtime();
  OpenCard& open_card(int index);
  // Returns the streams that have been used.
  static std::vector<Stream*> streams_of(OpenCard& open);
  const Enumeration& enumeration();
  void find_cards();
  void open_cards(const Enumeration& enumeration);
  void show_to_monitors(const RuntimeConfig& config, const std::vector<int>& physical,
                        std::vector<std::unique_ptr<OpenCard>>& cards) const;
  void check_not_forked() const;

  std::mutex mutex_;
  ConfigSource source_;
  std::atomic<const Enumeration*> enumeration_{nullptr};
  std::exception_ptr enumeration_error_;
  std::unique_ptr<Driver> driver_;
  std::vector<std::unique_ptr<OpenCard>> cards_;
  std::atomic<bool> started_{false};
  std::atomic<bool> in_bad_fork_{false};
  Counters counters_;
};

}  // namespace spyre::flex
