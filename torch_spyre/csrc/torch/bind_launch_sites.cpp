// Binds the lines of graphs, and finds the user's line of an eager call.
#include <pybind11/stl.h>

#include <string_view>

#include "flex/activity.h"
#include "torch/bindings.h"
#include "torch/device.h"
#include "torch/python_launch_site.h"

namespace py = pybind11;

namespace spyre {

namespace {

// The folders whose code is not the user's, and the Python functions that launches call, or null.
// The GIL guards them, and they are never destroyed.
std::vector<std::string>* library_folders = nullptr;
py::function* find_line_elsewhere = nullptr;
py::function* launch_log = nullptr;

// The line of the node that an interpreter of a graph runs in this thread; empty if none does.
std::string& line_of_node() {
  thread_local std::string line;
  return line;
}

void set_function(py::function*& variable, const std::optional<py::function>& function) {
  delete variable;
  variable = function ? new py::function(*function) : nullptr;
}

bool is_in_library(std::string_view file) {
  return library_folders != nullptr &&
         std::ranges::any_of(*library_folders,
                             [&](const std::string& folder) { return file.starts_with(folder); });
}

std::string_view file_of(PyCodeObject* code) {
  Py_ssize_t size = 0;
  const char* file = PyUnicode_AsUTF8AndSize(code->co_filename, &size);
  if (file != nullptr) return {file, static_cast<size_t>(size)};
  PyErr_Clear();  // a file name that is not UTF-8
  return "?";
}

// Returns file:line of the innermost frame of the user's code in this thread; empty if there is
// none.
std::string line_in_frames() {
  auto frame = py::reinterpret_steal<py::object>(
      reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  while (frame) {
    auto* current = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const auto code =
        py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(current)));
    const std::string_view file = file_of(reinterpret_cast<PyCodeObject*>(code.ptr()));
    if (!is_in_library(file)) {
      return std::string(file) + ":" + std::to_string(PyFrame_GetLineNumber(current));
    }
    frame =
        py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(current)));
  }
  return {};
}

std::string users_line() {
  if (!line_of_node().empty()) return line_of_node();
  std::string line = line_in_frames();
  if (line.empty() && find_line_elsewhere != nullptr) {
    line = py::function(*find_line_elsewhere)().cast<std::string>();
  }
  return line;
}

GraphLines make_lines(const std::map<std::string, std::array<std::string, 4>>& nodes,
                      std::unordered_map<std::string, std::string> fallbacks) {
  GraphLines lines{.nodes = {}, .fallbacks = std::move(fallbacks)};
  for (const auto& [node, parts] : nodes) {
    lines.nodes.emplace(node, SourceLine{parts[0], parts[1], parts[2], parts[3]});
  }
  return lines;
}

// Returns the line that calls an op in the graph that this thread runs, as far as it is known.
std::optional<std::string> line_in_running_graph(const std::string& op) {
  if (!line_of_node().empty()) return line_of_node();
  const std::shared_ptr<const GraphLines>& graph = running_graph();
  if (graph == nullptr) return std::nullopt;
  const auto line = graph->fallbacks.find(op);
  if (line == graph->fallbacks.end()) return std::nullopt;
  return line->second;
}

// A C function instead of a pybind function: it is called for every call of a graph.
PyObject* run_graph(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 2) {
    PyErr_SetString(PyExc_TypeError, "GraphLines.run takes a graph and its arguments");
    return nullptr;
  }
  auto* instance = reinterpret_cast<py::detail::instance*>(self);
  auto value = instance->get_value_and_holder();
  if (!value.holder_constructed()) {
    PyErr_SetString(PyExc_TypeError, "GraphLines.__init__ has not been called");
    return nullptr;
  }
  const RunningGraph running(value.holder<std::shared_ptr<GraphLines>>());
  return PyObject_CallOneArg(arguments[0], arguments[1]);
}

PyMethodDef run_method = {
    "run", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&run_graph)), METH_FASTCALL,
    "Calls a compiled graph with its arguments. Its launches come from these lines."};

}  // namespace

LaunchSite site_of(const Bundle& bundle) {
  LaunchSite site{.graph = running_graph()};
  const bool is_needed = bundle.has_indices() || flex::ActivityRecorder::get().is_recording();
  if (site.graph == nullptr && is_needed) {
    site.location = std::make_shared<const std::string>(users_line());
  }
  return site;
}

void log_launch(const Bundle& bundle, c10::DeviceIndex card) {
  if (launch_log == nullptr) return;
  const py::function log = *launch_log;
  const std::string line = running_graph() == nullptr ? users_line() : std::string();
  log(bundle.name(), bundle.stages(), static_cast<int>(card), current_queue(card).id(),
      !bundle.is_loaded_on(card), line);
}

void bind_launch_sites(py::module_& module) {
  auto lines = py::class_<GraphLines, std::shared_ptr<GraphLines>>(
                   module, "GraphLines", "The lines of the user's program that a graph comes from.")
                   .def(py::init(&make_lines), py::arg("nodes"), py::arg("fallbacks"))
                   .def("__len__", [](const GraphLines& self) { return self.nodes.size(); });
  auto* type = reinterpret_cast<PyTypeObject*>(lines.ptr());
  lines.attr("run") = py::reinterpret_steal<py::object>(PyDescr_NewMethod(type, &run_method));
  module.def("_line_in_running_graph", &line_in_running_graph, py::arg("op"),
             "Returns file:line of the call of an op in the graph that this thread runs.");
  module.def("_users_line", &users_line, "Returns file:line of the user's current call.");
  module.def(
      "_exchange_line_of_node",
      [](std::string line) { return std::exchange(line_of_node(), std::move(line)); },
      py::arg("line"), "Sets the line of the node that runs in this thread; returns the previous.");
  module.def(
      "_set_library_folders",
      [](std::vector<std::string> folders, const py::function& find_elsewhere) {
        delete library_folders;
        library_folders = new std::vector<std::string>(std::move(folders));
        set_function(find_line_elsewhere, find_elsewhere);
      },
      py::arg("folders"), py::arg("find_elsewhere"),
      "Sets the folders whose frames are not the user's, and the function that returns the line "
      "for a thread without frames of the user.");
  module.def(
      "_set_launch_log",
      [](const std::optional<py::function>& log) { set_function(launch_log, log); }, py::arg("log"),
      "Sets the function that is called for each launch with the bundle's name and number of "
      "programs, card, stream, whether the card has to load the programs, and the user's line.");
}

}  // namespace spyre
