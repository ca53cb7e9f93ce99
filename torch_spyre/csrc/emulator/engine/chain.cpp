// Executes elementwise chains, block by block of the iteration space, on one or several threads.
#include <algorithm>
#include <numeric>

#include "emulator/engine/core.h"
#include "emulator/engine/plan_cache.h"
#include "emulator/engine/value_blocks.h"
#include "emulator/thread_pool.h"

namespace spyre::emulator::engine {
namespace {

// Below twice this many points, waking another thread costs more than it saves.
constexpr int64_t kThreadLanes = 16 * kBlockLanes;

struct Output {
  int32_t value;
  ElementType type;
  int lane;
  int element;
  StoreLanes store;
  std::byte* destination;
  Traversal traversal;
};

struct Workspace {
  std::vector<int64_t> extents;
  std::vector<int32_t> order, retained;
  std::vector<Output> outputs;
  ValueBlocks blocks;
};

void prepare(const Chain& chain, Core& core, Workspace& work) {
  work.order.resize(work.extents.size());
  std::iota(work.order.begin(), work.order.end(), 0);
  work.retained.clear();
  work.outputs.clear();
  for (const ChainOutput& output : chain.outputs) {
    work.retained.push_back(output.value);
    const ElementType type = output.operand.type;
    Output& prepared = work.outputs.emplace_back();
    prepared.value = output.value;
    prepared.type = type;
    prepared.lane = lane_bytes(type);
    prepared.element = bytes_of(type);
    prepared.store = store_lanes(type);
    prepared.destination = elements_of(core, output.operand, work.extents);
    prepared.traversal.set(work.extents, output.operand.strides, work.order);
  }
  work.blocks.prepare(chain, core, work.extents, work.order, work.retained);
  // Outputs that their step writes to memory directly need no store.
  std::erase_if(work.outputs, [&](const Output& output) {
    return output.traversal.is_dense() && output.type == type_of_value(chain, output.value) &&
           work.blocks.write_to(output.value, output.destination);
  });
}

void run(const Workspace& work, int64_t begin, int64_t end) {
  std::byte* const lanes = thread_lanes(work.blocks.bytes());
  work.blocks.start(lanes, end - begin);
  for (int64_t at = begin; at < end; at += kBlockLanes) {
    const int64_t n = std::min(kBlockLanes, end - at);
    work.blocks.compute(lanes, at, n);
    // Stores follow all loads of the block, because an output may alias an input.
    for (const Output& output : work.outputs) {
      const std::byte* source = work.blocks.value(lanes, output.value);
      output.traversal.visit_runs(at, n, [&](int64_t offset, int64_t stride, int64_t count) {
        output.store(source, output.destination + offset * output.element, stride, count);
        source += count * output.lane;
      });
    }
  }
}

}  // namespace

bool moves(const ChainBody& chain) {
  return std::ranges::any_of(chain.inputs, [](const Input& i) { return moves(i.operand); }) ||
         std::ranges::any_of(chain.lookups, [](const Lookup& l) { return moves(l.operand); });
}

void execute(const Chain& chain, Core& core) {
  thread_local PlanCache<Workspace, PlanLifetime::kProgram> plans;
  // The extents of lookups may change as well.
  const bool is_moving =
      moves(chain) || std::ranges::any_of(chain.outputs, [](const ChainOutput& output) {
        return moves(output.operand);
      });
  const auto [work, is_prepared] =
      plans.find(&chain, core, chain.extents, is_moving || !chain.lookups.empty());
  const int64_t count = count_of(work.extents);
  if (count == 0) return;
  if (!is_prepared) {
    prepare(chain, core, work);
    plans.store(&chain, core);
  }
  // Lookups are executed in order, so that the first out-of-bounds index is reported.
  if (count < 2 * kThreadLanes || !chain.lookups.empty()) return run(work, 0, count);
  const Workspace& shared = work;
  parallel_for(count, kThreadLanes, [&shared](int64_t begin, int64_t end) {
    const DefaultFloatingPoint settings;
    run(shared, begin, end);
  });
}

}  // namespace spyre::emulator::engine
