// Host memory for the scratchpads of cores, reused across launches.
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
  // Returns a scratchpad with undefined content.
  Lease acquire();
  // Fills bytes [begin, end) with zeros or the poison pattern.
  void fill(const Lease& lease, int64_t begin, int64_t end) const;

 private:
  void release(std::byte* data) noexcept;

  const int64_t bytes_;
  const bool poison_;
  std::mutex mutex_;
  // Last in, first out: the most recently used one is in the host's caches.
  std::vector<std::byte*> free_;
};

// The pattern of uninitialised memory: all ones are NaN in SEN169, fp32 and both fp8 formats.
inline constexpr int kPoison = 0xFF;

}  // namespace spyre::emulator::engine
