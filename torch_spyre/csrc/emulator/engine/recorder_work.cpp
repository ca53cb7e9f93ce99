// Counts the work of the vector unit, the matrix unit and transfers between cores.
#include <algorithm>
#include <string>

#include "emulator/engine/recorder.h"
#include "emulator/engine/value_blocks.h"

namespace spyre::emulator::engine {
namespace {

int64_t padded(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

int64_t widest_value_bytes(const ChainBody& chain) {
  const auto values = static_cast<int32_t>(chain.inputs.size() + chain.steps.size());
  int64_t widest = 0;
  for (int32_t i = 0; i < values; ++i) {
    widest = std::max<int64_t>(widest, bytes_of(type_of_value(chain, i)));
  }
  return widest;
}

}  // namespace

CoreCounts& Recorder::count_execution(size_t at) {
  ++visits_[at];
  add_for_all_trips(counts_[at].executions, 1);
  return counts_[at];
}

void Recorder::add_for_all_trips(int64_t& counter, int64_t amount) const {
  int64_t product = 0;
  if (__builtin_mul_overflow(amount, multiplier_, &product) ||
      __builtin_add_overflow(counter, product, &counter)) {
    throw KernelError("a kernel does more than can be counted");
  }
}

std::vector<int64_t> Recorder::extents(std::span<const Register> sources) {
  for (const Register source : sources) {
    if (!is_known_[static_cast<size_t>(source)]) result_.is_data_dependent = true;
  }
  return extents_of(core_, sources);
}

// --- Vector unit ---------------------------------------------------------------------------------

void Recorder::count_vectors(CoreCounts& counts, const ChainBody& chain, int64_t points) {
  add_for_all_trips(counts.elements, points);
  add_for_all_trips(counts.lanes, padded(points, lanes_.for_bytes(widest_value_bytes(chain))));
}

// Counts each element once, even if several points use it.
void Recorder::count_operand(CoreCounts& counts, const Operand& operand,
                             std::span<const int64_t> extents) {
  int64_t elements = 1;
  for (size_t i = 0; i < extents.size(); ++i) {
    if (operand.strides[i] != 0 || extents[i] == 0) elements *= extents[i];
  }
  add_for_all_trips(counts.scratchpad_bytes, elements * bytes_of(operand.type));
}

void Recorder::count_inputs(CoreCounts& counts, const ChainBody& chain,
                            std::span<const int64_t> extents) {
  for (const Input& input : chain.inputs) {
    if (input.kind == InputKind::kOperand) count_operand(counts, input.operand, extents);
  }
  for (const ChainStep& step : chain.steps) {
    if (step.lookup >= 0)
      add_for_all_trips(counts.scratchpad_bytes, count_of(extents) * bytes_of(step.result));
  }
}

void Recorder::visit(size_t at, const Chain& chain) {
  CoreCounts& counts = count_execution(at);
  const std::vector<int64_t> space = extents(chain.extents);
  count_vectors(counts, chain, count_of(space));
  count_inputs(counts, chain, space);
  for (const ChainOutput& output : chain.outputs) count_operand(counts, output.operand, space);
}

void Recorder::visit(size_t at, const Reduce& reduce) {
  CoreCounts& counts = count_execution(at);
  const std::vector<int64_t> space = extents(reduce.extents);
  count_vectors(counts, reduce, count_of(space));
  count_inputs(counts, reduce, space);
  std::vector<int64_t> result_space = space;
  bool is_innermost_reduced = false;
  for (const int32_t dimension : reduce.reduced) {
    result_space[static_cast<size_t>(dimension)] = 1;
    is_innermost_reduced |= static_cast<size_t>(dimension) + 1 == space.size();
  }
  for (const auto* operands : {&reduce.initial, &reduce.outputs}) {
    for (const Operand& operand : *operands) count_operand(counts, operand, result_space);
  }
  if (!is_innermost_reduced || count_of(space) == 0) return;
  // Results narrower than 16 bits are reduced in 16 bits.
  const int64_t elements = kBytesInStick / (bytes_of(reduce.outputs[0].type) > 2 ? 4 : 2);
  add_for_all_trips(counts.reduced_sticks, padded(count_of(result_space), elements) / elements);
}

void Recorder::visit(size_t at, const Copy& copy) {
  CoreCounts& counts = count_execution(at);
  const std::vector<int64_t> space = extents(copy.extents);
  const int64_t points = count_of(space);
  add_for_all_trips(counts.elements, points);
  add_for_all_trips(counts.lanes, padded(points, lanes_.for_bytes(bytes_of(copy.source.type))));
  count_operand(counts, copy.source, space);
  count_operand(counts, copy.destination, space);
}

void Recorder::visit(size_t at, const Literal& literal) {
  const auto count = static_cast<int64_t>(literal.values.size());
  add_for_all_trips(count_execution(at).scratchpad_bytes,
                    count * bytes_of(literal.destination.type));
}

// --- Matrix unit ---------------------------------------------------------------------------------

void Recorder::visit(size_t at, const Matmul& matmul) {
  CoreCounts& counts = count_execution(at);
  const std::array<Register, 4> sources{matmul.batch, matmul.rows, matmul.columns, matmul.inner};
  const std::vector<int64_t> sizes = extents(sources);
  const int64_t batch = sizes[0], rows = sizes[1], columns = sizes[2], inner = sizes[3];
  const int64_t macs = count_of(sizes);
  add_for_all_trips(counts.macs, macs);
  count_operand(counts, matmul.a, std::array{batch, rows, inner});
  count_operand(counts, matmul.b, std::array{batch, inner, columns});
  if (matmul.has_initial) {
    count_operand(counts, matmul.initial, std::array{batch, rows, columns});
  }
  count_operand(counts, matmul.output, std::array{batch, rows, columns});
  InstructionCounts& all = result_.instructions[at];
  if (macs < all.batch * all.rows * all.columns * all.inner) return;
  all.batch = batch;
  all.rows = rows;
  all.columns = columns;
  all.inner = inner;
}

// --- Other cores ---------------------------------------------------------------------------------

void Recorder::visit(size_t at, const Receive& receive) {
  CoreCounts& counts = count_execution(at);
  const std::vector<int64_t> space = extents(receive.extents);
  count_operand(counts, receive.destination, space);
  count_remote(counts, receive.producer, count_of(space) * bytes_of(receive.destination.type));
}

void Recorder::count_remote(CoreCounts& counts, Register core, int64_t bytes) {
  if (core == kNoRegister) return;
  const ScalarValue remote = value_of(core);
  if (!remote.is_known || remote.value != core_.id) add_for_all_trips(counts.remote_bytes, bytes);
}

}  // namespace spyre::emulator::engine
