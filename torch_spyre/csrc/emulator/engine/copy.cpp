// Copies inside the scratchpad: as long runs where the strides allow it, as blocked transposes, or
// element by element.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "emulator/convert.h"
#include "emulator/engine/core.h"
#include "emulator/stop.h"

namespace spyre::emulator::engine {
namespace {

struct Dimension {
  int64_t extent, from, to;  // strides in elements
};

struct Points {
  std::array<Dimension, kMaxRank> dimensions;
  size_t rank = 0;

  // Sorts the dimensions by the stride of the destination, the smallest last. Any order is correct,
  // because no element of the destination is written twice.
  void set(const Copy& copy, std::span<const int64_t> extents) {
    for (size_t i = 0; i < extents.size(); ++i) {
      if (extents[i] == 1) continue;
      dimensions[rank++] = {extents[i], copy.source.strides[i], copy.destination.strides[i]};
    }
    const auto end = dimensions.begin() + static_cast<std::ptrdiff_t>(rank);
    std::sort(dimensions.begin(), end, [](const Dimension& a, const Dimension& b) {
      return std::abs(a.to) > std::abs(b.to);
    });
    merge();
  }

  // Returns the dimension to transpose with the innermost one, or `rank` if there is none.
  size_t transposed() const {
    const Dimension& inner = dimensions[rank - 1];
    if (inner.to != 1 || inner.from < 1) return rank;
    for (size_t i = 0; i + 1 < rank; ++i) {
      if (dimensions[i].from == 1 && dimensions[i].to > 0) return i;
    }
    return rank;
  }

 private:
  void merge() {
    size_t count = 0;
    for (size_t i = 0; i < rank; ++i) {
      const Dimension& next = dimensions[i];
      if (count > 0) {
        Dimension& outer = dimensions[count - 1];
        if (outer.from == next.from * next.extent && outer.to == next.to * next.extent) {
          outer = {outer.extent * next.extent, next.from, next.to};
          continue;
        }
      }
      dimensions[count++] = next;
    }
    rank = count;
  }
};

// With stride 0 a run can be much longer than the scratchpad.
constexpr int64_t kElementsPerCheck = 1 << 20;

template <typename Element>
void copy_strided(const std::byte* from, std::byte* to, const Dimension& run) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(Element));
  for (int64_t begin = 0; begin < run.extent; begin += kElementsPerCheck) {
    if (begin > 0) check_stop();
    const int64_t end = std::min(run.extent, begin + kElementsPerCheck);
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(to + i * run.to * kBytes, from + i * run.from * kBytes, sizeof(Element));
    }
  }
}

void copy_run(const std::byte* from, std::byte* to, const Dimension& run, int64_t element) {
  if (run.from == 1 && run.to == 1) {
    std::memmove(to, from, static_cast<size_t>(run.extent * element));
    return;
  }
  switch (element) {
    case 1:
      return copy_strided<uint8_t>(from, to, run);
    case 2:
      return copy_strided<uint16_t>(from, to, run);
    case 4:
      return copy_strided<uint32_t>(from, to, run);
    default:
      return copy_strided<uint64_t>(from, to, run);
  }
}

// Calls body(from, to) for every point of the `outer` dimensions.
template <typename Body>
void for_each(std::span<const Dimension> outer, const std::byte* from, std::byte* to,
              int64_t element, Body body) {
  std::array<int64_t, kMaxRank> coordinates{};
  StopPoll poll;
  while (true) {
    poll();
    body(from, to);
    size_t i = outer.size();
    while (i-- > 0) {
      from += outer[i].from * element;
      to += outer[i].to * element;
      if (++coordinates[i] < outer[i].extent) break;
      from -= outer[i].from * outer[i].extent * element;
      to -= outer[i].to * outer[i].extent * element;
      coordinates[i] = 0;
    }
    if (i > outer.size()) return;
  }
}

int log2_of(int64_t bytes) { return std::countr_zero(static_cast<uint64_t>(bytes)); }

}  // namespace

void execute(const Copy& copy, Core& core) {
  thread_local std::vector<int64_t> extents;
  read_extents(core, copy.extents, extents);
  if (count_of(extents) == 0) return;
  const std::byte* const from = elements_of(core, copy.source, extents);
  std::byte* const to = elements_of(core, copy.destination, extents);
  const int64_t element = bytes_of(copy.source.type);
  Points space;
  space.set(copy, extents);
  if (space.rank == 0) space.dimensions[space.rank++] = {1, 1, 1};
  const std::span dimensions(space.dimensions.data(), space.rank);
  const Dimension inner = dimensions[space.rank - 1];
  const size_t transposed = space.transposed();
  if (transposed < space.rank) {
    const Dimension columns = dimensions[transposed];
    const auto removed = dimensions.begin() + static_cast<std::ptrdiff_t>(transposed);
    std::copy(removed + 1, dimensions.end() - 1, removed);
    const TransposeKernel transpose =
        active_kernels().transposes[static_cast<size_t>(log2_of(element))];
    for_each(dimensions.first(space.rank - 2), from, to, element,
             [&](const std::byte* source, std::byte* destination) {
               transpose({source, destination, inner.extent, columns.extent, inner.from * element,
                          columns.to * element});
             });
    return;
  }
  for_each(dimensions.first(space.rank - 1), from, to, element,
           [&](const std::byte* source, std::byte* destination) {
             copy_run(source, destination, inner, element);
           });
}

}  // namespace spyre::emulator::engine
