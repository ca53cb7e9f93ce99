// Static analysis: which bytes of the scratchpad a program reads and writes.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "emulator/engine/program.h"

namespace spyre::emulator::engine {

struct ScratchpadAccess {
  enum class Kind { kRead, kWrite } kind;
  const Operand& operand;
  // Empty for reads, which are assumed to access the whole buffer.
  std::span<const Register> extents;
};

// Calls `visit` for each operand of the instruction. Published tiles and literals are not operands.
void visit_accesses(const Action& action,
                    const std::function<void(const ScratchpadAccess&)>& visit);

// The registers that hold the same constant in every core during the whole program.
class ConstantRegisters {
 public:
  explicit ConstantRegisters(const Program& program);
  // Returns the values of the registers, or nothing unless all of them are constant.
  std::optional<std::vector<int64_t>> values(std::span<const Register> registers) const;

 private:
  std::vector<std::optional<int64_t>> values_;
};

// Returns whether an access with these extents covers every element of the operand's buffer.
bool covers_buffer(const Operand& operand, std::span<const int64_t> extents);

// Returns the bytes that may be read before the core has written them, in ascending order. All
// other bytes need not be initialised when a launch begins.
std::vector<ScratchpadRange> read_before_written(const Program& program);
// The same for instructions [begin, end), which no other instruction jumps into or out of.
std::vector<ScratchpadRange> read_before_written(const Program& program, size_t begin, size_t end);

}  // namespace spyre::emulator::engine
