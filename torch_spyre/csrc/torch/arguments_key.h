// A key of the metadata of a call's arguments: equal metadata gives equal bytes.
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <string_view>

namespace spyre {

// Appends items with a tag and a self-delimiting encoding, so that different items never give the
// same bytes. The caller must hold the GIL.
class ArgumentsKey {
 public:
  // Returns false if the type of the object is not supported; the key is invalid then.
  bool add(PyObject* object) { return add(object, 0); }
  void add_count(size_t count) { put(static_cast<int64_t>(count)); }
  // Adds the name of a keyword argument.
  bool add_name(PyObject* name) { return add_text(name); }

  std::string_view bytes() const { return {bytes_.data(), bytes_.size()}; }

 private:
  bool add(PyObject* object, int depth);
  bool add_sequence(char tag, PyObject* const* items, Py_ssize_t count, int depth);
  bool add_integer(PyObject* object);
  void add_float(double value);
  bool add_text(PyObject* object);
  bool add_torch_constant(PyObject* object);
  bool add_tensor(const at::Tensor& tensor);
  void add_layout(const at::Tensor& tensor);
  // Returns the number of the first tensor of the call with this storage.
  int32_t number_of(const c10::StorageImpl* storage);

  template <typename Value>
  void put(Value value) {
    const char* begin = reinterpret_cast<const char*>(&value);
    bytes_.append(begin, begin + sizeof value);
  }

  c10::SmallVector<char, 384> bytes_;
  c10::SmallVector<const c10::StorageImpl*, 8> storages_;
};

}  // namespace spyre
