// Holds the tiles that cores publish for each other, until no core can receive them any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace spyre::emulator::engine {

// One publication: the bytes of each role.
using Publication = std::vector<std::vector<std::byte>>;

// Thread-safe; each core publishes under its own id.
class Mailboxes {
 public:
  Mailboxes(int64_t cores, int32_t channels);

  void publish(int64_t core, int32_t channel, Publication publication);
  // Returns the core's publication of this round of the channel, counted from 0; nullptr: not yet
  // published.
  std::shared_ptr<const Publication> find(int64_t core, int32_t channel, int64_t round);
  bool has(int64_t core, int32_t channel, int64_t round) {
    return find(core, channel, round) != nullptr;
  }
  // Discards the publications of rounds of the channel before this one.
  void discard_before(int32_t channel, int64_t round);
  // Returns whether the core should wait until other cores have received its publications.
  bool is_full(int64_t core);

 private:
  struct Queue {
    int64_t first_round = 0;
    std::vector<std::shared_ptr<const Publication>> publications;
  };
  struct Mailbox {
    std::mutex mutex;
    std::vector<Queue> channels;
    int64_t count = 0, bytes = 0;
  };
  static int64_t bytes_of(const Publication& publication);

  std::vector<Mailbox> mailboxes_;
};

}  // namespace spyre::emulator::engine
