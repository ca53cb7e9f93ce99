// Reads the file form's integers, texts and lists. Nothing here trusts the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "flex/driver.h"

namespace spyre::emulator::engine {

[[noreturn]] inline void refuse_program(const std::string& problem) {
  throw flex::ProgramError("device program: " + problem);
}

class ProgramDecoder {
 public:
  explicit ProgramDecoder(std::span<const std::byte> data) : data_(data) {}

  bool at_end() const { return position_ == data_.size(); }

  // A zigzag varint.
  int64_t integer();
  // One that `Number` can hold.
  template <typename Number>
  Number number() {
    const int64_t value = integer();
    if (value != static_cast<int64_t>(static_cast<Number>(value))) {
      refuse_program("the integer " + std::to_string(value) + " is too large for its place");
    }
    return static_cast<Number>(value);
  }
  bool boolean() { return choice<bool>(2, "boolean"); }
  template <typename Enum>
  Enum choice(int64_t count, const char* what) {
    const int64_t value = integer();
    if (value < 0 || value >= count) {
      refuse_program(std::to_string(value) + " is not a " + what);
    }
    return static_cast<Enum>(value);
  }
  std::string text();

  // `read` reads one item.
  template <typename Read>
  auto list(Read read, size_t most) -> std::vector<std::decay_t<decltype(read())>> {
    const size_t count = length(most);
    std::vector<std::decay_t<decltype(read())>> items;
    for (size_t i = 0; i < count; ++i) items.push_back(read());
    return items;
  }

 private:
  // Every item takes at least a byte, so what a list holds is limited by what the file has.
  size_t length(size_t most);

  std::span<const std::byte> data_;
  size_t position_ = 0;
};

}  // namespace spyre::emulator::engine
