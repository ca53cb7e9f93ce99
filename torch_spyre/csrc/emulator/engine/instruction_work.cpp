#include "emulator/engine/instruction_work.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "emulator/engine/value_blocks.h"

namespace spyre::emulator::engine {
namespace {

int64_t padded(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

int64_t ceil_log2(int64_t value) {
  return value <= 1 ? 0 : std::bit_width(static_cast<uint64_t>(value - 1));
}

void check_overflow(bool overflows) {
  if (overflows) throw KernelError("a kernel does more than can be counted");
}

int64_t widest_value_bytes(const ChainBody& chain) {
  const auto values = static_cast<int32_t>(chain.inputs.size() + chain.steps.size());
  int64_t widest = 0;
  for (int32_t i = 0; i < values; ++i) {
    widest = std::max<int64_t>(widest, bytes_of(type_of_value(chain, i)));
  }
  return widest;
}

CoreCounts work_of_body(const ChainBody& chain, std::span<const int64_t> extents,
                        VectorLanes lanes) {
  CoreCounts counts;
  counts.executions = 1;
  counts.elements = count_of(extents);
  counts.lanes = padded(counts.elements, lanes.for_bytes(widest_value_bytes(chain)));
  for (const Input& input : chain.inputs) {
    if (input.kind != InputKind::kOperand) continue;
    counts.scratchpad_bytes += operand_bytes(input.operand, extents);
  }
  for (const ChainStep& step : chain.steps) {
    if (step.lookup >= 0) counts.scratchpad_bytes += counts.elements * bytes_of(step.result);
  }
  return counts;
}

}  // namespace

void CoreCounts::add(const CoreCounts& execution, int64_t times) {
  for (const Counter& counter : kCounters) {
    int64_t product = 0;
    int64_t& sum = this->*counter.of_core;
    check_overflow(__builtin_mul_overflow(execution.*counter.of_core, times, &product) ||
                   __builtin_add_overflow(sum, product, &sum));
  }
  largest_matmul = std::max(largest_matmul, execution.largest_matmul);
}

void add_core(InstructionCounts& all, const CoreCounts& core) {
  ++all.cores;
  for (const Counter& counter : kCounters) {
    Count& count = all.*counter.of_all;
    const int64_t amount = core.*counter.of_core;
    check_overflow(__builtin_add_overflow(count.total, amount, &count.total));
    count.busiest = std::max(count.busiest, amount);
  }
  all.largest_matmul = std::max(all.largest_matmul, core.largest_matmul);
}

int64_t operand_bytes(const Operand& operand, std::span<const int64_t> extents) {
  int64_t elements = 1;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (operand.strides[i] != 0 || extents[i] == 0) elements *= extents[i];
  }
  return elements * bytes_of(operand.type);
}

CoreCounts work_of(const Chain& chain, const Core& core, VectorLanes lanes) {
  const std::vector<int64_t> extents = extents_of(core, chain.extents);
  CoreCounts counts = work_of_body(chain, extents, lanes);
  for (const ChainOutput& output : chain.outputs) {
    counts.scratchpad_bytes += operand_bytes(output.operand, extents);
  }
  return counts;
}

CoreCounts work_of(const Reduce& reduce, const Core& core, VectorLanes lanes) {
  const std::vector<int64_t> extents = extents_of(core, reduce.extents);
  CoreCounts counts = work_of_body(reduce, extents, lanes);
  std::vector<int64_t> result_extents = extents;
  bool is_innermost_reduced = false;
  for (const int32_t dimension : reduce.reduced) {
    result_extents[static_cast<size_t>(dimension)] = 1;
    is_innermost_reduced |= static_cast<size_t>(dimension) + 1 == extents.size();
  }
  for (const auto* operands : {&reduce.initial, &reduce.outputs}) {
    for (const Operand& operand : *operands) {
      counts.scratchpad_bytes += operand_bytes(operand, result_extents);
    }
  }
  if (!is_innermost_reduced || counts.elements == 0) return counts;
  // Results narrower than 16 bits are reduced in 16 bits.
  const int64_t elements = kBytesInStick / (bytes_of(reduce.outputs[0].type) > 2 ? 4 : 2);
  counts.reduced_sticks = padded(count_of(result_extents), elements) / elements;
  return counts;
}

CoreCounts work_of(const Copy& copy, const Core& core, VectorLanes lanes) {
  const std::vector<int64_t> extents = extents_of(core, copy.extents);
  CoreCounts counts;
  counts.executions = 1;
  counts.elements = count_of(extents);
  counts.lanes = padded(counts.elements, lanes.for_bytes(bytes_of(copy.source.type)));
  counts.scratchpad_bytes =
      operand_bytes(copy.source, extents) + operand_bytes(copy.destination, extents);
  return counts;
}

// The network is bitonic. It sorts blocks of as many elements as are kept, rounded up to a power of
// two, from the runs that are sorted already. Then, while there are several blocks, a stage drops
// the larger elements of each pair of blocks, and the stages of a merge sort the others.
CoreCounts work_of(const Sort& sort, const Core& core, VectorLanes lanes) {
  std::vector<int64_t> extents = extents_of(core, sort.extents);
  const int64_t length = extents.back(), kept = core.integer(sort.kept);
  CoreCounts counts;
  counts.executions = 1;
  counts.elements = count_of(extents);
  if (counts.elements == 0 || kept <= 0) return counts;
  const int64_t rows = counts.elements / length;
  const int64_t unit =
      lanes.for_bytes(std::max<int64_t>(bytes_of(sort.keys.type), bytes_of(sort.indices.type)));
  const int64_t block_log = ceil_log2(kept);
  const int64_t run_log = std::min(ceil_log2(sort.run), block_log);
  for (int64_t log = run_log + 1; log <= block_log; ++log) {
    counts.exchanges += log * padded(counts.elements, unit);
  }
  const int64_t block = int64_t{1} << block_log;
  for (int64_t blocks = (length + block - 1) / block; blocks > 1;) {
    const int64_t remaining = (blocks + 1) / 2;
    counts.exchanges += padded(rows * std::min(length, blocks * block), unit);
    counts.exchanges += block_log * padded(rows * std::min(length, remaining * block), unit);
    blocks = remaining;
  }
  // Every stage reads and writes its elements.
  counts.scratchpad_bytes =
      2 * counts.exchanges * (bytes_of(sort.keys.type) + bytes_of(sort.indices.type));
  counts.lanes = padded(counts.elements, unit);
  return counts;
}

CoreCounts work_of(const Literal& literal, const Core&, VectorLanes) {
  CoreCounts counts;
  counts.executions = 1;
  counts.scratchpad_bytes =
      static_cast<int64_t>(literal.values.size()) * bytes_of(literal.destination.type);
  return counts;
}

CoreCounts work_of(const Indexed& indexed, const Core& core, VectorLanes lanes) {
  const std::vector<int64_t> extents = extents_of(core, indexed.extents);
  const int64_t table_bytes = bytes_of(indexed.table.type);
  CoreCounts counts;
  counts.executions = 1;
  counts.elements = count_of(extents);
  counts.lanes = padded(counts.elements, lanes.for_bytes(table_bytes));
  // Every point may access the table; to combine, it reads and writes an element.
  const int64_t accesses = indexed.combine ? 2 : 1;
  counts.scratchpad_bytes = operand_bytes(indexed.index, extents) +
                            operand_bytes(indexed.tile, extents) +
                            counts.elements * accesses * table_bytes;
  return counts;
}

CoreCounts work_of(const Matmul& matmul, const Core& core, VectorLanes) {
  const std::array<Register, 4> sources{matmul.batch, matmul.rows, matmul.columns, matmul.inner};
  const std::vector<int64_t> sizes = extents_of(core, sources);
  const int64_t batch = sizes[0], rows = sizes[1], columns = sizes[2], inner = sizes[3];
  CoreCounts counts;
  counts.executions = 1;
  counts.macs = count_of(sizes);
  counts.largest_matmul = {batch, rows, columns, inner};
  counts.scratchpad_bytes = operand_bytes(matmul.a, std::array{batch, rows, inner}) +
                            operand_bytes(matmul.b, std::array{batch, inner, columns}) +
                            operand_bytes(matmul.output, std::array{batch, rows, columns});
  if (matmul.has_initial) {
    counts.scratchpad_bytes += operand_bytes(matmul.initial, std::array{batch, rows, columns});
  }
  return counts;
}

CoreCounts work_of(const Receive& receive, const Core& core, VectorLanes) {
  const std::vector<int64_t> extents = extents_of(core, receive.extents);
  CoreCounts counts;
  counts.executions = 1;
  counts.scratchpad_bytes = operand_bytes(receive.destination, extents);
  return counts;
}

CoreCounts work_of(const Publish&, const Core&, VectorLanes) { return {.executions = 1}; }

CoreCounts work_of(const Delivered&, const Core&, VectorLanes) { return {.executions = 1}; }

}  // namespace spyre::emulator::engine
