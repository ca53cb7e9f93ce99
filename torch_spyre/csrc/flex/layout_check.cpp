#include "flex/layout_check.h"

#include <algorithm>
#include <stdexcept>

#include "flex/copy_builder.h"

namespace spyre {

namespace {

// Views that cannot be checked by arithmetic or by building nests are checked element by element,
// up to this many elements.
constexpr int64_t kMaxVisited = int64_t{1} << 24;

struct Steps {
  int64_t size, stride;
};

// Returns dims that reach the same offsets, with as few duplicates as possible: a dim whose stride
// is covered by a finer dim without gaps is merged into it.
std::vector<Steps> distinct_steps(const Sizes& size, const Sizes& strides) {
  std::vector<Steps> dims;
  for (size_t i = 0; i < size.size(); ++i) {
    if (size[i] > 1 && strides[i] > 0) dims.push_back({size[i], strides[i]});
  }
  std::sort(dims.begin(), dims.end(),
            [](const Steps& a, const Steps& b) { return a.stride < b.stride; });
  std::vector<Steps> merged;
  for (const Steps& dim : dims) {
    if (!merged.empty()) {
      Steps& finer = merged.back();
      if (dim.stride % finer.stride == 0 && dim.stride / finer.stride <= finer.size) {
        finer.size += (dim.size - 1) * (dim.stride / finer.stride);
        continue;
      }
    }
    merged.push_back(dim);
  }
  return merged;
}

// Returns whether every multiple of the finest radix up to the last offset has a device offset.
// This holds for all common layouts except padded ones.
bool has_no_gaps(const std::vector<OffsetMap::Radix>& radices, int64_t last) {
  if (last / radices.front().host_stride >= radices.front().size) return false;
  for (size_t i = 1; i < radices.size(); ++i) {
    const int64_t coarser = radices[i - 1].host_stride, finer = radices[i].host_stride;
    if (coarser % finer != 0 || coarser / finer > radices[i].size) return false;
  }
  return true;
}

void visit(const OffsetMap& map, const std::vector<Steps>& dims, size_t dim, int64_t offset) {
  if (dim == dims.size()) {
    map(offset);
    return;
  }
  for (int64_t i = 0; i < dims[dim].size; ++i)
    visit(map, dims, dim + 1, offset + i * dims[dim].stride);
}

}  // namespace

void check_layout_holds(const TensorLayout& layout, const Sizes& size, const Sizes& strides,
                        int64_t offset) {
  check_geometry(size, strides, offset);
  const int64_t extent = host_extent(size, strides);
  if (extent == 0) return;
  if (layout.device_bytes() == 0) {
    throw std::invalid_argument(layout.str() + " has no memory for a tensor of sizes " +
                                to_string(size));
  }
  // An unpublished order only permutes elements inside the same sticks.
  const TensorLayout ordered = has_known_order(layout.arrangement())
                                   ? layout
                                   : layout.with_arrangement(ElementArrangement::STANDARD);
  const OffsetMap map(ordered);
  const std::vector<Steps> dims = distinct_steps(size, strides);
  const auto is_multiple = [&](int64_t unit) {
    return offset % unit == 0 && std::all_of(dims.begin(), dims.end(), [&](const Steps& dim) {
             return dim.stride % unit == 0;
           });
  };
  const auto& radices = map.radices();
  if (!radices.empty() && is_multiple(radices.back().host_stride) &&
      has_no_gaps(radices, offset + extent - 1)) {
    return;
  }

  HostView view{{}, {}, offset};
  int64_t elements = 1;
  for (const Steps& dim : dims) {
    view.size.push_back(dim.size);
    view.strides.push_back(dim.stride);
    elements = checked_multiply(elements, dim.size);
  }
  const Binding binding{ordered, view.size, view.strides};
  if (build_to_host({binding, view}, view)) return;
  if (elements > kMaxVisited) {
    throw std::invalid_argument("a view of sizes " + to_string(size) + " and strides " +
                                to_string(strides) + " is too irregular for " + layout.str() +
                                ": use strides that are multiples of each other");
  }
  visit(map, dims, 0, offset);
}

}  // namespace spyre
