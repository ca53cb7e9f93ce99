#include "emulator/engine/program_decoder.h"

namespace spyre::emulator::engine {

namespace {

constexpr size_t kMaxTextBytes = 1 << 12;

// Returns the number of continuation bytes after the first byte of a UTF-8 character, or -1 if the
// byte is not valid there.
int following_bytes(unsigned char first) {
  if (first < 0x80) return 0;
  if (first >= 0xC2 && first < 0xE0) return 1;
  if (first >= 0xE0 && first < 0xF0) return 2;
  if (first >= 0xF0 && first < 0xF5) return 3;
  return -1;
}

bool is_utf8(const std::string& text) {
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const int more = following_bytes(first);
    if (more < 0 || i + static_cast<size_t>(more) >= text.size()) return false;
    uint32_t character = more == 0 ? first : first & (0x3Fu >> more);
    for (int j = 1; j <= more; ++j) {
      const auto next = static_cast<unsigned char>(text[i + static_cast<size_t>(j)]);
      if ((next & 0xC0) != 0x80) return false;
      character = character << 6 | (next & 0x3Fu);
    }
    const bool overlong = (more == 2 && character < 0x800) || (more == 3 && character < 0x10000);
    const bool surrogate = character >= 0xD800 && character < 0xE000;
    if (overlong || surrogate || character > 0x10FFFF) return false;
    i += 1 + static_cast<size_t>(more);
  }
  return true;
}

}  // namespace

int64_t ProgramDecoder::integer() {
  uint64_t result = 0;
  for (int shift = 0;; shift += 7) {
    if (at_end() || shift > 63) reject_program("an integer is cut off or too large");
    const auto byte = static_cast<uint64_t>(data_[position_++]);
    if (shift == 63 && (byte & 0x7F) > 1) reject_program("an integer is too large");
    result |= (byte & 0x7F) << shift;
    if (byte < 0x80) break;
  }
  return static_cast<int64_t>(result >> 1 ^ -(result & 1));
}

size_t ProgramDecoder::length(size_t max) {
  const int64_t count = integer();
  if (count < 0 || static_cast<uint64_t>(count) > data_.size() - position_) {
    reject_program("a list of " + std::to_string(count) + " items does not fit the file");
  }
  if (static_cast<size_t>(count) > max) {
    reject_program("a list of " + std::to_string(count) + " items is longer than the " +
                   std::to_string(max) + " that are allowed there");
  }
  return static_cast<size_t>(count);
}

std::string ProgramDecoder::text() {
  const size_t count = length(kMaxTextBytes);
  std::string result(reinterpret_cast<const char*>(data_.data() + position_), count);
  position_ += count;
  if (!is_utf8(result)) reject_program("a text is not UTF-8");
  // Error messages name kernels and values, and end at such a character.
  if (result.find('\0') != std::string::npos) reject_program("a text contains the character 0");
  return result;
}

}  // namespace spyre::emulator::engine
