#include "torch/bindings.h"

PYBIND11_MODULE(_C, module) {
  module.doc() = "The C++ side of torch_spyre: device, memory, layouts, streams.";
  spyre::bind_layouts(module);
  spyre::bind_tensors(module);
  spyre::bind_layout_arguments(module);
  spyre::bind_device(module);
  spyre::bind_streams(module);
  spyre::bind_memory(module);
  spyre::bind_memory_history(module);
  spyre::bind_programs(module);
  spyre::bind_bundles(module);
  spyre::bind_launch_sites(module);
  spyre::bind_arguments_key(module);
  spyre::bind_hooks(module);
  spyre::bind_fallback(module);
  spyre::bind_conversions(module);
  spyre::bind_engine(module);
  spyre::bind_engine_matmul(module);
  spyre::bind_recorder(module);
  spyre::bind_profiler(module);
  spyre::bind_scratchpad_counter(module);
}
