// SHA-256, for the hash in program files.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace spyre::emulator::engine {

using Sha256 = std::array<std::byte, 32>;

// Returns the hash of the concatenation of `first` and `second`.
Sha256 sha256(std::span<const std::byte> first, std::span<const std::byte> second);

}  // namespace spyre::emulator::engine
