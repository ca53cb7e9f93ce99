// Gives Tensor.to and torch.empty the keyword `device_layout`. Their entries in PyTorch's method
// tables are replaced by functions that call a Python handler if one of its keywords is present,
// and the original C function otherwise. The Python objects stay the same, so code that compares
// them by identity (Dynamo, TorchScript, pickle, modes) sees no difference, and programs that use
// no card pay nothing. See torch_spyre/pytorch_internals/layout_arguments.py.
#include <bit>

#include "torch/bindings.h"

namespace py = pybind11;

namespace spyre {

namespace {

struct Intercepted {
  PyMethodDef* entry = nullptr;
  PyCFunctionWithKeywords original = nullptr;
  PyObject* handler = nullptr;
};

Intercepted intercepted_to;
Intercepted intercepted_empty;

bool has_keyword(PyObject* keywords, const char* name) {
  if (keywords == nullptr) return false;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  for (Py_ssize_t position = 0; PyDict_Next(keywords, &position, &key, &value) != 0;) {
    if (PyUnicode_CompareWithASCIIString(key, name) == 0) return true;
  }
  return false;
}

PyObject* to(PyObject* self, PyObject* arguments, PyObject* keywords) {
  if (!has_keyword(keywords, "device_layout")) {
    return intercepted_to.original(self, arguments, keywords);
  }
  const auto method = py::reinterpret_steal<py::object>(PyMethod_New(intercepted_to.handler, self));
  return method ? PyObject_Call(method.ptr(), arguments, keywords) : nullptr;
}

PyObject* empty(PyObject* self, PyObject* arguments, PyObject* keywords) {
  if (has_keyword(keywords, "device_layout") || has_keyword(keywords, "memory_format")) {
    PyObject* result = PyObject_Call(intercepted_empty.handler, arguments, keywords);
    if (result != Py_NotImplemented) return result;
    Py_DECREF(result);
  }
  return intercepted_empty.original(self, arguments, keywords);
}

void intercept(Intercepted& intercepted, PyMethodDef& entry, PyCFunctionWithKeywords replacement,
               const py::function& handler) {
  TORCH_CHECK((entry.ml_flags & ~METH_STATIC) == (METH_VARARGS | METH_KEYWORDS), entry.ml_name,
              " of this PyTorch is called in a way that torch_spyre does not support: see "
              "docs/porting-to-a-new-pytorch.md");
  if (intercepted.entry != nullptr) return;
  intercepted.entry = &entry;
  intercepted.original = std::bit_cast<PyCFunctionWithKeywords>(entry.ml_meth);
  intercepted.handler = Py_NewRef(handler.ptr());
  entry.ml_meth = std::bit_cast<PyCFunction>(replacement);
}

void restore(Intercepted& intercepted) {
  if (intercepted.entry == nullptr) return;
  intercepted.entry->ml_meth = std::bit_cast<PyCFunction>(intercepted.original);
  Py_DECREF(intercepted.handler);
  intercepted = {};
}

void restore_method_tables() {
  restore(intercepted_to);
  restore(intercepted_empty);
}

void intercept_to(const py::object& method, const py::function& handler) {
  TORCH_CHECK_TYPE(Py_IS_TYPE(method.ptr(), &PyMethodDescr_Type), "expected PyTorch's Tensor.to");
  auto* descriptor = reinterpret_cast<PyMethodDescrObject*>(method.ptr());
  intercept(intercepted_to, *descriptor->d_method, &to, handler);
}

void intercept_empty(const py::object& function, const py::function& handler) {
  TORCH_CHECK_TYPE(PyCFunction_Check(function.ptr()), "expected PyTorch's torch.empty");
  auto* object = reinterpret_cast<PyCFunctionObject*>(function.ptr());
  intercept(intercepted_empty, *object->m_ml, &empty, handler);
}

}  // namespace

void bind_layout_arguments(py::module_& module) {
  module.def("_intercept_to", &intercept_to, py::arg("method"), py::arg("handler"),
             "Calls `handler` for calls with device_layout=.");
  module.def("_intercept_empty", &intercept_empty, py::arg("function"), py::arg("handler"),
             "Calls `handler` for calls with device_layout= or memory_format=, and the original if "
             "it returns NotImplemented.");
  module.def("_restore_method_tables", &restore_method_tables,
             "Undoes _intercept_to and _intercept_empty.");
}

}  // namespace spyre
