#include "torch/arguments_key.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "torch/device.h"
#include "torch/storage.h"

namespace spyre {

namespace {

// Bounds the recursion: a list may contain itself.
constexpr int kDeepest = 8;

enum Tag : char {
  kNone,
  kFalse,
  kTrue,
  kInteger,
  kLongInteger,
  kFloat,
  kComplex,
  kText,
  kDtype,
  kDeviceTag,
  kLayoutTag,
  kMemoryFormat,
  kTuple,
  kList,
  kTensor,
};

// Stands for the layout of a tensor that has no device layout.
enum LayoutTag : char { kOnHost, kRaw, kLaidOut };

// Returns whether metadata does not determine the behaviour of ops on the tensor, because of a
// subclass or a function transform.
bool is_wrapped(const c10::TensorImpl& impl) {
  constexpr c10::DispatchKeySet kWrappers({
      c10::DispatchKey::Python,
      c10::DispatchKey::Functionalize,
      c10::DispatchKey::FuncTorchGradWrapper,
      c10::DispatchKey::FuncTorchBatched,
      c10::DispatchKey::Batched,
      c10::DispatchKey::BatchedNestedTensor,
      c10::DispatchKey::NestedTensor,
  });
  return impl.key_set().has_any(kWrappers);
}

struct LayoutHash {
  size_t operator()(const TensorLayout& layout) const { return layout.hash(); }
};

// Returns a number that is equal for equal layouts. The table is never cleared: a process uses few
// layouts.
int64_t number_of(const TensorLayout& layout) {
  static auto& numbers = *new std::unordered_map<TensorLayout, int64_t, LayoutHash>();
  return numbers.try_emplace(layout, static_cast<int64_t>(numbers.size())).first->second;
}

}  // namespace

bool ArgumentsKey::add(PyObject* object, int depth) {
  // Compare exact types: a subclass may add state to the value that it inherits.
  PyTypeObject* const type = Py_TYPE(object);
  if (THPVariableClass != nullptr &&
      PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(THPVariableClass))) {
    return add_tensor(THPVariable_Unpack(object));
  }
  if (object == Py_None) return put(kNone), true;
  if (type == &PyBool_Type) return put(object == Py_True ? kTrue : kFalse), true;
  if (type == &PyLong_Type) return add_integer(object);
  if (type == &PyFloat_Type) {
    put(kFloat);
    return add_float(PyFloat_AS_DOUBLE(object)), true;
  }
  if (type == &PyUnicode_Type) {
    put(kText);
    return add_text(object);
  }
  if (PyTuple_Check(object)) {
    auto* tuple = reinterpret_cast<PyTupleObject*>(object);
    return add_sequence(kTuple, tuple->ob_item, PyTuple_GET_SIZE(object), depth);
  }
  if (type == &PyList_Type) {
    auto* list = reinterpret_cast<PyListObject*>(object);
    return add_sequence(kList, list->ob_item, PyList_GET_SIZE(object), depth);
  }
  if (type == &PyComplex_Type) {
    put(kComplex);
    add_float(PyComplex_RealAsDouble(object));
    return add_float(PyComplex_ImagAsDouble(object)), true;
  }
  return add_torch_constant(object);
}

bool ArgumentsKey::add_sequence(char tag, PyObject* const* items, Py_ssize_t count, int depth) {
  if (depth == kDeepest) return false;
  put(tag);
  add_count(static_cast<size_t>(count));
  // No Python code that could change the list runs here.
  return std::all_of(items, items + count, [&](PyObject* item) { return add(item, depth + 1); });
}

bool ArgumentsKey::add_integer(PyObject* object) {
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow == 0) {
    put(kInteger);
    return put(value), true;
  }
  PyObject* digits = PyNumber_ToBase(object, 16);
  if (digits == nullptr) return PyErr_Clear(), false;
  put(kLongInteger);
  const bool added = add_text(digits);
  Py_DECREF(digits);
  return added;
}

void ArgumentsKey::add_float(double value) {
  // The bits distinguish -0.0 from 0.0; all NaNs are equal.
  put(std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value);
}

bool ArgumentsKey::add_text(PyObject* object) {
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object, &length);
  if (text == nullptr) return PyErr_Clear(), false;  // half a surrogate pair
  add_count(static_cast<size_t>(length));
  bytes_.append(text, text + length);
  return true;
}

bool ArgumentsKey::add_torch_constant(PyObject* object) {
  if (THPDtype_Check(object)) {
    put(kDtype);
    put(reinterpret_cast<THPDtype*>(object)->scalar_type);
  } else if (THPDevice_Check(object)) {
    const c10::Device device = reinterpret_cast<THPDevice*>(object)->device;
    put(kDeviceTag);
    put(device.type());
    put(device.index());
  } else if (THPLayout_Check(object)) {
    put(kLayoutTag);
    put(reinterpret_cast<THPLayout*>(object)->layout);
  } else if (THPMemoryFormat_Check(object)) {
    put(kMemoryFormat);
    put(reinterpret_cast<THPMemoryFormat*>(object)->memory_format);
  } else {
    return false;
  }
  return true;
}

bool ArgumentsKey::add_tensor(const at::Tensor& tensor) {
  if (!tensor.defined()) return false;
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  if (is_wrapped(impl) || impl.has_symbolic_sizes_strides() || impl.layout() != c10::kStrided ||
      !impl.has_storage()) {
    return false;
  }
  const c10::DispatchKeySet keys = impl.key_set();
  const int bits = keys.has(c10::DispatchKey::Conjugate) +
                   2 * keys.has(c10::DispatchKey::Negative) +
                   4 * keys.has(c10::DispatchKey::ZeroTensor);
  const c10::Device device = impl.device();
  put(kTensor);
  put(device.type());
  put(device.index());
  put(tensor.scalar_type());
  put(static_cast<char>(bits));
  put(number_of(impl.storage().unsafeGetStorageImpl()));
  put(static_cast<int32_t>(impl.dim()));
  for (const int64_t size : impl.sizes()) put(size);
  for (const int64_t stride : impl.strides()) put(stride);
  put(impl.storage_offset());
  if (device.type() == kSpyre) {
    add_layout(tensor);
  } else {
    put(kOnHost);
  }
  return true;
}

void ArgumentsKey::add_layout(const at::Tensor& tensor) {
  const SpyreTensorImpl* impl = impl_of(tensor);
  SpyreStorageImpl& storage = storage_of(tensor);
  put(static_cast<char>(impl != nullptr && impl->is_byte_view));
  if (impl != nullptr && impl->own_binding != nullptr) {
    put(kLaidOut);
    put(c10::ScalarType::Undefined);
    return put(spyre::number_of(impl->own_binding->layout));
  }
  if (storage.is_raw()) {
    put(kRaw);
    return put(static_cast<int64_t>(storage.nbytes()));
  }
  if (storage.numbered_binding != storage.binding) {
    storage.layout_number = spyre::number_of(storage.binding->layout);
    storage.numbered_binding = storage.binding;
  }
  put(kLaidOut);
  put(storage.dtype);
  put(storage.layout_number);
}

int32_t ArgumentsKey::number_of(const c10::StorageImpl* storage) {
  const auto position = std::find(storages_.begin(), storages_.end(), storage);
  const auto number = static_cast<int32_t>(position - storages_.begin());
  storages_.push_back(storage);
  return number;
}

}  // namespace spyre
