// What a program does, as plain data for the clock. See emulator/engine/record.h and
// torch_spyre/timing/from_counts.py.
#include <pybind11/stl.h>

#include <algorithm>

#include "emulator/engine/program_limits.h"
#include "emulator/engine/record.h"
#include "torch/bindings.h"

namespace py = pybind11;

namespace spyre {

namespace {

using namespace emulator::engine;

py::tuple pair(const Count& count) { return py::make_tuple(count.total, count.busiest); }

const char* cost_of(VectorOp op) {
  switch (vector_op_info(op)->cost) {
    case VectorOpInfo::Kind::kDivide:
      return "divide";
    case VectorOpInfo::Kind::kTranscendental:
      return "transcendental";
    case VectorOpInfo::Kind::kSimple:
      break;
  }
  return "simple";
}

py::tuple work(const char* cost, ElementType one, ElementType other) {
  return py::make_tuple(cost, std::max(bytes_of(one), bytes_of(other)));
}

void add_steps(py::list& all, const std::vector<ChainStep>& steps) {
  for (const ChainStep& step : steps) {
    // An element fetched by its index passes through the unit once, as a copy does.
    const char* const cost = step.lookup >= 0 ? "copy" : cost_of(step.op);
    all.append(work(cost, step.lookup >= 0 ? step.result : step.operand, step.result));
  }
}

// Which vector instructions an instruction consists of.
struct VectorWork {
  py::list operator()(const Chain& chain) const {
    py::list all;
    add_steps(all, chain.steps);
    if (chain.steps.empty()) {
      for (const ChainOutput& output : chain.outputs) {
        all.append(work("copy", output.operand.type, output.operand.type));
      }
    }
    return all;
  }
  py::list operator()(const Reduce& reduce) const {
    py::list all;
    add_steps(all, reduce.chain.steps);
    if (reduce.named) {
      all.append(work("reduce", reduce.outputs[0].type, reduce.outputs[0].type));
      return all;
    }
    for (const ChainStep& step : reduce.combiner)
      all.append(work("reduce", step.operand, step.result));
    return all;
  }
  py::list operator()(const Copy& copy) const {
    py::list all;
    all.append(work("copy", copy.source.type, copy.source.type));
    return all;
  }
  template <typename Other>
  py::list operator()(const Other&) const {
    return {};
  }
};

bool is_store(const Action& action) {
  if (const auto* transfer = std::get_if<Transfer>(&action)) return transfer->store;
  if (const auto* transfer = std::get_if<IndirectTransfer>(&action)) return transfer->store;
  return false;
}

py::object delivery(const Action& action) {
  constexpr const char* kKinds[] = {"consume", "reduce",     "reduce_scatter",
                                    "gather",  "all_to_all", "scatter"};
  const auto* delivered = std::get_if<Delivered>(&action);
  if (delivered == nullptr) return py::none();
  py::dict facts;
  facts["kind"] = kKinds[delivered->kind];
  facts["cores"] = delivered->cores;
  facts["tile_bytes"] = delivered->tile_bytes;
  return facts;
}

py::dict as_dict(const Program& program, size_t index, const InstructionCounts& counts) {
  const Instruction& instruction = program.code[index];
  const auto* product = std::get_if<MatrixProduct>(&instruction.action);
  py::dict facts;
  facts["index"] = index;
  facts["op"] = program.places[static_cast<size_t>(instruction.place)].op;
  facts["cores"] = counts.cores;
  facts["executions"] = pair(counts.executions);
  facts["elements"] = pair(counts.elements);
  facts["lanes"] = pair(counts.lanes);
  facts["reduced_sticks"] = pair(counts.reduced_sticks);
  facts["macs"] = pair(counts.macs);
  facts["batch"] = counts.batch;
  facts["rows"] = counts.rows;
  facts["columns"] = counts.columns;
  facts["scratchpad_bytes"] = pair(counts.scratchpad_bytes);
  // What is received is accounted for where it is delivered.
  const bool is_received = std::holds_alternative<Receive>(instruction.action);
  facts["remote_bytes"] = pair(is_received ? Count{} : counts.remote_bytes);
  facts["device_bytes"] = pair(counts.device_bytes);
  facts["distinct_device_bytes"] = counts.distinct_device_bytes;
  facts["device_runs"] = counts.device_runs;
  facts["index_bytes"] = pair(counts.index_bytes);
  facts["index_runs"] = counts.index_runs;
  facts["store"] = is_store(instruction.action);
  facts["vector_work"] = std::visit(VectorWork{}, instruction.action);
  facts["matrix_type"] = product == nullptr ? "" : name_of(product->a.type);
  facts["delivery"] = delivery(instruction.action);
  return facts;
}

py::dict as_dict(const Program& program, const Recording& recording) {
  py::list instructions;
  for (size_t i = 0; i < program.code.size(); ++i) {
    const InstructionCounts& counts = recording.instructions[i];
    if (counts.executions.total > 0) instructions.append(as_dict(program, i, counts));
  }
  py::dict facts;
  facts["name"] = program.name;
  facts["scratchpad_bytes"] = program.scratchpad_bytes;
  facts["data_dependent"] = recording.is_data_dependent;
  facts["conflict"] = recording.has_conflict;
  facts["instructions"] = instructions;
  return facts;
}

// Arrays with equal numbers in `memories` are in the same memory, from the same address on.
std::vector<ArrayPlace> places_of(const Program& program, const std::vector<int64_t>& array_bytes,
                                  const std::vector<int64_t>& memories) {
  std::vector<ArrayPlace> places = place_arrays(program, array_bytes);
  if (memories.empty()) return places;
  TORCH_CHECK_VALUE(memories.size() == places.size(), "record_program: there are ", places.size(),
                    " arrays and the memories of ", memories.size());
  for (size_t i = 0; i < places.size(); ++i) {
    const auto first = std::find(memories.begin(), memories.end(), memories[i]) - memories.begin();
    places[i].address = places[static_cast<size_t>(first)].address;
  }
  return places;
}

py::dict record_program(const py::bytes& file, const std::vector<int64_t>& array_bytes,
                        const std::vector<int64_t>& scalars, const std::vector<int64_t>& memories) {
  const std::string_view data = file;
  Program program;
  Recording recording;
  try {
    const py::gil_scoped_release unlocked;
    program = read_program(std::as_bytes(std::span(data)), kHighestAddress);
    std::vector<uint64_t> bits;
    for (const int64_t scalar : scalars) bits.push_back(static_cast<uint64_t>(scalar));
    recording = record(program, places_of(program, array_bytes, memories), bits);
  } catch (const ProgramError& error) {
    TORCH_CHECK_VALUE(false, error.what());
  } catch (const flex::KernelError& error) {
    TORCH_CHECK(false, "kernel ", program.name, ": ", error.what());
  }
  return as_dict(program, recording);
}

}  // namespace

void bind_recorder(py::module_& module) {
  module.def("record_program", &record_program, py::arg("file"), py::arg("array_bytes"),
             py::arg("scalars"), py::arg("memories") = std::vector<int64_t>{},
             "What a program would do with arrays of these sizes (-1: no known end).");
}

}  // namespace spyre
