// Reductions. The order in which elements are combined is part of the result, and depends on the
// instruction alone, not on blocks, threads or the host.
//
// The elements of one output are numbered k = 0 ... K - 1 in row-major order of the reduced
// dimensions. Where the innermost dimension of the iteration space is reduced, element k goes to
// accumulator k % 64, in order of k; accumulator l is then combined with l + 32, l + 16, ..., l +
// 1, as far as K elements reach. Otherwise one accumulator takes them in order of k. The initial
// value is combined with the result last, as the left operand.
#include <algorithm>
#include <array>
#include <cstring>

#include "emulator/engine/core.h"
#include "emulator/engine/fold.h"
#include "emulator/engine/prefetch.h"
#include "emulator/engine/prepared.h"
#include "emulator/engine/value_blocks.h"
#include "emulator/thread_pool.h"

namespace spyre::emulator::engine {
namespace {

// Rows up to this long are reduced side by side: a tree for each of them would take longer than the
// elements. The lanes of a block then hold all elements of some rows.
constexpr int64_t kShortRow = kReductionAccumulators;
constexpr int64_t kShortRowLanes = 8 * kBlockLanes;

// Below twice this many elements, waking another thread costs more than it brings.
constexpr int64_t kThreadLanes = 16 * kBlockLanes;

// One reduction as one thread works on it: `elements` for each of `outputs`.
struct Plan {
  const Reduce* reduce;
  Core* core;
  std::vector<int64_t> extents;
  std::vector<int32_t> order, kept_order;
  int64_t outputs = 1, elements = 1;
  bool is_innermost_reduced = false;
  bool has_short_rows = false;
  ValueBlocks blocks;
  Fold fold;
  // Rows that are taken from memory as they lie there; no data: they must be computed.
  ValueBlocks::Elements rows;
  struct Value {
    int32_t number;
    int lane;
    ElementType type;
    std::byte* destination;
    const std::byte* initial;  // nullptr: none
    Walk walk, initial_walk;
  };
  std::vector<Value> values;
};

// The lanes of a thread: those of the value blocks, then these for each value.
class Lanes {
 public:
  explicit Lanes(const Plan& plan)
      : base_(thread_lanes(plan.blocks.bytes() + plan.fold.bytes() +
                           static_cast<int64_t>(plan.values.size() * own_bytes(plan)))),
        fold_(base_ + plan.blocks.bytes()),
        own_(fold_ + plan.fold.bytes()),
        pitch_(own_bytes(plan)) {}

  std::byte* blocks() const { return base_; }
  std::byte* fold() const { return fold_; }
  std::byte* results(size_t value) const { return own_ + value * pitch_; }
  std::byte* initial(size_t value) const { return results(value) + kPitch; }
  std::byte* accumulators(size_t value) const { return results(value) + 2 * kPitch; }

 private:
  static constexpr size_t kPitch = static_cast<size_t>(block_bytes(8));
  static size_t own_bytes(const Plan& plan) {
    return plan.has_short_rows ? 2 * kPitch + 8 * kShortRowLanes : 3 * kPitch;
  }
  std::byte* base_;
  std::byte* fold_;
  std::byte* own_;
  size_t pitch_;
};

void split_dimensions(const Reduce& reduce, Plan& plan) {
  const auto rank = static_cast<int32_t>(plan.extents.size());
  std::array<bool, kMaxRank> is_reduced{};
  for (const int32_t dimension : reduce.reduced) is_reduced[static_cast<size_t>(dimension)] = true;
  plan.order.clear();
  plan.kept_order.clear();
  plan.outputs = plan.elements = 1;
  for (int32_t i = 0; i < rank; ++i) {
    const int64_t extent = plan.extents[static_cast<size_t>(i)];
    (is_reduced[static_cast<size_t>(i)] ? plan.order : plan.kept_order).push_back(i);
    (is_reduced[static_cast<size_t>(i)] ? plan.elements : plan.outputs) *= extent;
  }
  plan.is_innermost_reduced = rank > 0 && is_reduced[static_cast<size_t>(rank - 1)];
  plan.has_short_rows =
      plan.is_innermost_reduced && plan.elements <= kShortRow && plan.outputs >= kShortRow;
  // Positions count elements of an output after each other, or outputs of an element.
  const bool is_by_rows = plan.is_innermost_reduced && !plan.has_short_rows;
  const auto place = is_by_rows ? plan.order.begin() : plan.order.end();
  plan.order.insert(place, plan.kept_order.begin(), plan.kept_order.end());
}

void prepare_values(const Reduce& reduce, Core& core, Plan& plan) {
  // Along reduced dimensions outputs do not move.
  std::array<int64_t, kMaxRank> kept_extents;
  std::copy(plan.extents.begin(), plan.extents.end(), kept_extents.begin());
  for (const int32_t dimension : reduce.reduced) kept_extents[static_cast<size_t>(dimension)] = 1;
  const std::span<const int64_t> kept(kept_extents.data(), plan.extents.size());
  plan.values.clear();
  for (size_t i = 0; i < reduce.values.size(); ++i) {
    const Operand& output = reduce.outputs[i];
    Plan::Value& value = plan.values.emplace_back();
    value.number = reduce.values[i];
    value.type = type_of_value(reduce, value.number);
    value.lane = lane_bytes(value.type);
    value.destination = elements_of(core, output, kept);
    value.walk.set(kept, output.strides, plan.kept_order);
    value.initial = nullptr;
    if (reduce.initial.empty()) continue;
    value.initial = elements_of(core, reduce.initial[i], kept);
    value.initial_walk.set(kept, reduce.initial[i].strides, plan.kept_order);
  }
}

// Up to kFoldValues pointers, one for each value.
using Pointers = std::array<void*, kFoldValues>;

Pointers pointers_to(const Plan& plan, auto pointer_of) {
  Pointers pointers{};
  for (size_t i = 0; i < plan.values.size(); ++i) pointers[i] = pointer_of(i);
  return pointers;
}

// The values of the block, from lane `first` on.
std::array<const void*, kFoldValues> values_from(const Plan& plan, const Lanes& lanes,
                                                 int64_t first) {
  std::array<const void*, kFoldValues> pointers{};
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
    value.initial_walk.visit_runs(begin, n, [&](int64_t offset, int64_t stride, int64_t count) {
      load(value.initial + offset * bytes_of(type), stride, out, count);
      out += count * value.lane;
    });
  }
  const bool has_initial = !plan.reduce->initial.empty();
  if (has_initial && plan.elements > 0) {
    const Pointers left = pointers_to(plan, [&](size_t i) { return lanes.initial(i); });
    std::array<const void*, kFoldValues> right{};
    for (size_t i = 0; i < plan.values.size(); ++i) right[i] = lanes.results(i);
    plan.fold.combine(lanes.fold(), left.data(), right.data(), n);
  }
  for (size_t i = 0; i < plan.values.size(); ++i) {
    const Plan::Value& value = plan.values[i];
    std::byte* source = has_initial ? lanes.initial(i) : lanes.results(i);
    if (is_float(value.type)) round_lanes(value.type)(reinterpret_cast<float*>(source), n);
    if (begin == 0 && i == 0 && plan.fold.is_faulty(*plan.core)) {
      inject_fault(source, value.type);
      plan.core->injection->done = true;
    }
    const ElementType type = plan.reduce->outputs[i].type;
    const StoreLanes store = store_lanes(type);
    value.walk.visit_runs(begin, n, [&](int64_t offset, int64_t stride, int64_t count) {
      store(source, value.destination + offset * bytes_of(type), stride, count);
      source += count * value.lane;
    });
  }
}

// Elements of one output lie after each other: rows of `elements`.
void reduce_rows(const Plan& plan, const Lanes& lanes, int64_t begin, int64_t end) {
  const int64_t row = plan.elements;
  const Pointers accumulators = pointers_to(plan, [&](size_t i) { return lanes.accumulators(i); });
  const auto keep_result = [&](int64_t output) {
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
        plan.fold.start(accumulators.data());
        const int64_t place = (first + output) * row * bytes_of(plan.rows.type);
        plan.fold.take_elements(accumulators.data(), plan.rows.data + place, row);
        plan.fold.finish(lanes.fold(), accumulators.data(), row);
        keep_result(output);
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
          plan.fold.start(accumulators.data());
          const auto values = values_from(plan, lanes, i * row);
          plan.fold.take(lanes.fold(), accumulators.data(), values.data(), 0, row);
          plan.fold.finish(lanes.fold(), accumulators.data(), row);
          keep_result(output + i);
        }
        continue;
      }
      plan.fold.start(accumulators.data());
      for (int64_t k = 0; k < row; k += kBlockLanes) {
        const int64_t n = std::min(kBlockLanes, row - k);
        plan.blocks.compute(lanes.blocks(), (first + output) * row + k, n);
        plan.fold.take(lanes.fold(), accumulators.data(), values_from(plan, lanes, 0).data(), k, n);
      }
      plan.fold.finish(lanes.fold(), accumulators.data(), row);
      keep_result(output);
    }
    finish(plan, lanes, first, outputs);
  }
}

// As `reduce_rows`, for rows that need no more accumulators than they have elements: those of many
// rows lie beside each other, and one tree serves all of them.
void reduce_short_rows(const Plan& plan, const Lanes& lanes, int64_t begin, int64_t end) {
  const int64_t most = std::min(kBlockLanes, kShortRowLanes / plan.elements);
  for (int64_t first = begin; first < end; first += most) {
    const int64_t outputs = std::min(most, end - first);
    const auto accumulators = [&](int64_t k) {
      return pointers_to(plan, [&](size_t i) {
        return lanes.accumulators(i) + k * outputs * plan.values[i].lane;
      });
    };
    for (int64_t k = 0; k < plan.elements; ++k) {
      plan.blocks.compute(lanes.blocks(), k * plan.outputs + first, outputs);
      plan.fold.copy(accumulators(k).data(), values_from(plan, lanes, 0).data(), outputs);
    }
    int64_t used = plan.elements;
    for (int64_t half = kShortRow / 2; half > 0; half /= 2) {
      for (int64_t k = 0; k + half < used && k < half; ++k) {
        const Pointers right = accumulators(k + half);
        plan.fold.combine(lanes.fold(), accumulators(k).data(), right.data(), outputs);
      }
      used = std::min(used, half);
    }
    const Pointers left = accumulators(0);
    plan.fold.copy(pointers_to(plan, [&](size_t i) { return lanes.results(i); }).data(),
                   left.data(), outputs);
    finish(plan, lanes, first, outputs);
  }
}

// Outputs lie beside each other: lane by lane, `elements` times.
void reduce_columns(const Plan& plan, const Lanes& lanes, int64_t begin, int64_t end) {
  const Pointers results = pointers_to(plan, [&](size_t i) { return lanes.results(i); });
  const bool is_whole = begin == 0 && end == plan.outputs;
  for (int64_t first = begin; first < end; first += kBlockLanes) {
    const int64_t outputs = std::min(kBlockLanes, end - first);
    // A few outputs make short blocks, unless several rounds share one.
    const int64_t rounds_at_once =
        is_whole && outputs == plan.outputs ? std::max<int64_t>(1, kBlockLanes / outputs) : 1;
    for (int64_t k = 0; k < plan.elements; k += rounds_at_once) {
      const int64_t rounds = std::min(rounds_at_once, plan.elements - k);
      plan.blocks.compute(lanes.blocks(), k * plan.outputs + first, rounds * outputs);
      for (int64_t i = 0; i < rounds; ++i) {
        const auto values = values_from(plan, lanes, i * outputs);
        if (k + i == 0) {
          plan.fold.copy(results.data(), values.data(), outputs);
        } else {
          plan.fold.combine(lanes.fold(), results.data(), values.data(), outputs);
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
  plan.fold.prepare(reduce);
  plan.rows = {};
  if (plan.elements == 0 || !plan.is_innermost_reduced || plan.has_short_rows) return;
  const ValueBlocks::Elements rows = plan.blocks.elements(reduce.values[0]);
  if (rows.data != nullptr && plan.fold.can_take_elements(rows.type)) plan.rows = rows;
}

}  // namespace

void execute(const Reduce& reduce, Core& core) {
  thread_local PreparedPlans<Plan, Lasts::kProgram> plans;
  // Extents of lookups may change too.
  const auto [plan, is_prepared] = plans.find(
      &reduce, core, reduce.extents, has_moving_operands(reduce) || !reduce.lookups.empty());
  if (!is_prepared) {
    prepare(reduce, core, plan);
    plans.keep(&reduce, core);
  }
  if (plan.outputs == 0) return;
  const int64_t points = plan.outputs * plan.elements;
  if (points < 2 * kThreadLanes || !reduce.lookups.empty()) return run(plan, 0, plan.outputs);
  // Columns are split only where blocks stay full.
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
