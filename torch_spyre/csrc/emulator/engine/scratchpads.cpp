#include "emulator/engine/scratchpads.h"

#include <cstring>
#include <utility>

namespace spyre::emulator::engine {

namespace {

constexpr std::align_val_t kAlignment{4096};

}  // namespace

ScratchpadPool::~ScratchpadPool() {
  for (std::byte* data : free_) ::operator delete(data, kAlignment);
}

ScratchpadPool::Lease::Lease(Lease&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), data_(std::exchange(other.data_, nullptr)) {}

ScratchpadPool::Lease& ScratchpadPool::Lease::operator=(Lease&& other) noexcept {
  std::swap(pool_, other.pool_);
  std::swap(data_, other.data_);
  return *this;
}

ScratchpadPool::Lease::~Lease() {
  if (pool_ != nullptr) pool_->release(data_);
}

ScratchpadPool::Lease ScratchpadPool::acquire() {
  std::byte* data = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      data = free_.back();
      free_.pop_back();
    }
  }
  if (data == nullptr) {
    data = static_cast<std::byte*>(::operator new(static_cast<size_t>(bytes_), kAlignment));
  }
  return Lease(*this, data);
}

void ScratchpadPool::fill(const Lease& lease, int64_t begin, int64_t end) const {
  std::memset(lease.data() + begin, poison_ ? kPoison : 0, static_cast<size_t>(end - begin));
}

void ScratchpadPool::release(std::byte* data) noexcept {
  try {
    std::lock_guard lock(mutex_);
    free_.push_back(data);
  } catch (const std::bad_alloc&) {
    ::operator delete(data, kAlignment);
  }
}

}  // namespace spyre::emulator::engine
