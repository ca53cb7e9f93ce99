// Counts the work of the vector unit, the matrix unit and transfers between cores.
#include <algorithm>

#include "emulator/engine/recorder.h"

namespace spyre::emulator::engine {

void Recorder::add(size_t at, const CoreCounts& execution) {
  counts_[at].add(execution, multiplier_);
  ++executions_[at];
  const bool is_approximated =
      std::ranges::any_of(levels_, [](const Level& level) { return !level.is_exact; });
  if (uncertain_nesting_ > 0 || is_approximated) limit_exactness(at, Exactness::kEstimate);
}

void Recorder::add_unshared(size_t at, int64_t bytes) {
  CoreCounts sum;
  sum.add({.device_bytes = bytes}, multiplier_);
  result_.instructions[at].distinct_device_bytes += sum.device_bytes;
  result_.instructions[at].unique_device_bytes += sum.device_bytes;
}

void Recorder::limit_exactness(size_t at, Exactness exactness) {
  Exactness& known = result_.instructions[at].exactness;
  known = std::max(known, exactness);
}

bool Recorder::are_known(std::span<const Register> sources) const {
  return std::ranges::all_of(
      sources, [this](Register source) { return is_known_[static_cast<size_t>(source)]; });
}

void Recorder::check_extents(size_t at, std::span<const Register> sources) {
  if (are_known(sources)) return;
  result_.is_data_dependent = true;
  limit_exactness(at, Exactness::kEstimate);
}

std::vector<int64_t> Recorder::extents(size_t at, std::span<const Register> sources) {
  check_extents(at, sources);
  return extents_of(core_, sources);
}

void Recorder::visit(size_t at, const Chain& chain) {
  check_extents(at, chain.extents);
  add(at, work_of(chain, core_, lanes_));
}

void Recorder::visit(size_t at, const Reduce& reduce) {
  check_extents(at, reduce.extents);
  add(at, work_of(reduce, core_, lanes_));
}

void Recorder::visit(size_t at, const Copy& copy) {
  check_extents(at, copy.extents);
  add(at, work_of(copy, core_, lanes_));
}

void Recorder::visit(size_t at, const Sort& sort) {
  check_extents(at, sort.extents);
  check_extents(at, std::array{sort.kept});
  add(at, work_of(sort, core_, lanes_));
}

void Recorder::visit(size_t at, const Indexed& indexed) {
  check_extents(at, indexed.extents);
  add(at, work_of(indexed, core_, lanes_));
}

void Recorder::visit(size_t at, const Matmul& matmul) {
  check_extents(at, std::array{matmul.batch, matmul.rows, matmul.columns, matmul.inner});
  add(at, work_of(matmul, core_, lanes_));
}

void Recorder::visit(size_t at, const Receive& receive) {
  const std::vector<int64_t> space = extents(at, receive.extents);
  CoreCounts execution = work_of(receive, core_, lanes_);
  execution.remote_bytes =
      remote_bytes(at, receive.producer, count_of(space) * bytes_of(receive.destination.type));
  add(at, execution);
}

int64_t Recorder::remote_bytes(size_t at, Register core, int64_t bytes) {
  if (core == kNoRegister) return 0;
  const ScalarValue remote = value_of(core);
  if (!remote.is_known) limit_exactness(at, Exactness::kUpperBound);
  return remote.is_known && remote.value == core_.id ? 0 : bytes;
}

}  // namespace spyre::emulator::engine
