#include "emulator/engine/sha256.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace spyre::emulator::engine {

namespace {

constexpr size_t kBlockBytes = 64;
constexpr size_t kLengthBytes = 8;

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

class Hasher {
 public:
  void add(std::span<const std::byte> data) {
    length_ += data.size();
    while (!data.empty()) {
      const size_t count = std::min(data.size(), kBlockBytes - filled_);
      std::copy_n(data.begin(), count, block_.begin() + static_cast<std::ptrdiff_t>(filled_));
      filled_ += count;
      data = data.subspan(count);
      if (filled_ == kBlockBytes) process_block();
    }
  }

  Sha256 finish() {
    const uint64_t bits = length_ * 8;
    constexpr std::byte kEnd{0x80}, kZero{0};
    add({&kEnd, 1});
    while (filled_ != kBlockBytes - kLengthBytes) add({&kZero, 1});
    for (int shift = 56; shift >= 0; shift -= 8) {
      const auto byte = static_cast<std::byte>(bits >> shift);
      add({&byte, 1});
    }
    Sha256 result;
    for (size_t i = 0; i < result.size(); ++i) {
      result[i] = static_cast<std::byte>(state_[i / 4] >> (24 - 8 * (i % 4)));
    }
    return result;
  }

 private:
  void process_block() {
    std::array<uint32_t, 64> words;
    for (size_t i = 0; i < 16; ++i) {
      words[i] = 0;
      for (size_t j = 0; j < 4; ++j) words[i] = words[i] << 8 | uint32_t(block_[4 * i + j]);
    }
    for (size_t i = 16; i < 64; ++i) {
      const uint32_t a = words[i - 15], b = words[i - 2];
      words[i] = words[i - 16] + words[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) +
                 (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (size_t i = 0; i < 64; ++i) {
      const uint32_t choice = (e & f) ^ (~e & g), majority = (a & b) ^ (a & c) ^ (b & c);
      const uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + choice +
                             kRoundConstants[i] + words[i];
      const uint32_t second = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + majority;
      h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
    }
    const std::array<uint32_t, 8> change = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < 8; ++i) state_[i] += change[i];
    filled_ = 0;
  }

  // The first 32 bits of the fractional parts of the square roots of the first 8 primes.
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, kBlockBytes> block_;
  size_t filled_ = 0;
  uint64_t length_ = 0;
};

}  // namespace

Sha256 sha256(std::span<const std::byte> first, std::span<const std::byte> second) {
  Hasher hasher;
  hasher.add(first);
  hasher.add(second);
  return hasher.finish();
}

}  // namespace spyre::emulator::engine
