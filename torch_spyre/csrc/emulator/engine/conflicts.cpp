#include "emulator/engine/conflicts.h"

#include <algorithm>
#include <limits>

namespace spyre::emulator::engine {
namespace {

constexpr int64_t kMaxRunsPerBox = int64_t{1} << 20;
constexpr size_t kMaxRunsPerCore = size_t{1} << 20;
constexpr int64_t kNone = std::numeric_limits<int64_t>::min();

// The maximum end of all ranges so far, and the maximum of the ranges of all other cores.
class FarthestEnds {
 public:
  void add(int64_t end, int32_t core) {
    if (core == core_) {
      end_ = std::max(end_, end);
    } else if (end > end_) {
      other_end_ = end_;
      end_ = end;
      core_ = core;
    } else {
      other_end_ = std::max(other_end_, end);
    }
  }
  int64_t of_others(int32_t core) const { return core == core_ ? other_end_ : end_; }

 private:
  int64_t end_ = kNone, other_end_ = kNone;
  int32_t core_ = -1;
};

}  // namespace

void AccessedMemory::begin_core(int64_t core) {
  compact();
  first_of_core_ = accesses_.size();
  compact_at_ = first_of_core_ + kMaxRunsPerCore;
  core_ = static_cast<int32_t>(core);
}

void AccessedMemory::add(ByteRange range, bool is_write) {
  accesses_.push_back({range.begin, range.end, core_, is_write});
  if (accesses_.size() >= compact_at_) compact();
}

void AccessedMemory::add(const DeviceBox& box, bool is_write) {
  if (box.visited_runs() > kMaxRunsPerBox) return add(box.hull(), is_write);
  box.visit_runs([&](int64_t begin, int64_t end) { add(ByteRange{begin, end}, is_write); });
}

// Merges adjacent ranges; if too many remain, all ranges of the core.
void AccessedMemory::compact() {
  const auto first = accesses_.begin() + static_cast<std::ptrdiff_t>(first_of_core_);
  std::sort(first, accesses_.end(), [](const Access& a, const Access& b) {
    return a.is_write != b.is_write ? a.is_write < b.is_write : a.begin < b.begin;
  });
  const auto merge_within = [&](int64_t gap) {
    auto write = first;
    for (auto read = first; read != accesses_.end(); ++read) {
      if (write != first && (write - 1)->is_write == read->is_write &&
          read->begin - (write - 1)->end <= gap) {
        (write - 1)->end = std::max((write - 1)->end, read->end);
      } else {
        *write++ = *read;
      }
    }
    accesses_.erase(write, accesses_.end());
  };
  merge_within(0);
  if (accesses_.size() - first_of_core_ > kMaxRunsPerCore / 2) {
    merge_within(std::numeric_limits<int64_t>::max() / 2);
  }
}

bool AccessedMemory::has_conflict() {
  compact();
  std::sort(accesses_.begin(), accesses_.end(),
            [](const Access& a, const Access& b) { return a.begin < b.begin; });
  FarthestEnds any, written;
  for (const Access& access : accesses_) {
    const FarthestEnds& conflicting = access.is_write ? any : written;
    if (conflicting.of_others(access.core) > access.begin) return true;
    any.add(access.end, access.core);
    if (access.is_write) written.add(access.end, access.core);
  }
  return false;
}

}  // namespace spyre::emulator::engine
