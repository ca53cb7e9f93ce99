#include "emulator/engine/value_blocks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "emulator/convert.h"
#include "emulator/engine/prefetch.h"
#include "emulator/stop.h"

namespace spyre::emulator::engine {
namespace {

constexpr std::align_val_t kLineAlignment{64};

struct AlignedDelete {
  void operator()(std::byte* bytes) const { ::operator delete[](bytes, kLineAlignment); }
};

template <typename Lane>
void fill(std::byte* lanes, const void* scalar, int64_t n) {
  Lane value;
  std::memcpy(&value, scalar, sizeof value);
  std::fill_n(reinterpret_cast<Lane*>(lanes), n, value);
}

template <typename Element>
void gather(const std::byte* source, const int64_t* positions, std::byte* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const auto element = static_cast<int64_t>(sizeof(Element));
    std::memcpy(out + i * element, source + positions[i] * element, sizeof(Element));
  }
}

bool is_named(const ChainStep& step, std::string_view name) {
  if (step.lookup >= 0) return false;
  const VectorOpInfo* const info = vector_op_info(step.op);
  return info != nullptr && info->name == name;
}

}  // namespace

std::byte* thread_lanes(int64_t bytes) {
  thread_local std::unique_ptr<std::byte[], AlignedDelete> lanes;
  thread_local int64_t size = 0;
  if (bytes > size) {
    lanes.reset();
    size = 0;
    lanes.reset(new (kLineAlignment) std::byte[static_cast<size_t>(bytes)]);
    size = bytes;
  }
  return lanes.get();
}

ElementType type_of_value(const ChainBody& chain, int32_t value) {
  const auto number = static_cast<size_t>(value);
  if (number >= chain.inputs.size()) return chain.steps[number - chain.inputs.size()].result;
  const Input& input = chain.inputs[number];
  switch (input.kind) {
    case InputKind::kOperand:
      return input.operand.type;
    case InputKind::kScalar:
      return input.type;
    case InputKind::kIndex:
      return ElementType::I64;
  }
  return ElementType::I64;
}

void inject_fault(void* lane, ElementType type) {
  if (is_float(type)) {
    float value;
    std::memcpy(&value, lane, sizeof value);
    const bool is_nonzero = value == value && value != 0;
    // The highest fraction bit exists in every format, and its flip is far more than rounding.
    const float faulty =
        is_nonzero ? std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ 0x00400000u) : 1.0f;
    std::memcpy(lane, &faulty, sizeof faulty);
    return;
  }
  // In every integer type, the lowest bit of the lane is the lowest bit of the value.
  *static_cast<unsigned char*>(lane) ^= 1;
}

void ValueBlocks::prepare(const ChainBody& chain, Core& core, std::span<const int64_t> extents,
                          std::span<const int32_t> order, std::span<const int32_t> retained) {
  chain_ = &chain;
  core_ = &core;
  extents_ = extents;
  order_ = order;
  bytes_ = 0;
  faulty_step_ = -1;
  operations_.clear();
  splats_.clear();
  traversals_.clear();
  tables_.clear();
  lookup_extents_.clear();
  sources_.clear();
  traversal_of_.assign(chain.inputs.size(), -1);
  for (auto& free_offsets : free_lane_offsets_) free_offsets.clear();

  find_last_uses(retained);
  add_splats();
  for (const Lookup& lookup : chain.lookups) add_table(lookup);
  // Lookups need the positions of the elements, and the elements.
  gather_offset_ = bytes_;
  if (!chain.lookups.empty()) bytes_ += 2 * block_bytes(8);
  for (size_t i = 0; i < chain.steps.size(); ++i) add_step(static_cast<int32_t>(i));
  for (const int32_t value : retained) make_available(value);
}

void ValueBlocks::find_last_uses(std::span<const int32_t> retained) {
  const size_t values = chain_->inputs.size() + chain_->steps.size();
  lane_offsets_.assign(values, -1);
  last_uses_.assign(values, -1);
  uses_.assign(values, 0);
  needs_all_lanes_.assign(values, false);
  for (size_t i = 0; i < chain_->steps.size(); ++i) {
    const ChainStep& step = chain_->steps[i];
    const int scalar = scalar_operand(step);
    for (size_t k = 0; k < step.inputs.size(); ++k) {
      const auto input = static_cast<size_t>(step.inputs[k]);
      last_uses_[input] = static_cast<int32_t>(i);
      ++uses_[input];
      if (static_cast<int>(k) != scalar) needs_all_lanes_[input] = true;
    }
  }
  for (const int32_t value : retained) {
    const auto index = static_cast<size_t>(value);
    last_uses_[index] = kNeverReleased;
    ++uses_[index];
    needs_all_lanes_[index] = true;
  }
}

// Returns whether the value is a scalar in all blocks or in many.
bool ValueBlocks::may_be_scalar(int32_t value) const {
  if (static_cast<size_t>(value) >= chain_->inputs.size()) return false;
  const Input& input = chain_->inputs[static_cast<size_t>(value)];
  if (input.kind != InputKind::kOperand) return input.kind == InputKind::kScalar;
  Traversal traversal;
  traversal.set(extents_, input.operand.strides, order_);
  return traversal.has_constant_runs();
}

// Returns the operand that is a scalar in the step's scalar form; -1: it has no such form.
int ValueBlocks::scalar_operand(const ChainStep& step) const {
  if (step.lookup >= 0 || step.inputs.size() != 2) return -1;
  if (vector_function_with_scalar(step.op, step.operand, step.result) == nullptr) return -1;
  if (may_be_scalar(step.inputs[1])) return 1;
  const bool commutes = step.op == VectorOp::ADDF || step.op == VectorOp::MULF;
  return commutes && may_be_scalar(step.inputs[0]) ? 0 : -1;
}

void ValueBlocks::add_splats() {
  for (size_t i = 0; i < chain_->inputs.size(); ++i) {
    const Input& input = chain_->inputs[i];
    if (input.kind != InputKind::kScalar) continue;
    last_uses_[i] = kNeverReleased;  // filled once, for all blocks
    lane_offsets_[i] = allocate_lanes(input.type);
    splats_.push_back({core_->lane(input.source), lane_bytes(input.type), lane_offsets_[i],
                       !needs_all_lanes_[i]});
  }
}

void ValueBlocks::add_table(const Lookup& lookup) {
  read_extents(*core_, lookup.extents, temporary_);
  tables_.push_back({lookup_extents_.size(), elements_of(*core_, lookup.operand, temporary_)});
  lookup_extents_.insert(lookup_extents_.end(), temporary_.begin(), temporary_.end());
}

int64_t ValueBlocks::allocate_lanes(ElementType type) {
  const int lane = lane_bytes(type);
  auto& free_offsets = free_lane_offsets_[lane == 8];
  if (free_offsets.empty()) {
    const int64_t offset = bytes_;
    bytes_ += block_bytes(lane);
    return offset;
  }
  const int64_t offset = free_offsets.back();
  free_offsets.pop_back();
  return offset;
}

void ValueBlocks::release_lanes_after(int32_t step, int32_t value) {
  int32_t& last_use = last_uses_[static_cast<size_t>(value)];
  if (last_use != step) return;
  last_use = kNeverReleased;  // release only once, even if a step uses a value twice
  const int lane = lane_bytes(type_of_value(*chain_, value));
  free_lane_offsets_[lane == 8].push_back(lane_offsets_[static_cast<size_t>(value)]);
}

// Operands are loaded before their first use, to minimise the lanes in use.
void ValueBlocks::make_available(int32_t value) {
  if (lane_offsets_[static_cast<size_t>(value)] < 0) add_load(value);
}

void ValueBlocks::add_load(int32_t value) {
  const Input& input = chain_->inputs[static_cast<size_t>(value)];
  const ElementType type = type_of_value(*chain_, value);
  const int64_t offset = allocate_lanes(type);
  lane_offsets_[static_cast<size_t>(value)] = offset;
  Operation& operation = operations_.emplace_back();
  operation.output = offset;
  operation.traversal = static_cast<int32_t>(traversals_.size());
  operation.needs_one_lane = !needs_all_lanes_[static_cast<size_t>(value)];
  traversal_of_[static_cast<size_t>(value)] = operation.traversal;
  Traversal& traversal = traversals_.emplace_back();
  if (input.kind == InputKind::kIndex) {
    operation.kind = Operation::Kind::kIndex;
    std::array<int64_t, kMaxRank> steps{};
    steps[static_cast<size_t>(input.dimension)] = 1;
    traversal.set(extents_, steps, order_);
    return;
  }
  operation.kind = Operation::Kind::kLoad;
  operation.load = load_lanes(type);
  operation.source = elements_of(*core_, input.operand, extents_);
  operation.element_bytes = bytes_of(type);
  traversal.set(extents_, input.operand.strides, order_);
}

void ValueBlocks::add_step(int32_t number) {
  const ChainStep& step = chain_->steps[static_cast<size_t>(number)];
  const auto result = static_cast<size_t>(number) + chain_->inputs.size();
  Operation operation{};
  operation.number = number;
  operation.form = memory_form(step);
  add_sources(step, operation);
  // The result may reuse the lanes of an input that has no later use.
  for (const int32_t input : step.inputs) {
    if (lane_offsets_[static_cast<size_t>(input)] >= 0) release_lanes_after(number, input);
  }
  operation.output = allocate_lanes(step.result);
  lane_offsets_[result] = operation.output;
  if (last_uses_[result] < 0) {
    last_uses_[result] = number;
    release_lanes_after(number, static_cast<int32_t>(result));
  }
  if (step.lookup >= 0) {
    const Operand& operand = chain_->lookups[static_cast<size_t>(step.lookup)].operand;
    operation.kind = Operation::Kind::kLookup;
    operation.number = step.lookup;
    operation.load = load_lanes(operand.type);
    operation.source = tables_[static_cast<size_t>(step.lookup)].source;
    operation.element_bytes = bytes_of(operand.type);
  } else {
    operation.kind = Operation::Kind::kStep;
    if (!choose_functions(step, operation)) {
      throw KernelError("the vector unit has no such instruction for " +
                        std::string(name_of(step.operand)) + " to " +
                        std::string(name_of(step.result)));
    }
    const Injection* const injection = core_->injection;
    if (injection != nullptr && !injection->done && faulty_step_ < 0 &&
        is_named(step, injection->op)) {
      faulty_step_ = number;
    }
  }
  operations_.push_back(operation);
}

void ValueBlocks::start(std::byte* lanes, int64_t max_points) const {
  for (const Splat& splat : splats_) {
    const int64_t n = splat.needs_one_lane ? 1 : std::min(max_points, kBlockLanes);
    if (splat.lane_bytes == 8) {
      fill<int64_t>(lanes + splat.output, splat.scalar, n);
    } else {
      fill<int32_t>(lanes + splat.output, splat.scalar, n);
    }
  }
}

void ValueBlocks::compute(std::byte* lanes, int64_t begin, int64_t n) const {
  thread_local StopPoll poll;
  poll();
  for (const Operation& operation : operations_) {
    prefetch_some();
    std::byte* out = lanes + operation.output;
    switch (operation.kind) {
      case Operation::Kind::kLoad: {
        const Traversal& traversal = traversals_[static_cast<size_t>(operation.traversal)];
        const bool loads_one_lane = operation.needs_one_lane && traversal.is_constant(begin, n);
        traversal.visit_runs(begin, loads_one_lane ? 1 : n,
                             [&](int64_t offset, int64_t stride, int64_t count) {
                               operation.load(operation.source + offset * operation.element_bytes,
                                              stride, out, count);
                               out += count * (operation.element_bytes == 8 ? 8 : 4);
                             });
        break;
      }
      case Operation::Kind::kIndex: {
        traversals_[static_cast<size_t>(operation.traversal)].visit_runs(
            begin, n, [&](int64_t offset, int64_t stride, int64_t count) {
              auto* const coordinates = reinterpret_cast<int64_t*>(out);
              for (int64_t i = 0; i < count; ++i) coordinates[i] = offset + i * stride;
              out += count * 8;
            });
        break;
      }
      case Operation::Kind::kStep: {
        std::array<const void*, 8> inputs;
        for (int32_t i = 0; i < operation.input_count; ++i) {
          const Source& source = sources_[static_cast<size_t>(operation.inputs + i)];
          inputs[static_cast<size_t>(i)] = source.memory == nullptr
                                               ? lanes + source.lane_offset
                                               : source.memory + begin * source.element_bytes;
        }
        const bool has_scalar =
            operation.with_scalar != nullptr &&
            (operation.traversal < 0 ||
             traversals_[static_cast<size_t>(operation.traversal)].is_constant(begin, n));
        if (operation.destination != nullptr) {
          out = operation.destination + begin * (operation.form.result ? 2 : 4);
        }
        (has_scalar ? operation.with_scalar : operation.function)(inputs.data(), out, n);
        if (begin == 0 && operation.number == faulty_step_) {
          const ChainStep& step = chain_->steps[static_cast<size_t>(operation.number)];
          inject_fault(out, step.result);
          core_->injection->done = true;
        }
        break;
      }
      case Operation::Kind::kLookup:
        run_lookup(lanes, operation, n);
        break;
    }
  }
}

void ValueBlocks::run_lookup(std::byte* lanes, const Operation& operation, int64_t n) const {
  const Lookup& lookup = chain_->lookups[static_cast<size_t>(operation.number)];
  const Table& table = tables_[static_cast<size_t>(operation.number)];
  auto* const positions = reinterpret_cast<int64_t*>(lanes + gather_offset_);
  std::byte* const elements = lanes + gather_offset_ + block_bytes(8);
  std::fill_n(positions, n, 0);
  for (size_t d = 0; d < static_cast<size_t>(operation.input_count); ++d) {
    const auto* const coordinates = reinterpret_cast<const int64_t*>(
        lanes + sources_[static_cast<size_t>(operation.inputs) + d].lane_offset);
    const int64_t extent = lookup_extents_[table.first + d];
    const int64_t stride = lookup.operand.strides[d];
    for (int64_t i = 0; i < n; ++i) {
      if (static_cast<uint64_t>(coordinates[i]) >= static_cast<uint64_t>(extent)) {
        throw KernelIndexError("index " + std::to_string(coordinates[i]) +
                               " is out of bounds for dimension " + std::to_string(d) +
                               " with size " + std::to_string(extent));
      }
      positions[i] += coordinates[i] * stride;
    }
  }
  switch (operation.element_bytes) {
    case 1:
      gather<uint8_t>(operation.source, positions, elements, n);
      break;
    case 2:
      gather<uint16_t>(operation.source, positions, elements, n);
      break;
    case 4:
      gather<uint32_t>(operation.source, positions, elements, n);
      break;
    default:
      gather<uint64_t>(operation.source, positions, elements, n);
  }
  operation.load(elements, 1, lanes + operation.output, n);
}

}  // namespace spyre::emulator::engine
