#include "flex/runtime.h"

#include <pthread.h>

#include "flex/activity.h"
#include "flex/interruption.h"
#include "flex/memory_history.h"
#include "flex/trace.h"

namespace spyre::flex {

Allocation::Allocation(Card& card, int card_index, size_t bytes)
    : card_(card), card_index_(card_index), bytes_(bytes), address_(card.allocate(bytes)) {
  Runtime::get().counters().allocations++;
  trace("allocate ", bytes, " bytes at ", address_, " on card ", card_index);
  MemoryHistory& history = MemoryHistory::get();
  if (history.is_recording()) history.allocated(*this);
}

void Allocation::retire() noexcept {
  if (Runtime::get().in_bad_fork() || retired_.exchange(true)) return;
  Runtime::get().counters().frees++;
  trace("free ", bytes_, " bytes at ", address_, " on card ", card_index_);
  MemoryHistory& history = MemoryHistory::get();
  if (history.is_recording()) history.free_requested(*this);
  card_.retire(address_);
}

Allocation::~Allocation() {
  // A forked child does not own the card's memory.
  if (Runtime::get().in_bad_fork()) return;
  retire();
  // Before the release: afterwards another allocation may get the address.
  MemoryHistory& history = MemoryHistory::get();
  if (history.is_recording()) history.free_completed(*this);
  card_.release(address_);
}

Runtime& Runtime::get() {
  // Never destroyed: tensors and stream threads may outlive static destruction.
  static Runtime* runtime = new Runtime();
  return *runtime;
}

Runtime::Runtime() {
  pthread_atfork(nullptr, nullptr, [] {
    Runtime& runtime = Runtime::get();
    if (runtime.started_) runtime.in_bad_fork_ = true;
  });
}

void Runtime::set_config_source(ConfigSource source) {
  std::lock_guard lock(mutex_);
  source_ = std::move(source);
}

void Runtime::find_cards() {
  std::lock_guard lock(mutex_);
  if (enumeration_ == nullptr && !enumeration_error_) {
    try {
      enumeration_ = new Enumeration(source_.enumerate());  // as long-lived as the runtime
    } catch (...) {
      enumeration_error_ = std::current_exception();
    }
  }
  if (enumeration_error_) std::rethrow_exception(enumeration_error_);
}

const Enumeration& Runtime::enumeration() {
  if (enumeration_.load(std::memory_order_acquire) == nullptr) {
    source_.run_unlocked([this] { find_cards(); });
  }
  return *enumeration_;
}

int Runtime::card_count() noexcept {
  try {
    return static_cast<int>(enumeration().cards.size());
  } catch (...) {
    return 0;
  }
}

void Runtime::check_cards() {
  if (enumeration().cards.empty()) {
    throw std::runtime_error(
        "no Spyre card is visible: SPYRE_DEVICES and AIU_WORLD_SIZE leave none. Unset them for "
        "one emulated card.");
  }
}

void Runtime::check_not_forked() const {
  if (!in_bad_fork()) return;
  throw std::runtime_error(
      "Cannot re-initialize Spyre in a forked subprocess: the parent had already started the "
      "card. Use the 'spawn' start method for multiprocessing, or start the card only after the "
      "fork.");
}

void Runtime::start() {
  check_not_forked();
  if (started_.load(std::memory_order_acquire)) return;
  check_cards();
  const Enumeration& visible = enumeration();
  source_.run_unlocked([&] { open_cards(visible); });
}

void Runtime::open_cards(const Enumeration& enumeration) {
  std::lock_guard lock(mutex_);
  if (started_) return;
  const RuntimeConfig config = source_.configure();
  set_trace(config.trace);
  set_ieee_fp16(config.ieee_fp16);
  auto driver = open_driver(enumeration.mode);
  driver->configure(config.driver);
  std::vector<std::unique_ptr<OpenCard>> cards;
  for (int physical : enumeration.cards) {
    cards.push_back(std::make_unique<OpenCard>());
    cards.back()->card = driver->open(physical, config.card);
    cards.back()->timeline = std::make_shared<Timeline>(config.card.memory_bytes_per_second);
    trace("open card ", physical, " with driver ", enumeration.mode, ": ", config.card.name);
  }
  show_to_monitors(config, enumeration.cards, cards);
  // Commit only if all cards were opened, so that a failed start can be retried.
  driver_ = std::move(driver);
  cards_ = std::move(cards);
  started_.store(true, std::memory_order_release);
}

void Runtime::show_to_monitors(const RuntimeConfig& config, const std::vector<int>& physical,
                               std::vector<std::unique_ptr<OpenCard>>& cards) const {
  if (config.monitor.folder.empty()) return;
  std::vector<MonitoredCard> monitored;
  for (const int index : physical) monitored.push_back({index, config.card.usable_bytes});
  try {
    MonitorFile& file = MonitorFile::create(config.monitor, monitored);
    for (size_t i = 0; i < cards.size(); ++i) {
      CardRecord& record = file.card(i);
      const auto rate = static_cast<uint64_t>(config.card.memory_bytes_per_second);
      cards[i]->meter = std::make_unique<CardMeter>(record, rate);
      cards[i]->card->report_memory_to(record.memory);
    }
    trace("show cards to monitors in ", file.path());
  } catch (const std::runtime_error& error) {
    if (source_.warn_unmonitored) source_.warn_unmonitored(config.monitor.folder, error.what());
  }
}

int Runtime::default_card() { return enumeration().default_card; }

Runtime::OpenCard& Runtime::open_card(int index) {
  start();
  if (index < 0 || index >= static_cast<int>(cards_.size())) {
    throw std::runtime_error("Device index " + std::to_string(index) + " out of range [0, " +
                             std::to_string(cards_.size()) + ")");
  }
  return *cards_[index];
}

Card& Runtime::card(int index) { return *open_card(index).card; }

uint64_t Runtime::host_time_ps(int card) { return open_card(card).timeline->host_ps(); }

std::shared_ptr<Allocation> Runtime::allocate(int card, size_t bytes) {
  return std::make_shared<Allocation>(this->card(card), card, bytes);
}

void Runtime::check_stream_id(int64_t id) {
  if (id >= 0 && id < kStreamsPerCard) return;
  throw std::runtime_error("no flex handle for stream id " + std::to_string(id) +
                           ": a card has streams 0 to " + std::to_string(kStreamsPerCard - 1) +
                           ". Take one from torch.spyre.Stream().");
}

Stream& Runtime::stream(int card, int64_t id) {
  check_stream_id(id);
  OpenCard& open = open_card(card);
  std::lock_guard lock(open.mutex);
  auto& stream = open.streams[id];
  if (!stream) stream = std::make_unique<Stream>(id, open.timeline, card, open.meter.get());
  return *stream;
}

int64_t Runtime::next_stream(int card, bool high_priority) {
  OpenCard& open = open_card(card);
  std::lock_guard lock(open.mutex);
  const auto index_in_pool =
      static_cast<int64_t>(open.next_in_pool[high_priority]++ % kStreamsPerPool);
  return 1 + (high_priority ? kStreamsPerPool : 0) + index_in_pool;
}

std::vector<Stream*> Runtime::streams_of(OpenCard& open) {
  std::vector<Stream*> streams;
  std::lock_guard lock(open.mutex);
  for (auto& stream : open.streams) {
    if (stream) streams.push_back(stream.get());
  }
  return streams;
}

void Runtime::interrupt() {
  if (!started()) return;
  const uint64_t interruption = count_interruption();
  std::vector<Stream*> streams;
  for (const auto& open : cards_) {
    for (Stream* stream : streams_of(*open)) streams.push_back(stream);
  }
  for (Stream* stream : streams) stream->drop_queue(interruption);
  for (Stream* stream : streams) stream->finish_drop(interruption);
  trace("interrupt ", streams.size(), " streams");
}

void Runtime::synchronize(int card) {
  // Wait for every stream, even after an error; then throw the first error.
  std::exception_ptr error;
  const uint64_t interruptions = num_interruptions();
  CallRecord record("aiuScheduleWait");
  OpenCard& open = open_card(card);
  const uint64_t begin_ps = open.timeline->host_ps();
  for (Stream* stream : streams_of(open)) {
    try {
      stream->finish();
    } catch (...) {
      if (num_interruptions() != interruptions) throw;
      if (!error) error = std::current_exception();
    }
  }
  record.add({.name = "Context Sync",
              .card = card,
              .begin_ps = begin_ps,
              .end_ps = open.timeline->host_ps()});
  ActivityRecorder::get().wait_for_work(card);
  if (error) std::rethrow_exception(error);
}

void Runtime::wait_idle(int card) {
  source_.run_unlocked([&] {
    for (Stream* stream : streams_of(open_card(card))) stream->wait_idle();
  });
}

void Runtime::drain(int card) {
  source_.run_unlocked([&] {
    for (Stream* stream : streams_of(open_card(card))) stream->drain();
  });
}

}  // namespace spyre::flex
