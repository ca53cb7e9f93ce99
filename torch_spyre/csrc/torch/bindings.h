// The functions that define the parts of torch_spyre._C.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace spyre {

void bind_layouts(pybind11::module_& module);
void bind_tensors(pybind11::module_& module);
void bind_layout_arguments(pybind11::module_& module);
void bind_device(pybind11::module_& module);
void bind_streams(pybind11::module_& module);
void bind_memory(pybind11::module_& module);
void bind_memory_history(pybind11::module_& module);
void bind_programs(pybind11::module_& module);
void bind_bundles(pybind11::module_& module);
void bind_launch_sites(pybind11::module_& module);
void bind_arguments_key(pybind11::module_& module);
void bind_hooks(pybind11::module_& module);
void bind_fallback(pybind11::module_& module);

// Defined in csrc/profiler, which may include headers of Kineto.
void bind_profiler(pybind11::module_& module);
void bind_scratchpad_counter(pybind11::module_& module);

// Defined in csrc/emulator_bindings, which may include headers of the emulator.
void bind_conversions(pybind11::module_& module);
void bind_engine(pybind11::module_& module);
void bind_engine_matmul(pybind11::module_& module);
void bind_recorder(pybind11::module_& module);

}  // namespace spyre
