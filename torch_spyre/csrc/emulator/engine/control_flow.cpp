#include "emulator/engine/control_flow.h"

#include <string>

#include "emulator/engine/program_decoder.h"

namespace spyre::emulator::engine {

namespace {

constexpr int32_t kNoLoop = -1;

[[noreturn]] void reject_at(size_t instruction, const char* problem) {
  reject_program(std::string(problem) + " (instruction " + std::to_string(instruction) + ")");
}

// Returns the loop whose body contains each instruction and the end of the program. A loop's end is
// in its body, its begin is not.
std::vector<int32_t> loops_around(const std::vector<Instruction>& code) {
  std::vector<int32_t> around, open;
  for (size_t i = 0; i < code.size(); ++i) {
    around.push_back(open.empty() ? kNoLoop : open.back());
    if (const auto* begin = std::get_if<LoopBegin>(&code[i].action)) {
      open.push_back(static_cast<int32_t>(i));
      const bool exists = begin->end >= 0 && static_cast<size_t>(begin->end) < code.size();
      if (!exists ||
          !std::holds_alternative<LoopEnd>(code[static_cast<size_t>(begin->end)].action)) {
        reject_at(i, "a loop has no end");
      }
    } else if (const auto* end = std::get_if<LoopEnd>(&code[i].action)) {
      if (open.empty() || end->begin != open.back()) reject_at(i, "loops do not nest");
      const auto& loop = std::get<LoopBegin>(code[static_cast<size_t>(open.back())].action);
      if (loop.end != static_cast<int32_t>(i)) reject_at(i, "loops do not nest");
      open.pop_back();
    }
  }
  if (!open.empty()) reject_at(static_cast<size_t>(open.back()), "a loop has no end");
  around.push_back(kNoLoop);
  return around;
}

void check_target(const std::vector<int32_t>& around, size_t from, int32_t target) {
  if (target < 0 || static_cast<size_t>(target) >= around.size() ||
      static_cast<size_t>(target) <= from) {
    reject_at(from, "a jump does not go forward");
  }
  if (around[static_cast<size_t>(target)] != around[from]) {
    reject_at(from, "a jump leaves or enters a loop");
  }
}

}  // namespace

void check_control_flow(const Program& program) {
  const std::vector<int32_t> around = loops_around(program.code);
  for (size_t i = 0; i < program.code.size(); ++i) {
    const Action& action = program.code[i].action;
    if (const auto* branch = std::get_if<Branch>(&action)) check_target(around, i, branch->target);
    if (const auto* jump = std::get_if<Jump>(&action)) check_target(around, i, jump->target);
  }
}

}  // namespace spyre::emulator::engine
