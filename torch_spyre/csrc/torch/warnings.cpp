#include "torch/warnings.h"

#include <c10/util/Exception.h>
#include <torch/csrc/Exceptions.h>

#include <typeinfo>

namespace spyre {

namespace {

// PyTorch's entry points collect warnings and pass them to Python; others, such as pybind
// functions, print them. A thread without a Python state cannot pass them to Python.
bool would_only_be_printed() {
  return typeid(*c10::WarningUtils::get_warning_handler()) == typeid(c10::WarningHandler) &&
         Py_IsInitialized() && PyGILState_GetThisThreadState() != nullptr;
}

}  // namespace

void warn_caller(const std::string& message) {
  if (!would_only_be_printed()) {
    TORCH_WARN(message);
    return;
  }
  torch::PyWarningHandler to_python;  // the destructor passes the warnings to Python
  TORCH_WARN(message);
}

}  // namespace spyre
