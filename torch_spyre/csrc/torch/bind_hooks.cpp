// Where Python supplies what the C++ side needs of it: configuration, warnings, garbage collection.
#include <pybind11/stl.h>

#include "torch/allocator.h"
#include "torch/bindings.h"
#include "torch/copy.h"
#include "torch/device.h"
#include "torch/fallback.h"

namespace py = pybind11;

namespace spyre {

namespace {

// A Python callable that C++ may hold for ever and call from any thread.
class Callback {
 public:
  explicit Callback(py::function function)
      : function_(new py::function(std::move(function))) {}  // outlives the interpreter on purpose

  template <typename... Arguments>
  py::object operator()(Arguments&&... arguments) const {
    return (*function_)(std::forward<Arguments>(arguments)...);
  }

 private:
  py::function* function_;
};

// A Python error as a C++ one: it is kept and thrown from threads that may not hold Python's lock.
py::dict ask(const Callback& callback) {
  try {
    return callback().cast<py::dict>();
  } catch (const py::error_already_set& error) {
    throw std::runtime_error(py::str(error.value()).cast<std::string>());
  }
}

flex::Enumeration enumerate(const Callback& callback) {
  py::gil_scoped_acquire locked;
  const py::dict found = ask(callback);
  return {found["mode"].cast<std::string>(), found["cards"].cast<std::vector<int>>(),
          found["default_card"].cast<int>()};
}

FallbackPolicy policy_named(const std::string& name) {
  if (name == "error") return FallbackPolicy::kError;
  return name == "silent" ? FallbackPolicy::kSilent : FallbackPolicy::kWarn;
}

flex::RuntimeConfig configure(const Callback& callback) {
  py::gil_scoped_acquire locked;
  const py::dict given = ask(callback);
  flex::RuntimeConfig config;
  config.card.name = given["name"].cast<std::string>();
  config.card.type = given["type"].cast<std::string>();
  config.card.cores = given["cores"].cast<int64_t>();
  config.card.scratchpad_bytes = given["scratchpad_bytes"].cast<int64_t>();
  config.card.physical_bytes = given["physical_bytes"].cast<int64_t>();
  config.card.usable_bytes = given["usable_bytes"].cast<int64_t>();
  config.card.span_bytes = given["span_bytes"].cast<int64_t>();
  config.card.host_link_bytes_per_second = given["host_link_bytes_per_second"].cast<int64_t>();
  config.card.cached_bytes_limit = given["cached_bytes_limit"].cast<int64_t>();
  config.card.poison = given["poison"].cast<bool>();
  config.host_threads = given["host_threads"].cast<int>();
  config.ieee_fp16 = given["ieee_fp16"].cast<bool>();
  config.trace = given["trace"].cast<bool>();
  config.cpu_capability = given["cpu_capability"].cast<std::string>();
  set_fallback_policy(policy_named(given["fallback"].cast<std::string>()));
  set_int64_overflow_raises(given["int64_overflow"].cast<std::string>() == "error");
  return config;
}

void run_unlocked(const std::function<void()>& function) {
  if (PyGILState_Check() == 0) return function();
  py::gil_scoped_release unlocked;
  function();
}

void set_config_source(py::function enumerate_cards, py::function configure_runtime) {
  const Callback find(std::move(enumerate_cards)), make(std::move(configure_runtime));
  flex::Runtime::get().set_config_source(
      {[find] { return enumerate(find); }, [make] { return configure(make); }, &run_unlocked});
}

void set_warning_hook(py::function warn) {
  const Callback callback(std::move(warn));
  set_fallback_warning([callback](const std::string& what) {
    py::gil_scoped_acquire locked;
    callback(what);
  });
}

// Tensors as they are, anything else as PyTorch prints it.
py::object shown(const c10::IValue& value) {
  if (value.isTensor()) return py::cast(value.toTensor());
  if (value.isTensorList()) return py::cast(value.toTensorVector());
  return py::str(c10::str(value));
}

void set_refusal_hook(py::function refuse) {
  const Callback callback(std::move(refuse));
  set_fallback_refusal([callback](const std::string& what, c10::ArrayRef<c10::IValue> arguments) {
    py::gil_scoped_acquire locked;
    py::list given;
    for (const c10::IValue& argument : arguments) given.append(shown(argument));
    callback(what, given);
  });
}

void set_garbage_collector(py::function collect) {
  const Callback callback(std::move(collect));
  set_memory_pressure_hook([callback] {
    py::gil_scoped_acquire locked;
    callback();
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

}  // namespace

void bind_hooks(py::module_& module) {
  module.def("_set_config_source", &set_config_source, py::arg("enumerate"), py::arg("configure"));
  module.def("_set_fallback_warning", &set_warning_hook, py::arg("warn"));
  module.def("_set_fallback_refusal", &set_refusal_hook, py::arg("refuse"));
  module.def(
      "_set_fallback_policy",
      [](const std::string& name) { set_fallback_policy(policy_named(name)); }, py::arg("policy"));
  module.def("_set_conversion_kernel", &set_conversions, py::arg("convert"));
  module.def("_set_garbage_collector", &set_garbage_collector, py::arg("collect"));
}

}  // namespace spyre
