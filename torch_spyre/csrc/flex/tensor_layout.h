// SpyreTensorLayout: the layout of a tensor in device memory. See docs/layouts.md.
#pragma once

#include <cstdint>
#include <string>

#include "flex/data_format.h"
#include "flex/geometry.h"

namespace spyre {

// Special values of stride_map.
inline constexpr int64_t kNoHostStride = -1;  // padding, a synthetic dim, or a host dim of size 1
inline constexpr int64_t kReplicated = 0;     // the device repeats the same host data

class TensorLayout {
 public:
  TensorLayout() = default;

  // Returns the default layout of a contiguous host tensor.
  static TensorLayout of(const Sizes& host_size, DataFormat format);

  // Returns the layout with the host dims in the order `dim_order`, the last one inside the stick;
  // a final -1 selects a sparse layout, with one element per stick.
  static TensorLayout of(const Sizes& host_size, const Sizes& host_strides, DataFormat format,
                         const Sizes& dim_order,
                         ElementArrangement arrangement = ElementArrangement::STANDARD);

  // Returns the layout with these fields. Throws std::invalid_argument unless the lengths are equal
  // and the last size is one stick.
  static TensorLayout from_fields(Sizes device_size, Sizes stride_map, DataFormat format,
                                  ElementArrangement arrangement = ElementArrangement::STANDARD);

  // Returns the layout of `sticks` sticks of raw memory for a kernel's intermediates; its last dim
  // is not a stick.
  static TensorLayout pool(int64_t sticks);

  // Returns the layout of `count` contiguous elements of a host format or bytes, for storages
  // without a dtype. The count need not fill a stick.
  static TensorLayout linear(int64_t count, DataFormat format = DataFormat::SENINT8);

  const Sizes& device_size() const { return device_size_; }
  const Sizes& stride_map() const { return stride_map_; }
  DataFormat format() const { return format_; }
  ElementArrangement arrangement() const { return arrangement_; }

  // Row-major strides over device_size, in elements.
  Sizes device_strides() const;
  int64_t device_bytes() const;
  // Throws std::invalid_argument, as `of` and `from_fields` do, for an arrangement of sticks of
  // another width.
  TensorLayout with_arrangement(ElementArrangement arrangement) const;

  // Returns a layout with the same device offsets and another format of the same width.
  TensorLayout with_format(DataFormat format) const;

  bool operator==(const TensorLayout&) const = default;
  size_t hash() const;
  // Valid Python where SpyreTensorLayout and DataFormats are in scope: generated code embeds it.
  std::string str() const;

 private:
  Sizes device_size_;
  Sizes stride_map_;
  DataFormat format_ = DataFormat::INVALID;
  ElementArrangement arrangement_ = ElementArrangement::STANDARD;
};

}  // namespace spyre
