// What cores publish for each other, until no core can want it any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace spyre::emulator::engine {

// One publication: the bytes of each role.
using Publication = std::vector<std::vector<std::byte>>;

// Cores may use it at the same time, each publishing in its own name.
class Mailboxes {
 public:
  Mailboxes(int64_t cores, int32_t channels);

  void publish(int64_t core, int32_t channel, Publication publication);
  // What the core published in this round of the channel, the first being 0; null: not yet.
  std::shared_ptr<const Publication> find(int64_t core, int32_t channel, int64_t round);
  bool has(int64_t core, int32_t channel, int64_t round) {
    return find(core, channel, round) != nullptr;
  }
  // Nobody will ask for rounds of the channel before this one again.
  void forget_before(int32_t channel, int64_t round);
  // Whether the core should let others take what it has published before it goes on.
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
