#include "flex/geometry.h"

#include <algorithm>
#include <stdexcept>

namespace spyre {

namespace {

// An element has up to 8 bytes, so more elements could not be addressed. The sum of two offsets
// below this limit does not overflow.
constexpr int64_t kMaxElements = int64_t{1} << 60;

bool has_negative(const Sizes& values) {
  return std::any_of(values.begin(), values.end(), [](int64_t value) { return value < 0; });
}

bool has_zero(const Sizes& size) { return std::find(size.begin(), size.end(), 0) != size.end(); }

}  // namespace

int64_t checked_multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    throw std::overflow_error("a size or stride of the tensor or its layout overflows 64 bits: " +
                              std::to_string(a) + " * " + std::to_string(b));
  }
  return product;
}

int64_t checked_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    throw std::overflow_error("an offset into the tensor overflows 64 bits: " + std::to_string(a) +
                              " + " + std::to_string(b));
  }
  return sum;
}

void check_geometry(const Sizes& size, const Sizes& strides, int64_t offset) {
  if (size.size() != strides.size()) {
    throw std::invalid_argument("mismatch in length of strides and shape: " + to_string(strides) +
                                " and " + to_string(size));
  }
  if (has_negative(size)) {
    throw std::invalid_argument("negative size in sizes: " + to_string(size));
  }
  if (has_negative(strides)) {
    throw std::invalid_argument("Negative strides are not supported at the moment, got strides: " +
                                to_string(strides));
  }
  if (offset < 0) {
    throw std::invalid_argument("negative storage offset " + std::to_string(offset));
  }
  // A view without elements addresses nothing, so its offset is as free as on the CPU.
  if (has_zero(size)) return;
  int64_t elements = 1;
  for (int64_t n : size) elements = checked_multiply(elements, n);
  if (checked_add(offset, host_extent(size, strides)) > kMaxElements) {
    throw std::overflow_error("sizes " + to_string(size) + ", strides " + to_string(strides) +
                              " and storage offset " + std::to_string(offset) +
                              " overflow: they reach beyond 2**60 elements");
  }
}

Sizes contiguous_strides(const Sizes& size) {
  Sizes strides(size.size());
  int64_t step = 1;
  for (size_t i = size.size(); i-- > 0;) {
    strides[i] = step;
    // As in PyTorch, a dim of size 0 counts as 1.
    step = checked_multiply(step, std::max(size[i], int64_t{1}));
  }
  return strides;
}

int64_t host_extent(const Sizes& size, const Sizes& strides) {
  if (has_zero(size)) return 0;
  int64_t extent = 1;
  for (size_t i = 0; i < size.size(); ++i) {
    extent = checked_add(extent, checked_multiply(size[i] - 1, strides[i]));
  }
  return extent;
}

bool is_nested(const Sizes& size, const Sizes& strides) {
  if (has_zero(size)) return true;
  std::vector<size_t> order;
  for (size_t i = 0; i < size.size(); ++i) {
    if (size[i] > 1 && strides[i] != 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  int64_t reach = 0;
  for (size_t i : order) {
    if (strides[i] <= reach) return false;
    reach = checked_add(reach, checked_multiply(size[i] - 1, strides[i]));
  }
  return true;
}

std::string to_string(const Sizes& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(values[i]);
  }
  return text + "]";
}

}  // namespace spyre
