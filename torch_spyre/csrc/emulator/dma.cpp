// A loop nest is canonicalised, then the two loops that dominate its cost are tiled. Tiles are
// independent, so they run in parallel.
#include "emulator/dma.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "emulator/convert.h"
#include "emulator/dma_tiles.h"
#include "emulator/thread_pool.h"

namespace spyre::emulator {
namespace {

// Smaller copies run on the calling thread.
constexpr int64_t kThreadingBytes = 256 << 10;
// The minimum work per thread.
constexpr int64_t kGrainBytes = 64 << 10;

[[noreturn]] void reject(DataFormat src, DataFormat dst, const std::string& reason) {
  throw std::invalid_argument("cannot copy " + std::string(name_of(src)) + " to " +
                              std::string(name_of(dst)) + ": " + reason);
}

bool is_smaller_than_byte(DataFormat format) {
  const int bits = bits_per_element(format);
  return bits > 0 && bits < 8;
}

bool has_no_elements(const CopyNest& nest) {
  return std::any_of(nest.loops.begin(), nest.loops.end(),
                     [](const CopyLoop& loop) { return loop.size <= 0; });
}

bool merges_into(const CopyLoop& outer, const CopyLoop& inner) {
  return outer.src_stride == inner.size * inner.src_stride &&
         outer.dst_stride == inner.size * inner.dst_stride;
}

// Returns the same copy with the destination's smallest stride first, without loops of size one and
// with contiguous loops merged. A loop with destination stride 0 is replaced by its last iteration.
CopyNest canonical(const CopyNest& nest) {
  CopyNest result{.loops = {}, .src_offset = nest.src_offset, .dst_offset = nest.dst_offset};
  std::vector<CopyLoop>& loops = result.loops;
  loops.reserve(nest.loops.size());
  for (const CopyLoop& loop : nest.loops) {
    if (loop.size == 1) continue;
    if (loop.dst_stride == 0) {
      result.src_offset += (loop.size - 1) * loop.src_stride;
    } else {
      loops.push_back(loop);
    }
  }
  if (loops.empty()) return result;
  std::sort(loops.begin(), loops.end(), [](const CopyLoop& a, const CopyLoop& b) {
    return a.dst_stride != b.dst_stride ? a.dst_stride < b.dst_stride : a.src_stride < b.src_stride;
  });
  auto last = loops.begin();
  for (auto next = last + 1; next != loops.end(); ++next) {
    if (merges_into(*next, *last)) {
      last->size *= next->size;
    } else {
      *++last = *next;
    }
  }
  loops.erase(last + 1, loops.end());
  return result;
}

// Converts a canonical nest of elements smaller than a byte to a nest of bytes.
CopyNest in_whole_bytes(CopyNest nest, DataFormat format) {
  const int64_t elements_per_byte = 8 / bits_per_element(format);
  const auto to_bytes = [&](int64_t elements) {
    if (elements % elements_per_byte != 0) reject(format, format, "a run is not whole bytes");
    return elements / elements_per_byte;
  };
  if (nest.loops.empty()) reject(format, format, "a run is not whole bytes");
  CopyLoop& run = nest.loops.front();
  if (run.src_stride != 1 || run.dst_stride != 1) reject(format, format, "a run is not contiguous");
  run.size = to_bytes(run.size);
  for (auto loop = nest.loops.begin() + 1; loop != nest.loops.end(); ++loop) {
    loop->src_stride = to_bytes(loop->src_stride);
    loop->dst_stride = to_bytes(loop->dst_stride);
  }
  nest.src_offset = to_bytes(nest.src_offset);
  nest.dst_offset = to_bytes(nest.dst_offset);
  return nest;
}

bool is_wider_than_kernels(DataFormat format) { return bits_per_element(format) == 128; }

// Converts a nest of 128-bit elements to a nest of their halves.
CopyNest in_halves(CopyNest nest) {
  for (CopyLoop& loop : nest.loops) {
    loop.src_stride *= 2;
    loop.dst_stride *= 2;
  }
  nest.src_offset *= 2;
  nest.dst_offset *= 2;
  nest.loops.insert(nest.loops.begin(), {.size = 2, .src_stride = 1, .dst_stride = 1});
  return nest;
}

std::vector<int64_t> offsets_in_halves(const int64_t* offsets, size_t count) {
  std::vector<int64_t> halves;
  halves.reserve(2 * count);
  for (size_t i = 0; i < count; ++i) {
    halves.push_back(2 * offsets[i]);
    halves.push_back(2 * offsets[i] + 1);
  }
  return halves;
}

// Removes the panel's row loop from `outer`, the canonical loops around `column`, and returns it:
// the source's fastest loop if that is not `column`, else the destination's next.
CopyLoop extract_row_loop(std::vector<CopyLoop>& outer, const CopyLoop& column) {
  if (outer.empty()) return CopyLoop{};
  auto row = outer.begin();
  int64_t fastest = column.src_stride;
  for (auto loop = outer.begin(); loop != outer.end(); ++loop) {
    if (loop->src_stride == 0 || loop->src_stride >= fastest) continue;
    fastest = loop->src_stride;
    row = loop;
  }
  const CopyLoop row_loop = *row;
  outer.erase(row);
  return row_loop;
}

// A tiled nest; tiles are numbered with the tiles along rows fastest.
class TiledCopy {
 public:
  TiledCopy(const ConversionKernel& kernel, CopyNest nest, const void* src, void* dst)
      : src_(static_cast<const std::byte*>(src) + nest.src_offset * kernel.src_bytes),
        dst_(static_cast<std::byte*>(dst) + nest.dst_offset * kernel.dst_bytes) {
    for (CopyLoop& loop : nest.loops) {
      loop.src_stride *= kernel.src_bytes;
      loop.dst_stride *= kernel.dst_bytes;
    }
    CopyLoop column{.size = 1, .src_stride = kernel.src_bytes, .dst_stride = kernel.dst_bytes};
    if (!nest.loops.empty()) {
      column = nest.loops.front();
      nest.loops.erase(nest.loops.begin());
    }
    const CopyLoop row = extract_row_loop(nest.loops, column);
    panel_ = plan_panel(kernel, row, column);
    loops_ = std::move(nest.loops);
    loops_.insert(loops_.begin(),
                  {tile_loop(row, panel_.tile_rows), tile_loop(column, panel_.tile_columns)});
    for (const CopyLoop& loop : loops_) tiles_ *= loop.size;
  }

  int64_t tiles() const { return tiles_; }

  int64_t tile_bytes() const {
    return panel_.tile_rows * panel_.tile_columns *
           std::max(panel_.kernel->src_bytes, panel_.kernel->dst_bytes);
  }

  uint64_t run(int64_t begin, int64_t end) const {
    std::vector<int64_t> position(loops_.size());
    const std::byte* src = src_;
    std::byte* dst = dst_;
    int64_t remaining = begin;
    for (size_t i = 0; i < loops_.size(); ++i) {
      position[i] = remaining % loops_[i].size;
      remaining /= loops_[i].size;
      src += position[i] * loops_[i].src_stride;
      dst += position[i] * loops_[i].dst_stride;
    }
    uint64_t num_out_of_range = 0;
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t first_row = position[0] * panel_.tile_rows;
      const int64_t first_column = position[1] * panel_.tile_columns;
      num_out_of_range +=
          panel_.run_tile(panel_, src, dst, std::min(panel_.tile_rows, panel_.row.size - first_row),
                          std::min(panel_.tile_columns, panel_.column.size - first_column));
      for (size_t i = 0; i < loops_.size(); ++i) {
        src += loops_[i].src_stride;
        dst += loops_[i].dst_stride;
        if (++position[i] < loops_[i].size) break;
        src -= loops_[i].size * loops_[i].src_stride;
        dst -= loops_[i].size * loops_[i].dst_stride;
        position[i] = 0;
      }
    }
    return num_out_of_range;
  }

 private:
  static CopyLoop tile_loop(const CopyLoop& loop, int64_t tile) {
    return {.size = (loop.size + tile - 1) / tile,
            .src_stride = loop.src_stride * tile,
            .dst_stride = loop.dst_stride * tile};
  }

  const std::byte* src_;
  std::byte* dst_;
  Panel panel_{};
  std::vector<CopyLoop> loops_;
  int64_t tiles_ = 1;
};

uint64_t run_nest(const ConversionKernel& kernel, CopyNest nest, const void* src, void* dst) {
  const TiledCopy copy(kernel, std::move(nest), src, dst);
  if (copy.tiles() * copy.tile_bytes() < kThreadingBytes) return copy.run(0, copy.tiles());
  std::atomic<uint64_t> num_out_of_range = 0;
  const int64_t grain = std::max<int64_t>(1, kGrainBytes / copy.tile_bytes());
  parallel_for(copy.tiles(), grain,
               [&](int64_t begin, int64_t end) { num_out_of_range += copy.run(begin, end); });
  return num_out_of_range;
}

}  // namespace

bool can_convert(DataFormat src, DataFormat dst) {
  if (src == dst && (is_smaller_than_byte(src) || is_wider_than_kernels(src))) return true;
  return conversion_kernel(src, dst) != nullptr;
}

CopyOutcome execute_copy(const CopyDescriptor& descriptor, const void* src, void* dst) {
  const DataFormat from = descriptor.src_format;
  const DataFormat to = descriptor.dst_format;
  if (!can_convert(from, to)) reject(from, to, "the conversion is not supported");
  const bool moves_bytes = is_smaller_than_byte(from);
  const bool moves_halves = is_wider_than_kernels(from);
  const DataFormat unit = moves_bytes ? DataFormat::SENINT8 : DataFormat::RAW64;
  const ConversionKernel* kernel =
      moves_bytes || moves_halves ? conversion_kernel(unit, unit) : conversion_kernel(from, to);
  CopyOutcome outcome;
  for (const CopyNest& nest : descriptor.nests) {
    if (has_no_elements(nest)) continue;
    CopyNest canonical_nest = canonical(moves_halves ? in_halves(nest) : nest);
    if (moves_bytes) canonical_nest = in_whole_bytes(std::move(canonical_nest), from);
    outcome.narrowed_out_of_range += run_nest(*kernel, std::move(canonical_nest), src, dst);
  }
  return outcome;
}

CopyOutcome copy_elements(DataFormat src_format, DataFormat dst_format, const void* src, void* dst,
                          const int64_t* src_offsets, const int64_t* dst_offsets, size_t count) {
  if (src_format == dst_format && is_wider_than_kernels(src_format)) {
    const auto src_halves = offsets_in_halves(src_offsets, count);
    const auto dst_halves = offsets_in_halves(dst_offsets, count);
    return copy_elements(DataFormat::RAW64, DataFormat::RAW64, src, dst, src_halves.data(),
                         dst_halves.data(), 2 * count);
  }
  const ConversionKernel* kernel = conversion_kernel(src_format, dst_format);
  if (kernel == nullptr) reject(src_format, dst_format, "single elements have no such conversion");
  const auto* from = static_cast<const std::byte*>(src);
  auto* to = static_cast<std::byte*>(dst);
  std::atomic<uint64_t> num_out_of_range = 0;
  parallel_for(static_cast<int64_t>(count), kThreadingBytes / kernel->dst_bytes,
               [&](int64_t begin, int64_t end) {
                 num_out_of_range += convert_listed(*kernel, from, to, src_offsets + begin,
                                                    dst_offsets + begin, end - begin);
               });
  return {.narrowed_out_of_range = num_out_of_range};
}

}  // namespace spyre::emulator
