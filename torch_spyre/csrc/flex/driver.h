// The driver interface: the only way to a card. The emulated card implements it, and a hardware
// driver would, as a library that exports `spyre_flex_open_driver`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "flex/copy_descriptor.h"

namespace spyre::flex {

// The numbers a driver needs of the card description (torch_spyre/cards/*.yaml).
struct CardDescription {
  std::string name;
  std::string type;
  int64_t cores = 0;
  int64_t scratchpad_bytes = 0;
  int64_t physical_bytes = 0;
  int64_t usable_bytes = 0;
  int64_t span_bytes = 0;
  int64_t host_link_bytes_per_second = 0;
  // Freed memory, in bytes, that stays committed on the host for reuse.
  int64_t cached_bytes_limit = 0;
  // Fill memory with a pattern that is NaN in every float format when it is allocated and freed.
  bool poison = false;
};

// A quantity that goes up and down.
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
  Gauge allocations;      // live allocations, as their owners see it
  Gauge allocated_bytes;  // their bytes, rounded to the alignment
  Gauge requested_bytes;  // their bytes as asked for
  Gauge active_blocks;    // blocks in use: allocations, and freed ones that queued work still needs
  Gauge active_bytes;
  Gauge reserved_bytes;  // committed on the host: active bytes and cached free memory
  // The six above, for operations on all of them.
  std::array<Gauge*, 6> gauges() {
    return {&allocations,   &allocated_bytes, &requested_bytes,
            &active_blocks, &active_bytes,    &reserved_bytes};
  }
  int64_t retries = 0;  // allocations that succeeded only after memory was freed for them
  int64_t out_of_memory = 0;
  int64_t free_bytes = 0;  // of what may be allocated
  int64_t limit_bytes = 0;
  int64_t total_bytes = 0;
  int64_t largest_free_block = 0;
  int64_t free_blocks = 0;
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

// The emulated card has free memory, but the host that must hold its content has not.
class OutOfHostMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A program file that is damaged, of another version, or no valid program.
class ProgramError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A kernel failed while it ran.
class KernelError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
// An index read from data is out of bounds: an IndexError for Python.
class KernelIndexError : public KernelError {
 public:
  using KernelError::KernelError;
};

class Card;

// One end of a transfer: `bytes` bytes of host memory, or of a card's memory from `address` on.
struct Place {
  void* host = nullptr;
  Card* card = nullptr;
  uint64_t address = 0;
  size_t bytes = 0;
};

// What a transfer does: nests, or, where these would be too many, single elements.
struct Transfer {
  CopyDescriptor descriptor;
  std::vector<int64_t> src_elements;
  std::vector<int64_t> dst_elements;
};

// A program that a card has read and checked.
class LoadedProgram {
 public:
  virtual ~LoadedProgram() = default;
  virtual const std::string& name() const = 0;
  virtual int64_t cores() const = 0;
  // What a launch must bring: arrays and scalars as arguments, and memory at fixed addresses.
  virtual int64_t arrays() const = 0;
  virtual int64_t scalars() const = 0;
  virtual std::vector<int64_t> fixed_bytes() const = 0;
};

// One execution of a program.
struct Launch {
  // In the order of the program's arguments. The sizes are exact: a kernel that goes beyond them
  // reads zeros and writes nothing.
  std::vector<Place> arrays;
  std::vector<uint64_t> scalars;
  std::vector<Place> fixed;
  // Run the cores one after the other, for kernels whose cores touch the same memory.
  bool ordered = false;
  // Fault injection, for tests of tests: flip a bit in the first result of the instruction of this
  // name. Empty: none.
  std::string faulty_instruction;
  // Stop the kernel after this time of the host's clock. 0: never.
  double watchdog_seconds = 0;
};

class Card {
 public:
  virtual ~Card() = default;

  virtual const CardDescription& description() const = 0;

  // Memory. Sizes are rounded up to the card's alignment; `allocate` throws OutOfDeviceMemory.
  // `retire`: the owner has freed the memory; `release`: no queued work needs it any more.
  virtual uint64_t allocate(size_t bytes) = 0;
  virtual void retire(uint64_t address) noexcept = 0;
  virtual void release(uint64_t address) noexcept = 0;
  // The address that PyTorch sees. The host cannot read or write there.
  virtual void* handle(uint64_t address) const = 0;
  virtual MemoryStatistics memory_statistics() const = 0;
  virtual std::vector<MemoryBlock> memory_blocks() const = 0;
  virtual void reset_peak_statistics() = 0;
  virtual void reset_accumulated_statistics() = 0;
  virtual void note_retry() = 0;
  virtual void note_out_of_memory() = 0;
  virtual void set_memory_limit(int64_t bytes) = 0;
  virtual void give_back_cached_memory() = 0;

  // Runs a copy between two locations, at least one on this card, on the calling thread.
  virtual CopyOutcome transfer(const Transfer& transfer, const Place& src, const Place& dst) = 0;
  // Plain bytes.
  virtual void transfer_bytes(const Place& src, const Place& dst) = 0;

  // Throws ProgramError.
  virtual std::shared_ptr<const LoadedProgram> load_program(std::span<const std::byte> file) = 0;
  // Runs a program of this card on the calling thread and its helpers. Throws KernelError.
  virtual void launch(const LoadedProgram& program, const Launch& launch) = 0;
};

// How a driver uses the host. A driver ignores what does not concern it.
struct DriverOptions {
  // Threads that emulate the card's cores, the caller's included; 0: one per host core.
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

// What a hardware driver library exports under the name kDriverSymbol.
using OpenDriver = Driver* (*)(int interface_version);
inline constexpr int kDriverInterfaceVersion = 3;
inline constexpr const char* kDriverSymbol = "spyre_flex_open_driver";
inline constexpr const char* kDriverLibrary = "libflex_spyre.so";

// Makes a driver of this process available as a mode of FLEX_DEVICE. Meant for static objects.
struct DriverRegistration {
  using Factory = std::unique_ptr<Driver> (*)();
  DriverRegistration(std::string mode, Factory factory);
};

// Returns the driver for a mode of FLEX_DEVICE: a registered one ("EMU"), or that of the hardware
// driver library ("PF", "VF"). Throws std::runtime_error that says what is missing.
std::unique_ptr<Driver> open_driver(const std::string& mode);

}  // namespace spyre::flex
