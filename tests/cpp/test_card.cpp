// Tests of an emulated card's memory: allocator, statistics, guards.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <string>

#include "check.h"
#include "emulator/block_allocator.h"
#include "emulator/card.h"
#include "emulator/host_memory.h"
#include "flex/runtime.h"

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

void drop(EmulatedCard& card, uint64_t address) {
  card.retire(address);
  card.release(address);
}

// Runs a test's body in a child process; returns 0 on success.
template <typename Body>
int run_in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

// Bytes of private writable memory that this process has mapped.
int64_t data_bytes() {
  std::ifstream file("/proc/self/status");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("VmData:", 0) == 0) return std::stoll(line.substr(7)) * 1024;
  }
  return 0;
}

}  // namespace

TEST("blocks are rounded to sticks, reused and merged") {
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

TEST("allocation uses the best-fitting block") {
  BlockAllocator blocks(4096, 128);
  const uint64_t wide = *blocks.allocate(1024);
  blocks.allocate(128);
  const uint64_t narrow = *blocks.allocate(256);
  blocks.allocate(128);
  blocks.release(wide);
  blocks.release(narrow);
  CHECK_EQUAL(*blocks.allocate(256), narrow);
}

TEST("a request near the integer limit is rejected instead of wrapping") {
  BlockAllocator blocks(4096, 128);
  CHECK(!blocks.allocate(~uint64_t{0}).has_value());
}

TEST("the allocator is consistent after random allocations") {
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

TEST("allocated, active and reserved bytes are tracked separately") {
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
  card.release_cached_memory();
  CHECK_EQUAL(card.memory_statistics().reserved_bytes.current, int64_t{0});
}

TEST("only freed memory beyond the cache limit is decommitted") {
  EmulatedCard card(small_card(64 * kMiB));
  const uint64_t address = card.allocate(16 * kMiB);
  std::memset(card.engine(address), 1, 16 * kMiB);
  drop(card, address);
  CHECK_EQUAL(card.memory_statistics().reserved_bytes.current, 4 * kMiB);
  CHECK_EQUAL(static_cast<int>(card.engine(address)[4 * kMiB - 1]), 1);
  CHECK_EQUAL(static_cast<int>(card.engine(address)[4 * kMiB]), 0);
  CHECK_EQUAL(static_cast<int>(card.engine(address)[16 * kMiB - 1]), 0);
}

TEST("only the freed block is decommitted") {
  EmulatedCard card(small_card(64 * kMiB));
  std::vector<uint64_t> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(card.allocate(3 * kMiB));
  for (const uint64_t address : blocks) std::memset(card.engine(address), 1, 3 * kMiB);
  drop(card, blocks[1]);
  drop(card, blocks[5]);  // 6 MiB are cached, 2 too many
  CHECK_EQUAL(card.memory_statistics().reserved_bytes.current, 22 * kMiB);
  CHECK_EQUAL(static_cast<int>(card.engine(blocks[1])[3 * kMiB - 1]), 1);
  CHECK_EQUAL(static_cast<int>(card.engine(blocks[5])[kMiB - 1]), 1);
  CHECK_EQUAL(static_cast<int>(card.engine(blocks[5])[kMiB]), 0);
}

TEST("small free blocks stay committed and do not count towards the cache limit") {
  EmulatedCard card(small_card(64 * kMiB));
  std::vector<uint64_t> blocks;
  for (int i = 0; i < 20; ++i) blocks.push_back(card.allocate(kMiB));
  const uint64_t large = card.allocate(4 * kMiB);
  card.allocate(128);
  for (size_t i = 0; i < blocks.size(); i += 2) drop(card, blocks[i]);
  drop(card, large);
  CHECK_EQUAL(card.memory_statistics().reserved_bytes.current, 24 * kMiB + 128);
}

TEST("cached bytes are exact after random allocations") {
  EmulatedCard card(small_card(256 * kMiB));
  std::mt19937 random(11);
  std::vector<uint64_t> held;
  for (int step = 0; step < 4000; ++step) {
    if (held.size() < 40 && random() % 2 == 0) {
      held.push_back(card.allocate(random() % (5 * kMiB) + 1));
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      drop(card, held.back());
      held.pop_back();
    }
    if (random() % 500 == 0) card.release_cached_memory();
    int64_t small = 0;
    for (const flex::MemoryBlock& block : card.memory_blocks()) {
      const bool is_free = block.state == flex::MemoryBlock::State::kFree;
      if (is_free && block.bytes < 2 * kMiB) small += block.bytes;
    }
    const auto statistics = card.memory_statistics();
    const int64_t cached = statistics.reserved_bytes.current - statistics.active_bytes.current;
    CHECK(cached >= 0 && cached <= 4 * kMiB + small);
  }
  for (const uint64_t address : held) drop(card, address);
  CHECK_EQUAL(card.memory_statistics().active_bytes.current, int64_t{0});
  CHECK(card.memory_statistics().reserved_bytes.current <= 4 * kMiB);
}

TEST("memory above the limit cannot be allocated") {
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

TEST("out-of-bounds copies are rejected before any byte is copied") {
  EmulatedCard card(small_card(64 * kMiB));
  const uint64_t address = card.allocate(128);
  const flex::MemoryRange device{nullptr, &card, address, 128};
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

TEST("host access to a handle faults") {
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

TEST("a write that exceeds host memory is rejected") {
  const size_t available = emulator::available_host_memory();
  CHECK(available > 0);
  EmulatedCard card(small_card(int64_t{1} << 42));
  const auto bytes = static_cast<int64_t>(available) * 2;
  const uint64_t address = card.allocate(bytes);
  const std::byte zero{};
  flex::Transfer fill;
  fill.descriptor = {DataFormat::SENINT8, DataFormat::SENINT8, {{{{bytes, 0, 1}}, 0, 0}}};
  const flex::MemoryRange host{const_cast<std::byte*>(&zero), nullptr, 0, 1};
  const flex::MemoryRange device{nullptr, &card, address, static_cast<size_t>(bytes)};
  CHECK_THROWS(flex::OutOfHostMemory, card.transfer(fill, host, device));
}

TEST("intervals merge, split and count") {
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

TEST("untouched memory of an allocation does not prevent decommitting freed memory") {
  EmulatedCard card(small_card(64 * kMiB));
  const uint64_t first = card.allocate(kMiB), second = card.allocate(kMiB);
  card.retire(first);
  card.release(first);
  card.release_cached_memory();
  card.retire(second);
  card.release(second);
  card.allocate(kMiB);
  CHECK_EQUAL(card.memory_statistics().reserved_bytes.current, 2 * kMiB);
  card.release_cached_memory();
  CHECK_EQUAL(card.memory_statistics().reserved_bytes.current, kMiB);
}

TEST("small writes are checked against the host's memory when they add up") {
  static size_t left = 0;
  emulator::HostMemoryGuard guard([] { return left; });
  std::vector<std::byte> touched(4 * kMiB, std::byte{1});
  const EmulatedCard card(small_card(64 * kMiB));  // none of its pages has been touched
  const std::byte* untouched = card.engine(0);
  left = 1000 * kMiB;
  for (int i = 0; i < 100; ++i) guard.check(untouched, 4 * kMiB);
  left = 100 * kMiB;
  int passed = 0;
  try {
    while (passed < 100) {
      guard.check(untouched, 4 * kMiB);
      ++passed;
    }
  } catch (const flex::OutOfHostMemory&) {
  }
  CHECK(passed < 4);
  CHECK_THROWS(flex::OutOfHostMemory, guard.check(untouched, 4096));
  for (int i = 0; i < 100; ++i) guard.check(touched.data(), touched.size());
}

TEST("poisoning that exceeds host memory is rejected and releases the block") {
  EmulatedCard card(small_card(int64_t{1} << 42, true));
  const auto bytes = static_cast<int64_t>(emulator::available_host_memory()) * 2;
  CHECK_THROWS(flex::OutOfHostMemory, card.allocate(bytes));
  CHECK_EQUAL(card.memory_statistics().active_bytes.current, int64_t{0});
  CHECK_EQUAL(card.memory_statistics().free_bytes, int64_t{1} << 42);
  CHECK_EQUAL(card.memory_blocks().size(), size_t{1});
}

TEST("a copy of plain bytes is checked against the host's memory too") {
  const auto bytes = static_cast<int64_t>(emulator::available_host_memory()) * 2;
  EmulatedCard card(small_card(int64_t{1} << 42));
  const flex::MemoryRange device{nullptr, &card, card.allocate(bytes), static_cast<size_t>(bytes)};
  const flex::MemoryRange source{nullptr, &card, card.allocate(bytes), static_cast<size_t>(bytes)};
  CHECK_THROWS(flex::OutOfHostMemory, card.transfer_bytes(source, device));
}

TEST("memory that cannot be committed is released") {
  const int status = run_in_child([] {
    const auto most = static_cast<rlim_t>(data_bytes() + 64 * kMiB);
    const rlimit limit{most, most};
    CHECK_EQUAL(setrlimit(RLIMIT_DATA, &limit), 0);
    EmulatedCard card(small_card(1024 * kMiB));
    CHECK_THROWS(flex::OutOfHostMemory, card.allocate(512 * kMiB));
    CHECK_EQUAL(card.memory_statistics().free_bytes, 1024 * kMiB);
    CHECK_EQUAL(card.memory_blocks().size(), size_t{1});
    std::memset(card.engine(card.allocate(kMiB)), 1, kMiB);
  });
  CHECK_EQUAL(status, 0);
}

TEST("after a failed start, the next start opens all cards again") {
  const int status = run_in_child([] {
    static int64_t card_bytes = int64_t{40} << 40;  // two of them exceed the address space
    auto& runtime = flex::Runtime::get();
    runtime.set_config_source(
        {.enumerate = [] { return flex::Enumeration{.mode = "EMU", .cards = {0, 1}}; },
         .configure =
             [] {
               flex::RuntimeConfig config;
               config.card = small_card(card_bytes);
               return config;
             },
         .run_unlocked = [](const std::function<void()>& action) { action(); }});
    CHECK_THROWS(std::runtime_error, runtime.start());
    CHECK(!runtime.started());
    card_bytes = 64 * kMiB;
    runtime.start();
    CHECK_EQUAL(runtime.card(0).description().physical_bytes, 64 * kMiB);
    CHECK_EQUAL(runtime.card(1).description().physical_bytes, 64 * kMiB);
    CHECK_THROWS(std::runtime_error, runtime.card(2));
    CHECK_THROWS(std::runtime_error, runtime.stream(0, flex::kStreamsPerCard));
    CHECK_THROWS(std::runtime_error, flex::Runtime::check_stream_id(-1));
  });
  CHECK_EQUAL(status, 0);
}
