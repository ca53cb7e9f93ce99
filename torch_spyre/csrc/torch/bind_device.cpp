#include <pybind11/stl.h>

#include "torch/bindings.h"
#include "torch/device.h"
#include "torch/generator.h"

namespace py = pybind11;

namespace spyre {

namespace {

using Unlocked = py::call_guard<py::gil_scoped_release>;

void free_runtime() {
  auto& runtime = flex::Runtime::get();
  if (!runtime.started()) return;
  for (int card = 0; card < runtime.card_count(); ++card) {
    runtime.synchronize(card);
    runtime.card(card).release_cached_memory();
  }
}

// Waits for queued work at exit and prints its errors, because no caller could catch them. Throws
// the exception of a signal handler.
void finish_work() {
  auto& runtime = flex::Runtime::get();
  if (!runtime.started()) return;
  for (int card = 0; card < runtime.card_count(); ++card) {
    try {
      runtime.synchronize(card);
    } catch (const py::error_already_set&) {
      throw;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "torch_spyre: work queued on spyre:%d failed: %s\n", card, error.what());
    }
  }
}

py::dict properties(int64_t index) {
  const flex::CardDescription* card = nullptr;
  {
    py::gil_scoped_release unlocked;
    card = &flex::Runtime::get().card(card_index(index)).description();
  }
  py::dict result;
  result["name"] = card->name;
  result["type"] = card->type;
  result["total_memory"] = card->usable_bytes;
  result["multi_processor_count"] = card->cores;
  result["scratchpad_bytes"] = card->scratchpad_bytes;
  result["span_bytes"] = card->span_bytes;
  return result;
}

py::dict counters() {
  const flex::Counters& values = flex::Runtime::get().counters();
  py::dict result;
  result["launches"] = values.launches.load();
  result["fallbacks"] = values.fallbacks.load();
  result["h2d_bytes"] = values.h2d_bytes.load();
  result["d2h_bytes"] = values.d2h_bytes.load();
  result["d2d_bytes"] = values.d2d_bytes.load();
  result["device_time_ps"] = values.device_time_ps.load();
  result["ddr_read_bytes"] = values.ddr_read_bytes.load();
  result["ddr_write_bytes"] = values.ddr_write_bytes.load();
  result["allocations"] = values.allocations.load();
  result["frees"] = values.frees.load();
  return result;
}

at::Generator generator(int64_t device) { return default_generator(card_index(device)); }

void manual_seed(uint64_t seed, int64_t device) {
  at::Generator target = generator(device);
  std::lock_guard lock(target.mutex());
  target.set_current_seed(seed);
}

void manual_seed_all(uint64_t seed) {
  for (int card = 0; card < flex::Runtime::get().card_count(); ++card) manual_seed(seed, card);
}

}  // namespace

void bind_device(py::module_& module) {
  module.def("start_runtime", [] { flex::Runtime::get().start(); }, Unlocked());
  module.def("free_runtime", &free_runtime, Unlocked(),
             "Waits for all work and returns cached memory to the host.");
  module.def("_finish_work", &finish_work, Unlocked());
  module.def("_interrupt_work", [] { flex::Runtime::get().interrupt(); }, Unlocked());
  module.def("is_started", [] { return flex::Runtime::get().started(); });
  module.def("is_in_bad_fork", [] { return flex::Runtime::get().in_bad_fork(); });
  module.def("device_count", [] { return flex::Runtime::get().card_count(); }, Unlocked());
  module.def("check_cards", [] { flex::Runtime::get().check_cards(); }, Unlocked());
  module.def("current_device", [] { return static_cast<int>(current_device()); }, Unlocked());
  module.def("set_device", &set_device, py::arg("idx"), Unlocked());
  module.def("get_properties", &properties, py::arg("device"));
  module.def("counters", &counters);

  module.def("_get_default_generator", &generator, py::arg("device") = -1, Unlocked());
  module.def("manual_seed", &manual_seed, py::arg("seed"), py::arg("device") = -1, Unlocked());
  module.def("manual_seed_all", &manual_seed_all, py::arg("seed"), Unlocked());
  module.def(
      "initial_seed", [](int64_t device) { return generator(device).current_seed(); },
      py::arg("device") = -1, Unlocked());
  module.def(
      "get_rng_state",
      [](int64_t device) {
        at::Generator source = generator(device);
        std::lock_guard lock(source.mutex());
        return source.get_state();
      },
      py::arg("device") = -1, Unlocked());
  module.def(
      "set_rng_state",
      [](const at::Tensor& state, int64_t device) {
        at::Generator target = generator(device);
        std::lock_guard lock(target.mutex());
        target.set_state(state);
      },
      py::arg("new_state"), py::arg("device") = -1, Unlocked());
  module.def(
      "_draw_words",
      [](int64_t count, int64_t device, const std::optional<at::Generator>& generator) {
        return draw_words(count, card_index(device), generator);
      },
      py::arg("count"), py::arg("device"), py::arg("generator") = py::none(), Unlocked());
}

}  // namespace spyre
