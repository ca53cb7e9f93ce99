#include "emulator/engine/count_check.h"

#include <algorithm>
#include <string>

#include "emulator/engine/core.h"
#include "emulator/engine/instruction_work.h"

namespace spyre::emulator::engine {
namespace {

// An upper bound may only be above the executed count in these.
constexpr const char* kBoundedCounters[] = {"remote_bytes", "device_bytes", "device_runs",
                                            "index_bytes", "index_runs"};

class InstructionCheck {
 public:
  InstructionCheck(const Program& program, size_t instruction, Exactness exactness)
      : program_(program), instruction_(instruction), exactness_(exactness) {}

  void compare(const InstructionCounts& executed, const InstructionCounts& recorded) const {
    compare("cores", executed.cores, recorded.cores, false);
    for (const Counter& counter : kCounters) {
      const Count &actual = executed.*counter.of_all, &expected = recorded.*counter.of_all;
      const bool is_bounded = std::ranges::find(kBoundedCounters, std::string_view(counter.name)) !=
                              std::end(kBoundedCounters);
      compare(counter.name, actual.total, expected.total, is_bounded);
      compare(std::string(counter.name) + " of the busiest core", actual.busiest, expected.busiest,
              is_bounded);
    }
    compare("distinct_device_bytes", executed.distinct_device_bytes, recorded.distinct_device_bytes,
            true);
    compare("unique_device_bytes", executed.unique_device_bytes, recorded.unique_device_bytes,
            true);
    const MatmulShape &actual = executed.largest_matmul, &expected = recorded.largest_matmul;
    compare("batch", actual.batch, expected.batch, false);
    compare("rows", actual.rows, expected.rows, false);
    compare("columns", actual.columns, expected.columns, false);
    compare("inner", actual.inner, expected.inner, false);
  }

 private:
  void compare(const std::string& counter, int64_t executed, int64_t recorded,
               bool is_bounded) const {
    const bool is_upper_bound = is_bounded && exactness_ == Exactness::kUpperBound;
    if (is_upper_bound ? executed <= recorded : executed == recorded) return;
    const SourceLocation& location =
        program_.locations[static_cast<size_t>(program_.code[instruction_].location)];
    throw KernelError("kernel " + program_.name + ", instruction " + std::to_string(instruction_) +
                      " (" + text_of(location) + "): executed " + std::to_string(executed) + " " +
                      counter + ", but the recorder counts " + (is_upper_bound ? "at most " : "") +
                      std::to_string(recorded) + " (SPYRE_EMU_CHECK_COUNTS)");
  }

  const Program& program_;
  const size_t instruction_;
  const Exactness exactness_;
};

}  // namespace

void CountCheck::compare(const Program& program, std::span<const InstructionCounts> executed,
                         const std::vector<int64_t>& array_bytes,
                         const std::vector<uint64_t>& scalars, VectorLanes lanes) {
  const std::lock_guard lock(mutex_);
  const Key key{array_bytes, scalars};
  auto known = recordings_.find(key);
  if (known == recordings_.end()) {
    const std::vector<ArrayLocation> locations = locate_arrays(program, array_bytes);
    known = recordings_.emplace(key, record(program, locations, scalars, lanes)).first;
  }
  for (size_t i = 0; i < executed.size(); ++i) {
    const InstructionCounts& recorded = known->second.instructions[i];
    if (recorded.exactness == Exactness::kEstimate) continue;
    InstructionCheck(program, i, recorded.exactness).compare(executed[i], recorded);
  }
}

}  // namespace spyre::emulator::engine
