#include "emulator/engine/transfer_log.h"

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <tuple>

#include "emulator/engine/loop_analysis.h"

namespace spyre::emulator::engine {
namespace {

// More runs of sticks are not enumerated.
constexpr int64_t kMaxEnumeratedRuns = int64_t{1} << 22;

int64_t executions_of(const RepeatedLoops& loops) {
  int64_t executions = 1;
  for (const RepeatedLoop& loop : loops) executions *= loop.trips;
  return executions;
}

// Executions in the same iterations of the same loops: the numbers of all later ones are higher, or
// they are in one iteration of these loops.
struct Block {
  int64_t first = 0, last = -1;
  const RepeatedLoops* loops = nullptr;

  // Returns false if it is not known whether executions from `execution` on, in ascending order,
  // are different from those before.
  bool add(int64_t execution, const RepeatedLoops& new_loops) {
    int64_t new_last = execution;
    for (const RepeatedLoop& loop : new_loops) new_last += loop.period * (loop.trips - 1);
    if (execution > last) {
      *this = {execution, new_last, &new_loops};
      return true;
    }
    last = std::max(last, new_last);
    return loops == &new_loops && execution - first < new_loops.back().period;
  }
};

std::span<const RepeatedLoop> inner_loops(const RepeatedLoops& loops) {
  return std::span(loops).subspan(1);
}

// Returns the trip count of the outermost loop of `longest`, given the loops of a transfer that are
// otherwise the same; 0 if they are not.
int64_t outermost_trips(const RepeatedLoops& loops, const RepeatedLoops& longest) {
  if (longest.empty()) return 1;
  if (std::ranges::equal(loops, inner_loops(longest))) return 1;
  const bool is_same = loops.size() == longest.size() && loops[0].loop == longest[0].loop &&
                       loops[0].step == longest[0].step && loops[0].period == longest[0].period &&
                       std::ranges::equal(inner_loops(loops), inner_loops(longest));
  return is_same ? loops[0].trips : 0;
}

RepeatedLoops with_outermost(const RepeatedLoops& longest, int64_t trips) {
  RepeatedLoops loops = longest;
  loops[0].trips = trips;
  if (trips == 1) loops.erase(loops.begin());
  return loops;
}

}  // namespace

void TransferLog::add(size_t instruction, int64_t core, int64_t execution,
                      const PlacedFootprint& placed, const RepeatedLoops& loops) {
  if (placed.num_sticks() == 0) return;
  Instruction& log = instructions_[instruction];
  log.has_partitions |= !log.hulls.empty() && log.hulls.back().core == core &&
                        log.transfers.back().execution == execution;
  log.transfers.push_back({execution, placed, intern(loops)});
  ByteRange hull{placed.stick, placed.stick + placed.footprint->end_stick};
  for (const RepeatedLoop& loop : loops) {
    const int64_t distance = loop.step * (loop.trips - 1);
    (distance < 0 ? hull.begin : hull.end) += distance;
  }
  if (log.hulls.empty() || log.hulls.back().core != core) {
    log.hulls.push_back({core, hull});
    return;
  }
  ByteRange& all = log.hulls.back().sticks;
  all = {std::min(all.begin, hull.begin), std::max(all.end, hull.end)};
}

bool TransferLog::share_sticks(const Instruction& instruction) {
  if (instruction.has_partitions) return true;
  std::vector<CoreHull> hulls = instruction.hulls;
  std::ranges::sort(hulls, {}, [](const CoreHull& hull) { return hull.sticks.begin; });
  int64_t end = std::numeric_limits<int64_t>::min();
  for (const CoreHull& hull : hulls) {
    if (hull.sticks.begin < end) return true;
    end = std::max(end, hull.sticks.end);
  }
  return false;
}

void TransferLog::set_period(size_t instruction, size_t first, size_t depth, int64_t period) {
  std::vector<Transfer>& transfers = instructions_[instruction].transfers;
  for (size_t i = first; i < transfers.size(); ++i) {
    RepeatedLoops loops = *transfers[i].loops;
    loops[depth].period = period;
    transfers[i].loops = intern(loops);
  }
}

// Makes all transfers of the group have the same loops: what a transfer has more of the outermost
// loop becomes a later transfer. Returns false if they differ in other loops.
bool TransferLog::split(Group& group, const RepeatedLoops& longest, std::vector<Transfer>& later) {
  if (std::ranges::all_of(group,
                          [&](const Transfer& transfer) { return transfer.loops == &longest; })) {
    return true;
  }
  int64_t common = std::numeric_limits<int64_t>::max();
  for (const Transfer& transfer : group) {
    common = std::min(common, outermost_trips(*transfer.loops, longest));
  }
  if (common == 0) return false;
  for (Transfer& transfer : group) {
    const int64_t trips = outermost_trips(*transfer.loops, longest);
    transfer.loops = intern(with_outermost(longest, common));
    if (trips == common) continue;
    PlacedFootprint placed = transfer.placed;
    placed.stick += common * longest[0].step;
    later.push_back({transfer.execution + common * longest[0].period, placed,
                     intern(with_outermost(longest, trips - common))});
  }
  return true;
}

int64_t TransferLog::distinct_sticks(size_t instruction,
                                     const std::function<bool(size_t)>& is_uniform) {
  Instruction& log = instructions_[instruction];
  int64_t sticks = 0;
  const auto count_separately = [&](const std::vector<Transfer>& transfers) {
    for (const Transfer& transfer : transfers) {
      sticks += transfer.placed.num_sticks() * executions_of(*transfer.loops);
    }
  };
  if (!share_sticks(log)) {
    count_separately(log.transfers);
    return sticks;
  }
  std::map<int64_t, Group> groups;  // by first execution
  for (const Transfer& transfer : log.transfers) groups[transfer.execution].push_back(transfer);
  Block block;
  std::vector<Transfer> later;
  std::vector<PlacedFootprint> footprints;
  for (; !groups.empty(); groups.erase(groups.begin())) {
    auto& [execution, group] = *groups.begin();
    const RepeatedLoops& longest =
        *std::ranges::max_element(group, {}, [](const Transfer& transfer) {
           return transfer.loops->size();
         })->loops;
    later.clear();
    const bool is_aligned = split(group, longest, later);
    if (!is_aligned || !block.add(execution, *group[0].loops)) {
      for (const RepeatedLoop& loop : longest) {
        if (is_uniform(loop.loop)) throw NonUniformLoop(loop.loop);
      }
      count_separately(group);
      continue;
    }
    for (const Transfer& remainder : later) groups[remainder.execution].push_back(remainder);
    footprints.clear();
    for (const Transfer& transfer : group) footprints.push_back(transfer.placed);
    sticks += union_.count(footprints) * executions_of(*group[0].loops);
  }
  return sticks;
}

BoxCost TransferLog::unique_sticks(size_t instruction) const {
  const std::vector<Transfer>& transfers = instructions_[instruction].transfers;
  std::set<std::tuple<PlacedFootprint, const RepeatedLoops*>> is_counted;
  std::vector<ByteRange> sticks;
  int64_t num_separate = 0, num_runs = 0;
  for (const Transfer& transfer : transfers) {
    if (!is_counted.emplace(transfer.placed, transfer.loops).second) continue;
    num_separate += transfer.placed.num_sticks() * executions_of(*transfer.loops);
    for (const ByteRange& range : transfer.placed.footprint->sticks()) {
      // A box of sticks instead of bytes.
      DeviceBox box(range.begin + transfer.placed.stick, range.end - range.begin);
      for (const RepeatedLoop& loop : *transfer.loops) box.add(loop.trips, loop.step);
      box.normalise();
      num_runs += std::min(box.visited_runs(), kMaxEnumeratedRuns);
      if (num_runs > kMaxEnumeratedRuns) return {num_separate, 0, false};
      box.visit_runs([&](int64_t begin, int64_t end) { sticks.push_back({begin, end}); });
    }
  }
  flex::merge_ranges(sticks);
  int64_t num_sticks = 0;
  for (const ByteRange& range : sticks) num_sticks += range.end - range.begin;
  return {num_sticks, 0, true};
}

}  // namespace spyre::emulator::engine
