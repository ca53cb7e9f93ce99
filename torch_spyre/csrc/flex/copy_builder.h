// Builds the copy nests of views of tensors.
//
// Division converts a host offset to device coordinates: for the device dims with a host stride, in
// descending order of stride, the quotient is the coordinate and the remainder is the offset for
// the next dim. This rule covers default, permuted, sparse, split and ragged layouts and all views
// of them, because a view is only another set of host offsets.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "flex/copy_descriptor.h"
#include "flex/tensor_layout.h"

namespace spyre {

// A layout and the sizes and strides of the host tensor that it was computed for.
struct Binding {
  TensorLayout layout;
  Sizes host_size;
  Sizes host_strides;

  int64_t extent() const { return host_extent(host_size, host_strides); }
};

// A strided set of host offsets.
struct HostView {
  Sizes size;
  Sizes strides;
  int64_t offset = 0;
};

// A view of a tensor on the device.
struct DeviceView {
  const Binding& binding;
  HostView view;
};

// Return the nests of a copy between a device view and a host buffer of the same sizes, or between
// two device views. They return nothing if there would be too many nests; the caller must then copy
// element by element with OffsetMap. All throw std::invalid_argument if a view exceeds its layout.
std::optional<std::vector<CopyNest>> build_to_device(const HostView& src, const DeviceView& dst);
std::optional<std::vector<CopyNest>> build_to_host(const DeviceView& src, const HostView& dst);
std::optional<std::vector<CopyNest>> build_on_device(const DeviceView& src, const DeviceView& dst);

// Returns the nests of a whole tensor in the published form: one loop per device dim, innermost
// first.
std::vector<CopyNest> describe_to_device(const Binding& binding, const HostView& src);

// Maps single host offsets to device offsets.
class OffsetMap {
 public:
  explicit OffsetMap(const TensorLayout& layout);
  // Throws std::invalid_argument for an offset without a device offset.
  int64_t operator()(int64_t host_offset) const;

  // One digit of a host offset as a mixed-radix number.
  struct Radix {
    int64_t host_stride, device_stride, size;
    size_t device_dim;
  };
  const std::vector<Radix>& radices() const { return radices_; }

 private:
  std::vector<Radix> radices_;
};

// Return the offsets of all elements of a view, the last dim fastest.
std::vector<int64_t> list_offsets(const HostView& view);
std::vector<int64_t> list_offsets(const DeviceView& device);

}  // namespace spyre
