// Turns "this view of that tensor" into copy nests.
//
// A host offset becomes device coordinates by division: take the device dims with a host stride,
// largest stride first; the quotient is the coordinate, the remainder goes on to the next. That
// one rule covers default, permuted, sparse, folded and ragged layouts alike, and any view of
// them, since a view is only another set of host offsets.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "flex/copy_descriptor.h"
#include "flex/tensor_layout.h"

namespace spyre {

// The host image that a layout was computed for: its strides refer to it.
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

// A tensor on the device as a copy sees it.
struct DeviceView {
  const Binding& binding;
  HostView view;
};

// Copies between a device view and a host buffer of the same sizes, or between two device views.
// No value: the list of nests would grow too long; then copy element by element with OffsetMap.
// All throw std::invalid_argument if a view exceeds its layout.
std::optional<std::vector<CopyNest>> build_to_device(const HostView& src, const DeviceView& dst);
std::optional<std::vector<CopyNest>> build_to_host(const DeviceView& src, const HostView& dst);
std::optional<std::vector<CopyNest>> build_on_device(const DeviceView& src, const DeviceView& dst);

// The nests of a whole tensor in the published form: one loop per device dim, innermost first.
std::vector<CopyNest> describe_to_device(const Binding& binding, const HostView& src);

// Maps single host offsets to device offsets.
class OffsetMap {
 public:
  explicit OffsetMap(const TensorLayout& layout);
  // Throws std::invalid_argument for an offset the layout does not hold.
  int64_t operator()(int64_t host_offset) const;

  // One digit of the mixed-radix number that a host offset is.
  struct Radix {
    int64_t host_stride, device_stride, size;
    size_t device_dim;
  };
  const std::vector<Radix>& radices() const { return radices_; }

 private:
  std::vector<Radix> radices_;
};

// Offsets of every element of a view, last dim fastest.
std::vector<int64_t> list_offsets(const HostView& view);
std::vector<int64_t> list_offsets(const DeviceView& device);

}  // namespace spyre
