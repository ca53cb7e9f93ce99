#include "emulator/engine/memory.h"

#include <algorithm>
#include <string>

#include "emulator/engine/record.h"

namespace spyre::emulator::engine {

namespace {

bool is_scratchpad_view(const View& view) { return view.space == Space::kScratchpad; }

}  // namespace

int64_t in_bytes(int64_t elements, int element_bytes, const char* quantity) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements, element_bytes, &bytes)) {
    throw KernelError(std::string(quantity) + " " + std::to_string(elements) +
                      " of a view is outside the address space");
  }
  return bytes;
}

Memory::Memory(const Program& program, std::span<const Buffer> arrays,
               std::span<const Buffer> fixed, std::span<const Buffer> windows)
    : windows_(windows.begin(), windows.end()) {
  for (size_t i = 0; i < fixed.size(); ++i) {
    segments_.push_back({program.fixed_buffers[i].address, fixed[i]});
  }
  std::vector<int64_t> bytes;
  for (const Buffer& array : arrays) bytes.push_back(array.bytes);
  const std::vector<ArrayLocation> locations = locate_arrays(program, bytes);
  for (size_t i = 0; i < arrays.size(); ++i) {
    segments_.push_back({locations[i].address, arrays[i]});
    array_addresses_.push_back(locations[i].address);
  }
  std::ranges::stable_sort(segments_, {}, &Segment::begin);
}

const Memory::Segment& Memory::segment_at(int64_t address) const {
  // Segments do not overlap: it can only be the last one that begins at or before the address.
  const auto after = std::ranges::upper_bound(segments_, address, {}, &Segment::begin);
  if (after != segments_.begin() && address <= std::prev(after)->end()) return *std::prev(after);
  throw KernelError("there is no memory at byte address " + std::to_string(address));
}

Region Memory::region(const View& view, const Core& core) const {
  Region region;
  region.element_bytes = bytes_of(view.type);
  const int64_t address = in_bytes(core.integer(view.base), region.element_bytes, "the base");
  for (Register stride : view.strides) {
    region.strides.push_back(in_bytes(core.integer(stride), region.element_bytes, "a stride"));
  }
  if (view.space == Space::kGlobal) {
    const Segment& segment = segment_at(address);
    region.data = segment.buffer.data;
    region.bytes = segment.buffer.bytes;
    region.first = address - segment.begin;
    region.address = segment.begin;
    return region;
  }
  const int64_t owner = view.core == kNoRegister ? core.id : core.integer(view.core);
  if (owner < 0 || owner >= static_cast<int64_t>(windows_.size())) {
    throw KernelError("there is no core " + std::to_string(owner) +
                      " whose scratchpad could be accessed: the grid has " +
                      std::to_string(windows_.size()));
  }
  region.data = windows_[static_cast<size_t>(owner)].data;
  region.bytes = windows_[static_cast<size_t>(owner)].bytes;
  region.first = address;
  region.zero_beyond = false;
  region.description = "scratchpad window";
  return region;
}

bool views_scratchpads(const Program& program) {
  return std::ranges::any_of(program.code, [](const Instruction& instruction) {
    if (const auto* direct = std::get_if<Transfer>(&instruction.action)) {
      return std::ranges::any_of(direct->views, is_scratchpad_view);
    }
    const auto* indirect = std::get_if<IndirectTransfer>(&instruction.action);
    return indirect != nullptr &&
           (is_scratchpad_view(indirect->view) ||
            std::ranges::any_of(indirect->subscripts, [](const Subscript& subscript) {
              return subscript.indirect && is_scratchpad_view(subscript.index);
            }));
  });
}

}  // namespace spyre::emulator::engine
