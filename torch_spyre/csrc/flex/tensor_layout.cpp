#include "flex/tensor_layout.h"

#include <functional>
#include <numeric>
#include <stdexcept>

namespace spyre {

namespace {

int64_t stick_of(DataFormat format) {
  const int64_t eps = elems_per_stick(format);
  if (eps == 0) {
    throw std::invalid_argument("SpyreTensorLayout: format " + std::string(name_of(format)) +
                                " has no form in device memory");
  }
  return eps;
}

// Returns the elements per stick that the arrangement requires; 0: any number.
int64_t stick_of(ElementArrangement arrangement) {
  switch (arrangement) {
    case ElementArrangement::DL16_TO_FP32:
      return 32;
    case ElementArrangement::FP32_TO_DL16:
      return 64;
    default:
      return 0;
  }
}

void check_arrangement(DataFormat format, ElementArrangement arrangement) {
  const int64_t expected = stick_of(arrangement);
  if (expected == 0 || expected == elems_per_stick(format)) return;
  throw std::invalid_argument(
      "SpyreTensorLayout: the arrangement " + std::string(name_of(arrangement)) +
      " is an order of sticks of " + std::to_string(expected) + " elements, but a stick of " +
      std::string(name_of(format)) + " has " + std::to_string(elems_per_stick(format)));
}

void check_dim_order(const Sizes& host_size, const Sizes& dim_order) {
  const size_t rank = host_size.size();
  const bool sparse = dim_order.size() == rank + 1 && dim_order.back() == -1;
  const std::string description =
      "host_size=" + to_string(host_size) + ", dim_order=" + to_string(dim_order);
  if (dim_order.size() != rank && !sparse) {
    throw std::invalid_argument("Incompatible host_size and dim_order: " + description +
                                "; give each dim once, and -1 last for a sparse layout");
  }
  std::vector<bool> is_used(rank, false);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t dim = dim_order[i];
    if (dim < 0 || dim >= static_cast<int64_t>(rank) || is_used[dim]) {
      throw std::invalid_argument("Incompatible host_size and dim_order: " + description +
                                  "; dim_order must name each dim once");
    }
    is_used[dim] = true;
  }
}

}  // namespace

TensorLayout TensorLayout::of(const Sizes& host_size, DataFormat format) {
  Sizes order(host_size.size());
  std::iota(order.begin(), order.end(), 0);
  return of(host_size, contiguous_strides(host_size), format, order);
}

TensorLayout TensorLayout::of(const Sizes& host_size, const Sizes& host_strides, DataFormat format,
                              const Sizes& dim_order, ElementArrangement arrangement) {
  check_geometry(host_size, host_strides);
  check_dim_order(host_size, dim_order);
  check_arrangement(format, arrangement);
  const int64_t eps = stick_of(format);

  TensorLayout layout;
  layout.format_ = format;
  layout.arrangement_ = arrangement;
  if (host_size.empty()) {
    layout.device_size_ = {1, eps};
    layout.stride_map_ = {kNoHostStride, kNoHostStride};
    return layout;
  }

  // The host dim of each device dim: all but the first, then the first (so that planes of rows x
  // one stick are contiguous, which is the tile the matrix unit reads), then the stick.
  Sizes dims(dim_order.begin() + 1, dim_order.end());
  dims.push_back(dim_order.front());
  dims.push_back(dim_order.back());
  const int64_t stick_dim = dims.back();
  const size_t rank = dims.size();

  layout.device_size_.resize(rank);
  for (size_t i = 0; i < rank; ++i) {
    if (i + 1 == rank) {
      layout.device_size_[i] = eps;
    } else if (dims[i] != stick_dim) {
      layout.device_size_[i] = host_size[dims[i]];
    } else {
      layout.device_size_[i] =
          stick_dim < 0 ? 1 : host_size[stick_dim] / eps + (host_size[stick_dim] % eps != 0);
    }
  }

  layout.stride_map_.resize(rank);
  Sizes next_stride = host_strides;
  for (size_t i = rank; i-- > 0;) {
    const int64_t dim = dims[i];
    if (dim < 0 || host_size[dim] == 1) {
      layout.stride_map_[i] = kNoHostStride;
      continue;
    }
    layout.stride_map_[i] = next_stride[dim];
    next_stride[dim] = checked_multiply(next_stride[dim], layout.device_size_[i]);
  }
  return layout;
}

TensorLayout TensorLayout::from_fields(Sizes device_size, Sizes stride_map, DataFormat format,
                                       ElementArrangement arrangement) {
  const std::string description =
      "device_size=" + to_string(device_size) + ", stride_map=" + to_string(stride_map);
  if (device_size.size() != stride_map.size() || device_size.empty()) {
    throw std::invalid_argument("SpyreTensorLayout: " + description +
                                ": both need the same, nonzero length");
  }
  const int64_t eps = stick_of(format);
  if (device_size.back() != eps) {
    throw std::invalid_argument("SpyreTensorLayout: " + description + ": the last size must be " +
                                std::to_string(eps) + ", the elements per stick of " +
                                std::string(name_of(format)));
  }
  for (size_t i = 0; i < device_size.size(); ++i) {
    if (device_size[i] < 0 || stride_map[i] < kNoHostStride) {
      throw std::invalid_argument("SpyreTensorLayout: " + description +
                                  ": sizes must be >= 0 and strides >= -1");
    }
  }
  check_arrangement(format, arrangement);
  TensorLayout layout;
  layout.device_size_ = std::move(device_size);
  layout.stride_map_ = std::move(stride_map);
  layout.format_ = format;
  layout.arrangement_ = arrangement;
  return layout;
}

TensorLayout TensorLayout::pool(int64_t sticks) {
  if (sticks < 0) throw std::invalid_argument("SpyreTensorLayout.pool: negative number of sticks");
  TensorLayout layout;
  layout.device_size_ = {sticks, 1, 1};
  layout.stride_map_ = {1, 1, 1};
  layout.format_ = DataFormat::SENINT8;
  return layout;
}

TensorLayout TensorLayout::linear(int64_t count, DataFormat format) {
  if (count < 0 || bits_per_element(format) == 0) {
    throw std::invalid_argument("SpyreTensorLayout.linear: cannot hold " + std::to_string(count) +
                                " elements of " + std::string(name_of(format)));
  }
  TensorLayout layout;
  layout.device_size_ = {count};
  layout.stride_map_ = {1};
  layout.format_ = format;
  return layout;
}

Sizes TensorLayout::device_strides() const { return contiguous_strides(device_size_); }

int64_t TensorLayout::device_bytes() const {
  if (device_size_.size() == 1) {
    const int64_t bits = checked_multiply(device_size_[0], bits_per_element(format_));
    return bits / 8 + (bits % 8 != 0);
  }
  int64_t sticks = 1;
  for (size_t i = 0; i + 1 < device_size_.size(); ++i) {
    sticks = checked_multiply(sticks, device_size_[i]);
  }
  return checked_multiply(sticks, kBytesInStick);
}

TensorLayout TensorLayout::with_arrangement(ElementArrangement arrangement) const {
  check_arrangement(format_, arrangement);
  TensorLayout copy = *this;
  copy.arrangement_ = arrangement;
  return copy;
}

TensorLayout TensorLayout::with_format(DataFormat format) const {
  TensorLayout copy = *this;
  copy.format_ = format;
  return copy;
}

size_t TensorLayout::hash() const {
  size_t seed =
      std::hash<int64_t>()(static_cast<int64_t>(format_) * 16 + static_cast<int64_t>(arrangement_));
  const auto mix = [&seed](int64_t value) {
    seed ^= std::hash<int64_t>()(value) + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2);
  };
  for (int64_t value : device_size_) mix(value);
  for (int64_t value : stride_map_) mix(value);
  return seed;
}

std::string TensorLayout::str() const {
  const std::string format = "DataFormats." + std::string(name_of(format_));
  const std::string arrangement = "ElementArrangement." + std::string(name_of(arrangement_));
  const bool is_standard = arrangement_ == ElementArrangement::STANDARD;
  if (!device_size_.empty() && device_size_.back() == elems_per_stick(format_)) {
    return "SpyreTensorLayout(device_size=" + to_string(device_size_) +
           ", stride_map =" + to_string(stride_map_) + ", device_dtype=" + format +
           (is_standard ? ")" : ", element_arrangement=" + arrangement + ")");
  }
  // The constructor accepts only whole sticks.
  const std::string count = device_size_.empty() ? "0" : std::to_string(device_size_.front());
  const std::string raw =
      device_size_.size() == 3 ? "pool(" + count + ")" : "linear(" + count + ", " + format + ")";
  return "SpyreTensorLayout." + raw +
         (is_standard ? "" : ".with_element_arrangement(" + arrangement + ")");
}

}  // namespace spyre
