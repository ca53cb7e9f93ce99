// Executes reductions. The order in which elements are combined affects the result. It depends only
// on the instruction, not on blocks, threads or the host.
//
// The elements of one output are numbered k = 0 ... K - 1 in row-major order of the reduced
// dimensions. If the innermost dimension of the iteration space is reduced, element k is combined
// with accumulator k % 64, in order of k; accumulator l is then combined with l + 32, l + 16, ...,
// l + 1, skipping accumulators without elements. Otherwise one accumulator is combined with all
// elements in order of k. The initial value is combined with the result last, as the left operand.
#include <algorithm>
#include <array>
#include <cstring>

#include "emulator/engine/core.h"
#include "emulator/engine/plan_cache.h"
#include "emulator/engine/prefetch.h"
#include "emulator/engine/reducer.h"
#include "emulator/engine/value_blocks.h"
#include "emulator/thread_pool.h"

namespace spyre::emulator::engine {
namespace {

// Rows up to this length are reduced several at a time: combining the accumulators of each row
// separately would take longer than its elements. The lanes of a block then hold all elements of
// some rows.
constexpr int64_t kShortRow = kReductionAccumulators;
constexpr int64_t kShortRowLanes = 8 * kBlockLanes;

// Below twice this many elements, waking another thread costs more than it saves.
constexpr int64_t kThreadLanes = 16 * kBlockLanes;

// A prepared reduction of `elements` elements for each of `outputs` outputs.
struct Plan {
  const Reduce* reduce;
  Core* core;
  std::vector<int64_t> extents;
  std::vector<int32_t> order, output_order;
  int64_t outputs = 1, elements = 1;
  bool is_innermost_reduced = false;
  bool has_short_rows = false;
  ValueBlocks blocks;
  Reducer reducer;
  // Rows that can be read from memory directly; without data if they must be computed.
  ValueBlocks::Elements rows;
  struct Value {
    int32_t number;
    int lane;
    ElementType type;
    std::byte* destination;
    const std::byte* initial;  // nullptr: no initial value
    Traversal traversal, initial_traversal;
  };
  std::vector<Value> values;
};

// The lanes of a thread: those of the value blocks, the scratch memory of the reducer, then
// results, initial values and accumulators of each value.
class Lanes {
 public:
  explicit Lanes(const Plan& plan)
      : base_(thread_lanes(plan.blocks.bytes() + plan.reducer.bytes() +
                           static_cast<int64_t>(plan.values.size() * value_bytes(plan)))),
        reducer_scratch_(base_ + plan.blocks.bytes()),
        values_(reducer_scratch_ + plan.reducer.bytes()),
        pitch_(value_bytes(plan)) {}

  std::byte* blocks() const { return base_; }
  std::byte* reducer_scratch() const { return reducer_scratch_; }
  std::byte* results(size_t value) const { return values_ + value * pitch_; }
  std::byte* initial(size_t value) const { return results(value) + kPitch; }
  std::byte* accumulators(size_t value) const { return results(value) + 2 * kPitch; }

 private:
  static constexpr size_t kPitch = static_cast<size_t>(block_bytes(8));
  static size_t value_bytes(const Plan& plan) {
    return plan.has_short_rows ? 2 * kPitch + 8 * kShortRowLanes : 3 * kPitch;
  }
  std::byte* base_;
  std::byte* reducer_scratch_;
  std::byte* values_;
  size_t pitch_;
};

void split_dimensions(const Reduce& reduce, Plan& plan) {
  const auto rank = static_cast<int32_t>(plan.extents.size());
  std::array<bool, kMaxRank> is_reduced{};
  for (const int32_t dimension : reduce.reduced) is_reduced[static_cast<size_t>(dimension)] = true;
  plan.order.clear();
  plan.output_order.clear();
  plan.outputs = plan.elements = 1;
  for (int32_t i = 0; i < rank; ++i) {
    const int64_t extent = plan.extents[static_cast<size_t>(i)];
    (is_reduced[static_cast<size_t>(i)] ? plan.order : plan.output_order).push_back(i);
    (is_reduced[static_cast<size_t>(i)] ? plan.elements : plan.outputs) *= extent;
  }
  plan.is_innermost_reduced = rank > 0 && is_reduced[static_cast<size_t>(rank - 1)];
  plan.has_short_rows =
      plan.is_innermost_reduced && plan.elements <= kShortRow && plan.outputs >= kShortRow;
  // Positions number the elements of each output consecutively, or the outputs for each element.
  const bool is_by_rows = plan.is_innermost_reduced && !plan.has_short_rows;
  const auto insertion_point = is_by_rows ? plan.order.begin() : plan.order.end();
  plan.order.insert(insertion_point, plan.output_order.begin(), plan.output_order.end());
}

void prepare_values(const Reduce& reduce, Core& core, Plan& plan) {
  // Outputs have extent 1 along reduced dimensions.
  std::array<int64_t, kMaxRank> output_extents;
  std::copy(plan.extents.begin(), plan.extents.end(), output_extents.begin());
  for (const int32_t dimension : reduce.reduced) output_extents[static_cast<size_t>(dimension)] = 1;
  const std::span<const int64_t> output_space(output_extents.data(), plan.extents.size());
  plan.values.clear();
  for (size_t i = 0; i < reduce.values.size(); ++i) {
    const Operand& output = reduce.outputs[i];
    Plan::Value& value = plan.values.emplace_back();
    value.number = reduce.values[i];
    value.type = type_of_value(reduce, value.number);
    value.lane = lane_bytes(value.type);
    value.destination = elements_of(core, output, output_space);
    value.traversal.set(output_space, output.strides, plan.output_order);
    value.initial = nullptr;
    if (reduce.initial.empty()) continue;
    value.initial = elements_of(core, reduce.initial[i], output_space);
    value.initial_traversal.set(output_space, reduce.initial[i].strides, plan.output_order);
  }
}

// One pointer per value.
using Pointers = std::array<void*, kMaxReducedValues>;

Pointers pointers_to(const Plan& plan, auto pointer_of) {
  Pointers pointers{};
  for (size_t i = 0; i < plan.values.size(); ++i) pointers[i] = pointer_of(i);
  return pointers;
}

// Returns pointers to lane `first` of each value of the block.
std::array<const void*, kMaxReducedValues> values_from(const Plan& plan, const Lanes& lanes,
                                                       int64_t first) {
  std::array<const void*, kMaxReducedValues> pointers{};
  for (size_t i = 0; i < plan.values.size(); ++i) {
    pointers[i] =
        plan.blocks.value(lanes.blocks(), plan.values[i].number) + first * plan.values[i].lane;
  }
  return pointers;
}

// Combines the results of outputs [begin, begin + n) with the initial values and writes them.
void finish(const Plan& plan, const Lanes& lanes, int64_t begin, int64_t n) {
  for (size_t i = 0; i < plan.values.size(); ++i) {
    const Plan::Value& value = plan.values[i];
    if (value.initial == nullptr) continue;
    const ElementType type = plan.reduce->initial[i].type;
    const LoadLanes load = load_lanes(type);
    std::byte* out = lanes.initial(i);
    value.initial_traversal.visit_runs(
        begin, n, [&](int64_t offset, int64_t stride, int64_t count) {
          load(value.initial + offset * bytes_of(type), stride, out, count);
          out += count * value.lane;
        });
  }
  const bool has_initial = !plan.reduce->initial.empty();
  if (has_initial && plan.elements > 0) {
    const Pointers left = pointers_to(plan, [&](size_t i) { return lanes.initial(i); });
    std::array<const void*, kMaxReducedValues> right{};
    for (size_t i = 0; i < plan.values.size(); ++i) right[i] = lanes.results(i);
    plan.reducer.combine(lanes.reducer_scratch(), left.data(), right.data(), n);
  }
  for (size_t i = 0; i < plan.values.size(); ++i) {
    const Plan::Value& value = plan.values[i];
    std::byte* source = has_initial ? lanes.initial(i) : lanes.results(i);
    if (is_float(value.type)) round_lanes(value.type)(reinterpret_cast<float*>(source), n);
    if (begin == 0 && i == 0 && plan.reducer.is_faulty(*plan.core)) {
      inject_fault(source, value.type);
      plan.core->injection->done = true;
    }
    const ElementType type = plan.reduce->outputs[i].type;
    const StoreLanes store = store_lanes(type);
    value.traversal.visit_runs(begin, n, [&](int64_t offset, int64_t stride, int64_t count) {
      store(source, value.destination + offset * bytes_of(type), stride, count);
      source += count * value.lane;
    });
  }
}

// Reduces rows: the elements of one output have consecutive positions.
void reduce_rows(const Plan& plan, const Lanes& lanes, int64_t begin, int64_t end) {
  const int64_t row = plan.elements;
  const Pointers accumulators = pointers_to(plan, [&](size_t i) { return lanes.accumulators(i); });
  const auto store_result = [&](int64_t output) {
    for (size_t i = 0; i < plan.values.size(); ++i) {
      const auto lane = static_cast<size_t>(plan.values[i].lane);
      std::memcpy(lanes.results(i) + static_cast<size_t>(output) * lane, accumulators[i], lane);
    }
  };
  for (int64_t first = begin; first < end; first += kBlockLanes) {
    const int64_t outputs = std::min(kBlockLanes, end - first);
    if (plan.rows.data != nullptr) {
      for (int64_t output = 0; output < outputs; ++output) {
        prefetch_some();
        plan.reducer.start(accumulators.data());
        const int64_t offset = (first + output) * row * bytes_of(plan.rows.type);
        plan.reducer.accumulate_elements(accumulators.data(), plan.rows.data + offset, row);
        plan.reducer.finish(lanes.reducer_scratch(), accumulators.data(), row);
        store_result(output);
      }
      finish(plan, lanes, first, outputs);
      continue;
    }
    const int64_t rows_at_once = row < kBlockLanes ? kBlockLanes / row : 1;
    for (int64_t output = 0; output < outputs; output += rows_at_once) {
      const int64_t rows = std::min(rows_at_once, outputs - output);
      if (row <= kBlockLanes) {
        plan.blocks.compute(lanes.blocks(), (first + output) * row, rows * row);
        for (int64_t i = 0; i < rows; ++i) {
          plan.reducer.start(accumulators.data());
          const auto values = values_from(plan, lanes, i * row);
          plan.reducer.accumulate(lanes.reducer_scratch(), accumulators.data(), values.data(), 0,
                                  row);
          plan.reducer.finish(lanes.reducer_scratch(), accumulators.data(), row);
          store_result(output + i);
        }
        continue;
      }
      plan.reducer.start(accumulators.data());
      for (int64_t k = 0; k < row; k += kBlockLanes) {
        const int64_t n = std::min(kBlockLanes, row - k);
        plan.blocks.compute(lanes.blocks(), (first + output) * row + k, n);
        plan.reducer.accumulate(lanes.reducer_scratch(), accumulators.data(),
                                values_from(plan, lanes, 0).data(), k, n);
      }
      plan.reducer.finish(lanes.reducer_scratch(), accumulators.data(), row);
      store_result(output);
    }
    finish(plan, lanes, first, outputs);
  }
}

// As `reduce_rows`, for rows with at most one element per accumulator: the accumulators of several
// rows are adjacent lanes, so that one tree combines all of them.
void reduce_short_rows(const Plan& plan, const Lanes& lanes, int64_t begin, int64_t end) {
  const int64_t outputs_at_once = std::min(kBlockLanes, kShortRowLanes / plan.elements);
  for (int64_t first = begin; first < end; first += outputs_at_once) {
    const int64_t outputs = std::min(outputs_at_once, end - first);
    const auto accumulators = [&](int64_t k) {
      return pointers_to(plan, [&](size_t i) {
        return lanes.accumulators(i) + k * outputs * plan.values[i].lane;
      });
    };
    for (int64_t k = 0; k < plan.elements; ++k) {
      plan.blocks.compute(lanes.blocks(), k * plan.outputs + first, outputs);
      plan.reducer.copy(accumulators(k).data(), values_from(plan, lanes, 0).data(), outputs);
    }
    int64_t used = plan.elements;
    for (int64_t half = kShortRow / 2; half > 0; half /= 2) {
      for (int64_t k = 0; k + half < used && k < half; ++k) {
        const Pointers right = accumulators(k + half);
        plan.reducer.combine(lanes.reducer_scratch(), accumulators(k).data(), right.data(),
                             outputs);
      }
      used = std::min(used, half);
    }
    const Pointers left = accumulators(0);
    plan.reducer.copy(pointers_to(plan, [&](size_t i) { return lanes.results(i); }).data(),
                      left.data(), outputs);
    finish(plan, lanes, first, outputs);
  }
}

// Reduces columns: adjacent lanes hold different outputs, which are combined `elements` times.
void reduce_columns(const Plan& plan, const Lanes& lanes, int64_t begin, int64_t end) {
  const Pointers results = pointers_to(plan, [&](size_t i) { return lanes.results(i); });
  const bool covers_all_outputs = begin == 0 && end == plan.outputs;
  for (int64_t first = begin; first < end; first += kBlockLanes) {
    const int64_t outputs = std::min(kBlockLanes, end - first);
    // With few outputs, one block holds several elements of each, to avoid short blocks.
    const int64_t rounds_at_once = covers_all_outputs && outputs == plan.outputs
                                       ? std::max<int64_t>(1, kBlockLanes / outputs)
                                       : 1;
    for (int64_t k = 0; k < plan.elements; k += rounds_at_once) {
      const int64_t rounds = std::min(rounds_at_once, plan.elements - k);
      plan.blocks.compute(lanes.blocks(), k * plan.outputs + first, rounds * outputs);
      for (int64_t i = 0; i < rounds; ++i) {
        const auto values = values_from(plan, lanes, i * outputs);
        if (k + i == 0) {
          plan.reducer.copy(results.data(), values.data(), outputs);
        } else {
          plan.reducer.combine(lanes.reducer_scratch(), results.data(), values.data(), outputs);
        }
      }
    }
    finish(plan, lanes, first, outputs);
  }
}

void run(const Plan& plan, int64_t begin, int64_t end) {
  const Lanes lanes(plan);
  if (plan.elements == 0) {
    for (int64_t at = begin; at < end; at += kBlockLanes) {
      finish(plan, lanes, at, std::min(kBlockLanes, end - at));
    }
    return;
  }
  plan.blocks.start(lanes.blocks(), plan.outputs * plan.elements);
  const auto reduce = plan.has_short_rows         ? reduce_short_rows
                      : plan.is_innermost_reduced ? reduce_rows
                                                  : reduce_columns;
  reduce(plan, lanes, begin, end);
}

bool has_moving_operands(const Reduce& reduce) {
  const auto is_moving = [](const Operand& operand) { return moves(operand); };
  return moves(reduce) || std::ranges::any_of(reduce.initial, is_moving) ||
         std::ranges::any_of(reduce.outputs, is_moving);
}

void prepare(const Reduce& reduce, Core& core, Plan& plan) {
  plan.reduce = &reduce;
  plan.core = &core;
  split_dimensions(reduce, plan);
  if (plan.outputs == 0) return;
  if (plan.elements == 0 && reduce.initial.empty()) {
    throw KernelError("a reduction of no elements needs an initial value");
  }
  if (plan.elements > 0) {
    plan.blocks.prepare(reduce, core, plan.extents, plan.order, reduce.values);
  }
  prepare_values(reduce, core, plan);
  plan.reducer.prepare(reduce);
  plan.rows = {};
  if (plan.elements == 0 || !plan.is_innermost_reduced || plan.has_short_rows) return;
  const ValueBlocks::Elements rows = plan.blocks.elements(reduce.values[0]);
  if (rows.data != nullptr && plan.reducer.can_accumulate_elements(rows.type)) plan.rows = rows;
}

}  // namespace

void execute(const Reduce& reduce, Core& core) {
  thread_local PlanCache<Plan, PlanLifetime::kProgram> plans;
  // The extents of lookups may change as well.
  const auto [plan, is_prepared] = plans.find(
      &reduce, core, reduce.extents, has_moving_operands(reduce) || !reduce.lookups.empty());
  if (!is_prepared) {
    prepare(reduce, core, plan);
    plans.store(&reduce, core);
  }
  if (plan.outputs == 0) return;
  const int64_t points = plan.outputs * plan.elements;
  if (points < 2 * kThreadLanes || !reduce.lookups.empty()) return run(plan, 0, plan.outputs);
  // Columns are split in whole blocks.
  const int64_t outputs_per_thread =
      plan.is_innermost_reduced ? std::max<int64_t>(1, kThreadLanes / plan.elements)
                                : std::max<int64_t>(kBlockLanes, kThreadLanes / plan.elements /
                                                                     kBlockLanes * kBlockLanes);
  const Plan& shared = plan;
  parallel_for(plan.outputs, outputs_per_thread, [&shared](int64_t begin, int64_t end) {
    const DefaultFloatingPoint settings;
    run(shared, begin, end);
  });
}

}  // namespace spyre::emulator::engine
