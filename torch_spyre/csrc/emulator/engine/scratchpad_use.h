// Which bytes of its scratchpad a program reads and writes, as far as its text tells.
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
  // Reads have none: they count with the whole buffer.
  std::span<const Register> extents;
};

// Calls `visit` for each operand of the instruction. Publications and literals are no operands.
void visit_accesses(const Action& action,
                    const std::function<void(const ScratchpadAccess&)>& visit);

// Registers that hold the same value in every core from begin to end.
class ConstantRegisters {
 public:
  explicit ConstantRegisters(const Program& program);
  // None unless all of them are such.
  std::optional<std::vector<int64_t>> values(std::span<const Register> registers) const;

 private:
  std::vector<std::optional<int64_t>> values_;
};

// Whether an access with these extents reaches every element of the operand's buffer.
bool covers_buffer(const Operand& operand, std::span<const int64_t> extents);

// The bytes that may be read before the core has written them, in ascending order. All others need
// no content when a launch begins.
std::vector<ScratchpadRange> read_before_written(const Program& program);
// The same for instructions [begin, end), which no other instruction jumps into or out of.
std::vector<ScratchpadRange> read_before_written(const Program& program, size_t begin, size_t end);

}  // namespace spyre::emulator::engine
