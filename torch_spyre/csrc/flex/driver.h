// The driver interface, through which all accesses to a card go. The emulated card implements it. A
// hardware driver is a library that exports `spyre_flex_open_driver`.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "flex/copy_descriptor.h"

namespace spyre::flex {

// The fields of the card description (torch_spyre/cards/*.yaml) that a driver needs.
struct CardDescription {
  std::string name;
  std::string type;
  int64_t cores = 0;
  int64_t scratchpad_bytes = 0;
  int64_t physical_bytes = 0;
  int64_t usable_bytes = 0;
  int64_t span_bytes = 0;
  int64_t host_link_bytes_per_second = 0;  // of one direction
  int64_t host_link_latency_ps = 0;        // of one copy
  int64_t memory_bytes_per_second = 0;     // peak, of device memory
  int64_t launch_ps = 0;                   // of the host, to submit work of the cores
  // Lanes of a core's vector unit, for elements of up to 16 bits and for wider ones.
  int64_t narrow_lanes = 0, wide_lanes = 0;
  // Freed memory, in bytes, that stays committed on the host for reuse.
  int64_t cached_bytes_limit = 0;
  // Fill memory with a pattern that is NaN in every float format when it is allocated and freed.
  bool poison = false;
};

// A quantity with its current, peak and accumulated values.
struct Gauge {
  int64_t current = 0, peak = 0, total_added = 0, total_removed = 0;

  void add(int64_t amount) {
    current += amount;
    total_added += amount;
    if (current > peak) peak = current;
  }
  void remove(int64_t amount) {
    current -= amount;
    total_removed += amount;
  }
  void reset_peak() { peak = current; }
  void reset_accumulated() { total_added = total_removed = 0; }
};

struct MemoryStatistics {
  Gauge allocations;      // live allocations: not freed by their owners
  Gauge allocated_bytes;  // their bytes, rounded to the alignment
  Gauge requested_bytes;  // their bytes, as requested
  Gauge active_blocks;    // live allocations and freed ones that queued work still uses
  Gauge active_bytes;
  Gauge reserved_bytes;  // committed on the host: active bytes and cached free memory
  // Returns the six gauges above.
  std::array<Gauge*, 6> gauges() {
    return {&allocations,   &allocated_bytes, &requested_bytes,
            &active_blocks, &active_bytes,    &reserved_bytes};
  }
  int64_t retries = 0;  // allocations that succeeded only after cached memory was freed
  int64_t out_of_memory = 0;
  int64_t free_bytes = 0;  // below the memory limit
  int64_t limit_bytes = 0;
  int64_t total_bytes = 0;
  int64_t largest_free_block = 0;
  int64_t free_blocks = 0;
};

// How much of a card's memory is in use, for readers that must not wait for the card.
struct MemoryLevels {
  std::atomic<int64_t> allocated{0}, peak{0}, reserved{0};
};

struct MemoryBlock {
  uint64_t address = 0;
  int64_t bytes = 0;
  int64_t requested = 0;
  enum class State { kFree, kAllocated, kPendingFree } state = State::kFree;
};

class OutOfDeviceMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The emulated card has free memory, but the host has too little memory to back it.
class OutOfHostMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A program file is damaged, of another version, or not a valid program.
class ProgramError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The instruction of a kernel that failed.
struct FailedInstruction {
  std::string kernel;
  int64_t core = 0;
  int64_t number = 0;
  // The op that it comes from, at a line and column of a text. In column 0 the line is the number
  // of an OpSpec, from 1. Line 0: unknown.
  std::string op;
  int64_t line = 0, column = 0;
};

// A kernel failed at runtime.
class KernelError : public std::runtime_error {
 public:
  explicit KernelError(const std::string& message, FailedInstruction instruction = {})
      : std::runtime_error(message), instruction_(std::move(instruction)) {}
  const FailedInstruction& instruction() const { return instruction_; }

 private:
  FailedInstruction instruction_;
};

// An index read from data, and the dimension of a tensor that it is out of bounds of.
struct InvalidIndex {
  // The dimension of a table in a scratchpad, whose kernels index one dimension at most.
  static constexpr int64_t kInScratchpad = -1;

  int64_t value = 0;
  int64_t size = 0;
  int64_t dimension = 0;
  // The coordinates of the index in the tensor of indices, as the kernel addresses it.
  std::vector<int64_t> position;
};

// Python sees an IndexError.
class KernelIndexError : public KernelError {
 public:
  explicit KernelIndexError(const std::string& message, std::optional<InvalidIndex> index = {},
                            FailedInstruction instruction = {})
      : KernelError(message, std::move(instruction)), index_(std::move(index)) {}
  const std::optional<InvalidIndex>& index() const { return index_; }

 private:
  std::optional<InvalidIndex> index_;
};

// The process's work was interrupted (Ctrl-C) while this work was queued or running.
class WorkInterrupted : public std::runtime_error {
 public:
  WorkInterrupted()
      : std::runtime_error(
            "the work was stopped: the program was interrupted, and with it all queued and "
            "running work of its cards. Results of this work are undefined.") {}
};

// Asks work to stop early. The driver polls it while a program runs.
struct StopRequest {
  const std::atomic<uint64_t>* interruptions = nullptr;  // nullptr: never stop
  uint64_t expected = 0;

  bool is_set() const {
    return interruptions != nullptr && interruptions->load(std::memory_order_relaxed) != expected;
  }
};

class Card;

// The source or destination of a transfer: `bytes` bytes of host memory, or of a card's memory from
// `address` on.
struct MemoryRange {
  void* host = nullptr;
  Card* card = nullptr;
  uint64_t address = 0;
  size_t bytes = 0;
};

// A transfer as copy nests, or as lists of element offsets if there would be too many nests.
struct Transfer {
  CopyDescriptor descriptor;
  std::vector<int64_t> src_elements;
  std::vector<int64_t> dst_elements;
};

// A program that a card has loaded and validated.
class LoadedProgram {
 public:
  virtual ~LoadedProgram() = default;
  virtual const std::string& name() const = 0;
  virtual int64_t cores() const = 0;
  // The numbers of array and scalar arguments of a launch, and the sizes of its fixed buffers.
  virtual int64_t arrays() const = 0;
  virtual int64_t scalars() const = 0;
  virtual std::vector<int64_t> fixed_bytes() const = 0;
  // The most bytes of its scratchpad, from the start, that a core has accessed in the launches so
  // far that checked their counts.
  virtual int64_t scratchpad_high_water() const = 0;
};

// One execution of a program.
struct Launch {
  // In the order of the program's arguments. The sizes are exact: accesses beyond them read zeros
  // and write nothing.
  std::vector<MemoryRange> arrays;
  std::vector<uint64_t> scalars;
  std::vector<MemoryRange> fixed;
  // Run the cores sequentially, for kernels whose cores access the same memory.
  bool ordered = false;
  // Fault injection, to test that tests detect wrong results: flip a bit in the first result of the
  // instruction of this name. Empty: no fault.
  std::string faulty_instruction;
  // Stop the kernel after this wall-clock time. 0: never.
  double watchdog_seconds = 0;
  // Throw WorkInterrupted soon after it is set.
  StopRequest stop;
  // Throw KernelError unless the work that was executed is the work that the timing model counts.
  bool check_counts = false;
};

class Card {
 public:
  virtual ~Card() = default;

  virtual const CardDescription& description() const = 0;

  // Memory. Sizes are rounded up to the card's alignment; `allocate` throws OutOfDeviceMemory.
  // `retire`: the owner has freed the memory; `release`: no queued work uses it any more.
  virtual uint64_t allocate(size_t bytes) = 0;
  virtual void retire(uint64_t address) noexcept = 0;
  virtual void release(uint64_t address) noexcept = 0;
  // Returns the address that PyTorch sees. The host cannot access it.
  virtual void* handle(uint64_t address) const = 0;
  virtual MemoryStatistics memory_statistics() const = 0;
  // From now on the card stores its allocated and reserved bytes in `levels` when they change.
  virtual void report_memory_to(MemoryLevels& levels) = 0;
  virtual std::vector<MemoryBlock> memory_blocks() const = 0;
  virtual void reset_peak_statistics() = 0;
  virtual void reset_accumulated_statistics() = 0;
  virtual void count_retry() = 0;
  virtual void count_out_of_memory() = 0;
  virtual void set_memory_limit(int64_t bytes) = 0;
  virtual void release_cached_memory() = 0;

  // Runs a copy between two locations, at least one on this card, on the calling thread.
  virtual CopyOutcome transfer(const Transfer& transfer, const MemoryRange& src,
                               const MemoryRange& dst) = 0;
  // Copies bytes without conversion.
  virtual void transfer_bytes(const MemoryRange& src, const MemoryRange& dst) = 0;

  // Throws ProgramError.
  virtual std::shared_ptr<const LoadedProgram> load_program(std::span<const std::byte> file) = 0;
  // Runs a program of this card on the calling thread and its helpers. Throws KernelError, and
  // WorkInterrupted if the launch's stop request was set.
  virtual void launch(const LoadedProgram& program, const Launch& launch) = 0;
};

// How a driver uses the host. A driver ignores options that do not apply to it.
struct DriverOptions {
  // Threads that emulate the card's cores, including the calling one; 0: one per host core.
  int host_threads = 0;
  // The value of ATEN_CPU_CAPABILITY, which limits the instruction sets used.
  std::string cpu_capability;
};

class Driver {
 public:
  virtual ~Driver() = default;
  // Called once, before the first card is opened.
  virtual void configure(const DriverOptions& options) = 0;
  virtual std::unique_ptr<Card> open(int card, const CardDescription& description) = 0;
};

// The function that a hardware driver library exports under the name kDriverSymbol.
using OpenDriver = Driver* (*)(int interface_version);
inline constexpr int kDriverInterfaceVersion = 5;
inline constexpr const char* kDriverSymbol = "spyre_flex_open_driver";
inline constexpr const char* kDriverLibrary = "libflex_spyre.so";

// Registers a driver of this process as a mode of FLEX_DEVICE. Instances are static objects.
struct DriverRegistration {
  using Factory = std::unique_ptr<Driver> (*)();
  DriverRegistration(std::string mode, Factory factory);
};

// Returns the driver for a mode of FLEX_DEVICE: a registered one ("EMU"), or the one of the
// hardware driver library ("PF", "VF"). Throws std::runtime_error if there is none.
std::unique_ptr<Driver> open_driver(const std::string& mode);

}  // namespace spyre::flex
