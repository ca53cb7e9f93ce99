// Python functions that C++ calls: configuration, warnings, garbage collection.
#include <pybind11/stl.h>
#include <unistd.h>

#include "flex/interruption.h"
#include "torch/allocator.h"
#include "torch/bindings.h"
#include "torch/copy.h"
#include "torch/copy_jobs.h"
#include "torch/device.h"
#include "torch/fallback.h"
#include "torch/fallback_policy.h"
#include "torch/launches.h"

namespace py = pybind11;

namespace spyre {

namespace {

// A Python callable that any thread may call.
class Callback {
 public:
  explicit Callback(py::function function)
      : function_(new py::function(std::move(function))) {}  // never destroyed

  template <typename... Arguments>
  py::object operator()(Arguments&&... arguments) const {
    return (*function_)(std::forward<Arguments>(arguments)...);
  }

 private:
  py::function* function_;
};

// Converts a Python error to a C++ exception, which threads without the GIL can store and throw.
template <typename... Arguments>
py::object ask(const Callback& callback, const Arguments&... arguments) {
  try {
    return callback(arguments...);
  } catch (const py::error_already_set& error) {
    throw std::runtime_error(py::str(error.value()).cast<std::string>());
  }
}

flex::Enumeration enumerate(const Callback& callback) {
  py::gil_scoped_acquire locked;
  const py::dict cards = ask(callback);
  return {cards["mode"].cast<std::string>(), cards["cards"].cast<std::vector<int>>(),
          cards["default_card"].cast<int>()};
}

flex::RuntimeConfig configure(const Callback& callback) {
  py::gil_scoped_acquire locked;
  const py::dict values = ask(callback);
  flex::RuntimeConfig config;
  config.card.name = values["name"].cast<std::string>();
  config.card.type = values["type"].cast<std::string>();
  config.card.cores = values["cores"].cast<int64_t>();
  config.card.scratchpad_bytes = values["scratchpad_bytes"].cast<int64_t>();
  config.card.physical_bytes = values["physical_bytes"].cast<int64_t>();
  config.card.usable_bytes = values["usable_bytes"].cast<int64_t>();
  config.card.span_bytes = values["span_bytes"].cast<int64_t>();
  config.card.host_link_bytes_per_second = values["host_link_bytes_per_second"].cast<int64_t>();
  config.card.host_link_latency_ps = values["host_link_latency_ps"].cast<int64_t>();
  config.card.memory_bytes_per_second = values["memory_bytes_per_second"].cast<int64_t>();
  config.card.launch_ps = values["launch_ps"].cast<int64_t>();
  config.card.narrow_lanes = values["narrow_lanes"].cast<int64_t>();
  config.card.wide_lanes = values["wide_lanes"].cast<int64_t>();
  config.card.cached_bytes_limit = values["cached_bytes_limit"].cast<int64_t>();
  config.card.poison = values["poison"].cast<bool>();
  config.driver.host_threads = values["host_threads"].cast<int>();
  config.monitor.folder = values["monitor_folder"].cast<std::string>();
  config.monitor.description = values["monitor_description"].cast<std::string>();
  config.ieee_fp16 = values["ieee_fp16"].cast<bool>();
  config.trace = values["trace"].cast<bool>();
  config.driver.cpu_capability = values["cpu_capability"].cast<std::string>();
  set_process_fallback_policy(values["fallback"].cast<FallbackPolicyRef>());
  set_int64_overflow_raises(values["int64_overflow"].cast<std::string>() == "error");
  return config;
}

void run_unlocked(const std::function<void()>& function) {
  if (PyGILState_Check() == 0) return function();
  py::gil_scoped_release unlocked;
  function();
}

void set_config_source(py::function enumerate_cards, py::function configure_runtime,
                       py::function warn_unmonitored) {
  const Callback find(std::move(enumerate_cards)), make(std::move(configure_runtime)),
      warn(std::move(warn_unmonitored));
  flex::Runtime::get().set_config_source(
      {.enumerate = [find] { return enumerate(find); },
       .configure = [make] { return configure(make); },
       .warn_unmonitored =
           [warn](const std::string& folder, const std::string& reason) {
             py::gil_scoped_acquire locked;
             ask(warn, folder, reason);
           },
       .run_unlocked = &run_unlocked});
}

// Runs Python's signal handlers, which only the main thread may do. If a handler raises an
// exception, as that of Ctrl-C does, interrupts all work of the cards and throws the exception.
void run_signal_handlers() {
  if (gettid() != getpid() || Py_IsInitialized() == 0) return;
  std::exception_ptr error;
  {
    const py::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() == 0) return;
    error = std::make_exception_ptr(py::error_already_set());
  }
  run_unlocked([] { flex::Runtime::get().interrupt(); });
  std::rethrow_exception(error);
}

void set_warning_hook(py::function warn) {
  const Callback callback(std::move(warn));
  set_fallback_warning([callback](const std::string& op) {
    py::gil_scoped_acquire locked;
    callback(op);
  });
}

// Returns tensors unchanged, and other values as PyTorch prints them.
py::object shown(const c10::IValue& value) {
  if (value.isTensor()) return py::cast(value.toTensor());
  if (value.isTensorList()) return py::cast(value.toTensorVector());
  return py::str(c10::str(value));
}

void set_fallback_error_hook(py::function raise_error) {
  const Callback callback(std::move(raise_error));
  set_fallback_error([callback](const std::string& op, c10::ArrayRef<c10::IValue> arguments) {
    py::gil_scoped_acquire locked;
    py::list shown_arguments;
    for (const c10::IValue& argument : arguments) shown_arguments.append(shown(argument));
    callback(op, shown_arguments);
  });
}

void set_failure_report(py::function report) {
  const Callback callback(std::move(report));
  set_failure_hook([callback](const char* type, const std::string& message) -> std::string {
    if (Py_IsInitialized() == 0) return {};
    py::gil_scoped_acquire locked;
    return callback(type, message).cast<std::string>();
  });
}

void set_garbage_collector(py::function collect) {
  const Callback callback(std::move(collect));
  set_memory_pressure_hook([callback] {
    py::gil_scoped_acquire locked;
    callback();
  });
}

void set_memory_report(py::function describe) {
  const Callback callback(std::move(describe));
  set_out_of_memory_report([callback](int card) {
    py::gil_scoped_acquire locked;
    return callback(card).cast<std::string>();
  });
}

void set_conversions(const std::optional<py::function>& convert) {
  if (!convert) return set_conversion_kernel({});
  const Callback callback(*convert);
  set_conversion_kernel([callback](const at::Tensor& src, const at::Tensor& dst) {
    py::gil_scoped_acquire locked;
    return callback(src, dst).cast<bool>();
  });
}

void set_copy_costs(py::function estimate) {
  const Callback callback(std::move(estimate));
  set_copy_cost_model([callback](const flex::CopyTraffic& traffic) -> LaunchCost {
    py::gil_scoped_acquire locked;
    return callback(traffic.read.bytes, traffic.read.runs, traffic.written.bytes,
                    traffic.written.runs, traffic.is_restickify)
        .cast<LaunchCost>();
  });
}

}  // namespace

void bind_hooks(py::module_& module) {
  flex::set_signal_check(&run_signal_handlers);
  module.def("_set_config_source", &set_config_source, py::arg("enumerate"), py::arg("configure"),
             py::arg("warn_unmonitored"));
  module.def("_set_fallback_warning", &set_warning_hook, py::arg("warn"));
  module.def("_set_fallback_error", &set_fallback_error_hook, py::arg("raise_error"));
  module.def("_set_conversion_kernel", &set_conversions, py::arg("convert"));
  module.def("_set_copy_cost_model", &set_copy_costs, py::arg("estimate"));
  module.def("_set_failure_hook", &set_failure_report, py::arg("report"));
  module.def("_set_garbage_collector", &set_garbage_collector, py::arg("collect"));
  module.def("_set_out_of_memory_report", &set_memory_report, py::arg("describe"));
}

}  // namespace spyre
