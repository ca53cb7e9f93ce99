// Host memory for the scratchpads of cores, used again from launch to launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

namespace spyre::emulator::engine {

class ScratchpadPool {
 public:
  // `poison`: fill scratchpads with a pattern that is NaN in every float format, not with zeros.
  ScratchpadPool(int64_t bytes, bool poison) : bytes_(bytes), poison_(poison) {}
  ~ScratchpadPool();
  ScratchpadPool(const ScratchpadPool&) = delete;
  ScratchpadPool& operator=(const ScratchpadPool&) = delete;

  int64_t bytes() const { return bytes_; }

  // A scratchpad for one core of one launch.
  class Lease {
   public:
    Lease() = default;
    Lease(ScratchpadPool& pool, std::byte* data) : pool_(&pool), data_(data) {}
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&& other) noexcept;
    ~Lease();
    std::byte* data() const { return data_; }

   private:
    ScratchpadPool* pool_ = nullptr;
    std::byte* data_ = nullptr;
  };
  // It may hold anything.
  Lease take();
  // Bytes [begin, end) of it, for the next core that gets it.
  void fill(const Lease& lease, int64_t begin, int64_t end) const;

 private:
  void put_back(std::byte* data) noexcept;

  const int64_t bytes_;
  const bool poison_;
  std::mutex mutex_;
  // The last one given back is the first one given out: it is in the host's caches.
  std::vector<std::byte*> free_;
};

// What fills memory that nobody has written: 0xFFFF is NaN in SEN169, as all ones are in fp32 and
// both fp8 formats we store.
inline constexpr int kPoison = 0xFF;

}  // namespace spyre::emulator::engine
