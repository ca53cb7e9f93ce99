#include <torch/csrc/Exceptions.h>

#include <algorithm>

#include "torch/arguments_key.h"
#include "torch/bindings.h"

namespace py = pybind11;

namespace spyre {

namespace {

// Adds keyword arguments sorted by name: their order does not affect a call.
bool add_keywords(PyObject* keywords, ArgumentsKey& key) {
  using Item = std::pair<PyObject*, PyObject*>;
  c10::SmallVector<Item, 8> items;
  PyObject *name = nullptr, *value = nullptr;
  for (Py_ssize_t position = 0; PyDict_Next(keywords, &position, &name, &value) != 0;) {
    TORCH_CHECK_TYPE(PyUnicode_CheckExact(name), "arguments_key: the names in kwargs must be str");
    items.emplace_back(name, value);
  }
  std::sort(items.begin(), items.end(),
            [](const Item& a, const Item& b) { return PyUnicode_Compare(a.first, b.first) < 0; });
  key.add_count(items.size());
  return std::all_of(items.begin(), items.end(), [&key](const Item& item) {
    return key.add_name(item.first) && key.add(item.second);
  });
}

PyObject* arguments_key(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  TORCH_CHECK_TYPE(count == 1 || count == 2, "arguments_key takes args and kwargs, not ", count,
                   " arguments");
  PyObject* const keywords = count == 2 ? arguments[1] : Py_None;
  TORCH_CHECK_TYPE(PyTuple_Check(arguments[0]), "arguments_key: args must be a tuple, not ",
                   Py_TYPE(arguments[0])->tp_name);
  TORCH_CHECK_TYPE(keywords == Py_None || PyDict_Check(keywords),
                   "arguments_key: kwargs must be a dict or None, not ",
                   Py_TYPE(keywords)->tp_name);
  ArgumentsKey key;
  if (!key.add(arguments[0])) Py_RETURN_NONE;
  if (keywords != Py_None && PyDict_GET_SIZE(keywords) > 0 && !add_keywords(keywords, key)) {
    Py_RETURN_NONE;
  }
  const std::string_view bytes = key.bytes();
  return PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size()));
  END_HANDLE_TH_ERRORS
}

PyMethodDef key_function = {
    "arguments_key", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&arguments_key)),
    METH_FASTCALL,
    "A hashable value that is equal for calls whose arguments have equal metadata, and None where "
    "an argument has no such value."};

}  // namespace

void bind_arguments_key(py::module_& module) {
  module.attr("arguments_key") =
      py::reinterpret_steal<py::object>(PyCFunction_New(&key_function, nullptr));
}

}  // namespace spyre
