// Decodes the integers and strings of the file format. The content of the file is not trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "flex/driver.h"

namespace spyre::emulator::engine {

[[noreturn]] inline void reject_program(const std::string& problem) {
  throw flex::ProgramError("device program: " + problem);
}

class ProgramDecoder {
 public:
  explicit ProgramDecoder(std::span<const std::byte> data) : data_(data) {}

  bool at_end() const { return position_ == data_.size(); }

  // Reads a zigzag varint.
  int64_t integer();
  // Reads an integer that `Number` can hold.
  template <typename Number>
  Number number() {
    const int64_t value = integer();
    if (value != static_cast<int64_t>(static_cast<Number>(value))) {
      reject_program("the integer " + std::to_string(value) + " is too large for its field");
    }
    return static_cast<Number>(value);
  }
  bool boolean() { return choice<bool>(2, "boolean"); }
  template <typename Enum>
  Enum choice(int64_t count, std::string_view name) {
    const int64_t value = integer();
    if (value < 0 || value >= count) {
      reject_program(std::to_string(value) + " is not a " + std::string(name));
    }
    return static_cast<Enum>(value);
  }
  std::string text();

  // Reads the length of a list. Every item has at least one byte, so the size of the file bounds
  // the length.
  size_t length(size_t max);

 private:
  std::span<const std::byte> data_;
  size_t position_ = 0;
};

}  // namespace spyre::emulator::engine
