#include "flex/copy_builder.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace spyre {

namespace {

// Views that need more nests than this are copied element by element.
constexpr size_t kMaxNests = 4096;

[[noreturn]] void throw_not_held(const TensorLayout& layout) {
  throw std::invalid_argument(
      "the view reaches elements that " + layout.str() +
      " does not hold: they fall on padding or between the strides it was made for");
}

// A dim of a view: its stride in host offsets of the tiled side, and in elements of the other side.
struct Dim {
  int64_t size, tiled, other;
};

struct PieceLoop {
  int64_t size, device, other;
  size_t device_dim;
};

// A part of the view within which the device offset is an affine function of the indices.
struct Piece {
  std::vector<PieceLoop> loops;
  int64_t device_offset = 0;
  int64_t other_offset = 0;
  // The splits of which this piece is a remainder, coarsest in the lowest bit; pieces are sorted by
  // this.
  uint64_t remainder_of = 0;
};

// The granularity of pieces.
enum class Detail {
  MERGED,       // contiguous device dims are merged: the fewest and longest loops
  DEVICE_DIMS,  // a loop per device dim
};

using Radix = OffsetMap::Radix;

// Merges adjacent radices that are contiguous in host and device offsets.
std::vector<Radix> merge_radices(const std::vector<Radix>& radices) {
  std::vector<Radix> result;
  for (const Radix& finer : radices) {
    if (!result.empty()) {
      Radix& coarser = result.back();
      if (coarser.host_stride % finer.host_stride == 0 &&
          coarser.host_stride / finer.host_stride == finer.size &&
          coarser.device_stride == finer.device_stride * finer.size) {
        coarser = {finer.host_stride, finer.device_stride, coarser.size * finer.size,
                   finer.device_dim};
        continue;
      }
    }
    result.push_back(finer);
  }
  return result;
}

class PieceBuilder {
 public:
  PieceBuilder(const TensorLayout& layout, Detail detail) : layout_(layout) {
    const OffsetMap map(layout);
    radices_ = detail == Detail::MERGED ? merge_radices(map.radices()) : map.radices();
  }

  bool build(std::vector<Dim> dims, int64_t host_offset, int64_t other_offset) {
    merge(dims);
    Piece piece;
    piece.other_offset = other_offset;
    split(0, dims, host_offset, piece);
    return !has_too_many_pieces_;
  }

  std::vector<Piece> sorted_pieces() {
    std::stable_sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) {
      return a.remainder_of < b.remainder_of;
    });
    return std::move(pieces_);
  }

 private:
  // Merges dims that are contiguous on both sides.
  static void merge(std::vector<Dim>& dims) {
    std::erase_if(dims, [](const Dim& dim) { return dim.size == 1; });
    std::stable_sort(dims.begin(), dims.end(),
                     [](const Dim& a, const Dim& b) { return a.tiled > b.tiled; });
    size_t last = 0;
    for (size_t i = 1; i < dims.size(); ++i) {
      const Dim outer = dims[last];
      const Dim& inner = dims[i];
      if (outer.tiled == inner.size * inner.tiled && outer.other == inner.size * inner.other) {
        dims[last] = {outer.size * inner.size, inner.tiled, inner.other};
      } else {
        dims[++last] = inner;
      }
    }
    if (!dims.empty()) dims.resize(last + 1);
  }

  // `remaining` is the part of the host offset that the radices from `level` on must represent.
  void split(size_t level, std::vector<Dim> dims, int64_t remaining, Piece piece) {
    if (has_too_many_pieces_) return;
    if (level == radices_.size()) return finish(dims, remaining, std::move(piece));
    const auto& radix = radices_[level];
    const int64_t stride = radix.host_stride;

    int64_t coordinate = remaining / stride;
    if (coordinate >= radix.size) throw_not_held(layout_);
    piece.device_offset += coordinate * radix.device_stride;
    remaining %= stride;
    int64_t reach = remaining;
    const Dim* widest = nullptr;
    for (const Dim& dim : dims) {
      if (dim.tiled % stride == 0) continue;
      reach += (dim.size - 1) * dim.tiled;
      if (widest == nullptr || dim.tiled > widest->tiled) widest = &dim;
    }
    if (reach >= stride) {
      // Undo the addition above: the parts are split again at this level.
      piece.device_offset -= coordinate * radix.device_stride;
      return divide(level, dims, *widest, coordinate * stride + remaining, piece);
    }

    // No dim with a finer stride carries into this radix: the other dims become loops.
    std::vector<Dim> finer;
    for (const Dim& dim : dims) {
      if (dim.tiled % stride != 0) {
        finer.push_back(dim);
        continue;
      }
      const int64_t step = dim.tiled / stride;
      coordinate += (dim.size - 1) * step;
      if (coordinate >= radix.size) throw_not_held(layout_);
      if (step != 0) {
        piece.loops.push_back({dim.size, step * radix.device_stride, dim.other, radix.device_dim});
      } else {
        finer.push_back(dim);
      }
    }
    split(level + 1, std::move(finer), remaining, std::move(piece));
  }

  void finish(const std::vector<Dim>& dims, int64_t remaining, Piece piece) {
    if (remaining != 0) throw_not_held(layout_);
    for (const Dim& dim : dims) {
      if (dim.tiled != 0) throw_not_held(layout_);
      piece.loops.push_back({dim.size, 0, dim.other, layout_.device_size().size()});
    }
    pieces_.push_back(std::move(piece));
    has_too_many_pieces_ = pieces_.size() > kMaxNests;
  }

  // Splits `widest` where it carries into the radix of this level.
  void divide(size_t level, const std::vector<Dim>& dims, const Dim& widest, int64_t start,
              const Piece& piece) {
    const int64_t stride = radices_[level].host_stride;
    std::vector<Dim> other_dims;
    int64_t other_extent = 0;
    for (const Dim& dim : dims) {
      if (&dim == &widest) continue;
      other_dims.push_back(dim);
      if (dim.tiled % stride != 0) other_extent += (dim.size - 1) * dim.tiled;
    }

    const auto add_part = [&](int64_t first, std::vector<Dim> part_dims, uint64_t remainder_bit) {
      Piece next = piece;
      next.other_offset += first * widest.other;
      next.remainder_of |= remainder_bit;
      part_dims.insert(part_dims.end(), other_dims.begin(), other_dims.end());
      split(level, std::move(part_dims), start + first * widest.tiled, std::move(next));
    };

    const int64_t step = widest.tiled;
    const uint64_t tail_bit = uint64_t{1} << std::min<size_t>(2 * level, 62);
    const uint64_t head_bit = tail_bit << 1;
    if (stride % step == 0 && start % step + other_extent < step) {
      // Whole periods of the radix, with partial periods before and after.
      const int64_t period = stride / step;
      const int64_t phase = start / step % period;
      const int64_t head = phase == 0 ? 0 : std::min(widest.size, period - phase);
      const int64_t whole = (widest.size - head) / period;
      const int64_t tail = widest.size - head - whole * period;
      if (head > 0) add_part(0, {{head, step, widest.other}}, head_bit);
      if (whole > 0) {
        add_part(head, {{whole, stride, widest.other * period}, {period, step, widest.other}}, 0);
      }
      if (tail > 0) add_part(head + whole * period, {{tail, step, widest.other}}, tail_bit);
      return;
    }
    // The splits repeat after each period, a whole number of radix strides further on: each run of
    // the first period gets an outer loop over the periods.
    const int64_t period = stride / std::gcd(stride, step);
    const int64_t periods = widest.size / period;
    const int64_t split_once = periods < 2 ? 0 : period;
    const auto split_runs = [&](int64_t first, int64_t end, const std::vector<Dim>& around) {
      for (int64_t i = first; i < end && !has_too_many_pieces_;) {
        const int64_t low = start + i * step;
        const int64_t available = (low / stride + 1) * stride - 1 - low - other_extent;
        // If the other dims do not fit, this index becomes a part and they are split next.
        const int64_t run = available < 0 ? 1 : std::min(end - i, available / step + 1);
        std::vector<Dim> part_dims = around;
        if (run > 1) part_dims.push_back({run, step, widest.other});
        add_part(i, std::move(part_dims), 0);
        i += run;
      }
    };
    if (split_once > 0) split_runs(0, period, {{periods, period * step, widest.other * period}});
    split_runs(periods * split_once, widest.size, {});
  }

  const TensorLayout& layout_;
  std::vector<Radix> radices_;
  std::vector<Piece> pieces_;
  bool has_too_many_pieces_ = false;
};

std::vector<Dim> dims_of(const HostView& tiled, const HostView& other) {
  std::vector<Dim> dims(tiled.size.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    dims[i] = {tiled.size[i], tiled.strides[i], other.strides[i]};
  }
  return dims;
}

std::optional<std::vector<Piece>> pieces_of(const DeviceView& device, const HostView& other,
                                            Detail detail = Detail::MERGED) {
  PieceBuilder builder(device.binding.layout, detail);
  if (!builder.build(dims_of(device.view, other), device.view.offset, other.offset)) return {};
  return builder.sorted_pieces();
}

// Returns loops over the replicated dims of a layout.
std::vector<PieceLoop> replicas_of(const TensorLayout& layout) {
  std::vector<PieceLoop> loops;
  const Sizes strides = layout.device_strides();
  for (size_t i = 0; i < strides.size(); ++i) {
    if (layout.stride_map()[i] == kReplicated && layout.device_size()[i] > 1) {
      loops.push_back({layout.device_size()[i], strides[i], 0, i});
    }
  }
  return loops;
}

// Guessing the order of elements would give wrong results silently.
void check_order_is_known(const TensorLayout& layout) {
  if (has_known_order(layout.arrangement())) return;
  throw std::invalid_argument(layout.str() +
                              ": the order of elements in this arrangement is not published, so "
                              "it can only be used by kernels, not copied");
}

CopyNest nest_to_device(const Piece& piece) {
  CopyNest nest{{}, piece.other_offset, piece.device_offset};
  for (const PieceLoop& loop : piece.loops) {
    nest.loops.push_back({loop.size, loop.other, loop.device});
  }
  return nest;
}

CopyNest reversed(CopyNest nest) {
  std::swap(nest.src_offset, nest.dst_offset);
  for (CopyLoop& loop : nest.loops) std::swap(loop.src_stride, loop.dst_stride);
  return nest;
}

}  // namespace

OffsetMap::OffsetMap(const TensorLayout& layout) {
  check_order_is_known(layout);
  const Sizes& size = layout.device_size();
  const Sizes& map = layout.stride_map();
  const Sizes strides = layout.device_strides();
  const size_t lane = size.size() - 1;
  const int64_t step = map[lane];
  const ElementArrangement arrangement =
      step > 0 ? layout.arrangement() : ElementArrangement::STANDARD;

  const bool widened = arrangement == ElementArrangement::DL16_TO_FP32;
  const int64_t next_stick = widened ? checked_multiply(step, size[lane]) : 0;
  for (size_t i = 0; i < size.size(); ++i) {
    if (map[i] <= 0 || size[i] <= 1) continue;
    if (widened && map[i] == next_stick) {
      // Two 32-bit sticks hold the elements of one 16-bit stick, four by four alternately.
      if (size[i] % 2 != 0) {
        throw std::invalid_argument(layout.str() + ": DL16_TO_FP32 needs an even number of sticks");
      }
      if (size[i] > 2) {
        radices_.push_back({checked_multiply(64, step), 2 * strides[i], size[i] / 2, i});
      }
      radices_.push_back({4 * step, strides[i], 2, i});
    } else if (widened && i == lane) {
      radices_.push_back({checked_multiply(8, step), 4, 8, i});
      radices_.push_back({step, 1, 4, i});
    } else if (arrangement == ElementArrangement::FP32_TO_DL16 && i == lane) {
      radices_.push_back({checked_multiply(32, step), 4, 2, i});
      radices_.push_back({4 * step, 8, 8, i});
      radices_.push_back({step, 1, 4, i});
    } else {
      radices_.push_back({map[i], strides[i], size[i], i});
    }
  }
  std::stable_sort(radices_.begin(), radices_.end(),
                   [](const Radix& a, const Radix& b) { return a.host_stride > b.host_stride; });
  // For equal strides, the outer dim gets the whole quotient; the coordinates of the others are 0.
  const auto same = [](const Radix& a, const Radix& b) { return a.host_stride == b.host_stride; };
  radices_.erase(std::unique(radices_.begin(), radices_.end(), same), radices_.end());
}

int64_t OffsetMap::operator()(int64_t host_offset) const {
  int64_t device = 0;
  for (const Radix& radix : radices_) {
    const int64_t coordinate = host_offset / radix.host_stride;
    host_offset %= radix.host_stride;
    if (coordinate >= radix.size) {
      throw std::invalid_argument("the view reaches elements that its device layout does not hold");
    }
    device += coordinate * radix.device_stride;
  }
  if (host_offset != 0) {
    throw std::invalid_argument("the view reaches elements that its device layout does not hold");
  }
  return device;
}

std::optional<std::vector<CopyNest>> build_to_device(const HostView& src, const DeviceView& dst) {
  const auto pieces = pieces_of(dst, src);
  if (!pieces) return {};
  const auto replicas = replicas_of(dst.binding.layout);
  std::vector<CopyNest> nests;
  nests.reserve(pieces->size());
  for (const Piece& piece : *pieces) {
    nests.push_back(nest_to_device(piece));
    for (const PieceLoop& loop : replicas)
      nests.back().loops.push_back({loop.size, 0, loop.device});
  }
  return nests;
}

std::optional<std::vector<CopyNest>> build_to_host(const DeviceView& src, const HostView& dst) {
  const auto pieces = pieces_of(src, dst);
  if (!pieces) return {};
  std::vector<CopyNest> nests;
  nests.reserve(pieces->size());
  for (const Piece& piece : *pieces) nests.push_back(reversed(nest_to_device(piece)));
  return nests;
}

std::optional<std::vector<CopyNest>> build_on_device(const DeviceView& src, const DeviceView& dst) {
  const auto src_pieces = pieces_of(src, dst.view);
  if (!src_pieces) return {};
  // Each piece is affine in the source. Its loops over host offsets of the destination are the view
  // that is split for the destination's layout.
  const auto replicas = replicas_of(dst.binding.layout);
  std::vector<CopyNest> nests;
  for (const Piece& piece : *src_pieces) {
    std::vector<Dim> dims;
    for (const PieceLoop& loop : piece.loops) dims.push_back({loop.size, loop.other, loop.device});
    PieceBuilder builder(dst.binding.layout, Detail::MERGED);
    if (!builder.build(std::move(dims), piece.other_offset, piece.device_offset)) return {};
    for (const Piece& common_piece : builder.sorted_pieces()) {
      nests.push_back(nest_to_device(common_piece));
      for (const PieceLoop& loop : replicas) {
        nests.back().loops.push_back({loop.size, 0, loop.device});
      }
      if (nests.size() > kMaxNests) return {};
    }
  }
  return nests;
}

std::vector<CopyNest> describe_to_device(const Binding& binding, const HostView& src) {
  const TensorLayout& layout = binding.layout;
  const DeviceView whole_tensor{binding, {src.size, binding.host_strides, 0}};
  const auto pieces = pieces_of(whole_tensor, src, Detail::DEVICE_DIMS);
  if (!pieces) throw std::invalid_argument(layout.str() + ": too many nests to describe");
  const Sizes strides = layout.device_strides();
  const auto replicas = replicas_of(layout);

  std::vector<CopyNest> nests;
  for (const Piece& piece : *pieces) {
    CopyNest nest{{}, piece.other_offset, piece.device_offset};
    std::vector<PieceLoop> loops = piece.loops;
    loops.insert(loops.end(), replicas.begin(), replicas.end());
    for (size_t dim = strides.size(); dim-- > 0;) {
      const size_t before = nest.loops.size();
      for (const PieceLoop& loop : loops) {
        if (loop.device_dim == dim) nest.loops.push_back({loop.size, loop.other, loop.device});
      }
      if (nest.loops.size() == before) {
        const int64_t step = layout.stride_map()[dim];
        nest.loops.push_back({1, step == kNoHostStride ? 1 : step, strides[dim]});
      }
    }
    nests.push_back(std::move(nest));
  }
  return nests;
}

std::vector<int64_t> list_offsets(const HostView& view) {
  std::vector<int64_t> offsets{view.offset};
  for (size_t dim = 0; dim < view.size.size(); ++dim) {
    std::vector<int64_t> extended;
    extended.reserve(offsets.size() * view.size[dim]);
    for (int64_t offset : offsets) {
      for (int64_t i = 0; i < view.size[dim]; ++i)
        extended.push_back(offset + i * view.strides[dim]);
    }
    offsets = std::move(extended);
  }
  return offsets;
}

std::vector<int64_t> list_offsets(const DeviceView& device) {
  const OffsetMap map(device.binding.layout);
  std::vector<int64_t> offsets = list_offsets(device.view);
  for (int64_t& offset : offsets) offset = map(offset);
  return offsets;
}

}  // namespace spyre
