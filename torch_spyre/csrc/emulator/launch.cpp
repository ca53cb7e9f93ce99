// Loads and launches programs on the emulated card.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "emulator/card.h"
#include "emulator/engine/count_check.h"
#include "emulator/engine/executed_counts.h"
#include "emulator/engine/memory.h"
#include "emulator/engine/program.h"
#include "emulator/engine/scheduler.h"
#include "emulator/host_memory.h"

namespace spyre::emulator {

namespace {

using engine::Buffer;

class EngineProgram final : public flex::LoadedProgram {
 public:
  explicit EngineProgram(engine::Program content)
      : content(std::move(content)),
        needs_windows(views_scratchpads(this->content)),
        arrays_(std::ranges::count_if(this->content.arguments, &engine::Argument::is_array)) {}

  const std::string& name() const override { return content.name; }
  int64_t cores() const override { return content.cores(); }
  int64_t arrays() const override { return arrays_; }
  int64_t scalars() const override {
    return static_cast<int64_t>(content.arguments.size()) - arrays_;
  }
  std::vector<int64_t> fixed_bytes() const override {
    std::vector<int64_t> bytes;
    for (const engine::FixedBuffer& fixed : content.fixed_buffers) bytes.push_back(fixed.bytes);
    return bytes;
  }

  int64_t scratchpad_high_water() const override { return high_water_.load(); }
  void raise_high_water(int64_t bytes) const {
    int64_t known = high_water_.load();
    while (known < bytes && !high_water_.compare_exchange_weak(known, bytes)) {
    }
  }

  const engine::Program content;
  const bool needs_windows;
  mutable engine::ProgramHistory history;
  mutable engine::CountCheck count_check;

 private:
  const int64_t arrays_;
  mutable std::atomic<int64_t> high_water_{0};
};

void check_count(const flex::LoadedProgram& program, const char* quantity, size_t actual,
                 int64_t expected) {
  if (static_cast<int64_t>(actual) == expected) return;
  throw flex::KernelError("kernel " + program.name() + " takes " + std::to_string(expected) + " " +
                          quantity + ", not " + std::to_string(actual));
}

void check(const EngineProgram& program, const flex::Launch& launch) {
  check_count(program, "arrays", launch.arrays.size(), program.arrays());
  check_count(program, "scalars", launch.scalars.size(), program.scalars());
  const std::vector<engine::FixedBuffer>& fixed = program.content.fixed_buffers;
  check_count(program, "fixed buffers", launch.fixed.size(), static_cast<int64_t>(fixed.size()));
  for (size_t i = 0; i < fixed.size(); ++i) {
    check_count(program, "bytes in a fixed buffer", launch.fixed[i].bytes, fixed[i].bytes);
  }
}

void check_faulty_instruction(const std::string& instruction) {
  constexpr std::string_view kOtherInstructions[] = {"load", "store", "matmul"};
  if (std::ranges::find(kOtherInstructions, instruction) != std::end(kOtherInstructions)) return;
  if (engine::vector_op_named(instruction)) return;
  throw flex::KernelError("no instruction is called '" + instruction +
                          "': no fault can be injected (SPYRE_EMU_INJECT)");
}

// Scratchpad memory that kernels address explicitly, one window per core. calloc commits its pages
// only when they are written.
class Windows {
 public:
  Windows(int64_t count, int64_t bytes, bool poison)
      : memory_(static_cast<std::byte*>(
            std::calloc(static_cast<size_t>(count), static_cast<size_t>(bytes)))) {
    if (memory_ == nullptr && count * bytes > 0) throw std::bad_alloc();
    if (poison && count * bytes > 0) {
      std::memset(memory_.get(), engine::kPoison, static_cast<size_t>(count * bytes));
    }
    for (int64_t i = 0; i < count; ++i) buffers.push_back({memory_.get() + i * bytes, bytes});
  }

  std::vector<Buffer> buffers;

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace

std::shared_ptr<const flex::LoadedProgram> EmulatedCard::load_program(
    std::span<const std::byte> file) {
  auto program = std::make_shared<const EngineProgram>(
      engine::read_program(file, description_.scratchpad_bytes));
  if (program->cores() > description_.cores) {
    throw flex::ProgramError("device program: kernel " + program->name() + " is for " +
                             std::to_string(program->cores()) + " cores, and this card has " +
                             std::to_string(description_.cores));
  }
  return program;
}

void EmulatedCard::launch(const flex::LoadedProgram& loaded, const flex::Launch& launch) {
  const auto& program = dynamic_cast<const EngineProgram&>(loaded);
  check(program, launch);
  if (!launch.faulty_instruction.empty()) check_faulty_instruction(launch.faulty_instruction);
  const auto buffers_of = [this](const std::vector<flex::MemoryRange>& ranges) {
    std::vector<Buffer> buffers;
    for (const flex::MemoryRange& range : ranges) {
      if (range.bytes > 0 && range.card != this) {
        throw std::invalid_argument("a launch needs memory of its own card");
      }
      buffers.push_back({engine(range.address), static_cast<int64_t>(range.bytes)});
      check_host_memory(buffers.back().data, range.bytes);
    }
    return buffers;
  };
  const std::vector<Buffer> arrays = buffers_of(launch.arrays), fixed = buffers_of(launch.fixed);
  const Windows windows(program.needs_windows ? program.cores() : 0, description_.scratchpad_bytes,
                        description_.poison);
  const engine::Memory memory(program.content, arrays, fixed, windows.buffers);
  const engine::VectorLanes lanes{description_.narrow_lanes, description_.wide_lanes};
  std::optional<engine::ExecutedCounts> executed;
  if (launch.check_counts) executed.emplace(program.content, memory, lanes);
  engine::run_program(program.content, memory, launch.scalars, scratchpads_,
                      {launch.ordered, launch.faulty_instruction, launch.watchdog_seconds,
                       &program.history, executed ? &*executed : nullptr, launch.stop});
  if (!executed) return;
  program.raise_high_water(executed->scratchpad_high_water());
  std::vector<int64_t> array_bytes;
  for (const Buffer& array : arrays) array_bytes.push_back(array.bytes);
  program.count_check.compare(program.content, executed->total(), array_bytes, launch.scalars,
                              lanes);
}

}  // namespace spyre::emulator
