// Binds the recorder: returns the counts of a program to the timing model. See
// emulator/engine/record.h and torch_spyre/timing/from_counts.py.
#include <pybind11/stl.h>

#include <algorithm>

#include "emulator/engine/instruction_work.h"
#include "emulator/engine/program_limits.h"
#include "emulator/engine/record.h"
#include "torch/bindings.h"

namespace py = pybind11;

namespace spyre {

namespace {

using namespace emulator::engine;

py::tuple pair(const Count& count) { return py::make_tuple(count.total, count.busiest); }

py::dict as_dict(size_t index, const InstructionCounts& counts) {
  py::dict result;
  result["index"] = index;
  result["cores"] = counts.cores;
  result["executions"] = pair(counts.executions);
  result["elements"] = pair(counts.elements);
  result["lanes"] = pair(counts.lanes);
  result["reduced_sticks"] = pair(counts.reduced_sticks);
  result["macs"] = pair(counts.macs);
  result["exchanges"] = pair(counts.exchanges);
  result["batch"] = counts.largest_matmul.batch;
  result["rows"] = counts.largest_matmul.rows;
  result["columns"] = counts.largest_matmul.columns;
  result["inner"] = counts.largest_matmul.inner;
  result["scratchpad_bytes"] = pair(counts.scratchpad_bytes);
  result["remote_bytes"] = pair(counts.remote_bytes);
  result["device_bytes"] = pair(counts.device_bytes);
  result["distinct_device_bytes"] = counts.distinct_device_bytes;
  result["unique_device_bytes"] = counts.unique_device_bytes;
  result["device_runs"] = counts.device_runs.total;
  result["index_bytes"] = pair(counts.index_bytes);
  result["index_runs"] = counts.index_runs.total;
  return result;
}

using CountsByCore = std::vector<std::vector<CoreCounts>>;

// Returns the counts of an instruction by counter, a list with an entry per core.
py::dict by_core(size_t index, const CountsByCore& cores) {
  py::dict result;
  for (const Counter& counter : kCounters) {
    py::list amounts;
    for (const std::vector<CoreCounts>& counts : cores) {
      amounts.append(counts[index].*counter.of_core);
    }
    result[counter.name] = amounts;
  }
  return result;
}

// `cores`: empty if the counts of each core were not requested.
py::dict as_dict(const Recording& recording, const CountsByCore& cores) {
  py::list instructions;
  for (size_t i = 0; i < recording.instructions.size(); ++i) {
    const InstructionCounts& counts = recording.instructions[i];
    if (counts.executions.total == 0) continue;
    py::dict entry = as_dict(i, counts);
    if (!cores.empty()) entry["by_core"] = by_core(i, cores);
    instructions.append(entry);
  }
  py::dict result;
  result["data_dependent"] = recording.is_data_dependent;
  result["approximate"] = recording.is_approximate;
  result["conflict"] = recording.has_conflict;
  result["instructions"] = instructions;
  return result;
}

// Returns the locations of the arrays. Arrays with equal numbers in `memories` have the same
// address.
std::vector<ArrayLocation> locations_of(const Program& program,
                                        const std::vector<int64_t>& array_bytes,
                                        const std::vector<int64_t>& memories) {
  std::vector<ArrayLocation> locations = locate_arrays(program, array_bytes);
  if (memories.empty()) return locations;
  TORCH_CHECK_VALUE(memories.size() == locations.size(), "record_program: there are ",
                    locations.size(), " arrays and the memories of ", memories.size());
  for (size_t i = 0; i < locations.size(); ++i) {
    const auto first = std::find(memories.begin(), memories.end(), memories[i]) - memories.begin();
    locations[i].address = locations[static_cast<size_t>(first)].address;
  }
  return locations;
}

py::dict record_program(const py::bytes& file, const std::vector<int64_t>& array_bytes,
                        const std::vector<int64_t>& scalars, std::pair<int64_t, int64_t> lanes,
                        const std::vector<int64_t>& memories, bool has_cores) {
  TORCH_CHECK_VALUE(lanes.first > 0 && lanes.second > 0, "record_program: no vector lanes");
  const std::string_view data = file;
  Program program;
  Recording recording;
  CountsByCore cores;
  try {
    const py::gil_scoped_release unlocked;
    program = read_program(std::as_bytes(std::span(data)), kMaxAddress);
    std::vector<uint64_t> bits;
    for (const int64_t scalar : scalars) bits.push_back(static_cast<uint64_t>(scalar));
    CoreVisitor visit_core;
    if (has_cores) {
      cores.resize(static_cast<size_t>(program.cores()));
      visit_core = [&cores](int64_t core, std::span<const CoreCounts> counts) {
        cores[static_cast<size_t>(core)].assign(counts.begin(), counts.end());
      };
    }
    recording = record(program, locations_of(program, array_bytes, memories), bits,
                       {lanes.first, lanes.second}, visit_core);
  } catch (const ProgramError& error) {
    TORCH_CHECK_VALUE(false, error.what());
  } catch (const flex::KernelError& error) {
    TORCH_CHECK(false, "kernel ", program.name, ": ", error.what());
  }
  return as_dict(recording, cores);
}

}  // namespace

void bind_recorder(py::module_& module) {
  module.def(
      "record_program", &record_program, py::arg("file"), py::arg("array_bytes"),
      py::arg("scalars"), py::arg("lanes"), py::arg("memories") = std::vector<int64_t>{},
      py::arg("by_core") = false,
      "Counts the work of a program with arrays of these sizes (-1: no known end) on a card "
      "whose vector unit has these lanes for elements of 16 and of 32 bits; by_core adds the "
      "counts of each core.");
}

}  // namespace spyre
