#include "emulator/engine/mailboxes.h"

#include <algorithm>

namespace spyre::emulator::engine {

namespace {

// Enough for cores that run in lockstep; a core that runs ahead waits for the others.
constexpr int64_t kMaxPublications = 64;
constexpr int64_t kMaxPublishedBytes = int64_t{16} << 20;

}  // namespace

// Most programs have no channels: allocate nothing then.
Mailboxes::Mailboxes(int64_t cores, int32_t channels)
    : mailboxes_(static_cast<size_t>(channels == 0 ? 0 : cores)) {
  for (Mailbox& mailbox : mailboxes_) mailbox.channels.resize(static_cast<size_t>(channels));
}

int64_t Mailboxes::bytes_of(const Publication& publication) {
  int64_t bytes = 0;
  for (const auto& role : publication) bytes += static_cast<int64_t>(role.size());
  return bytes;
}

void Mailboxes::publish(int64_t core, int32_t channel, Publication publication) {
  Mailbox& mailbox = mailboxes_[static_cast<size_t>(core)];
  auto shared = std::make_shared<const Publication>(std::move(publication));
  std::lock_guard lock(mailbox.mutex);
  mailbox.count += 1;
  mailbox.bytes += bytes_of(*shared);
  mailbox.channels[static_cast<size_t>(channel)].publications.push_back(std::move(shared));
}

std::shared_ptr<const Publication> Mailboxes::find(int64_t core, int32_t channel, int64_t round) {
  Mailbox& mailbox = mailboxes_[static_cast<size_t>(core)];
  std::lock_guard lock(mailbox.mutex);
  const Queue& queue = mailbox.channels[static_cast<size_t>(channel)];
  const auto position = static_cast<size_t>(round - queue.first_round);
  return position < queue.publications.size() ? queue.publications[position] : nullptr;
}

void Mailboxes::discard_before(int32_t channel, int64_t round) {
  for (Mailbox& mailbox : mailboxes_) {
    const std::lock_guard lock(mailbox.mutex);
    Queue& queue = mailbox.channels[static_cast<size_t>(channel)];
    const auto discarded =
        std::clamp<int64_t>(round - queue.first_round, 0, std::ssize(queue.publications));
    const auto end = queue.publications.begin() + discarded;
    for (auto publication = queue.publications.begin(); publication != end; ++publication) {
      mailbox.count -= 1;
      mailbox.bytes -= bytes_of(**publication);
    }
    queue.publications.erase(queue.publications.begin(), end);
    queue.first_round += discarded;
  }
}

bool Mailboxes::is_full(int64_t core) {
  Mailbox& mailbox = mailboxes_[static_cast<size_t>(core)];
  std::lock_guard lock(mailbox.mutex);
  return mailbox.count >= kMaxPublications || mailbox.bytes >= kMaxPublishedBytes;
}

}  // namespace spyre::emulator::engine
