#include "flex/copy_traffic.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <vector>

#include "flex/device_box.h"

namespace spyre::flex {

namespace {

int64_t bytes_of(DataFormat format) { return std::max<int64_t>(1, bits_per_element(format) / 8); }

void add_box(MemoryTraffic& traffic, const CopyNest& nest, int64_t offset,
             int64_t CopyLoop::* stride, int64_t element_bytes) {
  DeviceBox box(offset * element_bytes, element_bytes);
  for (const CopyLoop& loop : nest.loops) {
    if (loop.size == 0) return;
    box.add(loop.size, loop.*stride * element_bytes);
  }
  box.normalise();
  const BoxCost cost = box.cost(box.hull());
  traffic.bytes += cost.sticks * kBytesInStick;
  traffic.runs += cost.runs;
}

MemoryTraffic traffic_of_list(std::vector<int64_t> elements, int64_t element_bytes) {
  MemoryTraffic traffic;
  int64_t expected = std::numeric_limits<int64_t>::min();
  for (int64_t& element : elements) {
    traffic.runs += element != expected;
    expected = element + 1;
    element = element * element_bytes / kBytesInStick;
  }
  std::sort(elements.begin(), elements.end());
  const auto last = std::unique(elements.begin(), elements.end());
  traffic.bytes = (last - elements.begin()) * kBytesInStick;
  return traffic;
}

// Returns whether some loop moves within a stick on one side and differently on the other. A loop
// that repeats elements, as of an expanded tensor, needs no reordering.
bool reorders_sticks(const CopyNest& nest, int64_t src_bytes, int64_t dst_bytes) {
  return std::any_of(nest.loops.begin(), nest.loops.end(), [&](const CopyLoop& loop) {
    const bool is_inside_stick = std::abs(loop.src_stride * src_bytes) < kBytesInStick ||
                                 std::abs(loop.dst_stride * dst_bytes) < kBytesInStick;
    return loop.size > 1 && loop.src_stride != 0 && loop.src_stride != loop.dst_stride &&
           is_inside_stick;
  });
}

}  // namespace

CopyTraffic traffic_of(const Transfer& transfer, CopySource source) {
  const CopyDescriptor& descriptor = transfer.descriptor;
  const int64_t src_bytes = bytes_of(descriptor.src_format);
  const int64_t dst_bytes = bytes_of(descriptor.dst_format);
  const bool reads = source == CopySource::kDevice;
  CopyTraffic traffic;
  if (descriptor.nests.empty()) {
    if (reads) traffic.read = traffic_of_list(transfer.src_elements, src_bytes);
    traffic.written = traffic_of_list(transfer.dst_elements, dst_bytes);
    traffic.is_restickify = reads;
    return traffic;
  }
  for (const CopyNest& nest : descriptor.nests) {
    if (reads) add_box(traffic.read, nest, nest.src_offset, &CopyLoop::src_stride, src_bytes);
    add_box(traffic.written, nest, nest.dst_offset, &CopyLoop::dst_stride, dst_bytes);
    traffic.is_restickify |= reads && reorders_sticks(nest, src_bytes, dst_bytes);
  }
  return traffic;
}

}  // namespace spyre::flex
