#include "emulator/engine/mailboxes.h"

namespace spyre::emulator::engine {

namespace {

// Enough for cores that go in step; a core that runs ahead of the others waits for them.
constexpr int64_t kMostPublications = 64;
constexpr int64_t kMostBytes = int64_t{16} << 20;

}  // namespace

Mailboxes::Mailboxes(int64_t cores, int32_t channels) {
  if (channels == 0) return;  // most programs: a launch should not pay for what it does not use
  for (int64_t core = 0; core < cores; ++core) {
    auto mailbox = std::make_unique<Mailbox>();
    mailbox->channels.resize(static_cast<size_t>(channels));
    mailboxes_.push_back(std::move(mailbox));
  }
}

int64_t Mailboxes::bytes_of(const Publication& publication) {
  int64_t bytes = 0;
  for (const auto& role : publication) bytes += static_cast<int64_t>(role.size());
  return bytes;
}

void Mailboxes::publish(int64_t core, int32_t channel, Publication publication) {
  Mailbox& mailbox = *mailboxes_[static_cast<size_t>(core)];
  auto shared = std::make_shared<const Publication>(std::move(publication));
  std::lock_guard lock(mailbox.mutex);
  mailbox.count += 1;
  mailbox.bytes += bytes_of(*shared);
  mailbox.channels[static_cast<size_t>(channel)].publications.push_back(std::move(shared));
}

std::shared_ptr<const Publication> Mailboxes::find(int64_t core, int32_t channel, int64_t round) {
  Mailbox& mailbox = *mailboxes_[static_cast<size_t>(core)];
  std::lock_guard lock(mailbox.mutex);
  const Queue& queue = mailbox.channels[static_cast<size_t>(channel)];
  const auto place = static_cast<size_t>(round - queue.first_round);
  return place < queue.publications.size() ? queue.publications[place] : nullptr;
}

void Mailboxes::forget_before(int32_t channel, int64_t round) {
  for (const auto& mailbox : mailboxes_) {
    std::lock_guard lock(mailbox->mutex);
    Queue& queue = mailbox->channels[static_cast<size_t>(channel)];
    while (queue.first_round < round && !queue.publications.empty()) {
      mailbox->count -= 1;
      mailbox->bytes -= bytes_of(*queue.publications.front());
      queue.publications.pop_front();
      queue.first_round += 1;
    }
  }
}

bool Mailboxes::is_full(int64_t core) {
  Mailbox& mailbox = *mailboxes_[static_cast<size_t>(core)];
  std::lock_guard lock(mailbox.mutex);
  return mailbox.count >= kMostPublications || mailbox.bytes >= kMostBytes;
}

}  // namespace spyre::emulator::engine
