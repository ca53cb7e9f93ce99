// Tests of arbitrary program files, and of whole programs on several threads.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "check.h"
#include "emulator/card.h"
#include "emulator/engine/direct_tiles.h"
#include "emulator/engine/mailboxes.h"
#include "emulator/engine/parallel_loops.h"
#include "emulator/engine/scheduler.h"
#include "emulator/engine/scratchpad_use.h"
#include "emulator/engine/sha256.h"
#include "engine_fixture.h"

using namespace spyre;
using namespace spyre::emulator::engine;

namespace {

constexpr size_t kLengthAt = 12, kHashAt = 20, kHeaderBytes = 52;
constexpr int64_t kScratchpad = int64_t{2} << 20;

// The program that tests/emulator/test_program_files.py builds and compares with this file.
Bytes every_instruction() {
  const auto path = std::filesystem::path(__FILE__).parent_path() / "every_instruction.program";
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("no file " + path.string());
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// Updates the length and hash in the header.
void fix_header(Bytes& file) {
  const uint64_t length = file.size() - kHeaderBytes;
  for (size_t i = 0; i < 8; ++i) file[kLengthAt + i] = static_cast<std::byte>(length >> (8 * i));
  const Sha256 hash = sha256(std::span(file).subspan(8, 4), std::span(file).subspan(kHeaderBytes));
  std::copy(hash.begin(), hash.end(), file.begin() + kHashAt);
}

class Mutations {
 public:
  explicit Mutations(uint32_t seed) : random_(seed) {}

  Bytes of(const Bytes& file) {
    Bytes result = file;
    for (size_t i = 0; i < 1 + below(4) * below(2); ++i) mutate(result);
    fix_header(result);
    return result;
  }

 private:
  size_t below(size_t bound) { return random_() % bound; }

  void mutate(Bytes& file) {
    const auto at = file.begin() +
                    static_cast<std::ptrdiff_t>(kHeaderBytes + below(file.size() - kHeaderBytes));
    const auto byte = static_cast<std::byte>(random_());
    switch (below(5)) {
      case 0:
        file.insert(at, byte);
        break;
      case 1:
        if (file.size() > kHeaderBytes + 1) file.erase(at);
        break;
      case 2:
        *at ^= static_cast<std::byte>(1 << below(8));
        break;
      case 3:
        *at = static_cast<std::byte>(below(8));
        break;
      default:
        *at = byte;
    }
  }

  std::mt19937 random_;
};

// Runs an arbitrary program on its own memory; it must not access other memory.
void run_harmlessly(Program program, ScratchpadPool& scratchpads) {
  for (Constant& constant : program.constants) {
    // Bound the time of an instruction.
    if (static_cast<int64_t>(constant.bits) > 512) constant.bits %= 512;
  }
  program.filled = read_before_written(program);
  find_direct_tiles(program);
  find_parallel_loop(program);
  std::vector<Bytes> memory;
  std::vector<Buffer> arrays, fixed, windows;
  std::vector<uint64_t> scalars;
  const auto buffer = [&](int64_t bytes) -> Buffer {
    memory.emplace_back(static_cast<size_t>(bytes));
    return {memory.back().data(), bytes};
  };
  for (const Argument& argument : program.arguments) {
    argument.is_array ? arrays.push_back(buffer(300)) : scalars.push_back(3);
  }
  for (const FixedBuffer& item : program.fixed_buffers) {
    if (item.bytes > 4096) return;
    fixed.push_back(buffer(item.bytes));
  }
  for (int64_t core = 0; core < program.cores(); ++core) windows.push_back(buffer(1024));
  try {
    const Memory space(program, arrays, fixed, windows);
    run_program(program, space, scalars, scratchpads, {false, "", 0.2});
  } catch (const KernelError&) {
  }
}

}  // namespace

TEST("sha256 of known strings") {
  const auto hash = [](std::string_view first, std::string_view second) {
    std::string text;
    for (std::byte byte :
         sha256(std::as_bytes(std::span(first)), std::as_bytes(std::span(second)))) {
      constexpr char kDigits[] = "0123456789abcdef";
      text += {kDigits[static_cast<size_t>(byte) >> 4], kDigits[static_cast<size_t>(byte) & 15]};
    }
    return text;
  };
  CHECK(hash("", "") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hash("a", "bc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hash("abcdbcdecdefdefgefghfghighijhijk", "ijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST("mutated program files are rejected, or run without invalid accesses") {
  const Bytes file = every_instruction();
  ScratchpadPool scratchpads(kScratchpad, false);
  run_harmlessly(read_program(file, kScratchpad), scratchpads);
  Mutations mutations(1);
  int accepted = 0;
  for (int round = 0; round < 12'000; ++round) {
    try {
      Program program = read_program(mutations.of(file), kScratchpad);
      ++accepted;
      if (program.cores() <= 32) run_harmlessly(std::move(program), scratchpads);
    } catch (const ProgramError&) {
    }
  }
  CHECK(accepted > 100);
}

TEST("truncated program files are rejected") {
  const Bytes file = every_instruction();
  for (size_t length = 0; length < file.size(); ++length) {
    Bytes part(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(length));
    CHECK_THROWS(ProgramError, read_program(part, kScratchpad));
    if (length < kHeaderBytes) continue;
    fix_header(part);
    CHECK_THROWS(ProgramError, read_program(part, kScratchpad));
  }
}

TEST("mailboxes hold publications in order until they are discarded") {
  Mailboxes mailboxes(2, 1);
  for (int i = 0; i < 100; ++i) mailboxes.publish(1, 0, {{static_cast<std::byte>(i)}});
  CHECK(mailboxes.is_full(1));
  CHECK(!mailboxes.is_full(0));
  CHECK(mailboxes.find(1, 0, 99)->at(0)[0] == std::byte{99});
  CHECK(!mailboxes.has(1, 0, 100));
  const auto held = mailboxes.find(1, 0, 5);
  mailboxes.discard_before(0, 60);
  CHECK(!mailboxes.is_full(1));
  CHECK(held->at(0)[0] == std::byte{5});
  CHECK(mailboxes.find(1, 0, 60)->at(0)[0] == std::byte{60});
  mailboxes.discard_before(0, 1000);
  CHECK(!mailboxes.has(1, 0, 100));
  mailboxes.publish(1, 0, {});
  CHECK(mailboxes.has(1, 0, 100));
}

TEST("scratchpads are initialised for each core and reused") {
  for (const bool poison : {false, true}) {
    ScratchpadPool pool(256, poison);
    std::byte* first = nullptr;
    {
      const auto lease = pool.acquire();
      first = lease.data();
      std::memset(first, 1, 256);
    }
    const auto lease = pool.acquire();
    CHECK(lease.data() == first);
    pool.fill(lease, 20, 100);
    const std::byte fill{static_cast<unsigned char>(poison ? kPoison : 0)};
    CHECK(std::all_of(first + 20, first + 100, [&](std::byte byte) { return byte == fill; }));
    CHECK(first[19] == std::byte{1} && first[100] == std::byte{1});
    CHECK(pool.acquire().data() != first);
  }
}

TEST("a program gives the same results on any number of threads") {
  const Bytes file = every_instruction();
  flex::CardDescription description;
  description.name = "test";
  description.cores = 32;
  description.scratchpad_bytes = kScratchpad;
  description.physical_bytes = description.usable_bytes = 1 << 20;
  emulator::EmulatedCard card(description);
  const auto program = card.load_program(file);
  std::vector<Bytes> results;
  for (const int threads : {1, 2, 5}) {
    const WithThreads with(threads);
    const flex::MemoryRange array{nullptr, &card, card.allocate(4096), 4096};
    const flex::MemoryRange indices{nullptr, &card, card.allocate(64), 64};
    const flex::MemoryRange fixed{nullptr, &card, card.allocate(512), 512};
    for (const auto& range : {array, indices, fixed}) {
      std::memset(card.engine(range.address), 3, range.bytes);
    }
    std::memset(card.engine(indices.address), 0, indices.bytes);
    flex::Launch launch;
    launch.arrays = {array, indices};
    launch.scalars = {1};
    launch.fixed = {fixed};
    card.launch(*program, launch);
    results.emplace_back(card.engine(array.address), card.engine(array.address) + array.bytes);
    for (const auto& range : {array, indices, fixed}) {
      card.retire(range.address);
      card.release(range.address);
    }
  }
  CHECK(results[0] == results[1]);
  CHECK(results[0] == results[2]);
  flex::Launch wrong;
  CHECK_THROWS(flex::KernelError, card.launch(*program, wrong));
  description.cores = 3;
  emulator::EmulatedCard small(description);
  CHECK_THROWS(flex::ProgramError, small.load_program(file));
}
