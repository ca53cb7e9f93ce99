// Memory of an emulated card: allocator, accounting, guards.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <random>

#include "check.h"
#include "emulator/block_allocator.h"
#include "emulator/card.h"
#include "emulator/host_memory.h"

using namespace spyre;
using emulator::BlockAllocator;
using emulator::EmulatedCard;

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

flex::CardDescription small_card(int64_t bytes, bool poison = false) {
  flex::CardDescription description;
  description.name = "test";
  description.physical_bytes = bytes;
  description.usable_bytes = bytes;
  description.host_link_bytes_per_second = 1'000'000'000;
  description.cached_bytes_limit = 4 * kMiB;
  description.poison = poison;
  return description;
}

}  // namespace

TEST("blocks are rounded to sticks, reused and joined") {
  BlockAllocator blocks(1024, 128);
  const uint64_t a = *blocks.allocate(1), b = *blocks.allocate(129), c = *blocks.allocate(128);
  CHECK_EQUAL(a, uint64_t{0});
  CHECK_EQUAL(b, uint64_t{128});
  CHECK_EQUAL(c, uint64_t{384});
  CHECK(!blocks.allocate(1024).has_value());
  blocks.release(a);
  blocks.release(c);
  blocks.release(b);
  CHECK_EQUAL(blocks.free_block_count(), size_t{1});
  CHECK_EQUAL(blocks.largest_free_block(), uint64_t{1024});
  CHECK_THROWS(std::logic_error, blocks.release(b));
}

TEST("the best fitting block is taken") {
  BlockAllocator blocks(4096, 128);
  const uint64_t wide = *blocks.allocate(1024);
  blocks.allocate(128);
  const uint64_t narrow = *blocks.allocate(256);
  blocks.allocate(128);
  blocks.release(wide);
  blocks.release(narrow);
  CHECK_EQUAL(*blocks.allocate(256), narrow);
}

TEST("a request near the end of the number range is refused, not wrapped") {
  BlockAllocator blocks(4096, 128);
  CHECK(!blocks.allocate(~uint64_t{0}).has_value());
}

TEST("random traffic keeps the books straight") {
  BlockAllocator blocks(kMiB, 128);
  std::mt19937 random(3);
  std::vector<std::pair<uint64_t, uint64_t>> held;
  uint64_t used = 0;
  for (int step = 0; step < 20000; ++step) {
    if (held.empty() || random() % 2 == 0) {
      const uint64_t bytes = random() % 5000 + 1;
      if (const auto address = blocks.allocate(bytes)) {
        held.emplace_back(*address, blocks.size_of(*address));
        used += held.back().second;
      }
    } else {
      std::swap(held[random() % held.size()], held.back());
      blocks.release(held.back().first);
      used -= held.back().second;
      held.pop_back();
    }
    CHECK_EQUAL(blocks.free_bytes(), kMiB - used);
  }
  for (const auto& [address, bytes] : held) blocks.release(address);
  CHECK_EQUAL(blocks.largest_free_block(), static_cast<uint64_t>(kMiB));
}

TEST("allocated, active and reserved bytes part ways as memory is let go") {
  EmulatedCard card(small_card(64 * kMiB));
  const uint64_t address = card.allocate(1000);
  CHECK_EQUAL(card.memory_statistics().allocated_bytes.current, int64_t{1024});
  CHECK_EQUAL(card.memory_statistics().requested_bytes.current, int64_t{1000});
  card.retire(address);
  CHECK_EQUAL(card.memory_statistics().allocated_bytes.current, int64_t{0});
  CHECK_EQUAL(card.memory_statistics().active_bytes.current, int64_t{1024});
  card.release(address);
  CHECK_EQUAL(card.memory_statistics().active_bytes.current, int64_t{0});
  CHECK_EQUAL(card.memory_statistics().reserved_bytes.current, int64_t{1024});
  card.give_back_cached_memory();
  CHECK_EQUAL(card.memory_statistics().reserved_bytes.current, int64_t{0});
}

TEST("freed memory beyond the cache limit goes back to the host") {
  EmulatedCard card(small_card(64 * kMiB));
  const uint64_t address = card.allocate(16 * kMiB);
  std::memset(card.engine(address), 1, 16 * kMiB);
  card.retire(address);
  card.release(address);
  CHECK_EQUAL(card.memory_statistics().reserved_bytes.current, int64_t{0});
  CHECK_EQUAL(static_cast<int>(*card.engine(address)), 0);
}

TEST("a limit leaves the rest of the card out of reach") {
  EmulatedCard card(small_card(64 * kMiB));
  card.set_memory_limit(kMiB);
  CHECK_THROWS(flex::OutOfDeviceMemory, card.allocate(2 * kMiB));
  card.allocate(kMiB);
  CHECK_THROWS(flex::OutOfDeviceMemory, card.allocate(1));
  card.set_memory_limit(64 * kMiB);
  card.allocate(1);
}

TEST("poison fills new and freed memory") {
  EmulatedCard card(small_card(64 * kMiB, true));
  const uint64_t address = card.allocate(256);
  CHECK_EQUAL(static_cast<int>(card.engine(address)[255]), 0xFF);
  std::memset(card.engine(address), 0, 256);
  card.retire(address);
  card.release(address);
  CHECK_EQUAL(static_cast<int>(card.engine(address)[0]), 0xFF);
}

TEST("copies outside their buffers are refused before a byte moves") {
  EmulatedCard card(small_card(64 * kMiB));
  const uint64_t address = card.allocate(128);
  const flex::Place device{nullptr, &card, address, 128};
  std::byte host[256]{};
  flex::Transfer transfer;
  transfer.descriptor = {DataFormat::SENINT8, DataFormat::SENINT8, {{{{129, 1, 1}}, 0, 0}}};
  CHECK_THROWS(std::out_of_range, card.transfer(transfer, {host, nullptr, 0, 256}, device));
  transfer.descriptor.nests = {{{{16, 1, 1}}, 250, 0}};
  CHECK_THROWS(std::out_of_range, card.transfer(transfer, {host, nullptr, 0, 256}, device));
  transfer.descriptor.nests.clear();
  transfer.src_elements = {0};
  transfer.dst_elements = {128};
  CHECK_THROWS(std::out_of_range, card.transfer(transfer, {host, nullptr, 0, 256}, device));
}

TEST("the host cannot touch a handle") {
  EmulatedCard card(small_card(64 * kMiB));
  const uint64_t address = card.allocate(128);
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);  // no report on the terminal, and no sanitizer's either
    volatile char* handle = static_cast<char*>(card.handle(address));
    _exit(handle[0] == 0 ? 1 : 2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
}

TEST("a write that the host cannot hold is refused") {
  const size_t available = emulator::available_host_memory();
  CHECK(available > 0);
  EmulatedCard card(small_card(int64_t{1} << 42));
  const auto bytes = static_cast<int64_t>(available) * 2;
  const uint64_t address = card.allocate(bytes);
  const std::byte zero{};
  flex::Transfer fill;
  fill.descriptor = {DataFormat::SENINT8, DataFormat::SENINT8, {{{{bytes, 0, 1}}, 0, 0}}};
  const flex::Place host{const_cast<std::byte*>(&zero), nullptr, 0, 1};
  const flex::Place device{nullptr, &card, address, static_cast<size_t>(bytes)};
  CHECK_THROWS(flex::OutOfHostMemory, card.transfer(fill, host, device));
}

TEST("intervals join, split and count") {
  emulator::IntervalSet set;
  set.add(10, 20);
  set.add(30, 40);
  set.add(20, 30);
  CHECK_EQUAL(set.total(), uint64_t{30});
  CHECK(set.remove(15, 18));
  CHECK(!set.remove(15, 18));
  CHECK_EQUAL(set.total(), uint64_t{27});
  set.add(0, 100);
  CHECK_EQUAL(set.total(), uint64_t{100});
  CHECK(set.remove(0, 100));
  CHECK_EQUAL(set.total(), uint64_t{0});
}

TEST("what an allocation left untouched does not hide freed memory from the host") {
  EmulatedCard card(small_card(64 * kMiB));
  const uint64_t first = card.allocate(kMiB), second = card.allocate(kMiB);
  card.retire(first);
  card.release(first);
  card.give_back_cached_memory();
  card.retire(second);
  card.release(second);
  card.allocate(kMiB);
  CHECK_EQUAL(card.memory_statistics().reserved_bytes.current, 2 * kMiB);
  card.give_back_cached_memory();
  CHECK_EQUAL(card.memory_statistics().reserved_bytes.current, kMiB);
}
