#include "emulator/engine/memory.h"

#include <algorithm>
#include <string>

namespace spyre::emulator::engine {

namespace {

int64_t aligned(int64_t address) {
  return (address + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment;
}

// An array takes addresses even if it has no elements, so that no two have the same.
int64_t after(int64_t address, int64_t bytes) {
  return aligned(address + std::max<int64_t>(bytes, 1));
}

// The room arrays take together, from an aligned address on.
int64_t room_for(std::span<const Buffer> arrays) {
  int64_t end = 0;
  for (const Buffer& array : arrays) end = after(end, array.bytes);
  return end;
}

bool looks_at_scratchpad(const View& view) { return view.space == Space::kScratchpad; }

}  // namespace

int64_t in_bytes(int64_t elements, int element_bytes, const char* what) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements, element_bytes, &bytes)) {
    throw KernelError(std::string(what) + " " + std::to_string(elements) +
                      " of a view is outside the address space");
  }
  return bytes;
}

Memory::Memory(const Program& program, std::span<const Buffer> arrays,
               std::span<const Buffer> fixed, std::span<const Buffer> windows)
    : windows_(windows.begin(), windows.end()) {
  int64_t address = kFirstArrayAddress;
  const int64_t room = room_for(arrays);
  int64_t fixed_end = 0;
  bool overlap = false;
  for (size_t i = 0; i < fixed.size(); ++i) {
    const int64_t begin = program.fixed_buffers[i].address;
    segments_.push_back({begin, fixed[i]});
    fixed_end = std::max(fixed_end, segments_.back().end());
    overlap |= begin < address + room && segments_.back().end() > address;
  }
  if (overlap) address = std::max(address, aligned(fixed_end));
  for (const Buffer& array : arrays) {
    segments_.push_back({address, array});
    array_addresses_.push_back(address);
    address = after(address, array.bytes);
  }
  std::ranges::stable_sort(segments_, {}, &Segment::begin);
}

const Memory::Segment& Memory::segment_at(int64_t address) const {
  // The last segment that begins at or before the address; those that end before it are no help,
  // but fixed buffers may overlap each other, so an earlier one can still reach it.
  const auto past = std::ranges::upper_bound(segments_, address, {}, &Segment::begin);
  const Segment* ends_here = nullptr;
  for (auto segment = past; segment != segments_.begin();) {
    --segment;
    if (address < segment->end()) return *segment;
    if (address == segment->end() && ends_here == nullptr) ends_here = &*segment;
  }
  if (ends_here != nullptr) return *ends_here;
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
  region.what = "scratchpad window";
  return region;
}

bool views_scratchpads(const Program& program) {
  return std::ranges::any_of(program.code, [](const Instruction& instruction) {
    if (const auto* direct = std::get_if<Transfer>(&instruction.action)) {
      return std::ranges::any_of(direct->views, looks_at_scratchpad);
    }
    const auto* indirect = std::get_if<IndirectTransfer>(&instruction.action);
    return indirect != nullptr &&
           (looks_at_scratchpad(indirect->view) ||
            std::ranges::any_of(indirect->subscripts, [](const Subscript& subscript) {
              return subscript.indirect && looks_at_scratchpad(subscript.index);
            }));
  });
}

}  // namespace spyre::emulator::engine
