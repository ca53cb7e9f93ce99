#include <torch/csrc/Event.h>

#include "torch/bindings.h"
#include "torch/device.h"

namespace py = pybind11;

namespace spyre {

namespace {

using Unlocked = py::call_guard<py::gil_scoped_release>;

// A stream of the low-level interface; programs use torch.spyre.Stream.
struct StreamBase {
  c10::Stream stream;
};

c10::DeviceIndex card_of(const py::object& device) {
  if (device.is_none()) return current_device();
  if (py::isinstance<py::int_>(device)) return card_index(device.cast<int64_t>());
  return resolve(device.cast<c10::Device>()).index();
}

StreamBase from_pool(const py::object& device, int priority) {
  const c10::DeviceIndex card = card_of(device);
  const int64_t id = flex::Runtime::get().next_stream(card, priority != 0);
  return {c10::Stream(c10::Stream::UNSAFE, {kSpyre, card}, id)};
}

// torch.Event.elapsed_time rejects an instance of a subclass as its argument.
double elapsed_time(const py::object& start, const py::object& end) {
  for (const py::object& event : {start, end}) {
    if (PyObject_IsInstance(event.ptr(), reinterpret_cast<PyObject*>(THPEventClass)) != 1) {
      throw py::type_error("elapsed_time: expected an event");
    }
  }
  const auto& first = reinterpret_cast<THPEvent*>(start.ptr())->event;
  return first.elapsedTime(reinterpret_cast<THPEvent*>(end.ptr())->event);
}

void synchronize(const py::object& device) {
  const int count = flex::Runtime::get().card_count();
  if (!device.is_none()) {
    const c10::DeviceIndex card = card_of(device);
    py::gil_scoped_release unlocked;
    return flex::Runtime::get().synchronize(card);
  }
  py::gil_scoped_release unlocked;
  if (!flex::Runtime::get().started()) flex::Runtime::get().start();
  for (int card = 0; card < count; ++card) flex::Runtime::get().synchronize(card);
}

}  // namespace

void bind_streams(py::module_& module) {
  py::class_<StreamBase>(module, "_SpyreStreamBase")
      .def(
          "synchronize", [](const StreamBase& self) { queue_of(self.stream).synchronize(); },
          Unlocked())
      .def(
          "query", [](const StreamBase& self) { return queue_of(self.stream).query(); }, Unlocked())
      .def("device", [](const StreamBase& self) { return self.stream.device(); })
      .def("id", [](const StreamBase& self) { return self.stream.id(); })
      .def("priority",
           [](const StreamBase& self) { return self.stream.id() > flex::kStreamsPerPool ? -1 : 0; })
      .def("__eq__", [](const StreamBase& self,
                        const StreamBase& other) { return self.stream == other.stream; })
      .def("__hash__",
           [](const StreamBase& self) { return std::hash<c10::Stream>()(self.stream); });
  module.def("get_stream_from_pool", &from_pool, py::arg("device") = py::none(),
             py::arg("priority") = 0);
  module.def(
      "current_stream",
      [](const py::object& device) { return StreamBase{current_stream(card_of(device))}; },
      py::arg("device") = py::none());
  module.def(
      "default_stream",
      [](const py::object& device) {
        return StreamBase{c10::Stream(c10::Stream::DEFAULT, {kSpyre, card_of(device)})};
      },
      py::arg("device") = py::none());
  module.def(
      "set_current_stream",
      [](const StreamBase& stream) { return StreamBase{exchange_stream(stream.stream)}; },
      py::arg("stream"));
  module.def("elapsed_time", &elapsed_time, py::arg("start"), py::arg("end"));
  module.def("synchronize", &synchronize, py::arg("device") = py::none());
}

}  // namespace spyre
