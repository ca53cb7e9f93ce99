// The metadata of a call's arguments as bytes that are equal when it is equal.
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <string_view>

namespace spyre {

// Writes one item after the other, each with a tag and of a length that its content tells, so that
// different items never make the same bytes. Python's lock must be held.
class ArgumentsKey {
 public:
  // False if the object is of a kind that has no key; the key is of no use then.
  bool add(PyObject* object) { return add(object, 0); }
  void add_count(size_t count) { put(static_cast<int64_t>(count)); }
  // Of a keyword.
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
  // The number of the first tensor of the call with this storage.
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
