#include "torch/warnings.h"

#include <c10/util/Exception.h>
#include <torch/csrc/Exceptions.h>

#include <typeinfo>

namespace spyre {

namespace {

// PyTorch's own entry points collect warnings and hand them to Python; others, as pybind functions
// are, print them. A thread without a Python state has nobody to hand them to.
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
  torch::PyWarningHandler to_python;  // hands over when it goes out of scope
  TORCH_WARN(message);
}

}  // namespace spyre
